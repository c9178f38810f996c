#include "reports/views/profile_picture.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/assets.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"

namespace diptych::reports {

double ProfilePicture::width() const {
  constexpr double kFile = 1200;
  constexpr double kPage = 960;
  return place_ == PictureIn::file ? kFile : kPage;
}

std::string ProfilePicture::seconds(double value) const {
  return format_seconds(std::optional<double>(value), place_ == PictureIn::file ? Glyphs::ascii : Glyphs::typographic);
}

void ProfilePicture::text(double x, double y, std::string_view content, std::string_view css, std::string_view anchor) {
  out_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", css, coordinate(x),
                      coordinate(y), anchor, escape_xml(content));
}

void ProfilePicture::line(double x1, double y1, double x2, double y2, std::string_view css) {
  out_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", css, coordinate(x1),
                      coordinate(y1), coordinate(x2), coordinate(y2));
}

void ProfilePicture::box(const Box& box) {
  constexpr double kLetters = 13;  // what a line of text is high
  constexpr int kFewest = 6;       // columns, or nothing would be left of a longer name
  out_ += fmt::format("<g{}><title>{}</title><rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                      place_ == PictureIn::page ? op_attributes(box.place) : "", escape_xml(box.figures), box.css,
                      coordinate(box.x), coordinate(box.y), coordinate(box.width), coordinate(box.height));
  const int columns = static_cast<int>((box.width - 6) / kPictureAdvance);
  const std::string name = printable(box.name);
  if (box.height >= kLetters && columns >= std::min(kFewest, display_width(name))) {
    out_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", coordinate(box.x + 3),
                        coordinate(box.y + box.height / 2 + 4), escape_xml(shorten(name, columns)));
  }
  out_ += "</g>\n";
}

std::string ProfilePicture::finish(std::string_view title, double height) && {
  const std::string size = fmt::format("{} {}", coordinate(width()), coordinate(height));
  if (place_ == PictureIn::page) {
    return fmt::format("<svg class=\"pf\" viewBox=\"0 0 {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", size,
                       escape_xml(title), out_);
  }
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" class="pf" viewBox="0 0 {0}" width="{1}" height="{2}">
<title>{3}</title>
<style>{4}</style>
<rect class="paper" x="0" y="0" width="{1}" height="{2}"/>
{5}</svg>
)",
                     size, coordinate(width()), coordinate(height), escape_xml(title), assets::profile_css(), out_);
}

std::string arm_in_picture(const std::string& name) {
  constexpr int kColumns = 40;
  return shorten(printable(name), kColumns);
}

std::string colour_of_op(const std::string& op) {
  constexpr std::size_t kColours = 5;
  std::size_t sum = 2166136261U;  // FNV-1a, so that pictures are the same everywhere
  for (const char c : op) {
    sum = ((sum ^ static_cast<unsigned char>(c)) * 16777619U) & 0xffffffffU;
  }
  return fmt::format("k{}", sum % kColours);
}

}  // namespace diptych::reports
