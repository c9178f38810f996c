#pragma once

#include <map>
#include <string>
#include <vector>

namespace diptych::cli {

/// Makes arms of "NAME=COMMAND"s, which a shell runs. Gives name and command. Throws Error.
std::map<std::string, std::string> add_own_arms(const std::vector<std::string>& arguments);

}  // namespace diptych::cli
