#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <new>

namespace diptych {

/// The system refused memory for a tensor, or for what a kernel needs. It has no memory of its own.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::size_t bytes) noexcept {
    std::snprintf(text_.data(), text_.size(), "out of memory: the system refused %.3g bytes",
                  static_cast<double>(bytes));
  }
  const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 64> text_{};
};

}  // namespace diptych
