#include "reports/html/links.h"

#include <fmt/format.h>

namespace diptych::reports {

std::string relative_link(std::string_view path) {
  // A leading slash would be another folder, two of them another machine.
  std::string out = path.starts_with('/') ? "." : "";
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace diptych::reports
