#pragma once

#include <regex>
#include <string>
#include <vector>

/// The reference programs and the page that shows their output.
namespace diptych::testing {

/// Runs `reference_<program> arguments...` in an empty folder of its own; it must succeed without a word on its error
/// stream. Returns what it prints.
std::string output_of(const std::string& program, const std::vector<std::string>& arguments = {});

/// As above, in `folder`.
std::string output_in(const std::string& folder, const std::string& program,
                      const std::vector<std::string>& arguments = {});

/// The block of docs/reference-programs.md that begins with "$ reference_<program>", without that line, is what was
/// printed: line by line, except for numbers that depend on the machine or on the passes (decimals, times, counts of
/// nodes and pictures). A line "..." stands for any lines.
void expect_documented(const std::string& program, const std::string& output);

/// The numbers after the first `marker` in `text`, to the end of its line; not those of types like f32[2].
std::vector<double> numbers_after(const std::string& marker, const std::string& text);

}  // namespace diptych::testing
