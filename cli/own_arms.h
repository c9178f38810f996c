#pragma once

#include <map>
#include <string>
#include <vector>

namespace diptych::cli {

/// Makes arms from "NAME=COMMAND" arguments, whose commands a shell runs. Returns names and commands. Throws Error.
std::map<std::string, std::string> add_own_arms(const std::vector<std::string>& arguments);

}  // namespace diptych::cli
