#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/analysis/roofs.h"

/// Profiles of several arms as one: an outer join over source ops. Pure functions of plain values.
namespace diptych::reports {

/// What a kernel does in one run.
struct OpWork {
  double flops = 0;
  double bytes = 0;  ///< read and written, if each operand is moved once
};

/// An op as the program applies it, from the captured graph.
struct SourceOp {
  std::uint64_t id = 0;             ///< in program order, from 1
  std::string op;                   ///< untrusted, like all names here, until printable()
  std::string scope;                ///< "net.0"; empty outside modules
  std::string line;                 ///< "model.cpp:12"
  std::string shape;                ///< of its first result: "f32[64,10]"
  std::optional<OpWork> work = {};  ///< in a kernel of its own; nothing: not known
};

/// What a compiled arm has made of a source op.
enum class Fate : std::uint8_t {
  none,       ///< the arm compiles nothing
  kernel,     ///< a kernel of the same op
  fused,      ///< in one kernel with others
  joined,     ///< part of an op that a pass has recognised
  rewritten,  ///< replaced by another op
  merged,     ///< an equal op, computed once, stands for it
  view,       ///< strides, no kernel
  placed,     ///< what it joins is written where it lies in the result: no kernel
  folded,     ///< computed while compiling
  removed,    ///< no result needs it
  node,       ///< another framework's: the node or nodes that it is run as
  unseen      ///< another framework's: no node of its profile is this op's
};
/// "kernel"; the values of `fate` in files.
std::string_view name_of(Fate fate);

struct OpFate {
  Fate fate = Fate::none;
  std::vector<std::string> with = {};  ///< ops of the same kernel, what it became, or the nodes it is; each once
  std::string pass = {};               ///< that did it; empty: none did anything

  bool operator==(const OpFate&) const = default;
  auto operator<=>(const OpFate&) const = default;
};

/// The seconds of one kernel of an arm, per call.
struct KernelTime {
  std::string name;
  std::vector<std::uint64_t> source_ops;  ///< none: a copy that the lowering adds, an op that isn't captured
  double seconds = 0;
  double runs = 1;                  ///< per call of the program
  std::vector<OpWork> work = {};    ///< of the kernels in it, each of which runs equally often; none: not known
  std::vector<double> counts = {};  ///< per call, by ProfileInput::counters; empty: not counted
};

struct ProfiledArm {
  std::string name;
  std::vector<KernelTime> kernels;
  std::map<std::uint64_t, OpFate> fates;  ///< by source op; empty: nothing is compiled
  double tape_seconds = 0;                ///< walking the tape, and the gradient rules, without the ops they apply
  double total_seconds = 0;               ///< of a call
};

/// Seconds of eager's parts.
struct OpParts {
  double dispatch = 0, inference = 0, allocation = 0, kernel = 0;
};

struct ProfileInput {
  std::vector<SourceOp> ops;
  std::vector<ProfiledArm> arms;           ///< the first is the base
  std::vector<std::string> counters = {};  ///< what was counted: "instructions", "page-faults"
  std::map<std::string, OpParts> parts;    ///< of one op of that kind in the base, without its kernel; empty: not known
};

enum class ProfileBy : std::uint8_t {
  op,
  scope,
  shape,
  line,
  stack  ///< the modules around an op, from the outside, and the op: "net;0;matmul". Rows stay in program order.
};
std::span<const std::string_view> profile_groupings();  ///< their names, in order
ProfileBy grouping_named(std::string_view name);        ///< of a name in profile_groupings()

struct FateCount {
  OpFate fate;
  std::size_t ops = 0;
};

/// A row in one arm.
struct ArmOfRow {
  std::optional<double> seconds = {};  ///< nothing: none of the row's ops takes time of its own
  bool is_estimate = false;            ///< a share of kernels of several ops
  std::vector<FateCount> fates = {};   ///< the most frequent first
  std::vector<double> counts = {};     ///< by AlignedProfile::counters; divided like the seconds; empty: not known
  /// The least that the machine could need for it (seconds_by_source_op); nothing: its work isn't known, or it has
  /// none.
  std::optional<double> limit_seconds = {};
};

struct AlignedRow {
  enum class Kind : std::uint8_t {
    ops,
    tape,    ///< ProfiledArm::tape_seconds
    outside  ///< the rest of a call: the program between ops, recording, the executor's loop
  };
  std::string name;
  Kind kind = Kind::ops;
  std::size_t ops = 0;  ///< source ops
  std::vector<ArmOfRow> arms;
  std::optional<OpParts> parts = {};  ///< of the base's seconds: an estimate
};

struct AlignedProfile {
  ProfileBy by = ProfileBy::op;
  std::vector<std::string> arms;
  std::vector<double> total_seconds;  ///< by arm
  std::vector<std::string> counters;  ///< ProfileInput's
  std::vector<AlignedRow> rows;       ///< what changed most from the base to the last arm first

  /// What the arm saves of the base's time; negative: it loses. An op that isn't there takes none.
  double saved(const AlignedRow& row, std::size_t arm) const;
  double gap(std::size_t arm) const { return total_seconds.front() - total_seconds[arm]; }
};

/// Every kernel's time goes to its source ops. One of several ops is divided by what they cost in kernels of their own,
/// in the first arm that has them (eager, usually); ops without such a kernel count as the mean of those with one. In
/// every arm the rows add up to its total. The base's parts: what an op takes besides its kernel doesn't depend on its
/// shape, so the kernel has the rest.
AlignedProfile align(const ProfileInput& input, ProfileBy by);

/// The seconds of each source op by arm, divided as in `align`; nothing where it takes no time of its own. Without
/// fates. With `roofs`, the limits too: that of a kernel of several ops is divided as its time is.
std::map<std::uint64_t, std::vector<ArmOfRow>> seconds_by_source_op(const ProfileInput& input,
                                                                    const MachineRoofs* roofs = nullptr);

/// What a call of each arm takes beside its source ops: kernels of none by name, such as an op that only eager runs,
/// the tape, and what is outside of all ops. With seconds_by_source_op the rows add up to the arms' totals.
std::vector<AlignedRow> seconds_beside_source_ops(const ProfileInput& input);

/// The source op of each op that an eager call applied, by the names of both in order; 0: none. Where the sequences
/// differ, the longest common subsequence counts. `repeats`: the program has control flow, whose ops are captured once
/// and applied again and again: an op without a partner is then the nearest one of its name before.
std::vector<std::uint64_t> source_ops_of_calls(std::span<const std::string> applied, std::span<const SourceOp> ops,
                                               bool repeats);

}  // namespace diptych::reports
