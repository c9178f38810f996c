#include "cli/completion.h"

#include <algorithm>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/help.h"
#include "framework/passes/pass.h"
#include "workloads/arms/arm.h"
#include "workloads/workload.h"

namespace diptych::cli {
namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

/// An option or a positional, as a shell needs to know it.
struct Argument {
  Words names;  ///< "--seed", "-h"; for a positional, its name
  std::string help;
  bool takes_value = true;
  bool is_list = false;  ///< of comma-separated values
  bool repeats = false;  ///< may be given several times
  std::string kind;      ///< "WORKLOAD", "ARM", "FILE", ...
  Words values;          ///< empty: a file
};

Words names_of_arms(bool several) {
  Words names;
  for (const workloads::Arm& arm : workloads::all_arms()) {
    names.push_back(arm.name);
  }
  if (several) {
    for (const workloads::Arm* arm : workloads::external_arms()) {
      names.push_back(arm->name);
    }
    names.emplace_back("ladder");
  }
  return names;
}

Words names_of_workloads(bool several) {
  Words names = workloads::names_of_suite("all");
  if (several) {
    append(names, workloads::suite_names());
    names.emplace_back("all");
  }
  return names;
}

Words names_of_stages() {
  Words names = {"all", "captured"};
  for (const passes::Pass& pass : passes::pipeline()) {
    names.emplace_back(pass.name);
  }
  names.emplace_back("final");
  return names;
}

/// "TEXT:{txt,svg,dot}" -> txt, svg, dot
Words listed_values(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) {
    return {};
  }
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

Words values_of(const CLI::App& program, const std::string& type, bool several) {
  if (type == "WORKLOAD") {
    return names_of_workloads(several);
  }
  if (type == "ARM") {
    return names_of_arms(several);
  }
  return type == "SUITE"   ? workloads::suite_names()
         : type == "STAGE" ? names_of_stages()
         : type == "VERB"  ? names_of_verbs(program)
                           : listed_values(type);
}

Argument described(const CLI::App& program, const CLI::Option& option) {
  Argument argument;
  for (const std::string& name : option.get_lnames()) {
    argument.names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    argument.names.push_back("-" + name);
  }
  if (option.get_positional()) {
    argument.names = {option.get_name(true, false)};
  }
  argument.help = option.get_description();
  argument.takes_value = option.get_items_expected_max() > 0;
  argument.is_list = option.get_delimiter() != '\0';
  argument.repeats = option.get_items_expected_max() > 1 && !argument.is_list;
  argument.kind = option.get_type_name();
  argument.values = values_of(program, argument.kind, argument.is_list || argument.repeats);
  return argument;
}

/// All arguments that users are shown: either the options or the positionals.
std::vector<Argument> arguments_of(const CLI::App& program, const CLI::App& verb, bool positional) {
  std::vector<Argument> arguments;
  for (const CLI::Option* option : shown_options(verb)) {
    if (option->get_positional() == positional) {
      arguments.push_back(described(program, *option));
    }
  }
  return arguments;
}

/// The text as one word, in either shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

std::string entry(const std::string& key, const Words& words) {
  return fmt::format("    [{}]={}\n", quoted(key), quoted(fmt::format("{}", fmt::join(words, " "))));
}

struct BashTables {
  std::string verbs, options, values, lists, operands;
};

void add_tables(BashTables& tables, const CLI::App& program, const CLI::App& verb) {
  const std::string name = full_name(verb);
  if (const Words verbs = names_of_verbs(verb); !verbs.empty()) {
    tables.verbs += entry(name, verbs);
  }
  Words options;
  for (const Argument& option : arguments_of(program, verb, false)) {
    append(options, option.names);
    for (const std::string& each : option.names) {
      if (option.takes_value) {
        tables.values += entry(name + " " + each, option.values);
      }
      if (option.is_list) {
        tables.lists += entry(name + " " + each, {"1"});
      }
    }
  }
  tables.options += entry(name, options);
  Words operands;
  for (const Argument& positional : arguments_of(program, verb, true)) {
    append(operands, positional.values);
  }
  if (!operands.empty()) {
    tables.operands += entry(name, operands);
  }
  for (const CLI::App* each : shown_verbs(verb)) {
    add_tables(tables, program, *each);
  }
}

/// If there is nothing to offer here, bash completes files.
constexpr const char* kBash = R"bash(# bash completion for diptych, as `diptych completion bash` writes it.
_diptych() {{
  local -A verbs=(
{verbs}  )
  local -A options=(
{options}  )
  local -A values=(
{values}  )
  local -A lists=(
{lists}  )
  local -A operands=(
{operands}  )
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local verb=diptych only_verbs='' before='' choices='' word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    if [[ $verb == diptych && $word == help ]]; then
      only_verbs=1
    elif [[ " ${{verbs[$verb]}} " == *" $word "* ]]; then
      verb+=" $word"
    fi
  done
  if [[ $current == = ]]; then  # --seed=: bash takes the sign for a word
    current=''
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  COMPREPLY=()
  if [[ -n $only_verbs ]]; then
    choices=${{verbs[$verb]}}
  elif [[ -n ${{values[$verb $previous]+set}} ]]; then
    choices=${{values[$verb $previous]}}
    if [[ -n ${{lists[$verb $previous]+set}} && $current == *,* ]]; then
      before=${{current%,*}},
      current=${{current##*,}}
    fi
  elif [[ $current == -* ]]; then
    choices=${{options[$verb]}}
  else
    choices="${{verbs[$verb]}} ${{operands[$verb]}}"
  fi
  if [[ -n $choices ]]; then
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$choices" -- "$current")
  fi
}}
complete -o default -F _diptych diptych
)bash";

std::string bash_script(const CLI::App& program) {
  BashTables tables;
  add_tables(tables, program, program);
  return fmt::format(fmt::runtime(kBash), fmt::arg("verbs", tables.verbs), fmt::arg("options", tables.options),
                     fmt::arg("values", tables.values), fmt::arg("lists", tables.lists),
                     fmt::arg("operands", tables.operands));
}

/// Escapes the characters that `_arguments` and `_describe` would take for the end of a description.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += (c == ':' || c == '[' || c == ']' || c == '\\' ? "\\" : "") + std::string(1, c);
  }
  return out;
}

