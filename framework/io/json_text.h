#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/core/error.h"

/// JSON from files, pipes and other programs, which may hold anything. Nothing else in the program parses it.
namespace diptych::io {

/// The deepest documents of ours have a dozen levels. Whoever copies, compares or writes a document calls itself once
/// a level, so that a deep one would take all of the stack.
inline constexpr std::size_t kDeepestJson = 100;

/// The text may be JSON, but nests deeper than kDeepestJson.
class JsonTooDeep : public FileError {
 public:
  explicit JsonTooDeep(std::size_t byte);
};

/// Throws JsonTooDeep, and nlohmann's exceptions for what isn't JSON.
nlohmann::json parse_json_text(std::string_view text);

/// The same without exceptions: a discarded value, which is of no type, for all that can't be read.
nlohmann::json json_or_discarded(std::string_view text);

}  // namespace diptych::io
