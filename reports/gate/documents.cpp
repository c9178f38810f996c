#include "reports/gate/documents.h"

#include <algorithm>

namespace diptych::reports {

std::string NameList::joined() const {
  std::string out;
  for (const Json& name : json()) {
    out += (out.empty() ? "" : ", ") + (name.is_string() ? name.get<std::string>() : std::string());
  }
  return out;
}

std::string ComparisonRow::subject() const {
  const std::string name = arm();
  return workload() + (name.empty() ? "" : "/" + name);
}

std::optional<double> RowSummary::count(Verdict verdict) const {
  return reports::number(member("counts"), std::string(name_of(verdict)));
}

bool InjectionEntry::hits(const CalibrationRow& row) const {
  const Json& arms = list(json(), "arms");
  return std::find(arms.begin(), arms.end(), row.arm()) != arms.end();
}

bool CalibrationDocument::is_whole() const {
  return member("runs").is_array() && environment().is_object() && design();
}

}  // namespace diptych::reports
