#include "reports/views/memory_picture.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "reports/text/svg.h"
#include "reports/text/text.h"
#include "reports/views/memory_views.h"

namespace diptych::reports {
namespace {

class MemoryPicture {
 public:
  MemoryPicture(std::span<const MemoryRecord> arms, PictureIn place) : arms_(arms), place_(place), picture_(place) {
    for (const MemoryRecord& arm : arms) {
      longest_ = std::max(longest_, arm.seconds);
      for (const MemoryPoint& point : arm.timeline) {
        most_ = std::max(most_, point.bytes);
        least_ = std::min(least_, point.bytes);
      }
    }
  }

  void lines() {
    head("Bytes that a call holds beyond what was held before it, by the seconds of the call");
    legend();
    const Scale scale = axes(least_, most_);
    for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
      curve(arms_[arm], fmt::format("line a{}", arm % kColours), scale);
    }
  }

  void arena(const MemoryRecord& arm) {
    const std::int64_t end = arena_end(arm);
    if (end == 0) {
      return;
    }
    y_ += place_ == PictureIn::file ? 10 : 0;
    head(fmt::format("The arena of {}: {} by address; no plan needs less than {} (dashed)", arm_in_picture(arm.name),
                     bytes_text(end), bytes_text(arm.lower_bound_bytes)));
    const Scale scale = axes(0, end);
    for (const MemoryBlock& block : arm.arena) {
      box(block, scale);
    }
    const double y = scale(static_cast<double>(arm.lower_bound_bytes));
    picture_.line(kLeft, y, right(), y, "bound");
  }

  std::string finish(std::string_view title) && { return std::move(picture_).finish(title, y_ + 10); }

 private:
  static constexpr double kLeft = 90;
  static constexpr double kRight = 20;
  static constexpr double kChart = 260;
  static constexpr double kHeader = 34;
  static constexpr double kAxis = 34;
  static constexpr std::size_t kColours = 4;

  /// Ticks are round in the unit in which bytes are printed.
  static double unit_of(std::int64_t bytes) {
    constexpr double kKiB = 1024;
    const auto size = static_cast<double>(bytes);
    return size >= kKiB * kKiB ? kKiB * kKiB : size >= kKiB ? kKiB : 1;
  }

  double right() const { return picture_.width() - kRight; }
  double x_of(double seconds) const {
    return kLeft + (longest_ > 0 ? std::clamp(seconds / longest_, 0.0, 1.0) : 0) * (right() - kLeft);
  }

  /// A page has it above the picture.
  void head(const std::string& text) {
    if (place_ == PictureIn::file) {
      picture_.text(10, y_ + 20, text, "head");
      y_ += kHeader;
    } else {
      y_ += 12;
    }
  }

  void legend() {
    double x = kLeft;
    for (std::size_t arm = 0; arm < arms_.size(); ++arm) {
      const std::string label =
          fmt::format("{}: at most {} at {}", arm_in_picture(arms_[arm].name), bytes_text(arms_[arm].peak.bytes),
                      picture_.seconds(arms_[arm].peak.seconds));
      const double width = 32 + kPictureAdvance * static_cast<double>(display_width(label)) + 30;
      if (x > kLeft && x + width > right()) {
        x = kLeft;
        y_ += 18;
      }
      picture_.line(x, y_ - 2, x + 26, y_ - 2, fmt::format("line a{}", arm % kColours));
      picture_.text(x + 32, y_ + 2, label, "");
      x += width;
    }
    y_ += 16;
  }

  /// Grid and labels from `least` to `most` bytes, from y_ downwards; moves y_ behind the axis of time.
  Scale axes(std::int64_t least, std::int64_t most) {
    const Scale scale(static_cast<double>(least), std::max(1.0, static_cast<double>(most)), y_ + kChart, y_);
    const double unit = unit_of(most);
    for (const double tick : round_ticks(static_cast<double>(least) / unit, static_cast<double>(most) / unit, 5)) {
      const double y = scale(tick * unit);
      picture_.line(kLeft, y, right(), y, "grid");
      picture_.text(kLeft - 6, y + 4, bytes_text(static_cast<std::int64_t>(tick * unit)), "muted", "end");
    }
    y_ += kChart;
    picture_.line(kLeft, y_, right(), y_, "axis");
    for (const double tick : round_ticks(0, longest_, 8)) {
      picture_.line(x_of(tick), y_, x_of(tick), y_ + 4, "axis");
      picture_.text(x_of(tick), y_ + 17, picture_.seconds(tick), "muted", "middle");
    }
    y_ += kAxis;
    return scale;
  }

