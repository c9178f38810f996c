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

bool ComparisonRow::is_same_metric(const ComparisonRow& other) const {
  return workload() == other.workload() && arm() == other.arm() && metric() == other.metric();
}

std::optional<double> RowSummary::count(Verdict verdict) const {
  return reports::number(member("counts"), std::string(name_of(verdict)));
}

ComparisonRow ComparisonDocument::row_like(const ComparisonRow& other) const {
  const Parts<ComparisonRow> all = rows();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const ComparisonRow& row) { return row.is_same_metric(other); });
  return found == all.end() ? ComparisonRow() : *found;
}

bool InjectionEntry::hits(const CalibrationRow& row) const {
  const Json& arms = list(json(), "arms");
  return std::find(arms.begin(), arms.end(), row.arm()) != arms.end();
}

bool CalibrationDocument::is_whole() const {
  return member("runs").is_array() && environment().is_object() && design();
}

}  // namespace diptych::reports
