#include "reports/run/schema.h"

#include <algorithm>

#include <fmt/format.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "reports/assets.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

const valijson::Schema& run_schema() {
  // valijson's Schema cannot be copied or moved, so it is built in place.
  struct Parsed {
    valijson::Schema schema;
    Parsed() {
      const nlohmann::json document = nlohmann::json::parse(assets::run_schema());
      valijson::SchemaParser().populateSchema(Adapter(document), schema);
    }
  };
  static const Parsed parsed;
  return parsed.schema;
}

// valijson writes a place as "<root>", "[cells]", "[0]"; readers know JSON pointers.
std::string place(const std::vector<std::string>& context) {
  std::string pointer;
  for (std::size_t i = 1; i < context.size(); ++i) {
    const std::string& part = context[i];
    const bool bracketed = part.size() >= 2 && part.front() == '[' && part.back() == ']';
    pointer += "/" + printable(bracketed ? part.substr(1, part.size() - 2) : part);
  }
  return pointer.empty() ? "/" : pointer;
}

}  // namespace

std::vector<std::string> validate(const nlohmann::json& run, std::size_t limit) {
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  std::vector<std::string> problems;
  if (validator.validate(run_schema(), Adapter(run), &results)) {
    return problems;
  }
  // The innermost problem comes first, because it is the one to fix. The outer ones only say that something inside
  // failed.
  std::vector<std::string> places;
  for (const auto& error : results) {
    const std::string where = place(error.context);
    const bool outer = std::any_of(places.begin(), places.end(), [&](const std::string& inner) {
      return inner != where && (where == "/" || inner.starts_with(where + "/"));
    });
    if (!outer && problems.size() < limit) {
      places.push_back(where);
      problems.push_back(fmt::format("{}: {}", where, printable(error.description)));
    }
  }
  return problems;
}

}  // namespace diptych::reports
