#include "reports/text/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "reports/text/text.h"

namespace diptych::reports {

std::string coordinate(double value) {
  // A picture survives a number that isn't finite; its reader has the table beside it.
  const double finite = std::isfinite(value) ? std::clamp(value, -1e6, 1e6) : 0;
  const double rounded = std::round(finite * 10) / 10;
  return rounded == std::floor(rounded) ? fmt::format("{:.0f}", rounded + 0.0) : fmt::format("{:.1f}", rounded);
}

namespace {

// Advances of ' ' to '~' in thousandths of an em, of DejaVu Sans Bold, system-ui of many Linux systems. Other fonts are
// narrower.
constexpr std::array<std::uint16_t, 95> kAdvances = {
    348, 456,  521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415,  380, 365, 696, 696,  696,
    696, 696,  696, 696, 696, 696,  696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830,  683,
    683, 821,  837, 372, 372, 775,  637, 995, 837, 850, 733, 850, 770, 720,  682, 812, 774, 1103, 771,
    724, 725,  457, 365, 457, 838,  500, 500, 675, 716, 593, 716, 678, 435,  716, 712, 343, 343,  665,
    343, 1042, 712, 687, 716, 716,  493, 595, 478, 712, 652, 924, 645, 652,  582, 712, 365, 712,  838};

}  // namespace

double text_width(std::string_view text, double font_size) {
  double em = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t start = position;
    const char32_t c = next_code_point(text, position);
    em += c >= ' ' && c <= '~' ? 1e-3 * kAdvances[c - ' '] : display_width(text.substr(start, position - start));
  }
  return em * font_size;
}

SvgCanvas::SvgCanvas(double width, double height, std::string_view description) {
  out_ = fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", coordinate(width), coordinate(height),
                     escape_xml(description));
}

void SvgCanvas::rect(double x, double y, double width, double height, std::string_view css) {
  out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" rx="2" class="{}"/>)", coordinate(x), coordinate(y),
                      coordinate(std::max(width, 0.0)), coordinate(height), css);
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, std::string_view css) {
  out_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>)", coordinate(x1), coordinate(y1),
                      coordinate(x2), coordinate(y2), css);
}

void SvgCanvas::path(std::string_view data, std::string_view css) {
  out_ += fmt::format(R"(<path d="{}" class="{}"/>)", data, css);
}

void SvgCanvas::text(double x, double y, std::string_view content, std::string_view css, std::string_view anchor) {
  out_ += fmt::format(R"(<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>)", coordinate(x), coordinate(y), css,
                      anchor, escape_xml(content));
}

void SvgCanvas::whisker(double x1, double x2, double y) {
  path(fmt::format("M{0} {2}V{3}M{1} {2}V{3}M{0} {4}H{1}", coordinate(x1), coordinate(x2), coordinate(y - 4),
                   coordinate(y + 4), coordinate(y)),
       "whisker");
}

std::string SvgCanvas::finish() && { return std::move(out_) + "</svg>"; }

Scale::Scale(double from, double to, double first, double last, Kind kind)
    : from_(from), to_(to), first_(first), last_(last), kind_(kind) {}

double Scale::operator()(double value) const {
  if (to_ == from_) {
    return 0.5 * (first_ + last_);
  }
  const double fraction =
      kind_ == Kind::linear ? (value - from_) / (to_ - from_) : std::log(value / from_) / std::log(to_ / from_);
  return first_ + fraction * (last_ - first_);
}

std::vector<double> round_ticks(double from, double to, int count) {
  std::vector<double> ticks;
  if (!(to > from) || !std::isfinite(to - from)) {
    return ticks;
  }
  const double raw = (to - from) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double lead = raw / power;
  const double step = power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
  const double first = std::ceil(from / step - 1e-9);
  // Where the steps drown in rounding, adding one to a multiple changes nothing: ticks are counted, and differ.
  for (int i = 0; i <= count + 1; ++i) {
    const double tick = (first + i) * step;
    if (!std::isfinite(tick) || !(tick <= to + 1e-9 * step) || (!ticks.empty() && tick <= ticks.back())) {
      break;
    }
    ticks.push_back(tick);
  }
  return ticks;
}

std::vector<double> decade_ticks(double from, double to) {
  std::vector<double> ticks;
  constexpr int kLeast = -307;  // smaller ones have no digits left
  constexpr int kMost = 308;
  if (!(from > 0) || !std::isfinite(to)) {
    return ticks;
  }
  const int first = std::max(kLeast, static_cast<int>(std::floor(std::log10(from))));
  for (int exponent = first; exponent <= kMost && std::pow(10, exponent) <= to; ++exponent) {
    ticks.push_back(std::pow(10, exponent));
  }
  return ticks;
}

}  // namespace diptych::reports
