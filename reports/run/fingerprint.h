#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

/// How two environments differ, and whether they are of the same machine.
namespace diptych::reports {

struct FingerprintField {
  std::string group;  ///< "cpu", "os", "build", ...
  std::string name;   ///< "cpu.model"
  std::string base, head;
  bool matters;  ///< false: changes by itself (uptime, load, free memory, fault counts), or is an explanation
};

/// The fields that differ, in the order of their names.
std::vector<FingerprintField> fingerprint_difference(const nlohmann::json& base, const nlohmann::json& head);

enum class SameMachine { yes, no, unknown };

struct MachineComparison {
  SameMachine same = SameMachine::unknown;
  std::vector<std::string> differences;  ///< "cpu.model: A / B", as they stand in the file
};

/// Compares CPU (vendor, model, stepping, microcode, counts), hypervisor, product, kernel and host name. A field that
/// one side doesn't know is ignored; unknown if the two sides share no field that identifies a machine.
MachineComparison compare_machines(const nlohmann::json& base, const nlohmann::json& head);

/// The fields that `compare_machines` looks at, alone: what is kept of an environment to recognise its machine.
nlohmann::json machine_fields(const nlohmann::json& environment);

/// Whether two builds (the fingerprints' "build") execute the same code: by the hash of the code, which leaves out the
/// revision, if both have it, otherwise by the hash of the file. False if this isn't known.
bool same_program(const nlohmann::json& base_build, const nlohmann::json& head_build);

}  // namespace diptych::reports
