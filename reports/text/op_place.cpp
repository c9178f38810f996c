#include "reports/text/op_place.h"

#include <fmt/format.h>

#include "reports/text/text.h"

namespace diptych::reports {

std::string op_attributes(const OpPlace& place) {
  constexpr int kMostColumns = 200;  // names come from outside
  std::string out;
  if (place.op) {
    out += fmt::format(" data-op=\"{}\"", escape_xml(shorten_middle(printable(*place.op), kMostColumns)));
  }
  if (place.scope) {
    out += fmt::format(" data-scope=\"{}\"", escape_xml(shorten_middle(printable(*place.scope), kMostColumns)));
  }
  return out;
}

}  // namespace diptych::reports
