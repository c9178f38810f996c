#include "tests/reports/well_formed.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "reports/text/text.h"

namespace diptych::reports::testing {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool known_entity(std::string_view entity) {
  if (entity.starts_with("#")) {
    return entity.size() > 1 &&
           std::all_of(entity.begin() + 1, entity.end(), [](unsigned char c) { return std::isdigit(c); });
  }
  return is_one_of(entity, {"amp", "lt", "gt", "quot", "apos", "nbsp"});
}

std::string text_run_problem(std::string_view text) {
  for (std::size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::size_t end = text.find(';', at);
    if (end == std::string_view::npos || !known_entity(text.substr(at + 1, end - at - 1))) {
      return "bad entity in: " + std::string(text.substr(at, 40));
    }
  }
  return text.find('>') == std::string_view::npos ? "" : "raw > in: " + std::string(text.substr(0, 60));
}

struct Parser {
  std::string_view in;
  std::size_t at = 0;
  std::vector<std::string> open;

  std::string fail(const std::string& what) const {
    return what + " at " + std::to_string(at) + ": " + std::string(in.substr(at > 40 ? at - 40 : 0, 120));
  }

  std::string tag() {
    const bool closing = in.substr(at).starts_with("</");
    at += closing ? 2 : 1;
    const std::size_t start = at;
    while (at < in.size() && (std::isalnum(static_cast<unsigned char>(in[at])) != 0 || in[at] == '-')) {
      ++at;
    }
    const std::string name(in.substr(start, at - start));
    if (name.empty()) {
      return fail("raw <");
    }
    if (closing) {
      if (open.empty() || open.back() != name || at >= in.size() || in[at] != '>') {
        return fail("</" + name + "> closes nothing");
      }
      open.pop_back();
      ++at;
      return "";
    }
    while (at < in.size() && in[at] != '>' && in[at] != '/') {
      if (in[at] == ' ' || in[at] == '\n') {
        ++at;
        continue;
      }
      if (const std::string problem = attribute(); !problem.empty()) {
        return problem;
      }
    }
    if (in.substr(at).starts_with("/>")) {
      at += 2;
      return "";
    }
    if (at >= in.size() || in[at] != '>') {
      return fail("tag does not end");
    }
    ++at;
    if (is_one_of(name, {"meta"})) {
      return "";
    }
    if (is_one_of(name, {"style", "script"})) {
      const std::size_t end = in.find("</" + name + ">", at);
      if (end == std::string_view::npos || in.substr(at, end - at).find('<') < end - at) {
        return fail("raw text of " + name + " holds a < or does not end");
      }
      at = end + name.size() + 3;
      return "";
    }
    open.push_back(name);
    return "";
  }

  std::string attribute() {
    const std::size_t equals = in.find_first_of("= >", at);
    if (equals == std::string_view::npos || in[equals] != '=') {
      at = equals;  // a bare attribute, as <details open>
      return equals == std::string_view::npos ? "attribute does not end" : "";
    }
    const std::string_view name = in.substr(at, equals - at);
    if (name.starts_with("on")) {
      return fail("event handler");
    }
    if (in[equals + 1] != '"') {
      return fail("attribute is not quoted");
    }
    const std::size_t end = in.find('"', equals + 2);
    if (end == std::string_view::npos) {
      return fail("attribute does not end");
    }
    const std::string_view value = in.substr(equals + 2, end - equals - 2);
    if (value.find('<') != std::string_view::npos) {
      return fail("raw < in an attribute");
    }
    at = end + 1;
    return text_run_problem(value);
  }
};

}  // namespace

std::string text_problem(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if ((c < 0x20 && c != '\n') || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) || c == 0xFFFE) {
      return "control character U+" + std::to_string(static_cast<unsigned>(c)) + " at " + std::to_string(start);
    }
    if (c == 0xFFFD && text.substr(start, 3) != "\xEF\xBF\xBD") {
      return "broken UTF-8 at " + std::to_string(start);
    }
  }
  return "";
}

std::vector<std::string> hostile_names() {
  return {"</script><script>alert(1)</script>",
          "\" onload=\"x",
          "javascript:x",
          "\xE2\x80\xAE"
          "abc",
          "\x1b[2J\r\n",
          std::string("a\0b", 3),
          std::string(100'000, 'A'),
          "'; rm -rf ~; '",
          "\xFF\xC0\xBC"};
}

std::string markup_problem(std::string_view markup) {
  if (std::string problem = text_problem(markup); !problem.empty()) {
    return problem;
  }
  Parser parser{markup, 0, {}};
  if (markup.starts_with("<!doctype html>")) {
    parser.at = 15;
  }
  while (parser.at < markup.size()) {
    const std::size_t next = std::min(markup.find('<', parser.at), markup.size());
    if (std::string problem = text_run_problem(markup.substr(parser.at, next - parser.at)); !problem.empty()) {
      return problem;
    }
    parser.at = next;
    if (next < markup.size()) {
      if (std::string problem = parser.tag(); !problem.empty()) {
        return problem;
      }
    }
  }
  return parser.open.empty() ? "" : "<" + parser.open.back() + "> is not closed";
}

}  // namespace diptych::reports::testing
