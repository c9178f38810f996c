#include "workloads/arms/shipped.h"

#include <cstdlib>
#include <filesystem>

#include "framework/core/installed_files.h"
#include "workloads/arms/arm.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;

std::string folder_of_scripts() {
  if (const char* const folder = std::getenv("DIPTYCH_ARMS")) {
    return folder;
  }
  for (const fs::path& share : share_folders()) {
    for (const fs::path& candidate : {share.parent_path().parent_path() / "scripts/arms", share / "arms"}) {
      std::error_code error;
      if (fs::exists(candidate / "torch_arm.py", error)) {
        return fs::weakly_canonical(candidate, error).string();
      }
    }
  }
  return "scripts/arms";
}

/// An arm that is a program of its own: next to the program that was built, or installed with the scripts.
std::string arm_program(const std::string& name, const std::string& program, const std::string& folder) {
  const fs::path built = fs::path(program).parent_path() / "arms" / name;
  std::error_code error;
  return fs::exists(built, error) ? built.string() : (fs::path(folder) / name).string();
}

}  // namespace

void add_shipped_arms(const std::string& program) {
  const std::string folder = folder_of_scripts();
  const char* const python = std::getenv("DIPTYCH_PYTHON");
  const std::string interpreter = python != nullptr ? python : "/usr/bin/python3";  // where Debian's PyTorch is
  const auto torch = [&](const char* name, const char* mode, const char* description, const char* needs) {
    add_external_arm(name, {interpreter, folder + "/torch_arm.py", mode}, description, needs);
  };
  constexpr const char* kAny =
      "apt-get install python3-torch python3-onnx python3-numpy, or another Python in DIPTYCH_PYTHON";
  torch("torch-eager", "eager", "PyTorch, op by op", kAny);
  torch("torch-script", "script", "PyTorch, traced to TorchScript and frozen", kAny);
  constexpr const char* kNew = "a Python with PyTorch 2, onnx and numpy: name it in DIPTYCH_PYTHON";
  torch("torch-compile", "compile", "PyTorch's compiler with its own backend, inductor", kNew);
  torch("torch-compile-eager", "compile-eager", "PyTorch's compiler: graphs, run op by op", kNew);
  torch("torch-compile-aot-eager", "compile-aot-eager", "PyTorch's compiler: graphs through AOTAutograd, run op by op",
        kNew);
  const auto ort = [&](const char* name, const char* level, const char* description) {
    add_external_arm(name, {arm_program("diptych_ort_arm", program, folder), level}, description,
                     "apt-get install npm, then npm install --ignore-scripts onnxruntime-node, or its library in "
                     "DIPTYCH_ONNXRUNTIME");
  };
  ort("ort", "all", "ONNX Runtime");
  ort("ort-basic", "basic", "ONNX Runtime, basic optimisations");
  ort("ort-off", "off", "ONNX Runtime, no optimisations");
  add_external_arm("libtorch", {arm_program("diptych_libtorch_arm", program, folder)}, "libtorch, op by op from C++",
                   "install libtorch with scripts/setup --torch, then build again");
}

}  // namespace diptych::workloads
