// ONNX Runtime as an arm (docs/arms.md): diptych_ort_arm [all|extended|basic|off], which of its optimisations it may
// use.

#include <algorithm>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "workloads/arms/onnxruntime/session.h"

namespace {

using namespace diptych;

const ort::Level& level_named(const std::string& name) {
  const auto* const found = std::find_if(std::begin(ort::kLevels), std::end(ort::kLevels),
                                         [&](const ort::Level& level) { return level.name == name; });
  if (found == std::end(ort::kLevels)) {
    throw std::runtime_error(fmt::format("optimisations are all, extended, basic or off, not {}", name));
  }
  return *found;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ort::Level& level = level_named(argc > 1 ? argv[1] : "all");
    const ort::Library library = ort::Library::find();
    const auto environment = library.create(ort::kCreateEnv, ort::kReleaseEnv, ort::kLogErrors, "diptych");
    return arms::serve(
        {.name = fmt::format("ONNX Runtime {} ({})", library.version(), level.description),
         .threads = arms::wanted_threads(),
         .load = [&](const arms::Load& wanted) { return ort::load_session(library, *environment, level, wanted); }});
  } catch (const std::exception& error) {
    return arms::refuse(error.what());
  }
}
