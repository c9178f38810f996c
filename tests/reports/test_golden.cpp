// Files that must keep loading, and figures that must keep their meaning. golden/first_version.json was written by the
// first version of the program; golden/complete.json holds every field of version 1 that a run of two arms fills. After
// a deliberate change: DIPTYCH_UPDATE_GOLDEN=1 writes the computed part of complete.json again; read the diff.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/analyse.h"
#include "reports/assets.h"
#include "reports/html/html.h"
#include "reports/run/run_file.h"
#include "reports/run/schema.h"
#include "reports/statistics/skewness.h"
#include "reports/views/markdown.h"
#include "reports/views/table.h"
#include "tests/support/places.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
namespace fs = std::filesystem;

fs::path golden(const char* name) {
  return fs::path(diptych::testing::places::source()) / "tests/reports/golden" / name;
}

Json read(const fs::path& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

// The first place where `found` lacks what `expected` has, or differs from it; "" if all of it is there. Figures may
// differ in the last digits: libm does.
std::string first_difference(const Json& expected, const Json& found, const std::string& place = "") {
  if (expected.is_number() && found.is_number()) {
    const double a = expected;
    const double b = found;
    return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)) ? "" : place;
  }
  if (expected.type() != found.type() || (expected.is_array() && expected.size() != found.size())) {
    return place + " (another type or length)";
  }
  if (!expected.is_structured()) {
    return expected == found ? "" : place;
  }
  for (const auto& [key, value] : expected.items()) {
    const std::string inner = place + "/" + key;
    if (expected.is_object() && !found.contains(key)) {
      return inner + " (missing)";
    }
    const Json& other = expected.is_object() ? found.at(key) : found.at(std::stoul(key));
    if (const std::string difference = first_difference(value, other, inner); !difference.empty()) {
      return difference;
    }
  }
  return "";
}

void erase_computed(Json& run) {
  for (Json& cell : run["cells"]) {
    cell.erase("comparisons");
    cell.erase("rungs");
    cell.erase("ladder");
    cell.erase("limits");
    for (Json& arm : cell["arms"]) {
      for (const char* field : {"seconds", "first_call_seconds", "worst_call_seconds", "compile_seconds", "warmup"}) {
        arm.erase(field);
      }
    }
  }
}

TEST(Golden, FilesOfTheFirstVersionLoadAndAreShown) {
  Json run = load_run(golden("first_version.json"));
  const Json as_written = run;
  EXPECT_FALSE(run["cells"][0]["comparisons"][0].contains("evidence"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(render_markdown(run), HasSubstr("mlp/digits"));
    EXPECT_THAT(render_html(run), HasSubstr("mlp/digits"));
    EXPECT_THAT(render_table(run, {false, 100}), HasSubstr("mlp/digits"));
    analyse(run);
    EXPECT_THAT(validate(run), IsEmpty());
  }
  // What it said then is what the raw rounds say now; its intervals were Student's, today's are never narrower.
  for (std::size_t i = 0; i < 2; ++i) {
    const Json& then = as_written["cells"][0]["comparisons"][i];
    const Json& now = run["cells"][0]["comparisons"][i];
    EXPECT_EQ(first_difference(then["break_even"], now["break_even"]), "");
    EXPECT_EQ(first_difference(then["verdict"], now["verdict"]), "");
    EXPECT_EQ(then["speedup"]["estimate"], now["speedup"]["estimate"]);
    EXPECT_LE(now["speedup"]["low"].get<double>(), then["speedup"]["low"].get<double>() * (1 + 1e-12));
    EXPECT_GE(now["speedup"]["high"].get<double>(), then["speedup"]["high"].get<double>() * (1 - 1e-12));
    EXPECT_GE(now["mde"].get<double>(), then["mde"].get<double>() * (1 - 1e-12));
    EXPECT_LT(now["mde"].get<double>(), most_skew_widening * then["mde"].get<double>());
  }
  EXPECT_TRUE(run["cells"][0]["arms"][0]["warmup"].is_null());
}

TEST(Golden, ComputedFiguresAreAsTheyWere) {
  Json run = read(golden("complete.json"));
  const Json expected = run;
  erase_computed(run);
  analyse(run);
  if (std::getenv("DIPTYCH_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden("complete.json")) << run.dump(1) << "\n";
    return;
  }
  EXPECT_EQ(first_difference(expected, run), "");
  EXPECT_EQ(first_difference(expected, load_run(golden("complete.json"))), "");
}

TEST(Golden, ANewerMajorVersionIsRefusedByName) {
  Json run = read(golden("complete.json"));
  run["schema"] = "diptych.run/2";
  const fs::path path = fs::temp_directory_path() / "diptych_newer_run.json";
  write_atomically(path, to_text(run));
  try {
    load_run(path);
    ADD_FAILURE() << "loaded";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("diptych.run/2"), HasSubstr("reads \"diptych.run/1\""),
                                    HasSubstr("use the version of Diptych that wrote it")));
  }
  fs::remove(path);
}

