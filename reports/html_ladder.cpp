#include "reports/html_ladder.h"

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/html_fields.h"
#include "reports/json_access.h"
#include "reports/ladder_table.h"
#include "reports/roofline.h"
#include "reports/split_views.h"
#include "reports/summary.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

HtmlField share_field(const Json& object, const char* key) {
  const auto share = number(object, key);
  return {share ? format_percent(*share) : "-", "", share};
}

std::string rungs_table(const Json& cell) {
  const Json& ladder = member(cell, "ladder");
  HtmlTable table(
      {"rung", "adds", "per call", "saves", "share", "result", "compile", "break-even", "planned peak", "of limit"},
      {1});
  const Json& order = list(ladder, "order");
  const std::string first = order.empty() || !order.front().is_string() ? "" : order.front().get<std::string>();
  table.row({{first},
             {"", "", {}, "wrap"},
             time_field(member(ladder, "base_seconds")),
             {},
             {},
             {},
             {},
             {},
             {},
             {limit_text(cell, first)}});
  for (const Json& rung : list(ladder, "rungs")) {
    HtmlField share = share_field(rung, "share");
    if (const std::string place = place_text(rung, Glyphs::typographic); !place.empty()) {
      share.note = fmt::format("by place {}", place);
    }
    const auto peak = number(rung, "planned_peak_bytes");
    table.row({{text(rung, "name")},
               {text(rung, "title"), text(rung, "cause"), {}, "wrap"},
               time_field(member(rung, "seconds")),
               time_field(member(rung, "saved_seconds")),
               share,
               {ulp_text(rung)},
               time_field(member(rung, "compile_seconds")),
               split_interval(break_even_text(rung), number(member(rung, "break_even"), "calls")),
               {peak ? format_bytes(*peak) : "-", "", peak},
               {limit_text(cell, text(rung, "to"))}});
  }
  const auto total = [&](const char* name, const char* note, const char* seconds, const HtmlField& share) {
    table.row({{name}, {note, "", {}, "wrap"}, {}, time_field(member(ladder, seconds)), share, {}, {}, {}, {}, {}});
  };
  total("residual", "what the rungs don't explain", "residual_seconds", share_field(ladder, "residual_share"));
  total("whole gap", "", "gap_seconds", {number(ladder, "residual_share") ? "100 %" : "-"});
  return table.finish();
}

}  // namespace

std::string html_ladder(const nlohmann::json& cell) {
  const Json& ladder = member(cell, "ladder");
  if (!ladder.is_object()) {
    return "";
  }
  const Json& split = member(ladder, "split");
  const std::string note = fmt::format("{}; all in the same rounds", ladder_order(ladder));
  std::string out = folded("The ladder", note, rungs_table(cell), true);
  if (!split_sentence(split, Glyphs::typographic).empty()) {
    out += folded("Eager, part by part", "what it does besides kernels", html_split(split), false);
  }
  if (const std::string limit = limit_sentence(cell, Glyphs::typographic); !limit.empty()) {
    out += folded(
        "Roofline", "what the machine could do on one thread, measured beside the rounds",
        fmt::format(R"(<div class="roofline">{}</div><p class="sub">{}</p>)", roofline_chart(cell), escape_xml(limit)),
        true);
  }
  return out;
}

}  // namespace diptych::reports
