#include "reports/html/ladder.h"

#include <fmt/format.h>

#include "reports/analysis/roofline.h"
#include "reports/html/charts.h"
#include "reports/html/fields.h"
#include "reports/html/split.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/ladder_table.h"
#include "reports/views/split_views.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

HtmlField share_field(const std::optional<double>& share) { return {share ? format_percent(*share) : "-", "", share}; }

std::string rungs_table(const Cell& cell) {
  const Ladder ladder = cell.ladder();
  HtmlTable table(
      {"rung", "adds", "per call", "saves", "share", "result", "compile", "break-even", "planned peak", "of limit"},
      {1});
  const std::vector<std::string> order = ladder.order();
  const std::string first = order.empty() ? "" : order.front();
  table.row({{first},
             {"", "", {}, "wrap"},
             time_field(ladder.base_seconds()),
             {},
             {},
             {},
             {},
             {},
             {},
             {limit_text(cell, first)}});
  for (const Rung rung : ladder.rungs()) {
    HtmlField share = share_field(rung.share());
    if (const std::string place = place_text(rung, Glyphs::typographic); !place.empty()) {
      share.note = fmt::format("by place {}", place);
    }
    const auto peak = rung.planned_peak_bytes();
    table.row({{rung.name()},
               {rung.title(), rung.cause(), {}, "wrap"},
               time_field(rung.seconds()),
               split_interval(saved_text(rung, Glyphs::typographic), value_of(rung.saved_seconds())),
               share,
               {ulp_text(rung)},
               time_field(rung.compile_seconds()),
               split_interval(break_even_text(rung.break_even()), rung.break_even().calls()),
               {peak ? format_bytes(*peak) : "-", "", peak},
               {limit_text(cell, rung.to())}});
  }
  const auto total = [&](const char* name, const char* note, const std::optional<Estimate>& seconds,
                         const HtmlField& share) {
    table.row({{name}, {note, "", {}, "wrap"}, {}, time_field(seconds), share, {}, {}, {}, {}, {}});
  };
  total("residual", "what the rungs don't explain", ladder.residual_seconds(), share_field(ladder.residual_share()));
  total("whole gap", "", ladder.gap_seconds(), {ladder.residual_share() ? "100 %" : "-"});
  return table.finish();
}

}  // namespace

std::string html_ladder(const Cell& cell) {
  const Ladder ladder = cell.ladder();
  if (!ladder) {
    return "";
  }
  const Split split = ladder.split();
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
