#include "workloads/arms/answer.h"

#include <cmath>

#include <fmt/format.h>

#include "framework/core/attributes.h"

namespace diptych::workloads {

std::string complaint_about(const nlohmann::json& value, const std::string& name, const Range& range) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (number >= range.least && number <= range.most && (!range.whole || number == std::floor(number))) {
    return "";
  }
  return fmt::format("it says {}: {}; {} from {:.6g} to {:.6g} was expected", quote(name),
                     value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40),
                     range.whole ? "a whole number" : "a number", range.least, range.most);
}

std::optional<double> number_in(const nlohmann::json& answer, const char* name, const Range& range) {
  const auto value = answer.find(name);
  if (value == answer.end() || value->is_null()) {
    return std::nullopt;
  }
  if (const std::string complaint = complaint_about(*value, name, range); !complaint.empty()) {
    throw ArmFailure(complaint);
  }
  return value->get<double>();
}

}  // namespace diptych::workloads
