#include "cli/measurements.h"

#include <filesystem>

#include "reports/run/google_benchmark.h"
#include "reports/run/run_file.h"

namespace diptych::cli {

nlohmann::json load_measurements(const std::string& path) {
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(file)) {
    file /= "run.json";
  }
  const std::string content = reports::read_text_file(file);
  nlohmann::json document = reports::parse_json(file, reports::quote_non_finite(content));
  if (!reports::is_google_benchmark(document)) {
    reports::check_run(file, document);
  }
  return document;
}

}  // namespace diptych::cli
