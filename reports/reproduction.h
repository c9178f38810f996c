#pragma once

#include <string>

#include <nlohmann/json.hpp>

/// What stands behind one number of a run, and whether it came out again.
namespace diptych::reports {

/// The cell of that workload. Throws Error with the nearest name.
const nlohmann::json& cell_of(const nlohmann::json& run, const std::string& workload);

/// Lines for people: the figures of the cell (of `arm` alone unless empty), the command, the seed and those of the
/// processes, the build (git revision, SHA-256 of the program; how to get it where this is another one), and in what
/// `environment`, the present one, differs.
std::string describe_number(const nlohmann::json& run, const nlohmann::json& cell, const std::string& arm,
                            const std::string& command, const nlohmann::json& environment);

/// A row an arm: the recorded and the new time, and whether their intervals overlap; counts must be equal.
std::string describe_repetition(const nlohmann::json& recorded, const nlohmann::json& repeated, const std::string& arm);

}  // namespace diptych::reports
