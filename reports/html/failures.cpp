#include "reports/html/failures.h"

#include <fmt/format.h>

#include "reports/html/fields.h"
#include "reports/text/text.h"
#include "reports/views/failures.h"

namespace diptych::reports {

std::string html_failures(const Run& run) {
  std::string out;
  for (const RunFailure& failure : failures_of(run)) {
    out += fmt::format("<div class=\"notice\"><p><b>{}</b></p><p>{}</p>{}</div>\n", escape_xml(failure.what),
                       escape_xml(failure.holds), html_commands(failure.next));
  }
  return out.empty() ? "" : fmt::format("<section class=\"next\" aria-label=\"What went wrong\">{}</section>\n", out);
}

}  // namespace diptych::reports
