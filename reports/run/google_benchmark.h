#pragma once

#include <string>

#include "reports/run/run.h"

/// Google Benchmark's JSON ({"context": ..., "benchmarks": [...]}), in and out.
/// Source: google/benchmark, docs/user_guide.md ("Output Formats") and src/json_reporter.cc.
namespace diptych::reports {

/// Google Benchmark writes bare NaN and Infinity, which isn't JSON: outside of strings they become the strings "NaN",
/// "Infinity" and "-Infinity", so that messages can name the broken value.
std::string quote_non_finite(const std::string& text);

/// Whether Google Benchmark wrote the document.
bool is_google_benchmark(const nlohmann::json& document);

/// A run in Google Benchmark's format: one benchmark per "workload/arm", one repetition per process with the median of
/// its rounds in nanoseconds (a round is no independent repetition). `cpu_time` repeats `real_time`, because it isn't
/// measured. The context also has `cpu_model` and `kernel`, by which two exports of one machine can be recognised.
nlohmann::json to_google_benchmark(const Run& run);

}  // namespace diptych::reports
