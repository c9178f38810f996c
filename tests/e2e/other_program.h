#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/e2e/program.h"
#include "tests/support/places.h"

/// Programs that stand in for another build of Diptych.
namespace diptych::testing {

/// A script that stands in for a program: what `special` doesn't answer goes to the real one. It reports another hash,
/// so that a gate measures it.
inline std::string script(const std::string& special, char digit = 'b') {
  return "#!/bin/sh\nreal='" + places::program() + "'\n" + special +
         "\nif [ \"$1\" = doctor ]; then exec 3>&1; \"$real\" \"$@\" | sed 's/sha256\": \"[0-9a-f]*\"/sha256\": "
         "\"" +
         std::string(64, digit) + "\"/'; exit 0; fi\nexec \"$real\" \"$@\"\n";
}

/// For `script`: a program that speaks the first protocol, and whose measuring processes know nothing but its flags.
inline constexpr const char* kOfTheFirstProtocol = R"(
if [ "$1" = list ]; then "$real" "$@" | sed 's/"worker_protocol": [0-9]*/"worker_protocol": 1/'; exit; fi
if [ "$1" = worker ]; then
  plan=$(python3 - "$@" <<'END'
import json, sys
plan = {}
for flag, value in zip(sys.argv[2::2], sys.argv[3::2]):
    key = flag.removeprefix("--").replace("-", "_")
    if key in ("workloads", "first_call_check", "without"):
        plan.setdefault(key, []).append(value)
    elif key == "arms":
        plan[key] = value.split(",")
    elif key == "pin":
        plan["pinned"] = [int(cpu) for cpu in value.split(",")]
    elif key in ("seed", "process_seed", "rounds"):
        plan[key] = int(value)
    elif key == "block_seconds":
        plan[key] = float(value)
    else:
        sys.exit(f"no option '{flag}'")
print(json.dumps(plan))
END
  ) || exit 1
  exec "$real" worker --plan "$plan"
fi
)";

class WithOtherPrograms : public ::testing::Test {
 protected:
  std::string put_program(const std::string& name, const std::string& text) const {
    write_text(folder_.path() / name, text);
    std::filesystem::permissions(folder_.path() / name, std::filesystem::perms::owner_all);
    return "./" + name;
  }
  Outcome run(const std::vector<std::string>& arguments) const { return diptych(arguments, folder_.path()); }
  Outcome shell(const std::string& line) const {
    return run_command({{"/bin/sh", "-c", line}, folder_.path().string()});
  }
  std::filesystem::path written() const { return run_folder(folder_.path()); }

  TemporaryFolder folder_;
};

}  // namespace diptych::testing
