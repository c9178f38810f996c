#include "reports/html/split.h"

#include <fmt/format.h>

#include "reports/html/fields.h"
#include "reports/run/run.h"
#include "reports/text/text.h"
#include "reports/views/split_views.h"

namespace diptych::reports {

std::string html_split(const Split& split) {
  const std::string sentence =
      fmt::format(R"(<p class="sub">{}</p>)", escape_xml(split_sentence(split, Glyphs::typographic)));
  if (!split.reason().empty()) {
    return sentence;
  }
  HtmlTable parts({"part", "what it is", "a call"}, {1});
  for (const SplitPart& part : split_parts()) {
    const auto seconds = split.part(part.key);
    parts.row(
        {{part.name}, {part.meaning}, split_interval(part_text(seconds, Glyphs::typographic), value_of(seconds))});
  }
  HtmlTable kinds({"op", "calls", "dispatch", "inference", "allocation", "kernel"});
  for (const SplitKind kind : split.kinds()) {
    const auto calls = kind.calls();
    kinds.row({{kind.op()},
               {format_count(calls.value_or(0)), "", calls},
               plain_time_field(kind.seconds("dispatch_seconds")),
               plain_time_field(kind.seconds("inference_seconds")),
               plain_time_field(kind.seconds("allocation_seconds")),
               plain_time_field(kind.seconds("kernel_seconds"))});
  }
  return parts.finish() + sentence + kinds.finish();
}

}  // namespace diptych::reports
