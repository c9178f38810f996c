#include "cli/refusal.h"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/help.h"
#include "cli/suggest.h"
#include "framework/core/error.h"
#include "reports/text/text.h"

namespace diptych::cli {
namespace {

/// Options such as "--seed".
std::vector<std::string> long_options(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : shown_options(verb)) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

/// The verbs that have this option, as they are typed after `diptych`.
std::vector<std::string> owners(const CLI::App& program, const std::string& option, const std::string& before = "") {
  std::vector<std::string> names;
  for (const CLI::App* verb : shown_verbs(program)) {
    const std::vector<std::string> options = long_options(*verb);
    if (std::find(options.begin(), options.end(), option) != options.end()) {
      names.push_back(before + verb->get_name());
    }
    const std::vector<std::string> inner = owners(*verb, option, before + verb->get_name() + " ");
    names.insert(names.end(), inner.begin(), inner.end());
  }
  return names;
}

[[noreturn]] void refuse_word(const CLI::App& scope, const std::string& word) {
  const std::vector<std::string> verbs = names_of_verbs(scope);
  if (verbs.empty()) {
    throw Error(fmt::format("'{}' is one argument too many; `{} --help` shows what there is", reports::printable(word),
                            full_name(scope)));
  }
  const std::vector<CLI::App*> typed = scope.get_subcommands();
  if (!typed.empty() && nearest(word, verbs).empty()) {
    throw Error(fmt::format("there is no verb '{}' to stand before '{}'; did you mean `{}`?", reports::printable(word),
                            typed.front()->get_name(), full_name(*typed.front())));
  }
  throw Error(unknown("verb", word, verbs));
}

[[noreturn]] void refuse_option(const CLI::App& program, const CLI::App& scope, const std::string& option) {
  if (option.starts_with("--dim") || option.starts_with("--inputs")) {
    throw Error(
        fmt::format("{} is an option of `onnx run`; here a model's lengths and inputs stand behind its path: "
                    "model.onnx:batch=8,inputs=x.npy",
                    option));
  }
  const std::vector<std::string> options = long_options(scope);
  if (!nearest(option, options).empty()) {
    throw Error(unknown("option", option, options));
  }
  const std::vector<std::string> verbs = owners(program, option);
  throw Error(fmt::format(
      "there is no option '{}' of `{}`; {}", reports::printable(option), full_name(scope),
      verbs.empty() ? fmt::format("`{} --help` shows what there is", full_name(scope))
                    : fmt::format("`{}` {} it", fmt::join(verbs, "`, `"), verbs.size() == 1 ? "has" : "have")));
}

}  // namespace

void refuse_unknown(const CLI::App& program) {
  const CLI::App* scope = &program;
  for (;;) {
    if (const std::vector<std::string> extras = scope->remaining(); !extras.empty()) {
      const std::string& extra = extras.front();
      extra.starts_with('-') ? refuse_option(program, *scope, extra.substr(0, extra.find('=')))
                             : refuse_word(*scope, extra);
    }
    const std::vector<CLI::App*> typed = scope->get_subcommands();
    if (typed.empty()) {
      return;
    }
    scope = typed.front();
  }
}

}  // namespace diptych::cli