  void curve(const MemoryRecord& arm, const std::string& css, const Scale& scale) {
    std::string path;
    std::int64_t before = 0;
    for (const MemoryPoint& point : arm.timeline) {
      path += fmt::format("{}{} {}V{}", path.empty() ? "M" : "L", coordinate(x_of(point.seconds)),
                          coordinate(scale(static_cast<double>(before))),
                          coordinate(scale(static_cast<double>(point.bytes))));
      before = point.bytes;
    }
    if (path.empty()) {
      return;
    }
    path += fmt::format("H{}", coordinate(x_of(arm.seconds)));
    picture_.add(fmt::format(
        "<g><title>{}</title><path class=\"{}\" d=\"{}\"/><circle cx=\"{}\" cy=\"{}\" r=\"4\" "
        "class=\"{}\"/></g>\n",
        escape_xml(fmt::format("{}, peak {}", arm_in_picture(arm.name), bytes_text(arm.peak.bytes))), css, path,
        coordinate(x_of(arm.peak.seconds)), coordinate(scale(static_cast<double>(arm.peak.bytes))), css));
  }

  void box(const MemoryBlock& block, const Scale& scale) {
    const double left = x_of(block.from);
    const double top = scale(static_cast<double>(*block.offset + block.bytes));
    const double height = scale(static_cast<double>(*block.offset)) - top;
    constexpr double kLeastHeight = 0.2;
    constexpr double kLeastWidth = 0.3;
    if (height < kLeastHeight) {
      return;  // nothing would be seen
    }
    picture_.box({.x = left,
                  .y = top,
                  .width = std::max(kLeastWidth, x_of(block.to) - left),
                  .height = height,
                  .css = "b " + colour_of_op(block.op),
                  .figures = fmt::format("{} at {}, from {} to {}", block_text(block), bytes_text(*block.offset),
                                         picture_.seconds(block.from), picture_.seconds(block.to)),
                  .name = name_of_op(block.op),
                  .place = place_of(block)});
  }

  /// "exp f32[256], net.1: 1.00 KiB"
  static std::string block_text(const MemoryBlock& block) {
    constexpr int kMostColumns = 160;
    const std::string shape = block.shape.empty() ? "" : " " + printable(block.shape);
    const std::string where = block.scope.empty() ? "" : ", " + printable(block.scope);
    const std::string text = name_of_op(block.op) + shape + where;
    return fmt::format("{}: {}", shorten_middle(text, kMostColumns), bytes_text(block.bytes));
  }

  std::span<const MemoryRecord> arms_;
  PictureIn place_;
  ProfilePicture picture_;
  double longest_ = 0;
  std::int64_t most_ = 0, least_ = 0;
  double y_ = 0;
};

}  // namespace

std::int64_t arena_end(const MemoryRecord& arm) {
  std::int64_t end = arm.arena_bytes.value_or(0);
  for (const MemoryBlock& block : arm.arena) {
    end = std::max(end, *block.offset + block.bytes);
  }
  return end;
}

std::string memory_svg(std::span<const MemoryRecord> arms) {
  MemoryPicture picture(arms, PictureIn::file);
  picture.lines();
  for (const MemoryRecord& arm : arms) {
    picture.arena(arm);
  }
  return std::move(picture).finish("Memory over the time of a call");
}

std::string live_bytes_picture(std::span<const MemoryRecord> arms) {
  MemoryPicture picture(arms, PictureIn::page);
  picture.lines();
  return std::move(picture).finish("Live bytes of each arm over the time of a call");
}

std::string arena_picture(std::span<const MemoryRecord> arms, const MemoryRecord& arm) {
  if (arena_end(arm) == 0) {
    return "";
  }
  MemoryPicture picture(arms, PictureIn::page);
  picture.arena(arm);
  return std::move(picture).finish(fmt::format("The arena of {}, address by time", arm_in_picture(arm.name)));
}

}  // namespace diptych::reports
