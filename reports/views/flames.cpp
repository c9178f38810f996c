#include "reports/views/flames.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// The colour of a frame in a panel where changes have one.
std::string_view change_colour(const FlameFrame& frame, std::size_t arm, double least) {
  const double base = frame.seconds.front();
  const double other = frame.seconds[arm == 0 ? frame.seconds.size() - 1 : arm];
  const double saved = base - other;
  if (saved == 0 || !(std::abs(saved) >= least)) {
    return "same";
  }
  const double share = std::abs(saved) / std::max(base, other);
  constexpr double kSome = 0.1;
  constexpr double kMuch = 0.3;
  if (saved > 0) {
    return share < kSome ? "s1" : share < kMuch ? "s2" : "s3";
  }
  return share < kSome ? "l1" : share < kMuch ? "l2" : "l3";
}

class Flames {
 public:
  Flames(const FlameFrames& frames, std::span<const std::size_t> arms, FlameColours colours, PictureIn place)
      : frames_(frames),
        paths_(frame_paths(frames.frames)),
        places_(frame_places(frames)),
        arms_(arms),
        colours_(colours),
        place_(place),
        picture_(place) {
    for (const FlameFrame& frame : frames.frames) {
      deepest_ = std::max(deepest_, frame.depth);
    }
    for (const std::size_t arm : arms) {
      longest_ = std::max(longest_, frames.frames.empty() ? 0 : frames.frames.front().seconds[arm]);
    }
  }

  std::string draw() && {
    for (const std::size_t arm : arms_) {
      panel(arm);
    }
    if (place_ == PictureIn::file) {
      picture_.text(kMargin, y_ + 16,
                    fmt::format("Width: time of a call, all arms on one scale. Blue: faster than {}; orange: slower; "
                                "the deeper, the more of its own time. Grey: changes by less than {}.",
                                arm_name(0), picture_.seconds(least_coloured_change(frames_))),
                    "muted");
      y_ += 28;
    }
    std::vector<std::string> names;
    for (const std::size_t arm : arms_) {
      names.push_back(arm_name(arm));
    }
    const bool is_difference = colours_ == FlameColours::change && place_ == PictureIn::page;
    return std::move(picture_).finish(
        fmt::format("Flame graph{}: {}", is_difference ? " of the difference" : "", fmt::join(names, ", ")), y_);
  }

 private:
  static constexpr double kRow = 18;
  static constexpr double kMargin = 10;
  static constexpr double kHeader = 30;
  static constexpr double kNarrowest = 0.2;  ///< of a frame that is drawn

  std::string arm_name(std::size_t arm) const {
    return arm < frames_.arms.size() ? arm_in_picture(frames_.arms[arm]) : "";
  }

  /// What is inside a frame lies between its sides.
  struct Open {
    double next, right;  ///< where the next one inside it begins, and where it ends
  };

  void panel(std::size_t arm) {
    picture_.text(kMargin, y_ + 20,
                  fmt::format("{}, {} a call", arm_name(arm), picture_.seconds(frames_.total_seconds[arm])), "head");
    y_ += kHeader;
    std::vector<Open> open = {{kMargin, picture_.width() - kMargin}};
    for (std::size_t i = 0; i < frames_.frames.size(); ++i) {
      const FlameFrame& frame = frames_.frames[i];
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(std::min(open.size(), frame.depth + 1)), open.end());
      Open& around = open.back();
      const double width = std::min(width_of(frame, arm), around.right - around.next);
      const double x = around.next;
      around.next += width;
      draw(i, arm, x, width);
      open.push_back({x, x + width});
    }
    y_ += static_cast<double>(deepest_ + 1) * kRow;
  }

  double width_of(const FlameFrame& frame, std::size_t arm) const {
    return longest_ > 0 ? frame.seconds[arm] / longest_ * (picture_.width() - 2 * kMargin) : 0;
  }

  void draw(std::size_t index, std::size_t arm, double x, double width) {
    const FlameFrame& frame = frames_.frames[index];
    if (!(width >= kNarrowest)) {
      return;
    }
    picture_.box({.x = x,
                  .y = y_ + static_cast<double>(frame.depth) * kRow,
                  .width = width,
                  .height = kRow - 1,
                  .css = fmt::format("f {}", colour(frame, arm)),
                  .figures = figures(frame, paths_[index]),
                  .name = frame.name,
                  .place = places_[index]});
  }

  /// "net / 0 / matmul: eager 30.2 us, graph 24.1 us"
  std::string figures(const FlameFrame& frame, const std::string& path) const {
    constexpr int kPathColumns = 160;
    std::string text = shorten_middle(printable(path), kPathColumns) + ":";
    for (std::size_t arm = 0; arm < frame.seconds.size(); ++arm) {
      text += fmt::format("{} {} {}", arm == 0 ? "" : ",", arm_name(arm), picture_.seconds(frame.seconds[arm]));
    }
    return text;
  }

  std::string colour(const FlameFrame& frame, std::size_t arm) const {
    if (colours_ == FlameColours::change) {
      return std::string(change_colour(frame, arm, least_coloured_change(frames_)));
    }
    return frame.kind == FlameFrame::Kind::op ? colour_of_op(frame.name) : "same";
  }

  const FlameFrames& frames_;
  std::vector<std::string> paths_;
  std::vector<OpPlace> places_;
  std::span<const std::size_t> arms_;
  FlameColours colours_;
  PictureIn place_;
  ProfilePicture picture_;
  double longest_ = 0;  ///< of the panels' calls
  std::size_t deepest_ = 0;
  double y_ = 0;
};

}  // namespace

