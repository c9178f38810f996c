#include "reports/views/memory_views.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/profile_picture.h"

namespace diptych::reports {
namespace {

constexpr int kHolderColumns = 40;

/// "blocks.0", "blocks.0 ... blocks.11 (12)"
std::string scopes_text(const MemoryHolder& holder) {
  if (holder.scopes.empty()) {
    return "";
  }
  const std::string first = shorten_middle(printable(holder.scopes.front()), kHolderColumns / 2);
  if (holder.modules <= 1) {
    return first;
  }
  const std::string last = shorten_middle(printable(holder.scopes.back()), kHolderColumns / 2);
  return fmt::format("{} ... {} ({})", first, last, holder.modules);
}

std::string holder_text(const MemoryHolder& holder) {
  const std::string shape = holder.shape.empty() ? "" : " " + printable(holder.shape);
  return shorten(name_of_op(holder.op) + shape, kHolderColumns);
}

nlohmann::json offset_json(const std::optional<std::int64_t>& offset) {
  return offset ? nlohmann::json(*offset) : nlohmann::json();
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
  return bytes < 0 ? "-" + format_bytes(static_cast<double>(-bytes)) : format_bytes(static_cast<double>(bytes));
}

std::string name_of_op(const std::string& op) { return op.empty() ? "(outside ops)" : printable(op); }

std::string memory_sentence(const MemoryRecord& arm, Glyphs glyphs) {
  std::string text = fmt::format("{}: at most {}, after {}", arm_in_picture(arm.name), bytes_text(arm.peak.bytes),
                                 format_seconds(std::optional<double>(arm.peak.seconds), glyphs));
  if (!arm.holders.empty()) {
    text += fmt::format("; {} by {}", bytes_text(arm.holders.front().bytes), holder_text(arm.holders.front()));
  }
  if (arm.arena_bytes) {
    text += fmt::format("; its arena has {} (no plan needs less than {})", bytes_text(*arm.arena_bytes),
                        bytes_text(arm.lower_bound_bytes));
  }
  return text;
}

std::string memory_summary(std::span<const MemoryRecord> arms) {
  std::string text;
  for (const MemoryRecord& arm : arms) {
    text += fmt::format("memory of {}\n", memory_sentence(arm));
  }
  return text;
}

TextRows holder_rows(const MemoryRecord& arm, std::size_t most) {
  TextRows rows;
  if (arm.holders.empty()) {
    return rows;
  }
  rows.push_back({fmt::format("{} holds at its peak", arm_in_picture(arm.name)), "blocks", "bytes", "share", "module"});
  const auto share = [&](std::int64_t bytes) {
    const auto all = static_cast<double>(arm.peak.bytes);
    return all > 0 ? format_percent(static_cast<double>(bytes) / all) : "-";
  };
  const std::size_t shown = most == 0 ? arm.holders.size() : std::min(most, arm.holders.size());
  std::int64_t rest = arm.peak.bytes;
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryHolder& holder = arm.holders[i];
    rest -= holder.bytes;
    rows.push_back({holder_text(holder), fmt::to_string(holder.blocks), bytes_text(holder.bytes), share(holder.bytes),
                    scopes_text(holder)});
  }
  if (const std::size_t more = arm.holders.size() - shown + arm.holders_left_out; more > 0) {
    rows.push_back({fmt::format("and {} more", more), "", bytes_text(rest), share(rest), ""});
  }
  return rows;
}

std::vector<OpPlace> holder_places(const MemoryRecord& arm, std::size_t most) {
  std::vector<OpPlace> places;
  for (const MemoryHolder& holder : arm.holders) {
    if (most != 0 && places.size() == most) {
      break;
    }
    OpPlace& place = places.emplace_back();
    place.op = name_of_op(holder.op);
    if (holder.modules <= 1) {
      place.scope = holder.scopes.empty() ? "" : holder.scopes.front();
    }
  }
  return places;
}

OpPlace place_of(const MemoryBlock& block) { return {name_of_op(block.op), block.scope}; }

std::string memory_text(std::span<const MemoryRecord> arms, const TableOptions& options) {
  std::string text = memory_summary(arms);
  for (const MemoryRecord& arm : arms) {
    const TextRows rows = holder_rows(arm);
    if (rows.empty()) {
      continue;
    }
    TextTable table(rows.front());
    for (std::size_t i = 1; i < rows.size(); ++i) {
      table.add(rows[i]);
    }
    text += "\n" + table.render(options.colour, options.width);
  }
  return text;
}

nlohmann::json memory_figures_json(const MemoryRecord& arm) {
  nlohmann::json points = nlohmann::json::array();
  for (const MemoryPoint& point : arm.timeline) {
    points.push_back({point.seconds, point.bytes});
  }
  return {{"name", arm.name},
          {"seconds", arm.seconds},
          {"peak_bytes", arm.peak.bytes},
          {"peak_seconds", arm.peak.seconds},
          {"arena_bytes", offset_json(arm.arena_bytes)},
          {"lower_bound_bytes", arm.lower_bound_bytes},
          {"packed_bytes", arm.packed_bytes},
          {"timeline", std::move(points)}};
}

nlohmann::json memory_json(std::span<const MemoryOfArm> arms) {
  nlohmann::json all = nlohmann::json::array();
  for (const MemoryOfArm& arm : arms) {
    nlohmann::json blocks = nlohmann::json::array();
    for (const MemoryBlock& block : arm.blocks) {
      blocks.push_back({{"bytes", block.bytes},
                        {"from_seconds", block.from},
                        {"to_seconds", block.to},
                        {"op", block.op},
                        {"source_op", block.source_op},
                        {"scope", block.scope},
                        {"shape", block.shape},
                        {"offset", offset_json(block.offset)},
                        {"older", block.is_older}});
    }
    nlohmann::json figures = memory_figures_json(memory_record(arm, kNoMemoryLimits));
    figures["blocks"] = std::move(blocks);
    all.push_back(std::move(figures));
  }
  return {{"arms", std::move(all)}};
}

}  // namespace diptych::reports
