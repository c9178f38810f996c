// The roofline of a cell: the machine's roofs, and the arms under them. [Williams, Waterman, Patterson 2009]

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/analysis/roofline.h"
#include "reports/html/charts.h"
#include "reports/html/label_placer.h"
#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr double kLeft = 104;
constexpr double kRight = kChartWidth - 60;
constexpr double kHeight = 280;
constexpr double kTop = 14;
constexpr double kBottom = kHeight - 36;
constexpr double kTickSize = 12;  // report.css: .muted, .tick
constexpr double kLabelSize = 13;
constexpr std::size_t kMostArms = 60;  // all stand above one another: of more, none can be told from the next

std::string power_label(double value, const char* unit) {
  const int exponent = static_cast<int>(std::lround(std::log10(value)));
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  if (exponent >= 0 && exponent < 18) {
    return fmt::format("{:.0f} {}{}", std::pow(10, exponent % 3), kPrefixes[exponent / 3], unit);
  }
  return fmt::format("{:g} {}", value, unit);
}

/// The n for which a label at every nth power of ten has `room`.
int decades_per_label(double decades, double length, double room) {
  constexpr int kMost = 1'000'000;
  const double n = std::ceil(room * std::max(1.0, decades) / length);
  return n < kMost ? std::max(1, static_cast<int>(n)) : kMost;
}

struct Point {
  std::string name, colour;
  double flops_per_second;
};

