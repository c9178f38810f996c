#include "reports/text/plain_svg.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace diptych::reports {
namespace {

/// The elements of this project's pictures. All others are refused, because the list of active elements in SVG grows
/// with each browser.
constexpr std::array<std::string_view, 13> kElements = {
    "svg", "g", "rect", "path", "text", "tspan", "title", "line", "circle", "polyline", "polygon", "style", "desc"};

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == ':'; }
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

class SvgReader {
 public:
  explicit SvgReader(std::string_view svg) : rest_(svg) {}

  bool run() {
    if (!rest_.starts_with("<svg")) {
      return false;
    }
    while (!rest_.empty()) {
      if (open_.empty() && seen_root_) {
        return std::all_of(rest_.begin(), rest_.end(), is_space);  // nothing after the drawing
      }
      if (rest_[0] != '<') {
        rest_.remove_prefix(std::min(rest_.find('<'), rest_.size()));
      } else if (!tag()) {
        return false;
      }
    }
    return seen_root_ && open_.empty();
  }

 private:
  std::string_view take_name() {
    const auto* end = std::find_if_not(rest_.begin(), rest_.end(), is_name);
    const std::string_view name = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(name.size());
    return name;
  }
  void skip_space() {
    while (!rest_.empty() && is_space(rest_[0])) {
      rest_.remove_prefix(1);
    }
  }
  bool accept(std::string_view token) {
    const bool here = rest_.starts_with(token);
    rest_.remove_prefix(here ? token.size() : 0);
    return here;
  }

  bool tag() {
    rest_.remove_prefix(1);
    if (accept("/")) {
      const std::string_view name = take_name();
      if (open_.empty() || open_.back() != name || !accept(">")) {
        return false;
      }
      open_.pop_back();
      return true;
    }
    const std::string_view name = take_name();  // empty for <!...> and <?...>
    if (std::find(kElements.begin(), kElements.end(), name) == kElements.end()) {
      return false;
    }
    seen_root_ = true;
    for (skip_space(); !rest_.starts_with(">") && !rest_.starts_with("/>"); skip_space()) {
      if (!attribute()) {
        return false;
      }
    }
    if (accept("/>")) {
      return true;
    }
    accept(">");
    open_.emplace_back(name);
    return name != "style" || style();
  }

  /// name="value": links, handlers and styles are active whatever their value; other attributes only if it is a
  /// reference.
  bool attribute() {
    const std::string name = lower(take_name());
    if (name.empty() || !accept("=\"")) {
      return false;
    }
    const std::size_t end = rest_.find('"');
    if (end == std::string_view::npos || rest_.substr(0, end).find('<') != std::string_view::npos) {
      return false;
    }
    const std::string value = lower(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    const bool says = name.starts_with("aria-") || name == "class" || name == "id";
    return !name.starts_with("on") && !name.ends_with("href") && name != "src" && name != "style" &&
           (says || value.find("url(") == std::string::npos);
  }

  bool style() {
    const std::size_t end = rest_.find("</style>");
    if (end == std::string_view::npos) {
      return false;
    }
    const std::string css = lower(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return css.find('<') == std::string::npos && css.find("@import") == std::string::npos &&
           css.find("url(") == std::string::npos && css.find('\\') == std::string::npos;
  }

  std::string_view rest_;
  std::vector<std::string> open_;
  bool seen_root_ = false;
};

}  // namespace

bool is_plain_svg(std::string_view svg) { return SvgReader(svg).run(); }

}  // namespace diptych::reports
