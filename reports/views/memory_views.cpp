#include "reports/views/memory_views.h"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

constexpr int kHolderColumns = 40;

std::string bytes_text(std::int64_t bytes) {
  return bytes < 0 ? "-" + format_bytes(static_cast<double>(-bytes)) : format_bytes(static_cast<double>(bytes));
}

std::string time_text(double seconds) { return format_seconds(std::optional<double>(seconds)); }

std::string name_of_op(const std::string& op) { return op.empty() ? "(outside ops)" : printable(op); }

/// "blocks.0", "blocks.0 ... blocks.11 (12)"
std::string scopes_text(const std::vector<std::string>& scopes) {
  if (scopes.empty()) {
    return "";
  }
  const std::string first = shorten_middle(printable(scopes.front()), kHolderColumns / 2);
  return scopes.size() == 1 ? first
                            : fmt::format("{} ... {} ({})", first,
                                          shorten_middle(printable(scopes.back()), kHolderColumns / 2), scopes.size());
}

TextTable holders_table(const MemoryOfArm& arm, const MemoryPeak& peak, std::size_t most) {
  TextTable table({fmt::format("{} holds at its peak", shorten(printable(arm.name), kHolderColumns)), "blocks", "bytes",
                   "share", "module"});
  const std::size_t shown = most == 0 ? peak.holders.size() : std::min(most, peak.holders.size());
  std::int64_t rest = 0;
  std::size_t blocks = 0;
  const auto share = [&](std::int64_t bytes) {
    return peak.at.bytes > 0 ? format_percent(static_cast<double>(bytes) / static_cast<double>(peak.at.bytes)) : "-";
  };
  for (std::size_t i = 0; i < peak.holders.size(); ++i) {
    const MemoryHolder& holder = peak.holders[i];
    if (i >= shown) {
      rest += holder.bytes;
      blocks += holder.blocks;
      continue;
    }
    const std::string shape = holder.shape.empty() ? "" : " " + printable(holder.shape);
    table.add({shorten(name_of_op(holder.op) + shape, kHolderColumns), fmt::to_string(holder.blocks),
               bytes_text(holder.bytes), share(holder.bytes), scopes_text(holder.scopes)});
  }
  if (shown < peak.holders.size()) {
    table.add({fmt::format("and {} more", peak.holders.size() - shown), fmt::to_string(blocks), bytes_text(rest),
               share(rest), ""});
  }
  return table;
}

class Picture {
 public:
  explicit Picture(std::span<const MemoryOfArm> arms) : arms_(arms) {
    for (const MemoryOfArm& arm : arms) {
      longest_ = std::max(longest_, arm.seconds);
      for (const MemoryPoint& point : timeline(arm)) {
        most_ = std::max(most_, point.bytes);
        least_ = std::min(least_, point.bytes);
      }
    }
  }

