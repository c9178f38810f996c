#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/places.h"

namespace diptych::testing {

/// Of a file of the repository.
inline std::string source_text(const std::filesystem::path& name) {
  std::ifstream file(std::filesystem::path(places::source()) / name);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace diptych::testing
