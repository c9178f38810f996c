#include "workloads/harness/cell/injection.h"

#include <algorithm>

namespace diptych::workloads {

bool Injection::hits(const std::string& arm) const {
  return arms.empty() ? arm != "eager" : std::find(arms.begin(), arms.end(), arm) != arms.end();
}

}  // namespace diptych::workloads
