#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace diptych {

/// The line from which the user's code called us. It is taken by default arguments (`Location where =
/// Location::current()`), so it names the user's line and not ours. `file` has static storage. This is not
/// std::source_location, because a location also has to be restored from the text form of a graph.
struct Location {
  const char* file = "";
  std::uint32_t line = 0;

  static constexpr Location current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

/// "model.cpp:12"
std::string to_string(Location location);

/// A user error. The message says what, where and how to fix it; `what()` is one line, ready to print.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  /// "<what>, at <file>:<line>; <hint>"
  Error(std::string_view what, Location where, std::string_view hint);
};

/// Shapes that don't fit an op.
class ShapeError : public Error {
  using Error::Error;
};

/// Element types that don't fit an op.
class DTypeError : public Error {
  using Error::Error;
};

/// A traced value was read, or something else happened that a graph cannot capture.
class CaptureError : public Error {
  using Error::Error;
};

/// A file or a text that could not be read or written.
class FileError : public Error {
  using Error::Error;
};

/// An internal error: please file a bug. Never caught in order to continue.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message);
};

namespace detail {
[[noreturn]] void fail_check(const char* expression, Location where);
}

/// Checks internal invariants, never the user's input.
inline void internal_check(bool condition, const char* expression = "invariant", Location where = Location::current()) {
  if (!condition) [[unlikely]] {
    detail::fail_check(expression, where);
  }
}

}  // namespace diptych