  std::string draw() {
    lines();
    for (const MemoryOfArm& arm : arms_) {
      arena(arm);
    }
    return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">
<title>Memory over the time of a call</title>
<style>{2}</style>
<rect class="paper" x="0" y="0" width="{0}" height="{1}"/>
{3}</svg>
)",
                       coordinate(kWidth), coordinate(y_ + 10), kStyle, out_);
  }

 private:
  static constexpr double kWidth = 1200;
  static constexpr double kLeft = 90;
  static constexpr double kRight = 20;
  static constexpr double kChart = 260;
  static constexpr double kHeader = 34;
  static constexpr double kAxis = 34;
  static constexpr double kAdvance = 6.7;  ///< of a character, monospaced at 11 px
  static constexpr std::size_t kColours = 4;
  static constexpr std::string_view kStyle =
      "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}.head{font-weight:600;font-size:13px}"
      ".muted{fill:#59626e}.paper{fill:#fff}.grid{stroke:#e3e6ea}.axis{stroke:#59626e}"
      ".line{fill:none;stroke-width:1.6}.a0{stroke:#0072b2}.a1{stroke:#c04f00;stroke-dasharray:6 2}"
      ".a2{stroke:#00795a;stroke-dasharray:2 2}.a3{stroke:#a1417a;stroke-dasharray:8 3 2 3}"
      ".b{stroke:#fff;stroke-width:.5}.k0{fill:#9fc6ea}.k1{fill:#f5bd8c}.k2{fill:#a9d8c6}.k3{fill:#e3bcd3}"
      ".k4{fill:#d9d3a5}.bound{stroke:#1b1f24;stroke-dasharray:4 3}";

  double x_of(double seconds) const {
    return kLeft + (longest_ > 0 ? std::min(seconds, longest_) / longest_ : 0) * (kWidth - kLeft - kRight);
  }

  void text(double x, double y, std::string_view content, std::string_view css, std::string_view anchor = "start") {
    out_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", css, coordinate(x),
                        coordinate(y), anchor, escape_xml(content));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view css) {
    out_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", css, coordinate(x1),
                        coordinate(y1), coordinate(x2), coordinate(y2));
  }

  /// Grid and labels from `least` to `most` bytes, from y_ downwards; moves y_ behind the axis of time.
  Scale axes(std::int64_t least, std::int64_t most, double height) {
    const Scale scale(static_cast<double>(least), std::max(1.0, static_cast<double>(most)), y_ + height, y_);
    for (const double tick :
         round_ticks(static_cast<double>(least) / unit(most), static_cast<double>(most) / unit(most), 5)) {
      const double y = scale(tick * unit(most));
      line(kLeft, y, kWidth - kRight, y, "grid");
      text(kLeft - 6, y + 4, bytes_text(static_cast<std::int64_t>(tick * unit(most))), "muted", "end");
    }
    y_ += height;
    line(kLeft, y_, kWidth - kRight, y_, "axis");
    for (const double tick : round_ticks(0, longest_, 8)) {
      line(x_of(tick), y_, x_of(tick), y_ + 4, "axis");
      text(x_of(tick), y_ + 17, time_text(tick), "muted", "middle");
    }
    y_ += kAxis;
    return scale;
  }
  /// Ticks are round in the unit in which bytes are printed.
  static double unit(std::int64_t bytes) {
    constexpr double kKiB = 1024;
    const auto size = static_cast<double>(bytes);
    return size >= kKiB * kKiB ? kKiB * kKiB : size >= kKiB ? kKiB : 1;
  }

  void lines() {
    text(10, y_ + 20, "Bytes that a call holds beyond what was held before it, by the seconds of the call", "head");
    y_ += kHeader;
    double x = kLeft;
    for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
      const MemoryPeak top = peak(arms_[arm]);
      const std::string label = fmt::format("{}: at most {} at {}", shorten(printable(arms_[arm].name), kHolderColumns),
                                            bytes_text(top.at.bytes), time_text(top.at.seconds));
      line(x, y_ - 2, x + 26, y_ - 2, fmt::format("line a{}", arm % kColours));
      text(x + 32, y_ + 2, label, "");
      x += 32 + kAdvance * static_cast<double>(display_width(label)) + 30;
    }
    y_ += 16;
    const Scale scale = axes(least_, most_, kChart);
    for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
      const std::vector<MemoryPoint> points = timeline(arms_[arm]);
      std::string path;
      for (const MemoryPoint& point : points) {
        path += fmt::format("{}{} {}V{}", path.empty() ? "M" : "L", coordinate(x_of(point.seconds)),
                            coordinate(scale(static_cast<double>(before(points, point)))),
                            coordinate(scale(static_cast<double>(point.bytes))));
      }
      path += fmt::format("H{}", coordinate(x_of(arms_[arm].seconds)));
      const MemoryPoint top = peak(arms_[arm]).at;
      out_ += fmt::format(
          "<g><title>{}</title><path class=\"line a{}\" d=\"{}\"/><circle cx=\"{}\" cy=\"{}\" r=\"4\" class=\"line "
          "a{}\"/></g>\n",
          escape_xml(fmt::format("{}, peak {}", printable(arms_[arm].name), bytes_text(top.bytes))), arm % kColours,
          path, coordinate(x_of(top.seconds)), coordinate(scale(static_cast<double>(top.bytes))), arm % kColours);
    }
  }
  static std::int64_t before(const std::vector<MemoryPoint>& points, const MemoryPoint& point) {
    const auto index = &point - points.data();
    return index == 0 ? 0 : points[static_cast<std::size_t>(index) - 1].bytes;
  }

  void arena(const MemoryOfArm& arm) {
    std::int64_t end = arm.arena_bytes.value_or(0);
    for (const MemoryBlock& block : arm.blocks) {
      end = std::max(end, block.offset ? *block.offset + block.bytes : 0);
    }
    if (end == 0) {
      return;
    }
    y_ += 10;
    text(10, y_ + 20,
         fmt::format("The arena of {}: {} by address; no plan needs less than {} (dashed)",
                     shorten(printable(arm.name), kHolderColumns), bytes_text(end), bytes_text(arm.lower_bound_bytes)),
         "head");
    y_ += kHeader;
    const Scale scale = axes(0, end, kChart);
    for (const MemoryBlock& block : arm.blocks) {
      if (block.offset) {
        box(block, scale);
      }
    }
    const double y = scale(static_cast<double>(arm.lower_bound_bytes));
    line(kLeft, y, kWidth - kRight, y, "bound");
  }

  void box(const MemoryBlock& block, const Scale& scale) {
    const double left = x_of(block.from);
    const double width = std::max(0.3, x_of(block.to) - left);
    const double top = scale(static_cast<double>(*block.offset + block.bytes));
    const double height = scale(static_cast<double>(*block.offset)) - top;
    constexpr double kLeastHeight = 0.2;
    if (height < kLeastHeight) {
      return;  // nothing would be seen
    }
    // The same op has the same colour; which one says nothing.
    const std::size_t colour = std::hash<std::string>{}(block.op) % 5;
    const std::string where = block.scope.empty() ? "" : ", " + printable(block.scope);
    out_ += fmt::format("<g><title>{}</title><rect class=\"b k{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                        escape_xml(fmt::format("{} {}{}: {} at {}, from {} to {}", name_of_op(block.op),
                                               printable(block.shape), where, bytes_text(block.bytes),
                                               bytes_text(*block.offset), time_text(block.from), time_text(block.to))),
                        colour, coordinate(left), coordinate(top), coordinate(width), coordinate(height));
    constexpr double kTextHeight = 13;
    const int columns = static_cast<int>((width - 6) / kAdvance);
    const std::string name = name_of_op(block.op);
    if (height >= kTextHeight && columns >= std::min(6, display_width(name))) {
      out_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", coordinate(left + 3), coordinate(top + height / 2 + 4),
                          escape_xml(shorten(name, columns)));
    }
    out_ += "</g>\n";
  }

  std::span<const MemoryOfArm> arms_;
  double longest_ = 0;
  std::int64_t most_ = 0, least_ = 0;
  double y_ = 0;
  std::string out_;
};

}  // namespace

