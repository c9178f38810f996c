#include "framework/graph/ir.h"

#include <mutex>
#include <set>

namespace diptych::graph {

std::string_view name_of(InputKind kind) {
  constexpr std::string_view names[] = {"argument", "state", "captured"};
  return names[static_cast<int>(kind)];
}

std::vector<const TensorType*> Graph::input_types(const Node& node) const {
  std::vector<const TensorType*> result;
  result.reserve(node.inputs.size());
  for (ValueId input : node.inputs) {
    result.push_back(&types[input]);
  }
  return result;
}

const char* intern(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> strings;
  const std::lock_guard lock(mutex);
  const auto found = strings.find(text);
  return (found != strings.end() ? found : strings.emplace(text).first)->c_str();
}

}  // namespace diptych::graph
