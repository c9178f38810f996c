#include "framework/core/error.h"

#include <fmt/format.h>

namespace diptych {

std::string to_string(Location location) { return fmt::format("{}:{}", location.file, location.line); }

namespace {
std::string compose(std::string_view what, Location where, std::string_view hint) {
  std::string message = fmt::format("{}, at {}", what, to_string(where));
  if (!hint.empty()) {
    message += fmt::format("; {}", hint);
  }
  return message;
}
}  // namespace

Error::Error(std::string_view what, Location where, std::string_view hint)
    : std::runtime_error(compose(what, where, hint)) {}

InternalError::InternalError(const std::string& message)
    : std::logic_error("internal error: " + message + " (this is a bug in Diptych, please report it)") {}

namespace detail {
void fail_check(const char* expression, Location where) {
  throw InternalError(fmt::format("check failed: {} at {}", expression, to_string(where)));
}
}  // namespace detail

}  // namespace diptych
