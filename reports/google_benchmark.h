#pragma once

#include <string>

#include <nlohmann/json.hpp>

/// Google Benchmark's JSON ({"context": ..., "benchmarks": [...]}), in and out.
/// Source: google/benchmark, docs/user_guide.md ("Output Formats") and src/json_reporter.cc.
namespace diptych::reports {

/// Google Benchmark writes NaN and Infinity bare, which isn't JSON: outside of strings they become the strings "NaN",
/// "Infinity" and "-Infinity", so that the value that is broken can be named.
std::string quote_non_finite(const std::string& text);

/// Whether the document is Google Benchmark's.
bool is_google_benchmark(const nlohmann::json& document);

/// A run as Google Benchmark writes it: one benchmark "workload/arm", one repetition per process with the median of its
/// rounds in nanoseconds (a round is no independent repetition). `cpu_time` repeats `real_time`: it isn't measured. The
/// context also has `cpu_model` and `kernel`, by which two exports from one machine are known.
nlohmann::json to_google_benchmark(const nlohmann::json& run);

}  // namespace diptych::reports
