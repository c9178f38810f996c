#include "reports/html/profile_pictures.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "reports/html/fields.h"
#include "reports/html/op_table.h"
#include "reports/html/table.h"
#include "reports/run/profile_pictures.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/flames.h"
#include "reports/views/memory_picture.h"
#include "reports/views/memory_views.h"
#include "reports/views/profile_record.h"
#include "reports/views/profile_views.h"

namespace diptych::reports {
namespace {

std::string page_seconds(double seconds) { return format_seconds(std::optional<double>(seconds), Glyphs::typographic); }

std::string paragraph(const std::string& sentence) {
  return fmt::format("<p class=\"sub\">{}</p>\n", escape_xml(sentence));
}

/// A picture that scrolls by itself where the screen is narrow.
std::string scrolling(const std::string& picture) { return fmt::format("<div class=\"scroll\">{}</div>\n", picture); }

/// " 12 smaller frames are left out."; empty: none are.
std::string left_out_text(std::size_t count, const char* what) {
  return count == 0 ? ""
                    : fmt::format(" {} smaller {}{} {} left out.", format_count(static_cast<double>(count)), what,
                                  count == 1 ? "" : "s", count == 1 ? "is" : "are");
}

class FlameSection {
 public:
  FlameSection(const FlameFrames& frames, std::optional<double> steps) : frames_(frames), steps_(steps) {}

  std::string finish() const {
    const std::size_t last = frames_.arms.size() - 1;
    return "<h3>Flame graphs</h3>\n" + introduction() + difference(0, true) + difference(last, false) + each_arm() +
           table();
  }

 private:
  std::string arm(std::size_t index) const { return arm_in_picture(frames_.arms[index]); }

  std::string introduction() const {
    const std::string traces =
        steps_ ? fmt::format("Traces of {} calls of each arm", format_count(*steps_)) : "Traces of each arm";
    return paragraph(
        fmt::format("{}, without intervals. A frame is as wide as its time; modules are around their ops, "
                    "in program order. A kernel of several ops is divided among them.{}",
                    traces, left_out_text(frames_.left_out, "frame")));
  }

  /// As wide as the arm's time, coloured by what changes.
  std::string difference(std::size_t as_wide_as, bool open) const {
    const std::array<std::size_t, 1> shown = {as_wide_as};
    return folded(fmt::format("The difference, as wide as {}", arm(as_wide_as)),
                  fmt::format("coloured by what {} changes", arm(frames_.arms.size() - 1)),
                  legend() + scrolling(flame_picture(frames_, shown, FlameColours::change, PictureIn::page)), open);
  }

  std::string each_arm() const {
    constexpr std::size_t kMostArms = 4;
    std::vector<std::size_t> shown(std::min(kMostArms, frames_.arms.size()));
    std::iota(shown.begin(), shown.end(), std::size_t{0});
    return folded("Each arm by itself", "all on one scale; equal ops have equal colours, which mean nothing else",
                  scrolling(flame_picture(frames_, shown, FlameColours::op, PictureIn::page)));
  }

  std::string legend() const {
    const std::string last = arm(frames_.arms.size() - 1);
    struct Colour {
      const char* css;
      std::string meaning;
    };
    const std::array<Colour, 7> colours = {
        {{"s1", last + " saves under 10 % of the frame's time"},
         {"s2", "10 to 30 %"},
         {"s3", "over 30 %"},
         {"l1", last + " loses under 10 %"},
         {"l2", "10 to 30 %"},
         {"l3", "over 30 %"},
         {"same", fmt::format("changes by less than {}, 1 % of a call of {}",
                              page_seconds(least_coloured_change(frames_)), arm(0))}}};
    std::string out = R"(<ul class="legend pf">)";
    for (const Colour& each : colours) {
      out += legend_entry(each.css, each.meaning);
    }
    return out + "</ul>\n";
  }

  std::string table() const {
    constexpr std::size_t kMostRows = 40;
    const FlameFrames shown = largest_frames(frames_, kMostRows);
    const std::vector<std::string> paths = frame_paths(shown.frames);
    const std::vector<OpPlace> places = frame_places(shown);
    std::vector<std::string> header = {"module / op"};
    for (std::size_t i = 0; i < shown.arms.size(); ++i) {
      header.push_back(arm(i));
    }
    header.emplace_back("saves");
    HtmlTable table(std::move(header));
    for (std::size_t i = 0; i < shown.frames.size(); ++i) {
      constexpr int kPathColumns = 120;
      const std::vector<double>& seconds = shown.frames[i].seconds;
      std::vector<HtmlField> fields = {{shorten_middle(printable(paths[i]), kPathColumns)}};
      for (const double each : seconds) {
        fields.push_back(plain_time_field(each));
      }
      fields.push_back(plain_time_field(seconds.front() - seconds.back()));
      table.row(std::move(fields), places[i]);
    }
    return folded("The largest frames as a table",
                  fmt::format("{} of {}", shown.frames.size(),
                              format_count(static_cast<double>(frames_.frames.size() + frames_.left_out))),
                  table.finish());
  }

