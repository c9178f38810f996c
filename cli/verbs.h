#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/plan.h"

/// One verb per file. Each takes parsed options and returns the process's exit code; user errors are thrown as
/// diptych::Error. Exit codes are API (docs/command-line.md).
namespace diptych::cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;        ///< wrong usage, an error, lost output, an INVALID cell, a case that fails
inline constexpr int kRegressed = 2;      ///< `gate` found a regression; no other verb uses this code
inline constexpr int kCannotTell = 3;     ///< `gate` and `compare`: there was nothing that could be compared
inline constexpr int kInterrupted = 130;  ///< Ctrl-C; what was measured is kept

struct RunOptions {
  std::vector<std::string> own_arms;   ///< "NAME=COMMAND" (docs/arms.md)
  std::vector<std::string> workloads;  ///< workloads, suites or "all"; empty: the default set
  std::vector<std::string> arms;       ///< empty: eager, replay, graph
  std::string size = "quick";
  std::uint64_t seed = 1;
  int layout = 0;  ///< which of the memory layouts of this seed
  std::string filter;
  std::string out = "diptych-out";
  bool arms_may_be_absent = false;  ///< an external arm that isn't installed is not a failure
  bool ladder = false;              ///< show the ladder, not the table of workloads
  bool shuffle_order = false;       ///< also measure the pass rungs in other orders
  std::string json;                 ///< where to write another copy of run.json; "-": standard output
  std::string name;                 ///< of the run and its folder; empty: the workload's name, or the size's
  int threads = 1;                  ///< on which a call computes
  std::string gemm;                 ///< what multiplies matrices: tiles, openblas; empty: the program's default
  bool veto_losses = false;         ///< leave out fused kernels that lose
  std::string pin;                  ///< CPUs of the measuring processes: "1", "0-1", "auto"; empty: all
  std::vector<std::string> metrics = {"time"};
  double instructions_timeout = workloads::kInstructionsTimeout;  ///< seconds
  std::string resume;                                             ///< folder of an unfinished run
  double inject_time = 0, inject_instructions = 0;                ///< deliberate slowdowns, as fractions
  std::vector<std::string> inject_arms;
  std::set<std::string> given;                 ///< options that were typed, without "--"; "workload", "size"
  std::vector<std::string> command;            ///< as typed, except for the program's path
  std::string program = "diptych";             ///< as typed
  std::vector<std::string> benchmark_options;  ///< arguments after "--"
  /// Once all is measured, before views are written: may add to the run, and to its folder.
  std::function<void(nlohmann::json& run, const std::string& folder)> complete;
  /// Instead of the table and the list of files.
  std::function<void(const nlohmann::json& run, const std::string& folder)> show;
};
/// If given, `result` receives the run as in run.json.
int run(const RunOptions& options, nlohmann::json* result = nullptr);

struct PeersOptions {
  RunOptions run;
  std::string markdown;  ///< file; empty: none, and the tables are printed
};
int peers(const PeersOptions& options);

struct LadderOptions {
  std::string workload;
  RunOptions run;                    ///< everything but workloads and arms
  std::vector<std::string> against;  ///< arms of other frameworks; "torch": PyTorch's eager mode
};
/// A run of one workload under every rung, and under arms of other frameworks if that is asked for.
int ladder(const LadderOptions& options);

struct WhyOptions {
  LadderOptions ladder;
  std::int64_t calls = 1000;  ///< for which compiling is to pay
};
/// The ladder and the profile of eager and graph, and what they say, on one screen.
int why(const WhyOptions& options);

/// One measuring process; `plan`: its document (workloads/harness/worker_plan.h).
int worker(const std::string& plan);

struct OnnxRunOptions {
  std::string model;
  std::vector<std::string> inputs;      ///< .pb and .npy files
  std::vector<std::string> dimensions;  ///< "batch=8"
  bool random = false;
  std::string mode = "eager";
  std::string out;  ///< folder for the outputs; empty: none
  std::uint64_t seed = 1;
};
int onnx_run(const OnnxRunOptions& options);

