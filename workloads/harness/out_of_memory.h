#pragma once

#include <array>
#include <cstdio>
#include <new>

#include "framework/core/out_of_memory.h"

namespace diptych::workloads {

/// What a measuring process says of a cell, and the program of a verb, that memory was refused to. It takes none.
class OutOfMemoryText {
 public:
  explicit OutOfMemoryText(const std::bad_alloc& error) {
    const auto* const sized = dynamic_cast<const OutOfMemory*>(&error);
    std::snprintf(text_.data(), text_.size(),
                  "%s; raise its limit (ulimit -v, the container's), or take fewer threads or a smaller program",
                  sized != nullptr ? sized->what() : "out of memory: the system refused more");
  }
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 256> text_{};
};

}  // namespace diptych::workloads
