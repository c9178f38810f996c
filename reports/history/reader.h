#pragma once

#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "reports/history/history.h"
#include "reports/history/kept.h"

namespace diptych::reports {

/// Takes runs one at a time, in any order.
class HistoryReader {
 public:
  /// `about`: folder and report; the rest is read from `run`, which has to be a valid one. Throws Error, and keeps
  /// nothing of it, if its times can't be, or were made slower on purpose.
  void add(RunOfHistory about, const nlohmann::json& run);
  std::size_t runs() const { return kept_.runs.size(); }
  History finish() &&;

 private:
  std::size_t cell_of(const Subject& subject);
  std::size_t method_like(const Method& of_run, const Method& of_arm);

  KeptRuns kept_;
  std::map<std::pair<std::string, std::string>, std::size_t> cell_index_;
  std::map<std::string, std::size_t> method_index_;
};

}  // namespace diptych::reports
