#include "reports/run/environment.h"

#include <algorithm>

namespace diptych::reports {
namespace {

using Json = nlohmann::json;

std::string scalar(const Json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  return value.is_null() ? "unknown" : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_flat(const Json& array) {
  return std::none_of(array.begin(), array.end(), [](const Json& value) { return value.is_structured(); });
}

// The item's name if it has one, so that a list that has grown at its head still shows which items are the same.
std::string label_of(const Json& item, std::size_t index) {
  const auto found = item.is_object() ? item.find("name") : item.end();
  const bool named = item.is_object() && found != item.end() && found->is_string();
  return named ? found->get<std::string>() : std::to_string(index);
}

enum class Labelled { no, yes };

void visit(const Json& value, const std::string& name, std::size_t limit, std::vector<EnvironmentEntry>& out,
           Labelled in_list = Labelled::no) {
  if (out.size() >= limit) {
    return;
  }
  if (value.is_object()) {
    const bool says_more = value.size() > 1;
    for (const auto& [key, child] : value.items()) {
      if (in_list == Labelled::yes && says_more && key == "name") {
        continue;  // the name is the label
      }
      visit(child, name.empty() ? key : name + "." + key, limit, out);
    }
  } else if (value.is_array() && is_flat(value)) {
    std::string joined;
    for (const Json& item : value) {
      joined += (joined.empty() ? "" : ", ") + scalar(item);
    }
    out.push_back({name, joined});
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string label = label_of(value[i], i);
      visit(value[i], name + "." + label, limit, out, label == std::to_string(i) ? Labelled::no : Labelled::yes);
    }
  } else {
    out.push_back({name, scalar(value)});
  }
}

}  // namespace

std::vector<EnvironmentEntry> flatten_environment(const Json& environment, std::size_t limit) {
  std::vector<EnvironmentEntry> out;
  visit(environment, "", limit, out);
  return out;
}

}  // namespace diptych::reports
