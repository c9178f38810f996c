#include "reports/analysis/aligned_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace diptych::reports {

std::string_view name_of(Fate fate) {
  constexpr std::array<std::string_view, 12> names = {"",     "kernel", "fused",  "joined",  "rewritten", "merged",
                                                      "view", "placed", "folded", "removed", "node",      "unseen"};
  return names[static_cast<std::size_t>(fate)];
}

std::span<const std::string_view> profile_groupings() {
  static constexpr std::array<std::string_view, 5> names = {"op", "scope", "shape", "line", "stack"};
  return names;
}

ProfileBy grouping_named(std::string_view name) {
  const auto all = profile_groupings();
  return static_cast<ProfileBy>(std::find(all.begin(), all.end(), name) - all.begin());
}

namespace {

using Seconds = std::map<std::uint64_t, double>;

/// What ops cost in kernels of their own, in the first arm that has them.
Seconds costs_alone(const std::vector<ProfiledArm>& arms) {
  Seconds costs;
  for (const ProfiledArm& arm : arms) {
    Seconds own;
    for (const KernelTime& kernel : arm.kernels) {
      if (kernel.source_ops.size() == 1) {
        own[kernel.source_ops.front()] += kernel.seconds;
      }
    }
    costs.merge(own);
  }
  return costs;
}

/// The shares of a kernel's source ops; they add up to 1.
std::vector<double> shares_of(const KernelTime& kernel, const Seconds& costs) {
  std::vector<double> shares(kernel.source_ops.size(), -1);
  double known = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (const auto cost = costs.find(kernel.source_ops[i]); cost != costs.end()) {
      shares[i] = std::max(0.0, cost->second);
      known += shares[i];
      ++count;
    }
  }
  const double mean = known > 0 ? known / static_cast<double>(count) : 1;
  for (double& share : shares) {
    share = share < 0 || known <= 0 ? mean : share;
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) {
    share /= sum;
  }
  return shares;
}

/// As a frame of a stack.
std::string frame_of(std::string name) {
  std::replace(name.begin(), name.end(), ';', ',');
  return name;
}

std::string stack_of(const SourceOp& op) {
  std::string frames = frame_of(op.scope);
  std::replace(frames.begin(), frames.end(), '.', ';');
  return frames + (frames.empty() ? "" : ";") + frame_of(op.op);
}

std::string key_of(const SourceOp& op, ProfileBy by) {
  switch (by) {
    case ProfileBy::op:
      return op.op;
    case ProfileBy::scope:
      return op.scope.empty() ? "(no module)" : op.scope;
    case ProfileBy::shape:
      return op.op + " " + op.shape;
    case ProfileBy::line:
      return op.line.empty() ? "(no line)" : op.line;
    case ProfileBy::stack:
      return stack_of(op);
  }
  return op.op;
}

void add(ArmOfRow& to, double seconds, bool is_estimate) {
  to.seconds = to.seconds.value_or(0) + seconds;
  to.is_estimate = to.is_estimate || is_estimate;
}