struct OnnxExportOptions {
  std::string workload;
  std::string out;          ///< folder; empty: named after the workload
  std::int64_t steps = -1;  ///< of the program before the export; negative: those of its check
  std::uint64_t seed = 1;
};
int onnx_export(const OnnxExportOptions& options);

/// The operators that are supported.
int onnx_ops(bool markdown);

struct OnnxCheckOptions {
  bool gradients = false;
  bool answer = false;               ///< folders are read line by line, in the process that a check starts
  double timeout = 600;              ///< seconds for a case
  std::vector<std::string> folders;  ///< "@FILE": the folders listed in it
  std::string mode = "both";
  std::string numerics = "exact";
  double rtol = 1e-3, atol = 1e-7;
  bool elementwise = false;
  int threads = 1;
  std::string json;
};
int onnx_check(const OnnxCheckOptions& options);

struct ListOptions {
  std::string suite;
  bool passes = false;
  bool ops = false;
  bool markdown = false;  ///< of the ops
  bool json = false;
};
int list(const ListOptions& options);

struct DoctorOptions {
  bool json = false;
};
int doctor(const DoctorOptions& options);

struct GraphOptions {
  std::string workload;
  std::string stage = "all";
  std::vector<std::string> formats = {"txt", "svg", "html"};
  bool check_passes = false;
  bool readiness = false;
  bool time_fused = false;
  bool times = false;  ///< of eager and graph by op, for graph.html
  std::uint64_t seed = 1;
  std::string out = "diptych-out";
};
int graph(const GraphOptions& options);

struct ProfileOptions {
  std::string workload;
  std::string arm = "eager";
  std::vector<std::string> arms;  ///< two or more in one profile, the base first; empty: `arm` alone
  std::string by = "op";          ///< how that profile is grouped: a name in reports::profile_groupings()
  std::optional<int> threads;     ///< empty: those of the environment
  int steps = 10;
  std::uint64_t seed = 1;
  std::string out = "diptych-out";
};
int profile(const ProfileOptions& options);

struct CompareVerbOptions {
  std::string base, head;
  std::string by = "commit";
  std::string json, markdown;  ///< files to write; empty: none
  bool force_time = false;
  std::string page = {};  ///< folder for compare.html; empty: none
};
int compare(const CompareVerbOptions& options);

struct GateVerbOptions {
  std::string base, head;  ///< run file, program or git ref; empty head: this program
  std::string config;      ///< empty: diptych.toml, if there is one
  std::string out = "diptych-out";
  std::vector<std::string> metrics, workloads, arms;  ///< empty: from the configuration, or the defaults
  std::string calibration = "diptych-out/aa.json";
  std::string build_dir;  ///< empty: a temporary one
  std::uint64_t seed = 1;
  double instructions_timeout = workloads::kInstructionsTimeout;  ///< seconds
  bool annotations = false;
  bool self_test = false;
};
int gate(const GateVerbOptions& options);
int gate_self_test(const GateVerbOptions& options);

struct CalibrateOptions {
  int runs = 20;
  std::string out = "diptych-out/aa.json";
  std::string append;  ///< a file to add runs to; empty: a new one
  std::vector<std::string> workloads = {"micro/dispatch", "mlp/digits"};
  std::vector<std::string> arms;
  double inject_time = 0;          ///< a fraction; injected into all arms but eager
  double inject_instructions = 0;  ///< the same, for instructions
  std::uint64_t seed = 1;
};
int calibrate(const CalibrateOptions& options);

struct ReproduceOptions {
  std::string run;   ///< run.json, or its folder
  std::string cell;  ///< a workload
  std::string arm;   ///< empty: all of the run's
  bool execute = false;
  std::string out = "diptych-out";
};
int reproduce(const ReproduceOptions& options);

struct ReportOptions {
  std::string run;   ///< run.json, its folder, or a folder of such folders
  std::string head;  ///< the second of two runs on one page; empty: the views of `run` alone
  std::string by = "commit";
  bool force_time = false;
  std::string out;  ///< folder of compare.html or index.html; empty: the head's, the folder of runs
  std::string format = "html";
};
int report(const ReportOptions& options);

}  // namespace diptych::cli
