#include "reports/text/text.h"

#include <algorithm>

namespace diptych::reports {
namespace {

/// The entity of a character with a meaning in HTML, for Markdown too; other characters unchanged.
std::string entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    default:
      return {c};
  }
}

}  // namespace

std::string aligned(const TextRows& rows, int width) {
  std::string out;
  for (const std::string& line : aligned_lines(rows)) {
    out += shorten(line, std::max(width, 60)) + "\n";
  }
  return out;
}

std::string shell_word(const std::string& name) {
  const std::string safe = printable(name);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:=,-").find(c) != std::string_view::npos;
  };
  if (!safe.empty() && std::all_of(safe.begin(), safe.end(), is_plain)) {
    return safe;
  }
  std::string out = "'";
  for (const char c : safe) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += entity(c);
    }
  }
  return out;
}

std::string escape_markdown(std::string_view text) {
  const std::string line = printable(text);
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    switch (c) {
      // Code hosts turn these into mentions and references to issues.
      case '@':
        out += "&#64;";
        break;
      case '#':
        out += "&#35;";
        break;
      // Entities rather than backslashes: in a table, a code host splits cells before it reads backslashes.
      case '|':
        out += "&#124;";
        break;
      case '`':
        out += "&#96;";
        break;
      case ':':
        out += line.compare(i, 3, "://") == 0 ? "&#58;" : ":";
        break;
      case '\\':
      case '*':
      case '_':
      case '[':
      case ']':
      case '~':
      case '$':
        out.push_back('\\');
        out.push_back(c);
        break;
      default:
        out += entity(c);
    }
  }
  return out;
}

std::string markdown_code_block(std::string_view text) {
  const std::string line = printable(text);
  std::size_t longest = 0;
  std::size_t current = 0;
  for (const char c : line) {
    current = c == '`' ? current + 1 : 0;
    longest = std::max(longest, current);
  }
  const std::string fence(std::max<std::size_t>(3, longest + 1), '`');
  return fence + '\n' + line + '\n' + fence + '\n';
}

}  // namespace diptych::reports