// References replaced by what they name, so that moving a definition is no change.
Json inlined(const Json& node, const Json& definitions) {
  if (node.is_object() && node.contains("$ref")) {
    return inlined(definitions.at(node["$ref"].get<std::string>().substr(std::string("#/definitions/").size())),
                   definitions);
  }
  Json out = node;
  if (node.is_structured()) {
    for (const auto& [key, value] : node.items()) {
      if (node.is_object() && key == "definitions") {
        out.erase(key);
      } else if (value.is_structured()) {
        (node.is_object() ? out[key] : out[std::stoul(key)]) = inlined(value, definitions);
      }
    }
  }
  return out;
}

Json inlined(const Json& schema) { return inlined(schema, schema["definitions"]); }

// Version 1 may only grow optional fields: what was there keeps its name, its types and its enumerations' values, and
// nothing else becomes required.
std::string schema_break(const Json& before, const Json& now, const std::string& place = "") {
  if (now.is_null() && !before.is_null()) {
    return place + " is gone";
  }
  for (const auto& [key, value] : before.items()) {
    const std::string inner = place + "/" + key;
    if (key == "description") {
      continue;
    }
    if (!now.contains(key)) {
      return inner + " is gone";
    }
    if (key == "required" && now[key].size() > value.size()) {
      return inner + " grew";
    }
    if (key == "enum" || key == "type" || key == "required") {
      const Json then = value.is_array() ? value : Json::array({value});
      const Json later = now[key].is_array() ? now[key] : Json::array({now[key]});
      for (const Json& one : then) {
        if (key != "required" && std::find(later.begin(), later.end(), one) == later.end()) {
          return inner + " lost " + one.dump();
        }
      }
    } else if (value.is_object()) {
      if (const std::string found = schema_break(value, now[key], inner); !found.empty()) {
        return found;
      }
    } else if (value != now[key]) {
      return inner + " changed";
    }
  }
  return now.is_object() && now.contains("required") && !before.contains("required") ? place + "/required is new" : "";
}

TEST(Golden, TheSchemaOnlyGrowsOptionalFields) {
  const Json before = inlined(read(golden("schema_first_version.json")));
  const Json now = Json::parse(assets::run_schema());
  EXPECT_EQ(schema_break(before, inlined(now)), "");
  const auto after = [&](const std::function<void(Json&)>& change) {
    Json changed = now;
    change(changed);
    return schema_break(before, inlined(changed));
  };
  EXPECT_THAT(after([](Json& s) { s["definitions"]["arm"]["properties"].erase("passes"); }),
              HasSubstr("/arms/items/properties/passes is gone"));
  EXPECT_THAT(after([](Json& s) { s["definitions"]["process"]["required"].push_back("load"); }),
              HasSubstr("/processes/items/required grew"));
  EXPECT_THAT(after([](Json& s) { s["properties"]["status"]["enum"] = {"complete"}; }),
              HasSubstr("/properties/status/enum lost"));
}

}  // namespace
}  // namespace diptych::reports
