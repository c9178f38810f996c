#include "reports/views/explanation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/passes/refusal.h"
#include "reports/analysis/ladder.h"
#include "reports/analysis/roofline.h"
#include "reports/text/text.h"
#include "reports/views/fusion_views.h"
#include "reports/views/profile_views.h"
#include "reports/views/split_views.h"
#include "reports/views/summary.h"

namespace diptych::reports {

bool is_told_apart(const std::optional<Estimate>& estimate) {
  return estimate && estimate->has_interval() && estimate->excludes(0);
}

std::string cause_of(const Rung& rung) {
  const std::string cause = rung.cause();
  return shorten(printable(cause.empty() ? fmt::format("{} to {}", rung.from(), rung.to()) : cause), 40);
}

FusedCounts fused_counts(const Cell& cell) {
  FusedCounts counts;
  for (const FusedEntry kernel : fused_arm(cell).fused()) {
    ++counts.kernels;
    counts.losses += kernel.is_loss() ? 1 : 0;
  }
  return counts;
}

namespace {

Estimate inverse_of(const Estimate& ratio) {
  Estimate inverse = ratio;
  inverse.value = 1 / ratio.value;
  if (ratio.has_interval()) {
    inverse.low = 1 / *ratio.high;
    inverse.high = 1 / *ratio.low;
  }
  return inverse;
}

class Explainer {
 public:
  Explainer(const Cell& cell, double calls, Glyphs glyphs)
      : cell_(cell), comparison_(cell.main_comparison()), calls_(calls), glyphs_(glyphs) {}

  bool is_comparable() const { return comparison_ && comparison_.verdict().verdict() != Verdict::invalid; }

  AnswerPart how_much() const {
    AnswerPart point{"How much"};
    if (!comparison_) {
      point.sentences.emplace_back("Nothing was compared: the run has one arm.");
      return point;
    }
    const Judgement verdict = comparison_.verdict();
    const std::string because = printable(verdict.detail().empty() ? verdict.reason() : verdict.detail());
    if (!is_comparable()) {
      const std::string reason = printable(cell_.validity().reason());
      point.sentences.push_back(fmt::format("INVALID: {} and {} cannot be compared: {}.", arm_name(), base_name(),
                                            reason.empty() ? because : reason));
      return point;
    }
    point.sentences.push_back(compared());
    // The direction is in the first sentence.
    const bool has_direction = verdict.verdict() == Verdict::indicative || verdict.verdict() == Verdict::contaminated;
    const std::string name = has_direction ? verdict.name() : verdict_text(comparison_);
    point.sentences.push_back(fmt::format("{}{}.", name, because.empty() ? "" : ": " + because));
    return point;
  }

  AnswerPart causes() const {
    AnswerPart point{"Causes"};
    std::vector<Rung> told;
    std::vector<std::string> undecided, unchanged;
    const Parts<Rung> all = cell_.rungs();
    for (const Rung rung : all) {
      if (rung.has_effect()) {
        told.push_back(rung);
      } else if (rung.is_same_graph()) {
        unchanged.push_back(cause_of(rung));
      } else {
        undecided.push_back(cause_of(rung));
      }
    }
    std::stable_sort(told.begin(), told.end(), [](const Rung& a, const Rung& b) {
      return std::abs(a.saved_seconds()->value) > std::abs(b.saved_seconds()->value);
    });
    if (all.empty()) {
      point.sentences.emplace_back("No ladder was measured.");
      return point;
    }
    std::vector<std::string> texts;
    for (const Rung& rung : told) {
      texts.push_back(rung_text(rung));
    }
    if (!texts.empty()) {
      point.sentences.push_back(fmt::format("{}.", fmt::join(texts, "; ")));
    }
    if (!undecided.empty()) {
      point.sentences.push_back(fmt::format("Not told apart from nothing: {}.", fmt::join(undecided, ", ")));
    }
    if (!unchanged.empty()) {
      point.sentences.push_back(fmt::format("The graph stays the same: {}.", fmt::join(unchanged, ", ")));
    }
    if (is_told_apart(cell_.ladder().residual_seconds())) {
      point.sentences.push_back(
          fmt::format("No rung explains {}.", format_seconds(*cell_.ladder().residual_seconds(), glyphs_)));
    }
    if (const std::string parts = eager_parts(); !parts.empty()) {
      point.sentences.push_back(parts);
    }
    return point;
  }

