#include "reports/views/flames.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr double kWidth = 1200;
constexpr double kRow = 18;
constexpr double kMargin = 10;
constexpr double kHeader = 30;
constexpr double kNarrowest = 0.2;        ///< of a frame that is drawn
constexpr double kAdvance = 6.7;          ///< of a character, monospaced at 11 px
constexpr double kLeastChange = 0.01;     ///< of the base's call, to have a colour
constexpr std::size_t kMostFrames = 100;  ///< of a stack: names come from outside

struct Frame {
  std::string name;
  std::vector<double> seconds;  ///< by arm, with what is inside
  std::vector<std::size_t> inside;
};

/// From the outside.
std::vector<std::string_view> stack_of(const AlignedRow& row) {
  std::vector<std::string_view> stack;
  std::string_view rest = row.name;
  while (stack.size() < kMostFrames) {
    const std::size_t end = row.kind == AlignedRow::Kind::ops ? rest.find(';') : std::string_view::npos;
    stack.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(end + 1);
  }
  return stack;
}

class Flames {
 public:
  explicit Flames(const AlignedProfile& stacks) : profile_(stacks), frames_(1) {
    frames_[0] = {"all", std::vector<double>(stacks.arms.size(), 0), {}};
    for (const AlignedRow& row : stacks.rows) {
      add(row);
    }
    for (const double seconds : frames_[0].seconds) {
      longest_ = std::max(longest_, seconds);
    }
  }

  std::string draw() {
    for (std::size_t arm = 0; arm < profile_.arms.size(); ++arm) {
      panel(arm);
    }
    const double base = profile_.total_seconds.empty() ? 0 : profile_.total_seconds.front();
    out_ += fmt::format(
        "<text class=\"muted\" x=\"{}\" y=\"{}\">Width: time of a call, all arms on one scale. Blue: faster than {}; "
        "orange: slower; the deeper, the more of its own time. Grey: changes by less than {}.</text>\n",
        coordinate(kMargin), coordinate(y_ + 16), base_name(), time(kLeastChange * base));
    return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}">
<title>Flame graph: {2}</title>
<style>{3}</style>
<rect class="paper" x="0" y="0" width="{0}" height="{1}"/>
{4}</svg>
)",
                       coordinate(kWidth), coordinate(y_ + 28),
                       escape_xml(fmt::to_string(fmt::join(profile_.arms, ", "))), kStyle, out_);
  }

 private:
  static constexpr std::string_view kStyle =
      "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}.head{font-weight:600;font-size:13px}"
      ".muted{fill:#59626e}.paper{fill:#fff}.f{stroke:#fff;stroke-width:.6}.same{fill:#dfe3e8}.s1{fill:#d3e4f5}"
      ".s2{fill:#9fc6ea}.s3{fill:#64a3db}.l1{fill:#fbe3cf}.l2{fill:#f5bd8c}.l3{fill:#ec9350}";

  static std::string time(double seconds) { return format_seconds(std::optional<double>(seconds)); }
  std::string base_name() const { return profile_.arms.empty() ? "" : escape_xml(profile_.arms.front()); }

  void add(const AlignedRow& row) {
    std::size_t at = 0;
    add_seconds(at, row);
    const std::vector<std::string_view> stack = stack_of(row);
    for (const std::string_view name : stack) {
      at = inside(at, std::string(name));
      add_seconds(at, row);
    }
    deepest_ = std::max(deepest_, stack.size());
  }

  /// Negative times, of what several threads do at once, have no width.
  void add_seconds(std::size_t frame, const AlignedRow& row) {
    for (std::size_t arm = 0; arm < row.arms.size(); ++arm) {
      frames_[frame].seconds[arm] += std::max(0.0, row.arms[arm].seconds.value_or(0));
    }
  }

  std::size_t inside(std::size_t frame, const std::string& name) {
    for (const std::size_t each : frames_[frame].inside) {
      if (frames_[each].name == name) {
        return each;
      }
    }
    frames_.push_back({name, std::vector<double>(profile_.arms.size(), 0), {}});
    frames_[frame].inside.push_back(frames_.size() - 1);
    return frames_.size() - 1;
  }

  void panel(std::size_t arm) {
    out_ += fmt::format("<text class=\"head\" x=\"{}\" y=\"{}\">{}, {} a call</text>\n", coordinate(kMargin),
                        coordinate(y_ + 20), escape_xml(profile_.arms[arm]), time(profile_.total_seconds[arm]));
    y_ += kHeader;
    draw(0, arm, kMargin, 0, "");
    y_ += static_cast<double>(deepest_ + 1) * kRow;
  }

  double width_of(const Frame& frame, std::size_t arm) const {
    return longest_ > 0 ? frame.seconds[arm] / longest_ * (kWidth - 2 * kMargin) : 0;
  }

  void draw(std::size_t index, std::size_t arm, double x, std::size_t depth, const std::string& around) {
    const Frame& frame = frames_[index];
    const double width = width_of(frame, arm);
    if (!(width >= kNarrowest)) {
      return;
    }
    const double y = y_ + static_cast<double>(depth) * kRow;
    const std::string path = around.empty() ? frame.name : around + " / " + frame.name;
    out_ += fmt::format("<g><title>{}</title><rect class=\"f {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                        escape_xml(figures(frame, path)), colour(frame, arm), coordinate(x), coordinate(y),
                        coordinate(width), coordinate(kRow - 1));
    const int columns = static_cast<int>((width - 6) / kAdvance);
    constexpr int kFewest = 6;  // or nothing would be left of a longer name
    if (const std::string name = printable(frame.name); columns >= std::min(kFewest, display_width(name))) {
      out_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", coordinate(x + 3), coordinate(y + 12.5),
                          escape_xml(shorten(name, columns)));
    }
    out_ += "</g>\n";
    for (const std::size_t each : frame.inside) {
      draw(each, arm, x, depth + 1, depth == 0 ? "" : path);
      x += width_of(frames_[each], arm);
    }
  }

  /// "net / 0 / matmul: eager 30.2 us, graph 24.1 us"
  std::string figures(const Frame& frame, const std::string& path) const {
    std::string text = printable(path) + ":";
    for (std::size_t arm = 0; arm < profile_.arms.size(); ++arm) {
      text += fmt::format("{} {} {}", arm == 0 ? "" : ",", printable(profile_.arms[arm]), time(frame.seconds[arm]));
    }
    return text;
  }

  std::string_view colour(const Frame& frame, std::size_t arm) const {
    const double base = frame.seconds.front();
    const double other = frame.seconds[arm == 0 ? frame.seconds.size() - 1 : arm];
    const double saved = base - other;
    if (!(std::abs(saved) >= kLeastChange * profile_.total_seconds.front())) {
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

  const AlignedProfile& profile_;
  std::vector<Frame> frames_;  ///< the first is the root
  double longest_ = 0;         ///< of the arms' calls
  std::size_t deepest_ = 0;
  double y_ = 0;
  std::string out_;
};

}  // namespace

std::string flame_svg(const AlignedProfile& stacks) { return Flames(stacks).draw(); }

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
