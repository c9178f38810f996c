#pragma once

#include <vector>

#include "reports/history/history.h"

namespace diptych::reports {

/// What happened to the series last. Changes are the verdicts REGRESSED and IMPROVED and the beginnings of levels among
/// its last kLately points; the newest counts, unless several of them cancelled out.
LatestChange latest_change(const HistorySeries& series);

/// Current series before others; slower, faster, then the rest; the largest change first.
void sort_series(std::vector<HistorySeries>& series);

}  // namespace diptych::reports
