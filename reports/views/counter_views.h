#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/analysis/aligned_profile.h"
#include "reports/text/table_options.h"

/// What ops count, arm beside arm (docs/profile.md#counters).
namespace diptych::reports {

/// What could be counted here, and what couldn't.
struct Capability {
  std::vector<std::string> counted;
  std::vector<std::string> missing;
  std::string reason;  ///< of the first that is missing
};
/// One line, and what to do instead if instructions are missing.
std::string capability_text(const Capability& capability);

/// A row an op, in the profile's order, an event a column for each arm that was counted; empty if none was. `most`: so
/// many rows of those that count anything; 0: all.
std::string render_counts(const AlignedProfile& profile, const TableOptions& options = {}, std::size_t most = 0);

}  // namespace diptych::reports
