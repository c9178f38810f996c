#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diptych::reports {

/// Coordinates for SVG: at most one decimal, no trailing zero.
std::string coordinate(double value);

/// An upper bound of the width of a line of text at a font size, whichever sans-serif font the viewer has: by the
/// advances of the widest font that systems come with.
double text_width(std::string_view text, double font_size);

/// A small SVG picture. Colours are CSS classes, so that the page decides between light and dark.
class SvgCanvas {
 public:
  SvgCanvas(double width, double height, std::string_view description);

  void rect(double x, double y, double width, double height, std::string_view css);
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void path(std::string_view data, std::string_view css);
  /// `anchor`: start, middle or end. The text is escaped here.
  void text(double x, double y, std::string_view content, std::string_view css, std::string_view anchor = "start");
  /// A horizontal interval with caps.
  void whisker(double x1, double x2, double y);

  std::string finish() &&;

 private:
  std::string out_;
};

/// Maps values to coordinates, linear or logarithmic.
class Scale {
 public:
  enum class Kind { linear, logarithmic };
  Scale(double from, double to, double first, double last, Kind kind = Kind::linear);
  double operator()(double value) const;

 private:
  double from_, to_, first_, last_;
  Kind kind_;
};

/// About `count` round values between `from` and `to` (steps of 1, 2 or 5 times a power of ten), never more than two
/// above that, whatever the ends are.
std::vector<double> round_ticks(double from, double to, int count);
/// The powers of ten up to `to`, the first at or below `from`; none if an end isn't positive and finite.
std::vector<double> decade_ticks(double from, double to);

}  // namespace diptych::reports
