#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/run/run.h"
#include "reports/text/format.h"

/// What eager does besides running kernels, part by part (ladder_split.h), for readers.
namespace diptych::reports {

/// A part of that, as the split names it.
struct SplitPart {
  const char* key;
  const char* name;
  const char* meaning;
};
std::span<const SplitPart> split_parts();

/// How far the parts explain what replay saves, or why there is no split; "" if it wasn't measured.
std::string split_sentence(const Split& split, Glyphs glyphs);

/// "2.10 us [2.05, 2.15]". A part that can't be told from zero is "under 1.2 us", never a negative cost.
std::string part_text(const std::optional<Estimate>& part, Glyphs glyphs);

/// For a terminal: the parts with their intervals, the kinds of op, and the sentence.
std::string render_split(const Split& split, int width);

}  // namespace diptych::reports
