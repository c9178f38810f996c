#include "reports/html/page.h"

#include <fmt/format.h>

#include "reports/assets.h"
#include "reports/html/sha256.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

// Two panels on one hinge.
constexpr const char* mark =
    R"(<svg viewBox="0 0 30 22" aria-hidden="true"><rect x="1" y="2" width="13" height="18" rx="2" class="c0"/>)"
    R"(<rect x="16" y="2" width="13" height="18" rx="2" class="c1"/></svg>)";

std::string page_style() { return fmt::format("{}{}", assets::report_css(), assets::profile_css()); }

std::string policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}' 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action "
      "'none'",
      sha256_base64(page_style()), sha256_base64(assets::diagram_css()), sha256_base64(assets::report_js()));
}

}  // namespace

// Inside a script element only "<" can end the element; JSON reads the escape as the same character.
std::string embedded_json(const nlohmann::json& document) {
  std::string out;
  for (const char c : document.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string render_page(const Page& page, const nlohmann::json& document) {
  const std::string name = escape_xml(shorten(printable(page.name), 120));
  std::string out = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", policy());
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<meta name=\"generator\" content=\"Diptych\">\n";
  out += fmt::format("<title>{}, Diptych</title>\n<style>{}</style>\n</head><body><main>\n", name, page_style());
  out += fmt::format("<header><div class=\"mark\">{}<b>Diptych</b><span>{}</span><span>{}</span></div>\n", mark, name,
                     escape_xml(shorten(printable(page.beside), 120)));
  out += fmt::format("<h1>{}</h1>\n", escape_xml(page.headline));
  for (const std::string& sentence : page.sentences) {
    out += fmt::format("<p class=\"lede\">{}</p>", escape_xml(sentence));
  }
  out += "</header>\n" + page.body;
  out += fmt::format("<footer>{}</footer>\n", escape_xml(page.footer));
  out += fmt::format("</main>\n<script type=\"application/json\" id=\"{}\">{}</script>\n", page.data_id,
                     embedded_json(document));
  return out + fmt::format("<script>{}</script>\n</body></html>\n", assets::report_js());
}

}  // namespace diptych::reports
