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

/// Next to the program that was built, or installed with the scripts.
std::string libtorch_program(const std::string& program, const std::string& folder) {
  const fs::path built = fs::path(program).parent_path() / "arms/diptych_libtorch_arm";
  std::error_code error;
  return fs::exists(built, error) ? built.string() : folder + "/diptych_libtorch_arm";
}

}  // namespace

void add_shipped_arms(const std::string& program) {
  const std::string folder = folder_of_scripts();
  const char* const python = std::getenv("DIPTYCH_PYTHON");
  const std::string interpreter = python != nullptr ? python : "/usr/bin/python3";  // where Debian's PyTorch is
  const auto torch = [&](const char* name, const char* mode, const char* description) {
    add_external_arm(name, {interpreter, folder + "/torch_arm.py", mode}, description,
                     "apt-get install python3-torch python3-onnx python3-numpy, or another Python in DIPTYCH_PYTHON");
  };
  torch("torch-eager", "eager", "PyTorch, op by op");
  torch("torch-script", "script", "PyTorch, traced to TorchScript and frozen");
  torch("torch-compile", "compile", "PyTorch's compiler, from 2.0 on");
  add_external_arm("ort", {"node", folder + "/ort_arm.mjs"}, "ONNX Runtime",
                   "apt-get install nodejs npm, then npm install --ignore-scripts onnxruntime-node");
  add_external_arm("libtorch", {libtorch_program(program, folder)}, "libtorch, op by op from C++",
                   "install libtorch with scripts/setup --torch, then build again");
}

}  // namespace diptych::workloads
