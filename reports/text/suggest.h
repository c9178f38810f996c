#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::reports {

/// The candidate with the fewest edits from `name` (a missing prefix such as "mlp/" costs nothing), at most one edit in
/// three letters; empty if none is that near. Never `name` itself.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

/// "there is no <kind> '<name>'; did you mean '<nearest>'?", or with the list of candidates if none is near.
std::string unknown(std::string_view kind, std::string_view name, std::span<const std::string> candidates);

}  // namespace diptych::reports
