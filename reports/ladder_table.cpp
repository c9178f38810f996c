#include "reports/ladder_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/json_access.h"
#include "reports/summary.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

constexpr int kBarColumns = 24;

using Row = std::vector<std::string>;

std::string padded(const std::string& value, int width) {
  return value + std::string(static_cast<std::size_t>(std::max(0, width - display_width(value))), ' ');
}

/// "#" from where the rung ends to where it starts, on the scale of the first arm.
std::string bar(double from, double to, double most, char fill) {
  const auto column = [&](double seconds) {
    return static_cast<int>(std::lround(std::clamp(seconds / most, 0.0, 1.0) * kBarColumns));
  };
  const int first = std::min(column(from), column(to));
  const int last = std::max(column(from), column(to));
  std::string line(static_cast<std::size_t>(first), ' ');
  line += std::string(static_cast<std::size_t>(last - first), fill);
  return fmt::format("|{}|", padded(line, kBarColumns));
}

std::string saved_text(const Json& value) {
  const auto saved = estimate(value);
  return saved ? format_seconds(*saved) : "-";
}

std::string time_text(const Json& value) {
  const auto seconds = estimate(value);
  return format_seconds(seconds ? std::optional<double>(seconds->value) : std::nullopt);
}

std::string share_text(const Json& object, const char* key) {
  const auto share = number(object, key);
  return share ? format_percent(*share) : "-";
}

/// The most that a level reaches: a rung may cost more than the first arm took.
double highest_level(const Json& ladder, double base) {
  double level = base;
  double most = base;
  for (const Json& rung : list(ladder, "rungs")) {
    const auto saved = estimate(member(rung, "saved_seconds"));
    level -= saved ? saved->value : 0;
    most = std::max(most, level);
  }
  return most;
}

std::vector<Row> rows_of(const Json& ladder) {
  const auto base = estimate(member(ladder, "base_seconds"));
  const double start = base ? base->value : 0;
  const double most = std::max(highest_level(ladder, start), 1e-12);
  const bool shuffled = std::any_of(list(ladder, "rungs").begin(), list(ladder, "rungs").end(),
                                    [](const Json& rung) { return !place_text(rung, Glyphs::ascii).empty(); });
  std::vector<Row> rows;
  const auto add = [&](Row row, const std::string& place) {
    if (shuffled) {
      row.insert(row.begin() + 5, place);
    }
    rows.push_back(std::move(row));
  };
  add({"rung", "", "time", "saves", "share", "result", "compile", "break-even", "planned peak"}, "by place");
  add({printable(text(ladder, "from")), bar(0, start, most, '='), time_text(member(ladder, "base_seconds")), "", "", "",
       "", "", ""},
      "");
  rows.back()[0] = list(ladder, "order").empty() ? "" : printable(list(ladder, "order").front().get<std::string>());
  double level = start;
  for (const Json& rung : list(ladder, "rungs")) {
    const auto saved = estimate(member(rung, "saved_seconds"));
    const double next = level - (saved ? saved->value : 0);
    const auto peak = number(rung, "planned_peak_bytes");
    add({shorten(printable(text(rung, "name")), 20), bar(level, next, most, next <= level ? '#' : '+'),
         time_text(member(rung, "seconds")), saved_text(member(rung, "saved_seconds")), share_text(rung, "share"),
         ulp_text(rung), time_text(member(rung, "compile_seconds")), break_even_text(rung),
         peak ? format_bytes(*peak) : "-"},
        place_text(rung, Glyphs::ascii));
    level = next;
  }
  add({"residual", "", "", saved_text(member(ladder, "residual_seconds")), share_text(ladder, "residual_share"), "", "",
       "", ""},
      "");
  add({"whole gap", "", "", saved_text(member(ladder, "gap_seconds")), number(ladder, "residual_share") ? "100 %" : "-",
       "", "", "", ""},
      "");
  return rows;
}

std::string aligned(const std::vector<Row>& rows, int width) {
  std::vector<int> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += padded(row[i], widths[i]) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += shorten(line, std::max(width, 60)) + "\n";
  }
  return out;
}

}  // namespace

std::string ladder_order(const Json& ladder) {
  std::string order;
  for (const Json& arm : list(ladder, "order")) {
    std::string name = arm.is_string() ? arm.get<std::string>() : "";
    for (const Json& rung : list(ladder, "rungs")) {
      if (text(rung, "to") == name && text(rung, "name") != name) {
        name = fmt::format("{} (= {})", text(rung, "name"), name);
        break;
      }
    }
    order += (order.empty() ? "" : " -> ") + name;
  }
  return order;
}

std::string ulp_text(const Json& rung) {
  const auto ulp = number(rung, "ulp");
  if (!ulp) {
    return "-";
  }
  return *ulp == 0 ? "bitwise" : fmt::format("{} ULP", format_count(*ulp));
}

std::string place_text(const Json& rung, Glyphs glyphs) {
  const Json& place = member(rung, "by_place");
  if (number(place, "places").value_or(0) < 2) {
    return "";
  }
  const auto low = number(place, "low_share");
  const auto high = number(place, "high_share");
  if (low && high) {
    return fmt::format("{} to {}", format_percent(*low), format_percent(*high));
  }
  return fmt::format("{} to {}", format_seconds(number(place, "low_seconds"), glyphs),
                     format_seconds(number(place, "high_seconds"), glyphs));
}

std::string render_ladder(const nlohmann::json& run, const TableOptions& options) {
  std::string out = shorten(printable(setup_line(run)), options.width) + "\n";
  if (const std::string warning = caution(run); !warning.empty()) {
    out += warning + "\n";
  }
  for (const Json& cell : list(run, "cells")) {
    out += fmt::format("\n{}\n", shorten(printable(text(cell, "workload")), options.width));
    const Json& ladder = member(cell, "ladder");
    if (ladder.is_null()) {
      const std::string reason = text(member(cell, "validity"), "reason");
      out += fmt::format("  no ladder: {}\n", printable(reason.empty() ? "nothing was measured" : reason));
      continue;
    }
    out += aligned(rows_of(ladder), options.width);
    out += fmt::format("\nOrder: {}; each adds one cause, all are timed in the same rounds.\n",
                       printable(ladder_order(ladder)));
    for (const Json& rung : list(ladder, "rungs")) {
      out += fmt::format("  {:<10} {}\n", printable(text(rung, "name")), printable(text(rung, "cause")));
    }
  }
  return out;
}

}  // namespace diptych::reports
