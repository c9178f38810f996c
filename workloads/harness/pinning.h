#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which CPUs the measuring processes may run on.
namespace diptych::workloads {

/// The CPUs that this process may run on, in order. Throws Error if the system doesn't tell.
std::vector<int> allowed_cpus();

/// `wanted`: "1", "0-1,3", or "auto" for the last allowed CPU (interrupts favour the first). Returns CPUs in order,
/// each once. Throws Error with the allowed ones for anything else.
std::vector<int> cpus_to_pin(std::string_view wanted, std::span<const int> allowed);

/// Binds this process, and the threads and processes that it starts from now on, to these CPUs. Throws Error.
void pin_this_process(std::span<const int> cpus);

}  // namespace diptych::workloads