std::string memory_summary(std::span<const MemoryOfArm> arms) {
  std::string text;
  for (const MemoryOfArm& arm : arms) {
    const MemoryPeak top = peak(arm);
    text += fmt::format("memory of {}: at most {}, after {}", shorten(printable(arm.name), kHolderColumns),
                        bytes_text(top.at.bytes), time_text(top.at.seconds));
    if (!top.holders.empty()) {
      const MemoryHolder& first = top.holders.front();
      const std::string shape = first.shape.empty() ? "" : " " + printable(first.shape);
      text += fmt::format("; {} by {}{}", bytes_text(first.bytes), shorten(name_of_op(first.op), kHolderColumns),
                          shorten(shape, kHolderColumns));
    }
    if (arm.arena_bytes) {
      text += fmt::format("; its arena has {} (no plan needs less than {})", bytes_text(*arm.arena_bytes),
                          bytes_text(arm.lower_bound_bytes));
    }
    text += '\n';
  }
  return text;
}

std::string memory_text(std::span<const MemoryOfArm> arms, const TableOptions& options, std::size_t most) {
  std::string text = memory_summary(arms);
  for (const MemoryOfArm& arm : arms) {
    const MemoryPeak top = peak(arm);
    if (!top.holders.empty()) {
      text += "\n" + holders_table(arm, top, most).render(options.colour, options.width);
    }
  }
  return text;
}

std::string memory_svg(std::span<const MemoryOfArm> arms) { return Picture(arms).draw(); }

nlohmann::json memory_json(std::span<const MemoryOfArm> arms) {
  nlohmann::json all = nlohmann::json::array();
  for (const MemoryOfArm& arm : arms) {
    const MemoryPeak top = peak(arm);
    nlohmann::json points = nlohmann::json::array();
    for (const MemoryPoint& point : timeline(arm)) {
      points.push_back({point.seconds, point.bytes});
    }
    nlohmann::json blocks = nlohmann::json::array();
    for (const MemoryBlock& block : arm.blocks) {
      blocks.push_back({{"bytes", block.bytes},
                        {"from_seconds", block.from},
                        {"to_seconds", block.to},
                        {"op", block.op},
                        {"source_op", block.source_op},
                        {"scope", block.scope},
                        {"shape", block.shape},
                        {"offset", block.offset ? nlohmann::json(*block.offset) : nlohmann::json()},
                        {"older", block.is_older}});
    }
    all.push_back({{"name", arm.name},
                   {"seconds", arm.seconds},
                   {"peak_bytes", top.at.bytes},
                   {"peak_seconds", top.at.seconds},
                   {"arena_bytes", arm.arena_bytes ? nlohmann::json(*arm.arena_bytes) : nlohmann::json()},
                   {"lower_bound_bytes", arm.lower_bound_bytes},
                   {"packed_bytes", arm.packed_bytes},
                   {"timeline", std::move(points)},
                   {"blocks", std::move(blocks)}});
  }
  return {{"arms", std::move(all)}};
}

}  // namespace diptych::reports
