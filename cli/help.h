#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// The text of `--help`, for the program and for each verb.
namespace diptych::cli {

/// "diptych onnx check"
std::string full_name(const CLI::App& verb);

/// The verbs and options of a verb that are shown to users, in the order in which they were added; options include
/// those of its groups.
std::vector<const CLI::App*> shown_verbs(const CLI::App& verb);
std::vector<const CLI::Option*> shown_options(const CLI::App& verb);
/// "run", "doctor", ...
std::vector<std::string> names_of_verbs(const CLI::App& verb);

/// The help of a verb, ending with explanations of this program's own words in it.
std::string help_of(const CLI::App& verb);

/// The verb that these words name, starting at the program: {"onnx", "check"}. Throws Error with the nearest one.
const CLI::App& verb_of(const CLI::App& program, const std::vector<std::string>& words);

/// The table of exit codes, for all verbs.
std::string exit_codes();

/// A line for each word of the glossary (docs/glossary.md) that occurs in the text.
std::string explained_words(const std::string& text);

}  // namespace diptych::cli
