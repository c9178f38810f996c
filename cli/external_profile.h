#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/temporary_folder.h"
#include "reports/analysis/aligned_profile.h"
#include "reports/analysis/external_nodes.h"
#include "workloads/harness/cell/external_arms.h"

namespace diptych::cli {

/// Arms of other frameworks in a profile of several arms: their calls take turns with the engine's, then each profiles
/// itself.
class ExternalProfiles {
 public:
  /// Starts them on the workload's model, and compares their results with eager's. Throws Error with the arm and what
  /// it said.
  ExternalProfiles(const workloads::Workload& workload, const std::vector<const workloads::Arm*>& arms,
                   std::uint64_t seed);

  /// A block of calls of each.
  void take_turns();

  /// In the order of the arms. `ops`: of the program as captured. Throws Error if an arm has no profile.
  std::vector<reports::ProfiledArm> profile(const std::vector<reports::SourceOp>& ops, int steps);

  /// What readers must know of their figures, a line each.
  std::vector<std::string> notes() const;

 private:
  struct Turns {
    workloads::ExternalArm arm;
    std::vector<double> seconds = {};  ///< of a call, by block
  };
  static void require(const Turns& turns);
  reports::SourceOpsOfNodes source_ops(const std::vector<reports::SourceOp>& ops) const;

  TemporaryFolder folder_;
  workloads::ExternalArm::Model model_;
  std::vector<Tensor> reference_;
  std::vector<Turns> arms_;
};

}  // namespace diptych::cli
