#pragma once

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace diptych::io {

/// Calls `body`, which works on what was read from the file at `path`. An Error that doesn't name the file becomes a
/// FileError that does: of several files, the user sees which one.
template <class Body>
auto naming(const std::filesystem::path& path, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::string name = printable(path.string());
    const bool is_named = message.starts_with(name + ":") || message.find("'" + name + "'") != std::string::npos ||
                          message.find("\"" + name + "\"") != std::string::npos;
    if (is_named) {
      throw;
    }
    throw FileError(fmt::format("'{}': {}", name, message));
  }
}

}  // namespace diptych::io
