#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "framework/core/error.h"

/// The numbers in an arm's answers: each has a range, and what lies outside is no answer.
namespace diptych::workloads {

/// The arm drops out: it hangs, has died, or returns something impossible. Other arms are not affected.
class ArmFailure : public Error {
  using Error::Error;
};

/// The numbers that a field may have.
struct Range {
  double least = 0;
  double most = 0;
  bool whole = false;  ///< no fractions
};
inline constexpr double kMostBytes = 0x1p53;  ///< JSON keeps larger numbers inexactly
inline constexpr Range kThreadsRange{1, 65536, true};
inline constexpr Range kOverheadRange{0, 1e9};  ///< nanoseconds: what takes a second is no overhead
inline constexpr Range kBytesRange{0, kMostBytes, true};
/// Of a counter without a unit.
inline constexpr Range kCounterRange{0, 0x1p53};

/// Why the value is no number of that range: "it says \"threads\": -5; ..."; empty if it is one.
std::string complaint_about(const nlohmann::json& value, const std::string& name, const Range& range);

/// The number in field `name`; nothing if there is none, or null. Throws ArmFailure for anything else.
std::optional<double> number_in(const nlohmann::json& answer, const char* name, const Range& range);

}  // namespace diptych::workloads
