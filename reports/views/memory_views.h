#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "framework/core/text.h"
#include "reports/analysis/memory_profile.h"
#include "reports/text/format.h"
#include "reports/text/op_place.h"
#include "reports/text/table_options.h"

/// The memory of several arms, as text and JSON (docs/profile.md#memory). All text is printable.
namespace diptych::reports {

/// An arm's peak, when, its largest holder, and what a graph's arena takes: "eager: at most 19.7 MiB, after ...".
std::string memory_sentence(const MemoryRecord& arm, Glyphs glyphs = Glyphs::ascii);
/// A line for each arm.
std::string memory_summary(std::span<const MemoryRecord> arms);

/// Who holds the bytes at the arm's peak: op and shape, blocks, bytes, share, module; the first row is the header, and
/// the last may say how many are left out. `most`: so many holders; 0: all. Empty: nobody.
TextRows holder_rows(const MemoryRecord& arm, std::size_t most = 0);
/// What the rows of holders stand for, without the header.
std::vector<OpPlace> holder_places(const MemoryRecord& arm, std::size_t most = 0);
/// What a block stands for.
OpPlace place_of(const MemoryBlock& block);

/// The summary, and the holders of each arm.
std::string memory_text(std::span<const MemoryRecord> arms, const TableOptions& options = {});

/// memory.json.
nlohmann::json memory_json(std::span<const MemoryOfArm> arms);

/// What memory.json and run.json have in common of an arm: its figures, and the timeline.
nlohmann::json memory_figures_json(const MemoryRecord& arm);

/// "1.00 KiB", "-1.00 KiB".
std::string bytes_text(std::int64_t bytes);
/// The op that allocated; none: "(outside ops)".
std::string name_of_op(const std::string& op);

}  // namespace diptych::reports
