#include "reports/run/clock_range.h"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "reports/text/text.h"

namespace diptych::reports {
namespace {

using Json = nlohmann::json;

struct FigureRange {
  double least, most;  ///< of the magnitude, unless it is 0
  bool may_be_negative;
  std::string_view unit;
};

/// What a difference of the shortest times leaves at least, if it isn't 0.
constexpr double kLeastDifference = 1e-3 * std::numeric_limits<double>::epsilon() * kLeastSeconds;

constexpr FigureRange kOfClock = {kLeastSeconds, kMostSeconds, false, "s"};
constexpr FigureRange kOfDifference = {kLeastDifference, kMostSeconds, true, "s"};
constexpr FigureRange kOfRate = {1 / kMostSeconds, 1e24, false, "per second"};

/// By the name of a member, and of the list that its object stands in; all of a profile counts as one list.
const FigureRange* range_of(std::string_view name, std::string_view list) {
  static const std::set<std::string_view> measured = {"first_call_seconds", "worst_call_seconds", "steady_seconds",
                                                      "warmup_seconds",     "start_seconds",      "load_seconds"};
  if (name == "seconds") {
    // Those of a profile are without what tracing took, which may be all.
    return list == "arms" || list == "rounds" ? &kOfClock : &kOfDifference;
  }
  if (name.ends_with("_per_second")) {
    return &kOfRate;
  }
  return measured.contains(name) ? &kOfClock : name.ends_with("_seconds") ? &kOfDifference : nullptr;
}

class ClockCheck {
 public:
  /// The place and the problem of the first figure outside.
  std::string find(const Json& value, const std::string& place, const std::string& list) {
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (std::string found = find(value[i], place + "/" + std::to_string(i), list); !found.empty()) {
          return found;
        }
      }
    } else if (value.is_object()) {
      for (const auto& [name, inner] : value.items()) {
        const std::string at = place + "/" + name;
        const FigureRange* const range = range_of(name, list);
        if (std::string found =
                range != nullptr ? outside(inner, at, *range) : find(inner, at, list == "profile" ? list : name);
            !found.empty()) {
          return found;
        }
      }
    }
    return "";
  }

 private:
  /// A number, several, one by arm, or an estimate.
  static std::string outside(const Json& value, const std::string& place, const FigureRange& range) {
    if (value.is_structured()) {
      for (const auto& [name, inner] : value.items()) {
        if (std::string found = outside(inner, place + "/" + name, range); !found.empty()) {
          return found;
        }
      }
      return "";
    }
    const double figure = value.is_number() ? value.get<double>() : 0;
    const double size = std::abs(figure);
    if (figure == 0 || (size >= range.least && size <= range.most && (figure > 0 || range.may_be_negative))) {
      return "";
    }
    return fmt::format("{} is {} {}: {:g} to {:g} can be", printable(place), figure, range.unit,
                       range.may_be_negative ? -range.most : range.least, range.most);
  }
};

}  // namespace

std::string outside_clock_range(const Json& run) {
  const auto cells = run.find("cells");
  return cells == run.end() ? "" : ClockCheck().find(*cells, "/cells", "cells");
}

}  // namespace diptych::reports
