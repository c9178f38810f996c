#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>

/// How long a fuzzer runs, and where it starts: DIPTYCH_FUZZ_SECONDS and DIPTYCH_FUZZ_SEED, which scripts/nightly sets.
namespace diptych::testing {

class FuzzBudget {
 public:
  explicit FuzzBudget(std::uint64_t seed) : seed_(seed) {
    if (const char* const given = std::getenv("DIPTYCH_FUZZ_SECONDS")) {
      seconds_ = std::atof(given);
    }
    if (const char* const chosen = std::getenv("DIPTYCH_FUZZ_SEED")) {
      seed_ = std::strtoull(chosen, nullptr, 10);
    }
  }

  std::uint64_t seed() const { return seed_; }
  /// Without DIPTYCH_FUZZ_SECONDS: so many seconds.
  bool lasts_seconds(double usual) const { return elapsed() < seconds_.value_or(usual); }
  /// Without DIPTYCH_FUZZ_SECONDS: so many tries.
  bool lasts_tries(std::size_t tried, std::size_t usual) const {
    return seconds_ ? elapsed() < *seconds_ : tried < usual;
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  std::optional<double> seconds_;
  std::uint64_t seed_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace diptych::testing
