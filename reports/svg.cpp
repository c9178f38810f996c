#include "reports/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/text.h"

namespace diptych::reports {

std::string coordinate(double value) {
  // A picture survives a number that isn't one; its reader sees the table beside it.
  const double finite = std::isfinite(value) ? std::clamp(value, -1e6, 1e6) : 0;
  const double rounded = std::round(finite * 10) / 10;
  return rounded == std::floor(rounded) ? fmt::format("{:.0f}", rounded + 0.0) : fmt::format("{:.1f}", rounded);
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
  for (double k = std::ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; ++k) {
    ticks.push_back(k * step);
  }
  return ticks;
}

}  // namespace diptych::reports
