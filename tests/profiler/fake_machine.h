#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "profiler/system_files.h"

namespace diptych::profiler {

/// A machine of files below a temporary folder.
class FakeMachine : public testing::Test {
 protected:
  FakeMachine() : root_(std::filesystem::temp_directory_path() / ("diptych-machine-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeMachine() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  [[nodiscard]] SystemFiles files() const { return SystemFiles(root_); }
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace diptych::profiler
