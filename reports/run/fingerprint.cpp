#include "reports/run/fingerprint.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "reports/run/environment.h"
#include "reports/run/json_access.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr std::size_t most_fields = 4000;

bool is_noise(const std::string& name) {
  static const std::set<std::string> fields = {"os.load_average",
                                               "os.uptime_seconds",
                                               "os.memory_available_bytes",
                                               "os.swap_used_bytes",
                                               "cpu.steal_seconds",
                                               "cpu.current_mhz",
                                               "process.environment_bytes",
                                               "process.max_rss_bytes",
                                               "process.minor_page_faults",
                                               "process.major_page_faults",
                                               "clock.cost_ns",
                                               "clock.ns_per_tick",
                                               "clock.resolution_ns",
                                               "process.voluntary_context_switches",
                                               "process.involuntary_context_switches",
                                               "benchmark.load_avg",
                                               "benchmark.mhz_per_cpu",
                                               "benchmark.date",
                                               "benchmark.executable",
                                               "disk_free_bytes"};
  return fields.contains(name) || name.find(".reasons.") != std::string::npos;
}

/// The fields that identify a machine, the best known names first. `alone`: if this field is equal, the machines count
/// as the same, as far as can be seen.
struct Identity {
  const char *section, *field;
  bool alone;
};
constexpr std::array<Identity, 14> identity = {{{"cpu", "model", true},
                                                {"cpu", "vendor", false},
                                                {"cpu", "family", false},
                                                {"cpu", "model_number", false},
                                                {"cpu", "stepping", false},
                                                {"cpu", "microcode", false},
                                                {"cpu", "sockets", false},
                                                {"cpu", "threads", false},
                                                {"cpu", "hypervisor_vendor", false},
                                                {"os", "dmi_vendor", false},
                                                {"os", "dmi_product", false},
                                                {"os", "kernel", false},
                                                {"benchmark", "host_name", true},
                                                {"benchmark", "num_cpus", false}}};

bool known(const Json& value) {
  return !value.is_null() && !(value.is_string() && value.get_ref<const std::string&>().empty());
}

std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The sections of `side` that the other side has too; a section that the other lacks is one difference, not a hundred.
Json common_sections(const Json& side, const Json& other, const std::string& lacking,
                     std::vector<FingerprintField>& out) {
  Json common = Json::object();
  for (const auto& [name, section] : side.items()) {
    if (other.contains(name)) {
      common[name] = section;
    } else {
      const bool in_head = lacking == "base";
      out.push_back({name, name, in_head ? "absent" : "present", in_head ? "present" : "absent", true});
    }
  }
  return common;
}

}  // namespace

std::vector<FingerprintField> fingerprint_difference(const Json& base_side, const Json& head_side) {
  std::vector<FingerprintField> out;
  const Json base = common_sections(base_side, head_side, "head", out);
  const Json head = common_sections(head_side, base_side, "base", out);
  std::map<std::string, std::pair<std::string, std::string>> fields;
  for (const EnvironmentEntry& entry : flatten_environment(base, most_fields)) {
    fields.try_emplace(entry.name, "absent", "absent").first->second.first = entry.value;
  }
  for (const EnvironmentEntry& entry : flatten_environment(head, most_fields)) {
    fields.try_emplace(entry.name, "absent", "absent").first->second.second = entry.value;
  }
  for (const auto& [name, values] : fields) {
    if (values.first != values.second) {
      out.push_back({name.substr(0, name.find('.')), name, values.first, values.second, !is_noise(name)});
    }
  }
  return out;
}

MachineComparison compare_machines(const Json& base, const Json& head) {
  MachineComparison result;
  bool recognised = false;
  for (const Identity& field : identity) {
    const Json& a = member(member(base, field.section), field.field);
    const Json& b = member(member(head, field.section), field.field);
    if (!known(a) || !known(b)) {
      continue;
    }
    if (a != b) {
      result.differences.push_back(fmt::format("{}.{}: {} / {}", field.section, field.field, shown(a), shown(b)));
    }
    recognised = recognised || field.alone;
  }
  result.same = !result.differences.empty() ? SameMachine::no : recognised ? SameMachine::yes : SameMachine::unknown;
  return result;
}

Json machine_fields(const Json& environment) {
  Json out = Json::object();
  for (const Identity& field : identity) {
    if (const Json& value = member(member(environment, field.section), field.field); known(value)) {
      out[field.section][field.field] = value;
    }
  }
  return out;
}

bool same_program(const Json& base_build, const Json& head_build) {
  const auto both_have = [&](const char* key) {
    return !text(base_build, key).empty() && !text(head_build, key).empty();
  };
  const char* key = both_have("code_sha256") ? "code_sha256" : "sha256";
  return both_have(key) && text(base_build, key) == text(head_build, key);
}

}  // namespace diptych::reports
