#include "cli/own_arms.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/text/text.h"
#include "workloads/arms/arm.h"

namespace diptych::cli {

std::map<std::string, std::string> add_own_arms(const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> arms;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals + 1 == argument.size()) {
      throw Error(fmt::format("--arm {}: say NAME=COMMAND, as in --arm mine='python3 my_arm.py'",
                              reports::printable(argument)));
    }
    const std::string name = argument.substr(0, equals);
    const std::string command = argument.substr(equals + 1);
    workloads::add_external_arm(name, {"/bin/sh", "-c", command}, command);
    arms[name] = command;
  }
  return arms;
}

}  // namespace diptych::cli
