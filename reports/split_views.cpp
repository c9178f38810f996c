#include "reports/split_views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/html_fields.h"
#include "reports/json_access.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

struct SplitPart {
  const char* key;
  const char* name;
  const char* meaning;
};
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

std::string part_text(const nlohmann::json& part, Glyphs glyphs) {
  const auto seconds = estimate(part);
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
  // Below zero for certain: only memory can be, where kernels like the new blocks better than the planned ones.
  return seconds->value < 0 && seconds->has_interval()
             ? fmt::format("none: {} less", format_seconds(std::optional<double>(-seconds->value), glyphs))
             : "not told from 0";
}

std::string split_sentence(const nlohmann::json& split, Glyphs glyphs) {
  if (const std::string reason = text(split, "reason"); !reason.empty()) {
    return "No split of eager's time by op: " + reason + ".";
  }
  const auto explained = estimate(member(split, "explained_seconds"));
  const auto rung = estimate(member(split, "rung_seconds"));
  const auto residual = estimate(member(split, "residual_seconds"));
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

std::string render_split(const nlohmann::json& split, int width) {
  const std::string sentence = split_sentence(split, Glyphs::ascii);
  if (sentence.empty() || !text(split, "reason").empty()) {
    return sentence.empty() ? "" : printable(sentence) + "\n";
  }
  std::vector<std::vector<std::string>> parts = {{"eager besides kernels", "a call", ""}};
  for (const SplitPart& part : kParts) {
    parts.push_back({fmt::format("  {}", part.name), part_text(member(split, part.key), Glyphs::ascii), part.meaning});
  }
  const auto plain = [](const Json& object, const char* key) { return format_seconds(number(object, key)); };
  std::vector<std::vector<std::string>> kinds = {{"by op", "calls", "dispatch", "inference", "allocation", "kernel"}};
  for (const Json& kind : list(split, "kinds")) {
    if (kinds.size() <= kTopOps) {
      kinds.push_back({shorten(printable(text(kind, "op")), 24), format_count(number(kind, "calls").value_or(0)),
                       plain(kind, "dispatch_seconds"), plain(kind, "inference_seconds"),
                       plain(kind, "allocation_seconds"), plain(kind, "kernel_seconds")});
    }
  }
  return aligned(parts, width) + printable(sentence) + "\n\n" + aligned(kinds, width);
}

std::string html_split(const nlohmann::json& split) {
  const std::string sentence =
      fmt::format(R"(<p class="sub">{}</p>)", escape_xml(split_sentence(split, Glyphs::typographic)));
  if (!text(split, "reason").empty()) {
    return sentence;
  }
  HtmlTable parts({"part", "what it is", "a call"}, {1});
  for (const SplitPart& part : kParts) {
    const auto seconds = estimate(member(split, part.key));
    parts.row({{part.name},
               {part.meaning},
               split_interval(part_text(member(split, part.key), Glyphs::typographic),
                              seconds ? std::optional<double>(seconds->value) : std::nullopt)});
  }
  HtmlTable kinds({"op", "calls", "dispatch", "inference", "allocation", "kernel"});
  for (const Json& kind : list(split, "kinds")) {
    const auto calls = number(kind, "calls");
    kinds.row({{text(kind, "op")},
               {format_count(calls.value_or(0)), "", calls},
               plain_time_field(kind, "dispatch_seconds"),
               plain_time_field(kind, "inference_seconds"),
               plain_time_field(kind, "allocation_seconds"),
               plain_time_field(kind, "kernel_seconds")});
  }
  return parts.finish() + sentence + kinds.finish();
}

}  // namespace diptych::reports
