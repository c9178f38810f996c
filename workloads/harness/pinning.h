#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which CPUs the measuring processes may run on.
namespace diptych::workloads {

/// Those that this process may run on, in order. Throws Error where the system doesn't tell.
std::vector<int> allowed_cpus();

/// "1", "0-1,3", or "auto" for the last allowed one (interrupts favour the first). In order, each once. Throws Error
/// with the allowed ones for anything else.
std::vector<int> cpus_to_pin(std::string_view wanted, std::span<const int> allowed);

/// Binds this process, and the threads and processes that it starts from now on. Throws Error.
void pin_this_process(std::span<const int> cpus);

}  // namespace diptych::workloads
