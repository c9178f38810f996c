#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/run/part.h"

/// The aligned profile of a cell, and of `diptych profile --arms`: typed views, like those of run.h.
namespace diptych::reports {

class FateEntry : public Part {
 public:
  using Part::Part;
  std::string fate() const { return text("fate"); }
  std::vector<std::string> with() const { return texts("with"); }
  std::string pass() const { return text("pass"); }
  double ops() const { return number("ops").value_or(0); }
};

class ArmOfProfileRow : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::optional<double> seconds() const { return number("seconds"); }
  bool is_estimate() const { return is_true("estimate"); }
  Parts<FateEntry> fates() const { return Parts<FateEntry>(list(json(), "fates")); }
};

class ProfileRowEntry : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string kind() const { return text("kind"); }
  double ops() const { return number("ops").value_or(0); }
  Parts<ArmOfProfileRow> arms() const { return Parts<ArmOfProfileRow>(list(json(), "arms")); }
  bool has_parts() const { return member("parts").is_object(); }
  double part(const char* key) const { return reports::number(member("parts"), key).value_or(0); }
};

class ArmOfProfile : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  double seconds() const { return number("seconds").value_or(0); }
};

class ProfileEntry : public Part {
 public:
  using Part::Part;
  std::string by() const { return text("by"); }
  std::optional<double> steps() const { return number("steps"); }
  Parts<ArmOfProfile> arms() const { return Parts<ArmOfProfile>(list(json(), "arms")); }
  Parts<ProfileRowEntry> rows() const { return Parts<ProfileRowEntry>(list(json(), "rows")); }
};

}  // namespace diptych::reports
