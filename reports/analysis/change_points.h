#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Where the level of a series changes: of the calls of a process (warmup.h), of a cell's runs over time (history.h).
namespace diptych::reports {

/// The points where the level of a series changes: indices of the first values of new levels, ascending. Minimises
///   sum of squares about the level of each segment / noise^2 + 8 ln(n) per change
/// over all segmentations with segments of at least `shortest` values: the optimum that PELT also finds [Killick et al.
/// 2012], here by dynamic programming, because there are only about a hundred values. The noise is that of first
/// differences (1.4826 MAD / sqrt 2), so level changes don't count as noise; values are clamped to two and a half times
/// the noise about a running median as wide as twice the shortest segment, so a few slow calls don't make a level.
/// `values`: logs of times, finite. A noise below `noise_floor` is raised to it, because clocks tick.
std::vector<std::size_t> change_points(std::span<const double> values, std::size_t shortest = 5,
                                       double noise_floor = 0.005);

/// A stretch of a series between two changes.
struct Level {
  std::size_t begin, end;
  double value;  ///< the median
};

/// The levels between the change points of the same arguments. Neighbours are joined if their medians differ by less
/// than `same_level` or by less than four standard errors: a few slow values in a row move the mean that the change
/// points see, but hardly the median. One level for a series that is too short; none for an empty one.
std::vector<Level> levels_of(std::span<const double> values, std::size_t shortest, double noise_floor = 0.005);

/// Levels of logs of times that differ by less are one.
inline constexpr double same_level = 0.02;

}  // namespace diptych::reports
