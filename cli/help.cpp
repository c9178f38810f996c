#include "cli/help.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/suggest.h"
#include "cli/verbs.h"
#include "framework/core/error.h"

namespace diptych::cli {
namespace {

struct ExitCode {
  int code;
  const char* meaning;
};

constexpr std::array kExitCodes = {
    ExitCode{kSuccess, "done"},
    ExitCode{kFailure,
             "wrong usage, an error, output that could not be written, a cell that is INVALID, or a case of "
             "`onnx check` or `onnx grad` that fails"},
    ExitCode{kRegressed, "`gate`: a regression; no other verb ends with it"},
    ExitCode{kCannotTell,
             "`gate`, `compare`, `report A B`: cannot tell (nothing comparable; for `gate` also INVALID, CONTAMINATED, "
             "METHOD "
             "CHANGED, vanished cells)"},
    ExitCode{kInterrupted, "interrupted; what was measured until then is kept"},
};

struct Word {
  const char* word;
  const char* meaning;
};

/// The entries of docs/glossary.md that `--help` needs, with the same meaning.
constexpr std::array kWords = {
    Word{"A/A", "a program measured against itself: whatever differs is a false alarm"},
    Word{"arm", "one way to run a workload: eager, replay, graph, a rung of the ladder, another framework"},
    Word{"break-even", "the calls after which compiling has paid for itself"},
    Word{"cell", "a workload of a run, with the figures of all its arms"},
    Word{"CONTAMINATED", "other programs or guests took too much of the machine meanwhile; measure again"},
    Word{"detect", "a cell detects 2 %: it would find a change of 2 % nine times out of ten"},
    Word{"eager", "op by op, as the program calls them; nothing is compiled"},
    Word{"graph", "captured once, compiled by every pass, then called again and again"},
    Word{"INVALID", "the arms disagree, or nothing was measured: no figure counts"},
    Word{"IR", "intermediate representation: a graph as the compiler sees it"},
    Word{"ladder", "the arms from eager to graph, each one cause away from the one before"},
    Word{"pass", "a step of the compiler, from a graph to a better one"},
    Word{"process", "a measuring process of its own; intervals are over processes"},
    Word{"replay", "the captured graph with eager's kernels and no pass: without dispatch and tape"},
    Word{"round", "every arm once, in random order, each for one timed block of calls"},
    Word{"rung", "an arm of the ladder: it adds one cause to the one before"},
    Word{"steady call", "a call after warm-up, when nothing is compiled or allocated for the first time"},
    Word{"suite", "workloads of one kind; it stands before the slash: mlp/digits is of mlp"},
    Word{"verdict", "FASTER, SLOWER, EQUIVALENT or INCONCLUSIVE, with the interval behind it"},
    Word{"workload", "a program that is measured: a model's step or inference, or a loop of ops"},
};

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Matches the word as a whole, or its plural or third person.
bool has_word(const std::string& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    std::size_t end = at + word.size();
    for (const char* ending : {"es", "s"}) {
      if (text.compare(end, std::string_view(ending).size(), ending) == 0) {
        end += std::string_view(ending).size();
        break;
      }
    }
    if ((at == 0 || !is_letter(text[at - 1])) && (end >= text.size() || !is_letter(text[end]))) {
      return true;
    }
  }
  return false;
}

constexpr int kWordColumns = 14;

}  // namespace

std::string full_name(const CLI::App& verb) {
  const CLI::App* const parent = verb.get_parent();
  return parent == nullptr ? verb.get_name() : full_name(*parent) + " " + verb.get_name();
}

std::vector<const CLI::App*> shown_verbs(const CLI::App& verb) {
  return verb.get_subcommands(
      [](const CLI::App* each) { return !each->get_name().empty() && !each->get_group().empty(); });
}

std::vector<const CLI::Option*> shown_options(const CLI::App& verb) {
  std::vector<const CLI::Option*> options;
  const auto collect = [&](const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
      if (!option->get_group().empty()) {
        options.push_back(option);
      }
    }
  };
  collect(verb);
  for (const CLI::App* group : verb.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); })) {
    collect(*group);
  }
  return options;
}

std::vector<std::string> names_of_verbs(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::App* each : shown_verbs(verb)) {
    names.push_back(each->get_name());
  }
  return names;
}

std::string exit_codes() {
  std::string out = "Exit codes:\n";
  for (const auto& [code, meaning] : kExitCodes) {
    out += fmt::format("  {:<4} {}\n", code, meaning);
  }
  return out;
}

std::string explained_words(const std::string& text) {
  std::string out;
  for (const auto& [word, meaning] : kWords) {
    if (has_word(text, word)) {
      out += fmt::format("  {:<{}} {}\n", word, kWordColumns, meaning);
    }
  }
  return out.empty() ? out : "Words (all of them: docs/glossary.md):\n" + out;
}

std::string help_of(const CLI::App& verb) {
  // Not App::help, which returns the help of the verb that was typed: "help".
  const std::string text = verb.get_formatter()->make_help(&verb, full_name(verb), CLI::AppFormatMode::Normal);
  const std::string words = explained_words(text);
  return text + (words.empty() ? "" : "\n" + words);
}

const CLI::App& verb_of(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* verb = &program;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> verbs = shown_verbs(*verb);
    const auto found =
        std::find_if(verbs.begin(), verbs.end(), [&](const CLI::App* each) { return each->get_name() == word; });
    if (found == verbs.end()) {
      std::vector<std::string> names;
      for (const CLI::App* each : verbs) {
        names.push_back(each->get_name());
      }
      throw Error(names.empty() ? fmt::format("`{}` has no verbs of its own; `{} --help` is its help", full_name(*verb),
                                              full_name(*verb))
                                : unknown("verb", word, names));
    }
    verb = *found;
  }
  return *verb;
}

}  // namespace diptych::cli