std::string function_name(const CLI::App& verb) {
  std::string name = "_" + full_name(verb);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

/// ":arm:_sequence compadd - eager graph"
std::string zsh_action(const Argument& argument) {
  const std::string label = argument.values.empty() ? "file" : argument.names.front();
  const std::string words = fmt::format("{}", fmt::join(argument.values, " "));
  if (argument.kind == "WORKLOAD") {  // or a model's file
    return fmt::format(":workload:{{compadd - {}; _files -g \"*.onnx\"}}", words);
  }
  return fmt::format(":{}:{}", zsh_text(label.substr(label.find_first_not_of('-'))),
                     argument.values.empty() ? "_files"
                     : argument.is_list      ? "_sequence compadd - " + words
                                             : fmt::format("({})", words));
}

void add_functions(std::string& out, const CLI::App& program, const CLI::App& verb) {
  const std::vector<const CLI::App*> verbs = shown_verbs(verb);
  out += fmt::format("\n{}() {{\n  local curcontext=$curcontext context state line\n  typeset -A opt_args\n",
                     function_name(verb));
  if (!verbs.empty()) {
    out += "  local -a verbs=(\n";
    for (const CLI::App* each : verbs) {
      out += fmt::format("    {}\n", quoted(each->get_name() + ":" + zsh_text(each->get_description())));
    }
    out += "  )\n";
  }
  out += "  _arguments -C";
  for (const Argument& option : arguments_of(program, verb, false)) {
    for (const std::string& name : option.names) {
      out += " \\\n    " + quoted(fmt::format("{}{}[{}]{}", option.repeats || option.is_list ? "*" : "", name,
                                              zsh_text(option.help), option.takes_value ? zsh_action(option) : ""));
    }
  }
  for (const Argument& positional : arguments_of(program, verb, true)) {
    out += " \\\n    " + quoted((positional.repeats ? "*" : "") + zsh_action(positional));
  }
  if (verbs.empty()) {
    out += "\n}\n";
    return;
  }
  out +=
      " \\\n    '1: :->verb' '*:: :->rest'\n  case $state in\n    verb) _describe verb verbs ;;\n    rest)\n"
      "      case $line[1] in\n";
  for (const CLI::App* each : verbs) {
    out += fmt::format("        {}) {} ;;\n", each->get_name(), function_name(*each));
  }
  out += "      esac ;;\n  esac\n}\n";
  for (const CLI::App* each : verbs) {
    add_functions(out, program, *each);
  }
}

std::string zsh_script(const CLI::App& program) {
  std::string out = "#compdef diptych\n# zsh completion for diptych, as `diptych completion zsh` writes it.\n";
  add_functions(out, program, program);
  // A file in $fpath is called as a function; a sourced file only has to register it.
  return out + "\nif [ \"$funcstack[1]\" = _diptych ]; then\n  _diptych \"$@\"\nelse\n  compdef _diptych diptych\nfi\n";
}

}  // namespace

std::string completion_script(const CLI::App& program, const std::string& shell) {
  return shell == "bash" ? bash_script(program) : zsh_script(program);
}

}  // namespace diptych::cli