  AnswerPart ops() const {
    AnswerPart point{"Ops"};
    const auto profile = read_profile(cell_.profile());
    if (!profile) {
      point.sentences.emplace_back("No profile of both arms was taken.");
      return point;
    }
    constexpr std::size_t kMostOps = 5;
    constexpr int kNameColumns = 26;
    constexpr int kFateColumns = 44;
    const std::size_t arm = profile->arms.size() - 1;
    point.rows.push_back({"traced, no intervals", shorten(printable(profile->arms.front()), kNameColumns),
                          shorten(printable(profile->arms[arm]), kNameColumns), "saves", ""});
    for (const AlignedRow& row : profile->rows) {
      if (row.kind != AlignedRow::Kind::ops || point.rows.size() > kMostOps) {
        continue;
      }
      const auto time = [&](const ArmOfRow& of) {
        return of.seconds ? (of.is_estimate ? "~" : "") + format_seconds(of.seconds, glyphs_) : std::string("-");
      };
      const std::string name = shorten(printable(row.name), kNameColumns - 6);
      point.rows.push_back({row.ops > 1 ? fmt::format("{} ({})", name, row.ops) : name, time(row.arms.front()),
                            time(row.arms[arm]), format_seconds(profile->saved(row, arm), glyphs_),
                            shorten(fates_text(*profile, row, arm), kFateColumns)});
      point.row_places.push_back(place_of(*profile, row));
    }
    return point;
  }

  /// Beside the arms of other frameworks.
  AnswerPart against() const {
    AnswerPart point{"Against"};
    for (const Arm arm : cell_.arms()) {
      if (arm.is_external()) {
        point.sentences.push_back(peer_sentence(arm));
      }
    }
    return point;
  }

  AnswerPart fusion() const {
    AnswerPart point{"Fusion"};
    const std::string kernels = fusion_sentence(cell_, glyphs_);
    point.sentences.push_back(kernels.empty() ? "No fused kernel was timed." : printable(kernels) + ".");
    point.sentences.push_back(refusals());
    return point;
  }

  AnswerPart compiling() const {
    AnswerPart point{"Compiling"};
    const auto compile = cell_.arm(comparison_.arm()).compile_seconds();
    const auto gap = gap_seconds();
    if (!compile || !gap) {
      point.sentences.emplace_back("What compiling takes, or a call saves, was not measured.");
      return point;
    }
    const std::string takes = fmt::format("It takes {}", seconds(compile->value));
    const std::string n = format_count(calls_);
    const char* plural = calls_ == 1 ? "" : "s";
    if (!is_told_apart(gap)) {
      point.sentences.push_back(fmt::format("{}; whether it pays is undecided: a call saves {}, which may be nothing.",
                                            takes, interval(*gap)));
      return point;
    }
    const double net = calls_ * gap->value - compile->value;
    if (gap->value < 0) {
      point.sentences.push_back(fmt::format("{} and never pays: a call takes {} longer; {} call{} lose {}.", takes,
                                            interval(saving_of(*gap).amount), n, plural, seconds(-net)));
      return point;
    }
    const double low = calls_ * *gap->low - compile->high.value_or(compile->value);
    const double high = calls_ * *gap->high - compile->low.value_or(compile->value);
    const std::string range = fmt::format("between {} and {}", seconds(low), seconds(high));
    const std::string after = break_even_text(comparison_.break_even());
    point.sentences.push_back(
        fmt::format("{}{}; over {} call{} {}.", takes,
                    comparison_.break_even().reached() ? fmt::format(" and pays after {}", after) : "", n, plural,
                    low > 0    ? fmt::format("it saves {} ({})", seconds(net), range)
                    : high < 0 ? fmt::format("it loses {}: too few calls", seconds(-net))
                               : fmt::format("it is undecided what it saves: {}", range)));
    return point;
  }