  const FlameFrames& frames_;
  std::optional<double> steps_;
};

std::string live_bytes(const std::vector<MemoryRecord>& arms) {
  std::string body = scrolling(live_bytes_picture(arms));
  std::size_t points = 0;
  for (const MemoryRecord& arm : arms) {
    body += paragraph(memory_sentence(arm, Glyphs::typographic) + ".");
    points += arm.points_left_out;
  }
  if (points > 0) {
    body +=
        paragraph(fmt::format("The lines leave out {} points between the highest and the lowest of each stretch of "
                              "time; the peaks are exact.",
                              format_count(static_cast<double>(points))));
  }
  for (const MemoryRecord& arm : arms) {
    constexpr std::size_t kMostHolders = 8;
    body += html_rows(holder_rows(arm, kMostHolders), {4}, holder_places(arm, kMostHolders));
  }
  return folded("Live bytes over a call", "the dots are the peaks; under the lines, who holds the bytes there", body,
                true);
}

std::string arena_table(const MemoryRecord& arm) {
  constexpr std::size_t kMostRows = 20;
  std::vector<MemoryBlock> blocks = arm.arena;
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const MemoryBlock& a, const MemoryBlock& b) { return a.bytes > b.bytes; });
  const std::size_t shown = std::min(kMostRows, blocks.size());
  const std::string all = format_count(static_cast<double>(blocks.size() + arm.blocks_left_out));
  HtmlTable table({fmt::format("{} of {} blocks", shown, all), "bytes", "at address", "from", "to", "module"}, {5});
  for (std::size_t i = 0; i < shown; ++i) {
    constexpr int kNameColumns = 60;
    const MemoryBlock& block = blocks[i];
    const std::string shape = block.shape.empty() ? "" : " " + printable(block.shape);
    table.row({{shorten(name_of_op(block.op) + shape, kNameColumns)},
               {bytes_text(block.bytes)},
               {bytes_text(block.offset.value_or(0))},
               {page_seconds(block.from)},
               {page_seconds(block.to)},
               {shorten_middle(printable(block.scope), kNameColumns)}},
              place_of(block));
  }
  return table.empty() ? "" : table.finish();
}

std::string arena(const std::vector<MemoryRecord>& arms, const MemoryRecord& arm) {
  const std::string picture = arena_picture(arms, arm);
  if (picture.empty()) {
    return "";
  }
  return folded(fmt::format("The arena of {}", arm_in_picture(arm.name)),
                fmt::format("{}, address by time: each temporary is a box. No plan needs less than {} (dashed).{}",
                            bytes_text(arena_end(arm)), bytes_text(arm.lower_bound_bytes),
                            left_out_text(arm.blocks_left_out, "block")),
                scrolling(picture) + arena_table(arm));
}

std::string memory_section(const std::vector<MemoryRecord>& arms) {
  std::string out = "<h3>Memory</h3>\n" +
                    paragraph(
                        "What a call holds beyond what was held when it began: parameters, inputs and the "
                        "optimizer's state are no part of it. Of the shortest of a few calls that were watched; its "
                        "seconds are those of the traced calls.") +
                    live_bytes(arms);
  for (const MemoryRecord& arm : arms) {
    out += arena(arms, arm);
  }
  return out;
}

}  // namespace

std::string html_profile(const Cell& cell) {
  const ProfileEntry profile = cell.profile();
  std::string out;
  if (const auto aligned = read_profile(profile)) {
    out += "<h3>Ops</h3>\n" + html_op_table(*aligned);
  }
  if (const auto frames = read_flames(profile)) {
    out += FlameSection(*frames, profile.steps()).finish();
  }
  if (const std::vector<MemoryRecord> memory = read_memory(profile); !memory.empty()) {
    out += memory_section(memory);
  }
  for (const std::string& note : notes_of(profile)) {
    out += out.empty() ? "" : paragraph(note);
  }
  return out;
}

}  // namespace diptych::reports
