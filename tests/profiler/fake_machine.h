#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "profiler/machine/system_files.h"

namespace diptych::profiler {

/// A machine of files below a temporary folder.
class FakeMachine : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text << '\n';
  }
  [[nodiscard]] SystemFiles files() const { return SystemFiles(root()); }
  [[nodiscard]] const std::filesystem::path& root() const { return root_.path(); }

 private:
  TemporaryFolder root_{"diptych-machine"};
};

}  // namespace diptych::profiler