void add_counts(std::vector<double>& to, const std::vector<double>& counts, double share) {
  to.resize(std::max(to.size(), counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    to[i] += counts[i] * share;
  }
}

/// What the kernels leave of each arm's total, so that all rows add up to it.
std::vector<AlignedRow> rest_of(const ProfileInput& input) {
  AlignedRow tape{"(tape)", AlignedRow::Kind::tape, 0, std::vector<ArmOfRow>(input.arms.size()), {}};
  AlignedRow outside{"(outside ops)", AlignedRow::Kind::outside, 0, std::vector<ArmOfRow>(input.arms.size()), {}};
  bool has_tape = false;
  for (std::size_t arm = 0; arm < input.arms.size(); ++arm) {
    const ProfiledArm& of_arm = input.arms[arm];
    double rest = of_arm.total_seconds;
    for (const KernelTime& kernel : of_arm.kernels) {
      rest -= kernel.seconds;
    }
    if (of_arm.tape_seconds > 0) {
      tape.arms[arm].seconds = of_arm.tape_seconds;
      rest -= of_arm.tape_seconds;
      has_tape = true;
    }
    outside.arms[arm].seconds = rest;
  }
  std::vector<AlignedRow> rows;
  if (has_tape) {
    rows.push_back(std::move(tape));
  }
  if (!input.arms.empty()) {
    rows.push_back(std::move(outside));
  }
  return rows;
}

class Join {
 public:
  Join(const ProfileInput& input, ProfileBy by) : input_(input), by_(by) {
    for (const SourceOp& op : input.ops) {
      op_of_.emplace(op.id, &op);
    }
  }

  AlignedProfile run() {
    result_.by = by_;
    result_.counters = input_.counters;
    const Seconds costs = costs_alone(input_.arms);
    for (const SourceOp& op : input_.ops) {
      rows_[index_of(key_of(op, by_))].ops += 1;
    }
    for (std::size_t arm = 0; arm < input_.arms.size(); ++arm) {
      add_arm(arm, costs);
    }
    std::erase_if(rows_, [](const AlignedRow& row) {
      return row.ops == 0 && std::none_of(row.arms.begin(), row.arms.end(),
                                          [](const ArmOfRow& arm) { return arm.seconds.has_value(); });
    });
    for (AlignedRow& row : rest_of(input_)) {
      rows_.push_back(std::move(row));
    }
    result_.rows = std::move(rows_);
    sort();
    return std::move(result_);
  }

 private:
  std::size_t index_of(const std::string& name) {
    const auto [found, is_new] = index_.try_emplace(name, rows_.size());
    if (is_new) {
      rows_.push_back({name, AlignedRow::Kind::ops, 0, std::vector<ArmOfRow>(input_.arms.size()), {}});
    }
    return found->second;
  }

  /// A kernel of no source op has only its name.
  std::size_t index_of(const SourceOp* op, const std::string& kernel) {
    return index_of(op != nullptr          ? key_of(*op, by_)
                    : by_ == ProfileBy::op ? kernel
                                           : "(no source op) " + frame_of(kernel));
  }

  const SourceOp* find(std::uint64_t id) const {
    const auto found = op_of_.find(id);
    return found == op_of_.end() ? nullptr : found->second;
  }

  void add_arm(std::size_t index, const Seconds& costs) {
    const ProfiledArm& arm = input_.arms[index];
    result_.arms.push_back(arm.name);
    result_.total_seconds.push_back(arm.total_seconds);
    std::map<std::uint64_t, bool> has_kernel;
    for (const KernelTime& kernel : arm.kernels) {
      if (kernel.source_ops.empty()) {
        add_time(index, nullptr, kernel, 1, false);
        continue;
      }
      const std::vector<double> shares = shares_of(kernel, costs);
      for (std::size_t i = 0; i < shares.size(); ++i) {
        has_kernel[kernel.source_ops[i]] = true;
        add_time(index, find(kernel.source_ops[i]), kernel, shares[i], shares.size() > 1);
      }
    }
    for (const SourceOp& op : input_.ops) {
      if (const auto fate = arm.fates.find(op.id); fate != arm.fates.end()) {
        OpFate shown = fate->second;
        if (shown.fate == Fate::view && has_kernel.contains(op.id)) {
          shown = {Fate::kernel};  // no strides fit: its elements are copied
        }
        add_fate(rows_[index_of(key_of(op, by_))].arms[index].fates, shown);
      }
    }
    for (AlignedRow& row : rows_) {
      std::stable_sort(row.arms[index].fates.begin(), row.arms[index].fates.end(),
                       [](const FateCount& a, const FateCount& b) { return a.ops > b.ops; });
    }
  }

  static void add_fate(std::vector<FateCount>& fates, const OpFate& fate) {
    const auto known =
        std::find_if(fates.begin(), fates.end(), [&](const FateCount& each) { return each.fate == fate; });
    if (known != fates.end()) {
      known->ops += 1;
    } else {
      fates.push_back({fate, 1});
    }
  }

  /// `share`: of the kernel's time and runs.
  void add_time(std::size_t arm, const SourceOp* op, const KernelTime& kernel, double share, bool is_estimate) {
    const double seconds = kernel.seconds * share;
    AlignedRow& row = rows_[index_of(op, kernel.name)];
    add(row.arms[arm], seconds, is_estimate);
    add_counts(row.arms[arm].counts, kernel.counts, share);
    const auto parts = input_.parts.find(op != nullptr ? op->op : kernel.name);
    if (arm != 0 || parts == input_.parts.end()) {
      return;
    }
    const OpParts& each = parts->second;
    const double besides = (each.dispatch + each.inference + each.allocation) * kernel.runs * share;
    const double scale = kernel.runs * share * (besides > seconds ? std::max(0.0, seconds) / besides : 1);
    OpParts& to = row.parts ? *row.parts : row.parts.emplace();
    to.dispatch += each.dispatch * scale;
    to.inference += each.inference * scale;
    to.allocation += each.allocation * scale;
    to.kernel += std::max(0.0, seconds - besides);
  }

  void sort() {
    if (result_.arms.size() < 2 || by_ == ProfileBy::stack) {
      return;
    }
    const std::size_t last = result_.arms.size() - 1;
    std::stable_sort(result_.rows.begin(), result_.rows.end(), [&](const AlignedRow& a, const AlignedRow& b) {
      return std::abs(result_.saved(a, last)) > std::abs(result_.saved(b, last));
    });
  }

  const ProfileInput& input_;
  ProfileBy by_;
  std::map<std::uint64_t, const SourceOp*> op_of_;
  std::map<std::string, std::size_t> index_;
  std::vector<AlignedRow> rows_;
  AlignedProfile result_;
};

}  // namespace

double AlignedProfile::saved(const AlignedRow& row, std::size_t arm) const {
  return row.arms.front().seconds.value_or(0) - row.arms[arm].seconds.value_or(0);
}

