#pragma once

#include <optional>
#include <span>
#include <string>

#include "reports/analysis/aligned_profile.h"
#include "reports/run/profile.h"
#include "reports/text/op_place.h"
#include "reports/text/table_options.h"

/// The profile of several arms in one, as text, CSV and JSON (docs/profile.md).
namespace diptych::reports {

/// The table, what changed most first, and the totals. `most`: so many rows, then one line for the others; 0: all.
std::string render_profile(const AlignedProfile& profile, const TableOptions& options = {}, std::size_t most = 0);

/// A line for each row, RFC 4180; times in seconds.
std::string profile_csv(const AlignedProfile& profile);

/// `cells[].profile` of run.json, and ops.json.
nlohmann::json profile_json(const AlignedProfile& profile, int steps);
/// What such JSON says; nothing if it has no two arms.
std::optional<AlignedProfile> read_profile(const ProfileEntry& entry);

/// What became of a row's ops in the arm: "2 fused with mul, add; 1 view, no kernel". Printable.
std::string fates_text(const AlignedProfile& profile, const AlignedRow& row, std::size_t arm);

/// Eager's parts of an op, in the order of tables and files.
struct OpPartColumn {
  const char* name;
  double OpParts::*seconds;
};
std::span<const OpPartColumn> op_part_columns();

/// What a row stands for in a page; nothing if it is grouped by what pages don't mark.
OpPlace place_of(const AlignedProfile& profile, const AlignedRow& row);

/// The row's share of the gap; nothing if the gap is below 1 % of the base, where shares say nothing.
std::optional<double> share_of_gap(const AlignedProfile& profile, const AlignedRow& row, std::size_t arm);

}  // namespace diptych::reports
