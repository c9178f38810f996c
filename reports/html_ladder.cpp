#include "reports/html_ladder.h"

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/html_fields.h"
#include "reports/json_access.h"
#include "reports/ladder_table.h"
#include "reports/roofline.h"
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

std::string split_table(const Json& split) {
  HtmlTable table({"op", "calls", "dispatch", "inference", "allocation", "tape", "program", "kernel"});
  for (const Json& kind : list(split, "kinds")) {
    const auto calls = number(kind, "calls");
    table.row({{text(kind, "op")},
               {format_count(calls.value_or(0)), "", calls},
               plain_time_field(kind, "dispatch_seconds"),
               plain_time_field(kind, "inference_seconds"),
               plain_time_field(kind, "allocation_seconds"),
               {},
               {},
               plain_time_field(kind, "kernel_seconds")});
  }
  table.row({{"all ops"},
             {},
             time_field(member(split, "dispatch_seconds")),
             time_field(member(split, "inference_seconds")),
             time_field(member(split, "allocation_seconds")),
             time_field(member(split, "tape_seconds")),
             time_field(member(split, "program_seconds")),
             time_field(member(split, "kernel_seconds"))});
  return table.finish();
}

}  // namespace

std::string html_ladder(const nlohmann::json& cell) {
  const Json& ladder = member(cell, "ladder");
  if (!ladder.is_object()) {
    return "";
  }
  const Json& split = member(ladder, "split");
  const std::string sentence = split_sentence(split, Glyphs::typographic);
  const std::string note = fmt::format("{}; all in the same rounds", ladder_order(ladder));
  std::string out = folded("The ladder", note, rungs_table(cell), true);
  if (!sentence.empty()) {
    const std::string table = text(split, "reason").empty() ? split_table(split) : "";
    out += folded("Eager, part by part", "each part of its ops measured alone",
                  table + fmt::format(R"(<p class="sub">{}</p>)", escape_xml(sentence)), false);
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
