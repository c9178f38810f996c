#include "reports/views/split_views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/run/run.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr std::array<SplitPart, 7> kParts = {
    {{"dispatch_seconds", "dispatch", "applying the ops, without what follows"},
     {"inference_seconds", "inference", "shapes and dtypes"},
     {"allocation_seconds", "allocation", "tensors and their elements"},
     {"tape_seconds", "tape", "recording, walking the tape, gradient rules"},
     {"program_seconds", "program", "its own code between ops"},
     {"memory_seconds", "memory", "kernels on memory that isn't planned, and cold caches"},
     {"replay_overhead_seconds", "replay's own", "comes off: what replay does besides kernels"}}};

constexpr std::size_t kTopOps = 6;

}  // namespace

std::span<const SplitPart> split_parts() { return kParts; }

std::string part_text(const std::optional<Estimate>& seconds, Glyphs glyphs) {
  if (!seconds) {
    return "-";
  }
  const bool is_cost = seconds->has_interval() ? seconds->excludes(0) && seconds->value > 0 : seconds->value > 0;
  if (is_cost) {
    return format_seconds(*seconds, glyphs);
  }
  if (seconds->has_interval() && *seconds->high > 0) {
    return "under " + format_seconds(std::optional<double>(*seconds->high), glyphs);
  }
  // Certainly below zero: only memory can be, if kernels run faster on fresh blocks than on the planned ones.
  return seconds->value < 0 && seconds->has_interval()
             ? fmt::format("none: {} less", format_seconds(std::optional<double>(-seconds->value), glyphs))
             : "not told from 0";
}

std::string split_sentence(const Split& split, Glyphs glyphs) {
  if (const std::string reason = split.reason(); !reason.empty()) {
    return "No split of eager's time by op: " + reason + ".";
  }
  const auto explained = split.explained_seconds();
  const auto rung = split.rung_seconds();
  const auto residual = split.residual_seconds();
  if (!explained || !rung || !residual) {
    return "";
  }
  const bool holds = residual->has_interval() && !residual->excludes(0);
  return fmt::format(
      "What eager does besides kernels, less what replay does, is {}; replay saves {}{}.",
      format_seconds(*explained, glyphs), format_seconds(*rung, glyphs),
      holds ? ": the difference may be zero"
            : fmt::format(", {} {}", format_seconds(std::optional<double>(std::abs(residual->value)), glyphs),
                          residual->value > 0 ? "more" : "less"));
}

std::string render_split(const Split& split, int width) {
  const std::string sentence = split_sentence(split, Glyphs::ascii);
  if (sentence.empty() || !split.reason().empty()) {
    return sentence.empty() ? "" : printable(sentence) + "\n";
  }
  std::vector<std::vector<std::string>> parts = {{"eager besides kernels", "a call", ""}};
  for (const SplitPart& part : kParts) {
    parts.push_back({fmt::format("  {}", part.name), part_text(split.part(part.key), Glyphs::ascii), part.meaning});
  }
  const auto plain = [](const SplitKind& kind, const char* part) { return format_seconds(kind.seconds(part)); };
  std::vector<std::vector<std::string>> kinds = {{"by op", "calls", "dispatch", "inference", "allocation", "kernel"}};
  for (const SplitKind kind : split.kinds()) {
    if (kinds.size() <= kTopOps) {
      kinds.push_back({shorten(printable(kind.op()), 24), format_count(kind.calls().value_or(0)),
                       plain(kind, "dispatch_seconds"), plain(kind, "inference_seconds"),
                       plain(kind, "allocation_seconds"), plain(kind, "kernel_seconds")});
    }
  }
  return aligned(parts, width) + printable(sentence) + "\n\n" + aligned(kinds, width);
}

}  // namespace diptych::reports
