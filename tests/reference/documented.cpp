#include "tests/reference/documented.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/e2e/process.h"
#include "tests/io/folder.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

/// What differs between machines becomes '#', runs of spaces become one.
std::string masked(const std::string& line) {
  std::string text = std::regex_replace(line, std::regex(R"(-?\d+\.\d+(e[-+]?\d+)?)"), "#");
  text = std::regex_replace(text, std::regex(R"(\d+ (us|nodes|pictures)\b)"), "# $1");
  text = std::regex_replace(text, std::regex(R"(# [mu]s\b)"), "# s");
  // A ledger's last column.
  text = std::regex_replace(text, std::regex(R"(^(\d+ .*) (never|in \d+ calls|yes)$)"), "$1 #");
  return std::regex_replace(text, std::regex(" +"), " ");
}

std::vector<std::string> masked_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(masked(line));
  }
  return lines;
}

std::string documented_block(const std::string& program) {
  const std::string page = bytes_of(std::filesystem::path(places::source()) / "docs/reference-programs.md");
  std::size_t begin = page.find("$ reference_" + program + "\n");
  if (begin == std::string::npos) {
    begin = page.find("$ reference_" + program + " ");
  }
  if (begin == std::string::npos) {
    return "the page has no block of " + program;
  }
  begin = page.find('\n', begin) + 1;
  return page.substr(begin, page.find("```", begin) - begin);
}

}  // namespace

std::string output_in(const std::string& folder, const std::string& program,
                      const std::vector<std::string>& arguments) {
  Command command{.arguments = {places::build() + "/reference/reference_" + program}, .folder = folder};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.error;
  EXPECT_EQ(outcome.error, "");
  return outcome.output;
}

std::string output_of(const std::string& program, const std::vector<std::string>& arguments) {
  const Folder folder;
  return output_in(folder.path(), program, arguments);
}

void expect_documented(const std::string& program, const std::string& output) {
  const std::vector<std::string> shown = masked_lines(documented_block(program));
  const std::vector<std::string> printed = masked_lines(output);
  std::size_t at = 0;
  bool any = false;  // whether lines may be left out here
  for (const std::string& line : shown) {
    if (line == "...") {
      any = true;
      continue;
    }
    while (any && at < printed.size() && printed[at] != line) {
      ++at;
    }
    any = false;
    ASSERT_TRUE(at < printed.size() && printed[at] == line)
        << "docs/reference-programs.md shows: " << line
        << "\nprinted at this place: " << (at < printed.size() ? printed[at] : "(nothing more)") << "\nin\n"
        << output;
    ++at;
  }
  EXPECT_TRUE(any || at == printed.size()) << "docs/reference-programs.md lacks the end of\n" << output;
}

std::vector<double> numbers_after(const std::string& marker, const std::string& text) {
  const std::size_t found = text.find(marker);
  if (found == std::string::npos) {
    ADD_FAILURE() << "no '" << marker << "' in\n" << text;
    return {};
  }
  const std::size_t begin = found + marker.size();
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  const std::string rest = std::regex_replace(line, std::regex(R"(\w+\[[\d,]*\])"), "");  // without types
  const std::regex number(R"([-+]?(\d+(\.\d+)?(e[-+]?\d+)?|inf|nan))");
  std::vector<double> numbers;
  for (std::sregex_iterator match(rest.begin(), rest.end(), number), end; match != end; ++match) {
    numbers.push_back(std::stod(match->str()));
  }
  return numbers;
}

}  // namespace diptych::testing
