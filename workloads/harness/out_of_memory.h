#pragma once

namespace diptych::workloads {

/// What a measuring process says of a cell, and the program of a verb, that memory was refused to.
inline constexpr const char* kOutOfMemory =
    "out of memory: the system refused more; raise its limit (ulimit -v, the container's), or take fewer threads or a "
    "smaller program";

}  // namespace diptych::workloads
