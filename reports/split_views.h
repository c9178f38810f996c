#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/html_table.h"

/// What eager does besides kernels, part by part (ladder_split.h), for people.
namespace diptych::reports {

/// How far the parts explain what replay saves, or why there is no split; "" where it wasn't measured.
std::string split_sentence(const nlohmann::json& split, Glyphs glyphs);

/// "2.10 us [2.05, 2.15]". What can't be told from zero is "under 1.2 us", never a negative cost.
std::string part_text(const nlohmann::json& part, Glyphs glyphs);

/// For a terminal: the parts with their intervals, the kinds of op, and the sentence.
std::string render_split(const nlohmann::json& split, int width);

/// For report.html: the same as tables.
std::string html_split(const nlohmann::json& split);

}  // namespace diptych::reports
