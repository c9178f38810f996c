#include "reports/run/part.h"

#include <algorithm>
#include <utility>

namespace diptych::reports {
namespace {

constexpr std::size_t kShort = 8;  // to look through them takes less time than an index

bool is_named(const Json& element, const char* key, const std::string& name) {
  const Json& own = member(element, key);
  return own.is_string() ? own.get_ref<const std::string&>() == name : name.empty();
}

}  // namespace

const Json Part::nothing_;

std::vector<std::string> Part::texts(const char* key) const {
  std::vector<std::string> texts;
  for (const Json& item : list(*json_, key)) {
    texts.push_back(item.is_string() ? item.get<std::string>() : std::string());
  }
  return texts;
}

const NameIndex::Places& NameIndex::places(const Json& array, const char* key) const {
  if (places_ == nullptr) {
    Places places;
    for (const Json& element : array) {
      places[reports::text(element, key)].push_back(&element);
    }
    places_ = std::make_shared<const Places>(std::move(places));
  }
  return *places_;
}

const Json* NameIndex::first(const Json& array, const char* key, const std::string& name) const {
  if (array.size() <= kShort) {
    const auto found =
        std::find_if(array.begin(), array.end(), [&](const Json& element) { return is_named(element, key, name); });
    return found == array.end() ? nullptr : &*found;
  }
  const Places& known = places(array, key);
  const auto found = known.find(name);
  return found == known.end() ? nullptr : found->second.front();
}

std::vector<const Json*> NameIndex::all(const Json& array, const char* key, const std::string& name) const {
  if (array.size() > kShort) {
    const Places& known = places(array, key);
    const auto found = known.find(name);
    return found == known.end() ? std::vector<const Json*>() : found->second;
  }
  std::vector<const Json*> found;
  for (const Json& element : array) {
    if (is_named(element, key, name)) {
      found.push_back(&element);
    }
  }
  return found;
}

}  // namespace diptych::reports
