#include "framework/core/patience.h"

#include <sched.h>

namespace diptych {

int Patience::most_spins() noexcept {
  static const int count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1 ? 0 : 1000;
  }();
  return count;
}

}  // namespace diptych
