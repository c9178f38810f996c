#pragma once

#include <cstdlib>

namespace diptych::testing {

/// Under sanitizers, where code takes three to twenty times as long, each change runs less of what repeats one thing
/// over many values; the build without them runs all of it. DIPTYCH_EVERY_VALUE=1, as scripts/nightly sets it, runs all
/// of it under sanitizers, too.
inline bool is_short_run() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::getenv("DIPTYCH_EVERY_VALUE") == nullptr;
#else
  return false;
#endif
}

}  // namespace diptych::testing
