#pragma once

#include <string>

namespace CLI {
class App;
}

namespace diptych::cli {

/// The script that completes verbs, options and their values in a shell, "bash" or "zsh". It is generated from the
/// program's own options, workloads and arms, so that it knows all of them and no others.
std::string completion_script(const CLI::App& program, const std::string& shell);

}  // namespace diptych::cli
