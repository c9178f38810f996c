#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/text.h"
#include "reports/views/explanation.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

/// The rungs that this run can't tell from nothing.
std::vector<std::string> undecided_causes(const Cell& cell) {
  std::vector<std::string> causes;
  for (const Rung rung : cell.rungs()) {
    if (!rung.has_effect() && !rung.is_same_graph()) {
      causes.push_back(cause_of(rung));
    }
  }
  return causes;
}

/// The share of the gap that capturing saves, if that is known.
std::optional<double> share_of_dispatch(const Cell& cell) {
  for (const Rung rung : cell.rungs()) {
    if (rung.to() == "replay" && rung.has_effect() && rung.saved_seconds()->value > 0) {
      return rung.share();
    }
  }
  return std::nullopt;
}

std::optional<double> share_of_limit(const Cell& cell, const std::string& arm) {
  for (const ArmOfLimits each : cell.limits().arms()) {
    if (each.name() == arm) {
      return each.share();
    }
  }
  return std::nullopt;
}

class Advice {
 public:
  Advice(const Run& run, const Cell& cell) : run_(run), cell_(cell), word_(shell_word(cell.workload())) {}

  std::vector<Suggestion> all() {
    const Comparison comparison = cell_.main_comparison();
    if (!comparison) {
      return {};
    }
    if (comparison.verdict().verdict() == Verdict::invalid) {
      add("diptych graph {} --check-passes", "the arms disagree: the first pass that changes a bit");
      add("diptych graph {} --readiness", "what a capture doesn't see: host reads, untracked state");
      return std::move(suggestions_);
    }
    measure_better(comparison);
    mend_losses();
    look_at_costs();
    look_at_dispatch();
    look_at_fusion(comparison);
    use_threads(comparison);
    if (run_.cell(cell_.workload()).profile()) {
      add("diptych profile {} --arms eager,graph --by scope", "the ops above, module by module");
    }
    constexpr std::size_t kMost = 5;
    if (suggestions_.size() > kMost) {
      suggestions_.resize(kMost);
    }
    return std::move(suggestions_);
  }

 private:
  void add(const std::string& command, std::string reason, const std::string& flags = "") {
    suggestions_.push_back({fmt::format(fmt::runtime(command), word_) + flags, std::move(reason)});
  }

  /// " --against ort": as this run was measured.
  std::string against() const {
    std::vector<std::string> peers;
    for (const Arm arm : cell_.arms()) {
      if (arm.is_external()) {
        peers.push_back(arm.name());
      }
    }
    return peers.empty() ? "" : " --against " + shell_word(fmt::to_string(fmt::join(peers, ",")));
  }

  void measure_better(const Comparison& comparison) {
    const std::optional<Verdict> verdict = comparison.verdict().verdict();
    if (verdict == Verdict::contaminated) {
      add("diptych why {} --standard", "the machine was not quiet", against());
      return;
    }
    const std::string size = run_.size().name();
    if (const std::vector<std::string> causes = undecided_causes(cell_); size == "quick") {
      add("diptych why {} --standard",
          causes.empty()
              ? "a verdict instead of a direction"
              : fmt::format("a verdict, and {} cause{} more precisely", causes.size(), causes.size() == 1 ? "" : "s"),
          against());
    } else if (verdict == Verdict::inconclusive && size == "standard") {
      const auto mde = comparison.mde();
      add("diptych ladder {} --certify",
          mde ? fmt::format("this run finds effects from {} on", format_percent(*mde)) : "this run can't tell");
    }
  }

  void mend_losses() {
    const FusedCounts fused = fused_counts(cell_);
    if (fused.losses == 0) {
      return;
    }
    const std::string lose = fmt::format("{} of {} fused kernel{} lose{}", fused.losses, fused.kernels,
                                         fused.kernels == 1 ? "" : "s", fused.losses == 1 ? "s" : "");
    add("diptych graph {} --time-fused", lose);
    add("diptych ladder {} --veto-losses", "what the graph takes without them");
  }

  /// Only for a rung that certainly costs.
  void look_at_costs() {
    for (const Rung rung : cell_.rungs()) {
      if (rung.has_effect() && rung.saved_seconds()->value < 0) {
        add("diptych ladder {} --shuffle-order",
            fmt::format("{} costs {}: in every order?", cause_of(rung),
                        format_seconds(std::optional<double>(-rung.saved_seconds()->value))));
        return;
      }
    }
  }

  void look_at_dispatch() {
    constexpr double kMost = 0.5;
    const auto share = share_of_dispatch(cell_);
    if (!share || *share < kMost) {
      return;
    }
    const std::string dominates = fmt::format("dispatch and tape are {} of the gap", format_percent(*share));
    if (cell_.workload().find(".onnx") != std::string::npos && cell_.workload().find(':') == std::string::npos) {
      add("diptych why {}:batch=32", dominates + ": a larger batch has more work for each op");
    } else {
      add("diptych run {} --arms eager,eager-pipelined,graph", dominates);
    }
  }

  void look_at_fusion(const Comparison& comparison) {
    double edges = 0;
    for (const PassEntry pass : cell_.arm(comparison.arm()).passes()) {
      for (const RefusedEntry refused : pass.refused()) {
        edges += refused.edges();
      }
    }
    if (edges > 0) {
      add("diptych graph {} --stage fuse --format txt",
          fmt::format("{} result{} not fused, each with its reason", format_count(edges), edges == 1 ? "" : "s"));
    }
  }

  /// Only where one thread is near its limit, and there are more.
  void use_threads(const Comparison& comparison) {
    constexpr double kNear = 0.5;
    const auto share = share_of_limit(cell_, comparison.arm());
    const double cores = number(member(run_.environment(), "cpu"), "cores").value_or(1);
    if (share && *share >= kNear && cores >= 2 && run_.threads().value_or(1) == 1) {
      add("diptych ladder {} --threads 2",
          fmt::format("{} is at {} of the limit of one thread", shorten(printable(comparison.arm()), 20),
                      format_percent(*share)));
    }
  }

  const Run& run_;
  const Cell& cell_;
  std::string word_;
  std::vector<Suggestion> suggestions_;
};

}  // namespace

std::vector<Suggestion> suggestions(const Run& run, const Cell& cell) { return Advice(run, cell).all(); }

}  // namespace diptych::reports