  AnswerPart limit() const {
    AnswerPart point{"Limit"};
    const std::string arm = comparison_.arm();
    const std::string share = limit_text(cell_, arm);
    const std::string bound = printable(limit_sentence(cell_, glyphs_));
    if (bound.empty() || share == "-") {
      point.sentences.push_back(bound.empty() ? "The machine's limit was not measured." : bound);
      return point;
    }
    point.sentences.push_back(fmt::format("{} reaches {} of what the machine allows, {} {}.", arm_name(), share,
                                          base_name(), limit_text(cell_, comparison_.base())));
    point.sentences.push_back(bound);
    return point;
  }

 private:
  std::string arm_name() const { return shorten(printable(comparison_.arm()), 30); }
  std::string base_name() const { return shorten(printable(comparison_.base()), 30); }
  std::string seconds(double value) const { return format_seconds(std::optional<double>(value), glyphs_); }
  std::string interval(const Estimate& value) const { return format_seconds(value, glyphs_); }

  /// Of the ladder; without one, the difference of the two times has no interval and says nothing.
  std::optional<Estimate> gap_seconds() const { return cell_.ladder().gap_seconds(); }

  std::string peer_sentence(const Arm& arm) const {
    const std::string name = shorten(printable(arm.name()), 30);
    if (const std::string failure = printable(arm.failure()); !failure.empty()) {
      return fmt::format("{} was not measured: {}.", name, failure);
    }
    const auto speedup = cell_.comparison(arm.name()).graph_speedup();
    const auto time = arm.seconds();
    if (!speedup || !time) {
      return fmt::format("{} was not measured beside a graph.", name);
    }
    const std::string takes = fmt::format("{} takes {}", name, seconds(time->value));
    const bool is_told = speedup->has_interval() && speedup->excludes(1);
    if (!is_told) {
      return fmt::format("{}: graph against it is undecided, {}.", takes, format_ratio(*speedup, glyphs_));
    }
    return speedup->value > 1
               ? fmt::format("{}: graph is {} faster.", takes, format_ratio(*speedup, glyphs_))
               : fmt::format("{}: graph is {} slower.", takes, format_ratio(inverse_of(*speedup), glyphs_));
  }

  std::string compared() const {
    const auto speedup = comparison_.speedup();
    const auto base = cell_.arm(comparison_.base()).seconds();
    const auto arm = cell_.arm(comparison_.arm()).seconds();
    const std::string times =
        base && arm ? fmt::format(": a call takes {} instead of {}", seconds(arm->value), seconds(base->value)) : "";
    const std::string direction = comparison_.verdict().direction();
    if (!speedup) {
      return fmt::format("{} against {}: not measured.", arm_name(), base_name());
    }
    if (comparison_.verdict().verdict() == Verdict::equivalent) {
      return fmt::format("{} and {} take the same time, {}{}.", arm_name(), base_name(),
                         format_ratio(*speedup, glyphs_), times);
    }
    if (direction == "faster") {
      return fmt::format("{} is {} faster than {}{}.", arm_name(), format_ratio(*speedup, glyphs_), base_name(), times);
    }
    if (direction == "slower") {
      return fmt::format("{} is {} slower than {}{}.", arm_name(), format_ratio(inverse_of(*speedup), glyphs_),
                         base_name(), times);
    }
    return fmt::format("{} against {} is undecided, {}{}.", arm_name(), base_name(), format_ratio(*speedup, glyphs_),
                       times);
  }