std::string flame_picture(const FlameFrames& frames, std::span<const std::size_t> arms, FlameColours colours,
                          PictureIn place) {
  return Flames(frames, arms, colours, place).draw();
}

std::string flame_svg(const FlameFrames& frames) {
  std::vector<std::size_t> arms(frames.arms.size());
  std::iota(arms.begin(), arms.end(), std::size_t{0});
  return flame_picture(frames, arms, FlameColours::change, PictureIn::file);
}

std::vector<OpPlace> frame_places(const FlameFrames& frames) {
  const std::vector<std::string> scopes = frame_scopes(frames.frames);
  std::vector<OpPlace> places(frames.frames.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const FlameFrame& frame = frames.frames[i];
    if (frame.kind == FlameFrame::Kind::module) {
      places[i].scope = scopes[i];
    } else if (frame.kind != FlameFrame::Kind::call) {
      places[i] = {frame.name, scopes[i]};
    }
  }
  return places;
}

double least_coloured_change(const FlameFrames& frames) {
  constexpr double kShare = 0.01;
  return frames.total_seconds.empty() ? 0 : kShare * frames.total_seconds.front();
}

std::string folded_stacks(const AlignedProfile& stacks, std::size_t arm) {
  std::string text;
  for (const AlignedRow& row : stacks.rows) {
    const auto nanoseconds = std::llround(row.arms[arm].seconds.value_or(0) * 1e9);
    if (nanoseconds > 0) {
      text += fmt::format("{} {}\n", printable(row.name), nanoseconds);
    }
  }
  return text;
}

nlohmann::json speedscope_json(const AlignedProfile& stacks, const std::string& name) {
  std::map<std::string, std::size_t> known;  // frames by name
  nlohmann::json frames = nlohmann::json::array();
  nlohmann::json profiles = nlohmann::json::array();
  for (std::size_t arm = 0; arm < stacks.arms.size(); ++arm) {
    nlohmann::json samples = nlohmann::json::array();
    nlohmann::json weights = nlohmann::json::array();
    double end = 0;
    for (const AlignedRow& row : stacks.rows) {
      const double seconds = row.arms[arm].seconds.value_or(0);
      if (!(seconds > 0)) {
        continue;
      }
      nlohmann::json stack = nlohmann::json::array();
      for (const std::string_view part : stack_of(row)) {
        const auto [entry, is_new] = known.try_emplace(printable(std::string(part)), known.size());
        if (is_new) {
          frames.push_back({{"name", entry->first}});
        }
        stack.push_back(entry->second);
      }
      samples.push_back(std::move(stack));
      weights.push_back(seconds);
      end += seconds;
    }
    profiles.push_back({{"type", "sampled"},
                        {"name", printable(stacks.arms[arm])},
                        {"unit", "seconds"},
                        {"startValue", 0},
                        {"endValue", end},
                        {"samples", std::move(samples)},
                        {"weights", std::move(weights)}});
  }
  return {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
          {"exporter", "diptych"},
          {"name", printable(name)},
          {"activeProfileIndex", 0},
          {"shared", {{"frames", std::move(frames)}}},
          {"profiles", std::move(profiles)}};
}

}  // namespace diptych::reports
