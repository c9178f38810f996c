#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/run/part.h"
#include "reports/run/profile.h"

/// What the pictures of a cell's profile are drawn of: typed views, like those of run.h.
namespace diptych::reports {

class FrameEntry : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string kind() const { return text("kind"); }
  double depth() const { return number("depth").value_or(0); }
  /// By arm.
  const Json& seconds() const { return list(json(), "seconds"); }
};

class FlamesEntry : public Part {
 public:
  using Part::Part;
  Parts<FrameEntry> frames() const { return Parts<FrameEntry>(list(json(), "frames")); }
  double left_out() const { return number("left_out").value_or(0); }
};

class HolderEntry : public Part {
 public:
  using Part::Part;
  std::string op() const { return text("op"); }
  std::string shape() const { return text("shape"); }
  std::vector<std::string> scopes() const { return texts("scopes"); }
  double modules() const { return number("modules").value_or(0); }
  double blocks() const { return number("blocks").value_or(0); }
  double bytes() const { return number("bytes").value_or(0); }
};

class ArenaBlockEntry : public Part {
 public:
  using Part::Part;
  std::string op() const { return text("op"); }
  std::string scope() const { return text("scope"); }
  std::string shape() const { return text("shape"); }
  double bytes() const { return number("bytes").value_or(0); }
  double offset() const { return number("offset").value_or(0); }
  double from_seconds() const { return number("from_seconds").value_or(0); }
  double to_seconds() const { return number("to_seconds").value_or(0); }
};

class MemoryOfArmEntry : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  double seconds() const { return number("seconds").value_or(0); }
  double peak_bytes() const { return number("peak_bytes").value_or(0); }
  double peak_seconds() const { return number("peak_seconds").value_or(0); }
  std::optional<double> arena_bytes() const { return number("arena_bytes"); }
  double lower_bound_bytes() const { return number("lower_bound_bytes").value_or(0); }
  double packed_bytes() const { return number("packed_bytes").value_or(0); }
  /// Pairs of seconds and bytes.
  const Json& timeline() const { return list(json(), "timeline"); }
  Parts<HolderEntry> holders() const { return Parts<HolderEntry>(list(json(), "holders")); }
  Parts<ArenaBlockEntry> arena() const { return Parts<ArenaBlockEntry>(list(json(), "arena")); }
  double points_left_out() const { return number("points_left_out").value_or(0); }
  double holders_left_out() const { return number("holders_left_out").value_or(0); }
  double blocks_left_out() const { return number("blocks_left_out").value_or(0); }
};

/// Of a profile; nothing in it: not recorded.
inline FlamesEntry flames_of(const ProfileEntry& profile) { return member(profile.json(), "flames"); }
inline Parts<MemoryOfArmEntry> memory_of(const ProfileEntry& profile) {
  return Parts<MemoryOfArmEntry>(list(profile.json(), "memory"));
}
/// What readers must know about the figures; usually nothing.
inline std::vector<std::string> notes_of(const ProfileEntry& profile) {
  std::vector<std::string> notes;
  for (const Json& note : list(profile.json(), "notes")) {
    notes.push_back(note.is_string() ? note.get<std::string>() : "");
  }
  return notes;
}

}  // namespace diptych::reports