  std::string rung_text(const Rung& rung) const {
    const Saving saving = saving_of(*rung.saved_seconds());
    const auto share = rung.share();
    const char* of_what = saving.costs && share && *share > 0 ? " of the loss" : "";
    return fmt::format("{}: {} {}{}", cause_of(rung), saving.costs ? "costs" : "saves", interval(saving.amount),
                       share ? fmt::format(" ({}{})", format_percent(*share), of_what) : "");
  }

  /// The largest parts of what replay saves, if the rung is told apart and its parts add up to it.
  std::string eager_parts() const {
    const Split split = cell_.ladder().split();
    if (!split || !split.reason().empty() || !is_told_apart(split.rung_seconds())) {
      return "";
    }
    std::vector<std::pair<double, std::string>> parts;
    for (const SplitPart& part : split_parts()) {
      const auto found = split.part(part.key);
      if (is_told_apart(found) && found->value > 0 && std::string_view(part.key) != "replay_overhead_seconds") {
        parts.emplace_back(found->value, fmt::format("{} {}", part.name, seconds(found->value)));
      }
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, parts.size()); ++i) {
      texts.push_back(parts[i].second);
    }
    return texts.empty() ? "" : fmt::format("Of eager besides kernels: {}.", fmt::join(texts, ", "));
  }

  std::string refusals() const {
    if (cell_.arm(comparison_.arm()).passes().empty()) {
      return "What isn't fused is not recorded.";
    }
    double edges = 0;
    std::map<std::string, double> reasons;
    RefusedEntry most;
    for (const PassEntry pass : cell_.arm(comparison_.arm()).passes()) {
      for (const RefusedEntry refused : pass.refused()) {
        edges += refused.edges();
        reasons[shorten(printable(refused.why()), 20)] += refused.edges();
        most = refused.edges() > most.edges() ? refused : most;
      }
    }
    if (edges == 0) {
      return "No fusion was refused.";
    }
    std::vector<std::pair<std::string, double>> sorted(reasons.begin(), reasons.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> texts;
    for (const auto& [why, count] : sorted) {
      texts.push_back(fmt::format("{} {}", why, format_count(count)));
    }
    return fmt::format("{} result{} not fused with what reads {}: {}; most often {} -> {} ({}: {}).",
                       format_count(edges), edges == 1 ? " is" : "s are", edges == 1 ? "it" : "them",
                       fmt::join(texts, ", "), shorten(printable(most.producer()), 24),
                       shorten(printable(most.consumer()), 24), format_count(most.edges()), explained(most.why()));
  }

  /// The sentence of docs/fusion.md for a reason; the reason itself if it is none of ours.
  static std::string explained(const std::string& why) {
    for (int i = 0; i <= static_cast<int>(passes::Refusal::cycle); ++i) {
      const auto refusal = static_cast<passes::Refusal>(i);
      if (passes::name_of(refusal) == why) {
        return std::string(passes::explanation_of(refusal));
      }
    }
    return shorten(printable(why), 20);
  }

  Cell cell_;
  Comparison comparison_;
  double calls_;
  Glyphs glyphs_;
};

}  // namespace

std::vector<AnswerPart> explain(const Run& run, const Cell& cell, double calls, Glyphs glyphs) {
  const Explainer explainer(cell, calls, glyphs);
  std::vector<AnswerPart> points = {explainer.how_much()};
  if (explainer.is_comparable()) {
    if (AnswerPart peers = explainer.against(); !peers.sentences.empty()) {
      points.push_back(std::move(peers));
    }
    points.push_back(explainer.causes());
    points.push_back(explainer.ops());
    points.push_back(explainer.fusion());
    points.push_back(explainer.compiling());
    points.push_back(explainer.limit());
  }
  AnswerPart next{"Next"};
  next.suggestions = suggestions(run, cell);
  points.push_back(std::move(next));
  return points;
}

}  // namespace diptych::reports