AlignedProfile align(const ProfileInput& input, ProfileBy by) { return Join(input, by).run(); }

namespace {

/// Of all its runs in a call.
std::optional<double> limit_of(const KernelTime& kernel, const MachineRoofs* roofs) {
  double seconds = 0;
  for (const OpWork& work : kernel.work) {
    seconds += roofs != nullptr ? least_time(*roofs, work.flops, work.bytes).seconds() : 0;
  }
  if (seconds <= 0) {
    return std::nullopt;
  }
  return seconds * kernel.runs / static_cast<double>(kernel.work.size());
}

}  // namespace

std::map<std::uint64_t, std::vector<ArmOfRow>> seconds_by_source_op(const ProfileInput& input,
                                                                    const MachineRoofs* roofs) {
  const Seconds costs = costs_alone(input.arms);
  std::map<std::uint64_t, std::vector<ArmOfRow>> times;
  for (std::size_t arm = 0; arm < input.arms.size(); ++arm) {
    for (const KernelTime& kernel : input.arms[arm].kernels) {
      const std::vector<double> shares = shares_of(kernel, costs);
      const std::optional<double> limit = limit_of(kernel, roofs);
      for (std::size_t i = 0; i < shares.size(); ++i) {
        std::vector<ArmOfRow>& of_op = times[kernel.source_ops[i]];
        of_op.resize(input.arms.size());
        ArmOfRow& here = of_op[arm];
        add(here, kernel.seconds * shares[i], shares.size() > 1);
        if (limit) {
          here.limit_seconds = here.limit_seconds.value_or(0) + *limit * shares[i];
        }
      }
    }
  }
  return times;
}

std::vector<AlignedRow> seconds_beside_source_ops(const ProfileInput& input) {
  std::map<std::string, AlignedRow> by_name;
  for (std::size_t arm = 0; arm < input.arms.size(); ++arm) {
    for (const KernelTime& kernel : input.arms[arm].kernels) {
      if (kernel.source_ops.empty()) {
        AlignedRow& row = by_name[kernel.name];
        row.arms.resize(input.arms.size());
        add(row.arms[arm], kernel.seconds, false);
      }
    }
  }
  std::vector<AlignedRow> rows;
  for (auto& [name, row] : by_name) {
    row.name = name;
    rows.push_back(std::move(row));
  }
  for (AlignedRow& row : rest_of(input)) {
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

/// Pairs of equal names in two ranges, by the longest common subsequence.
void pair_up(std::span<const std::string> applied, std::span<const SourceOp> ops, std::span<std::uint64_t> result) {
  constexpr std::size_t kMostPairs = 16'000'000;  // 64 MB of lengths
  if (applied.empty() || ops.empty() || applied.size() * ops.size() > kMostPairs) {
    return;
  }
  const std::size_t width = ops.size() + 1;
  std::vector<std::uint32_t> length((applied.size() + 1) * width);  // of what is common behind (i, k)
  for (std::size_t i = applied.size(); i-- > 0;) {
    for (std::size_t k = ops.size(); k-- > 0;) {
      length[i * width + k] = applied[i] == ops[k].op
                                  ? length[(i + 1) * width + k + 1] + 1
                                  : std::max(length[(i + 1) * width + k], length[i * width + k + 1]);
    }
  }
  for (std::size_t i = 0, k = 0; i < applied.size() && k < ops.size();) {
    if (applied[i] == ops[k].op) {
      result[i++] = ops[k++].id;
    } else if (length[(i + 1) * width + k] >= length[i * width + k + 1]) {
      ++i;
    } else {
      ++k;
    }
  }
}

}  // namespace

std::vector<std::uint64_t> source_ops_of_calls(std::span<const std::string> applied, std::span<const SourceOp> ops,
                                               bool repeats) {
  std::vector<std::uint64_t> result(applied.size(), 0);
  std::size_t behind = 0;  // from the end, because inputs are made by ops before the program's own
  while (behind < std::min(applied.size(), ops.size()) &&
         applied[applied.size() - 1 - behind] == ops[ops.size() - 1 - behind].op) {
    result[applied.size() - 1 - behind] = ops[ops.size() - 1 - behind].id;
    ++behind;
  }
  std::size_t before = 0;
  const std::size_t most = std::min(applied.size(), ops.size()) - behind;
  while (before < most && applied[before] == ops[before].op) {
    result[before] = ops[before].id;
    ++before;
  }
  const auto middle = [&](const auto& all) { return all.subspan(before, all.size() - before - behind); };
  pair_up(middle(applied), middle(ops), middle(std::span<std::uint64_t>(result)));
  if (repeats) {
    std::map<std::string, std::uint64_t> last;
    for (std::size_t i = 0; i < applied.size(); ++i) {
      if (result[i] != 0) {
        last[applied[i]] = result[i];
      } else if (const auto found = last.find(applied[i]); found != last.end()) {
        result[i] = found->second;
      }
    }
  }
  return result;
}

}  // namespace diptych::reports
