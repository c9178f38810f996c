#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workloads/harness/cell/cell_settings.h"

/// What one measuring process has to do, as a document that is passed from the command line to its cells.
namespace diptych::workloads {

/// The version of the document below and of the events of worker.h. It increases whenever an older worker would not
/// understand, or not be understood. `list --json` reports it; a gate measures programs that speak its own version or
/// an older one.
inline constexpr int kWorkerProtocol = 7;
/// From this version on, two processes can take turns (turns.h).
inline constexpr int kTurnsProtocol = 3;
/// From this version on, the plan is one document; before, it was flags.
inline constexpr int kDocumentProtocol = 5;
/// From this version on, the engine computes on several threads.
inline constexpr int kThreadsProtocol = 6;
/// From this version on, a graph's file is a workload.
inline constexpr int kGraphsProtocol = 7;
/// The environment variable in which a worker from before the document finds its layout seed; even older ones ignore
/// it.
inline constexpr const char* kLayoutSeedVariable = "DIPTYCH_LAYOUT_SEED";

/// A new setting needs a member, here or in CellSettings, a name in the list of worker_plan.cpp, and the place where it
/// is used.
struct WorkerPlan {
  std::vector<std::string> workloads;
  std::vector<std::string> arms;
  std::map<std::string, std::string> external_arms;  ///< the user's own: their commands
  std::vector<std::string> without;  ///< "WORKLOAD=ARM": external arms that have failed there in an earlier process
  CellSettings settings;
  std::vector<std::string> first_call_check;  ///< workloads that an earlier process has checked in full
  std::map<std::string, std::vector<std::uint32_t>>
      vetoed;               ///< workload -> fused kernels that an earlier process found to lose
  std::vector<int> pinned;  ///< CPUs; empty: all
  std::string gemm;         ///< one of kernels::kGemmNames; empty: the program's default
  bool takes_turns = false;
  bool is_first = false;                                   ///< of the two processes
  std::vector<std::string> benchmark_options;              ///< passed on to Google Benchmark, "--benchmark_..."
  bool counts_instructions = false;                        ///< of the arms of one workload, and measures nothing else
  std::map<std::string, std::int64_t> extra_instructions;  ///< arm -> instructions added to each call
};

/// The arguments of a worker that speaks `protocol`: {"--plan", DOCUMENT}, or flags.
std::vector<std::string> worker_arguments(const WorkerPlan& plan, int protocol);

/// The plan of a document. Missing members have their defaults. Throws Error if it isn't a plan.
WorkerPlan worker_plan_of(const std::string& document);

}  // namespace diptych::workloads
