#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "workloads/arms/external_process.h"

/// Other frameworks' arms, played by shell scripts.
namespace diptych::workloads::testing {

/// What a script answers to each request; `extra` comes first and wins. It forks nothing, so that its times are honest:
/// a millisecond for each call, and 10 for few of them. It gives {1, 2}.
inline std::vector<std::string> arm(const std::string& extra = "") {
  const std::string script = R"sh(
while read -r line; do
  [[ $line =~ \"folder\":\"([^\"]*)\" ]] && folder=${BASH_REMATCH[1]}
  [[ $line =~ \"count\":([0-9]+) ]] && count=${BASH_REMATCH[1]}
  length=$((count > 10 ? count * 1000 : 10000))
  case "$line" in
)sh" + extra + R"sh(
    *describe*) echo '{"protocol":1,"framework":"bash","threads":1,"overhead_nanoseconds":5}';;
    *load*) echo '{"load_seconds":0,"compile_seconds":0}';;
    *check*) printf '\0\0\200\077\0\0\0\100' > "$folder/output_0.bin"
      echo '{"outputs":[{"dtype":"f32","shape":[2],"file":"output_0.bin"}]}';;
    *warm_up*|*run*) start=${EPOCHREALTIME/[.,]/}
      until ((${EPOCHREALTIME/[.,]/} - start >= length)); do :; done
      echo "{\"nanoseconds\":$(((${EPOCHREALTIME/[.,]/} - start) * 1000))}";;
    *memory*) echo '{"peak_bytes":4096}';;
    *exit*) exit 0;;
  esac
done)sh";
  return {"/bin/bash", "-c", script};
}

/// Why `fn` fails.
template <class Fn>
std::string failure(const Fn& fn) {
  try {
    fn();
  } catch (const ArmFailure& error) {
    return error.what();
  }
  ADD_FAILURE() << "it did not fail";
  return "";
}

/// Of an array of objects, the one of that name; null if there is none.
inline const nlohmann::json& named(const nlohmann::json& list, const std::string& name) {
  for (const nlohmann::json& entry : list) {
    if (entry["name"] == name) {
      return entry;
    }
  }
  static const nlohmann::json none;
  return none;
}

}  // namespace diptych::workloads::testing