class Roofline {
 public:
  Roofline(const Cell& cell, double peak, double intensity, double flops)
      : limits_(cell.limits()),
        peak_(peak),
        intensity_(intensity),
        svg_(kChartWidth, kHeight,
             "Operations per second against operations per byte: the machine's roofs and the arms"),
        labels_({0, 0, kChartWidth, kHeight}) {
    const Parts<Arm> arms = cell.arms();
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const auto seconds = arms[i].seconds();
      if (!seconds || !(seconds->value > 0)) {
        continue;
      }
      if (arms_.size() == kMostArms) {
        ++left_out_;
        continue;
      }
      const std::string name = arms[i].name();
      arms_.push_back({name, arm_colour(name, i), flops / seconds->value});
    }
    double slowest = peak_;
    double knee = intensity_;
    for (const Bandwidth level : limits_.bandwidth()) {
      if (const auto rate = above_zero(level.bytes_per_second())) {
        knee = std::max(knee, peak_ / *rate);
        slowest = std::min(slowest, *rate * intensity_);
      }
    }
    for (const Point& arm : arms_) {
      slowest = std::min(slowest, arm.flops_per_second);
    }
    x_from_ = std::pow(10, std::floor(std::log10(std::min(intensity_, 0.1))));
    x_to_ = std::pow(10, std::ceil(std::log10(knee * 2)));
    y_from_ = std::pow(10, std::floor(std::log10(std::max(slowest / 2, peak_ * 1e-9))));
    x_ = Scale(x_from_, x_to_, kLeft, kRight, Scale::Kind::logarithmic);
    y_ = Scale(y_from_, peak_ * 2, kBottom, kTop, Scale::Kind::logarithmic);
  }

  std::string draw() && {
    axes();
    svg_.line(kLeft, y_(peak_), kRight, y_(peak_), "axis");
    write({kRight + 4, y_(peak_) + 4, "peak", "muted", kTickSize});
    for (const Point& arm : arms_) {  // before the labels, which keep clear of them
      labels_.block({x_(intensity_) - 6, y_(arm.flops_per_second) - 6, 12, 12});
    }
    roofs();
    points();
    return std::move(svg_).finish();
  }

 private:
  struct Label {
    double x, y;
    std::string text;
    const char* css;
    double size;
    const char* anchor = "start";
  };
  static TextBox box_of(const Label& label) {
    const double width = text_width(label.text, label.size);
    const std::string_view anchor = label.anchor;
    const double x = label.x - (anchor == "end" ? width : anchor == "middle" ? width / 2 : 0);
    return text_box(x, label.y, width, label.size);
  }
  void write(const Label& label) {
    labels_.block(box_of(label));
    svg_.text(label.x, label.y, label.text, label.css, label.anchor);
  }

  void axes() {
    const double y_decades = std::log10(2 * peak_ / y_from_);
    const int y_step = decades_per_label(y_decades, kBottom - kTop, 18);
    int index = 0;
    for (const double tick : decade_ticks(y_from_, 2 * peak_)) {
      if (index++ % y_step == 0) {
        svg_.line(kLeft, y_(tick), kRight, y_(tick), "grid");
        write({kLeft - 8, y_(tick) + 4, power_label(tick, "FLOP/s"), "tick", kTickSize, "end"});
      }
    }
    const int x_step = decades_per_label(std::log10(x_to_ / x_from_), kRight - kLeft, 56);
    index = 0;
    for (const double tick : decade_ticks(x_from_, x_to_ * 1.01)) {
      if (index++ % x_step == 0) {
        write({x_(tick), kBottom + 18, fmt::format("{:g}", tick), "tick", kTickSize, "middle"});
      }
    }
    write({kRight, kBottom + 33, "FLOP per byte", "muted", kTickSize, "end"});
    if (left_out_ > 0) {
      write({kLeft, kBottom + 33, fmt::format("and {} more arms, in the table", left_out_), "muted", kTickSize});
    }
  }

  void roofs() {
    for (const Bandwidth level : limits_.bandwidth()) {
      const auto rate = above_zero(level.bytes_per_second());
      if (!rate) {
        continue;
      }
      const double start = std::max(x_from_, y_from_ / *rate);  // where the roof enters the picture
      const double end = peak_ / *rate;
      if (start < end) {
        const double y = y_(start * *rate);
        svg_.line(x_(start), y, x_(end), y_(peak_), "guide");
        place({x_(start) + 4, y - 4, shorten(printable(level.level()), 10), "muted", kTickSize}, {x_(start), y});
      }
    }
  }

  /// All points are above one another, and so are their labels, in the same order.
  void points() {
    std::stable_sort(arms_.begin(), arms_.end(),
                     [](const Point& a, const Point& b) { return a.flops_per_second > b.flops_per_second; });
    std::vector<double> baselines;
    double moved = 0;
    for (const Point& arm : arms_) {
      constexpr double kLine = 16;
      const double at = y_(arm.flops_per_second) + 4;
      baselines.push_back(baselines.empty() ? at : std::max(at, baselines.back() + kLine));
      moved += (baselines.back() - at) / static_cast<double>(arms_.size());
    }
    const double x = x_(intensity_);
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      const double y = y_(arms_[i].flops_per_second);
      svg_.rect(x - 4, y - 4, 8, 8, arms_[i].colour);
      const std::string name = shorten(printable(arms_[i].name), 16);
      const bool fits = x + 16 + text_width(name, kLabelSize) < kChartWidth;
      place({fits ? x + 16 : x - 16, baselines[i] - moved, name, "num", kLabelSize, fits ? "start" : "end"}, {x, y});
    }
  }

  /// Places a label near its point, where it is free; if that is some way off, a line joins the two. A label without
  /// room is left to the table.
  void place(Label label, Place named) {
    const auto moved = labels_.place(box_of(label));
    if (!moved) {
      return;
    }
    label.x += moved->x;
    label.y += moved->y;
    const TextBox box = box_of(label);
    const double middle = box.y + box.height / 2;
    if (std::abs(middle - named.y) > label.size / 2) {
      const bool behind = box.x >= named.x;
      svg_.line(named.x, named.y, behind ? box.x - 2 : box.x + box.width + 2, middle, "leader");
    }
    svg_.text(label.x, label.y, label.text, label.css, label.anchor);
  }

  Limits limits_;
  double peak_, intensity_;
  double x_from_ = 0, x_to_ = 0, y_from_ = 0;
  Scale x_{0, 1, 0, 1}, y_{0, 1, 0, 1};
  std::vector<Point> arms_;
  std::size_t left_out_ = 0;
  SvgCanvas svg_;
  LabelPlacer labels_;
};

}  // namespace

std::string roofline_chart(const Cell& cell) {
  const Limits limits = cell.limits();
  const auto peak = above_zero(limits.fma_flops_per_second());
  const auto intensity = above_zero(limits.arithmetic_intensity());
  const auto flops = above_zero(limits.flops());
  return peak && intensity && flops ? Roofline(cell, *peak, *intensity, *flops).draw() : "";
}

}  // namespace diptych::reports
