#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace diptych::cli {

/// A run of Diptych (the file, or its folder) or a JSON file of Google Benchmark. Throws FileError for anything else.
nlohmann::json load_measurements(const std::string& path);

}  // namespace diptych::cli
