#include "arguments.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/shipped_files.h"
#include "base/text.h"
#include "config/keys/key_types.h"
#include "config/keys/other_trainers.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::app {

std::string full_name(const CLI::App& command) {
  return (command.get_parent() == nullptr ? "" : full_name(*command.get_parent()) + " ") + command.get_name();
}

namespace {

std::vector<std::string> names_of(const CLI::App& parent) {
  std::vector<std::string> names;
  for (const CLI::App* command : parent.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// Removes leading plus signs (Hydra's "++key=value").
std::string without_pluses(const std::string& word) {
  return word.substr(std::min(word.find_first_not_of('+'), word.size()));
}

const CLI::Option* option_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option != nullptr || name.starts_with('-') ? option : command.get_option_no_throw("--" + name);
}

std::string type_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = option_of(command, name);
  return option == nullptr || option->get_type_name().empty() ? "a value" : option->get_type_name();
}

std::pair<std::string, std::string> sides_of(const std::string& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  return {text.substr(0, at), at == std::string::npos ? "" : text.substr(at + separator.size())};
}

struct Fault {
  std::string where, expected, got;
};
Fault fault_of(const CLI::App& command, const CLI::ParseError& error) {
  const std::string text = error.what();
  const auto [option, what] = sides_of(text, ": ");
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::RequiredError: {
      const std::string missing = sides_of(text, " is required").first;
      return {"", missing == "A subcommand" ? "one of " + base::joined(names_of(command), ", ") : missing, "none"};
    }
    case CLI::ExitCodes::ExtrasError: {
      const std::vector<std::string> extras = command.remaining();
      return {"", "no further argument", base::quoted(extras.empty() ? what : extras.front())};
    }
    case CLI::ExitCodes::RequiresError: {
      const auto [one, other] = sides_of(text, " requires ");
      return {one, other + " as well", "none"};
    }
    case CLI::ExitCodes::ExcludesError: {
      const auto [one, other] = sides_of(text, " excludes ");
      return {"", one + " or " + other, "both"};
    }
    case CLI::ExitCodes::ConversionError: {
      const auto [name, value] = sides_of(what, " = ");  // "Could not convert: NAME = VALUE"
      return {name, type_of(command, name), base::quoted(value)};
    }
    case CLI::ExitCodes::ArgumentMismatch:  // the error's text is "NAME: 1 required TYPE missing"
      return {option, type_of(command, option), "no value"};
    default:  // the error's text comes from our own checks: "NAME: expected …, got …"
      return {option, "", what};
  }
}

/// Removes an option's dashes: "--max_tokens" and "-max-tokens" both become "maxtokens".
std::string without_dashes(std::string option) {
  std::erase_if(option, [](char c) { return c == '-' || c == '_'; });
  return option;
}

/// Returns advice if an option is a recipe key ("--optim.lr=1e-6"), or a key of the command's section
/// ("eval --n" for eval.n), else "".
std::string advice_for_key(const CLI::App& command, const std::string& option, const std::string& value) {
  const std::string name = option.substr(2), of_command = command.get_name() + "." + name;
  if (train::keys().find(of_command) != nullptr) return "set the recipe key with --set " + of_command + "=" + value;
  if (train::keys().find(name) != nullptr) return "set the recipe key with --set " + name + "=" + value;
  const std::string advice = config::advice_for_unknown_key(train::keys(), name);
  return name.find('.') == std::string::npos && !advice.starts_with("here it is ") ? "" : advice + " (--set KEY=VALUE)";
}

std::string advice_for_extra(const CLI::App& command, const std::vector<std::string>& words) {
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) options.push_back("--" + known);
  }
  const auto is_known = [&](const std::string& option) { return std::ranges::find(options, option) != options.end(); };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') && word.find('=') != std::string::npos && (i == 0 || words[i - 1] != "--set") &&
        is_known("--set"))
      return "set the recipe key with --set " + without_pluses(word);
    if (i >= 2 && words[i - 2] == "--set" && train::keys().find(words[i - 1]) != nullptr)
      return "write --set " + words[i - 1] + "=" + word;
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals), behind = i + 1 < words.size() ? words[i + 1] : "VALUE";
    if (!word.starts_with('-') || is_known(option)) continue;
    const auto same = std::ranges::find(options, without_dashes(option), without_dashes);
    if (same != options.end()) return "did you mean " + *same + "?";
    if (!word.starts_with("--")) continue;
    const bool has_recipe = command.get_option_no_throw("RECIPE") != nullptr;
    if (has_recipe && option.starts_with("--config"))
      return "give the recipe file as the first argument: " + full_name(command) + " RECIPE.yaml";
    const std::string key =
        is_known("--set")
            ? advice_for_key(command, option, equals == std::string::npos ? behind : word.substr(equals + 1))
            : "";
    if (!key.empty()) return key;
    const std::string nearest = base::nearest_name(option, options);
    return nearest.empty() ? "" : "did you mean " + nearest + "?";
  }
  return "";
}

}  // namespace

void refuse_command(const CLI::App& parent, const std::string& word, const std::string& next) {
  const bool takes_recipe = parent.get_option_no_throw("RECIPE") != nullptr;
  const std::string name = full_name(parent);
  if (takes_recipe && word.find('=') != std::string::npos) {
    base::fail_input(name, "a recipe file first", base::quoted(word),
                     "type " + name + " RECIPE --set " + without_pluses(word));
  }
  const bool is_file = word.find_first_of("/.") != std::string::npos;
  if (takes_recipe && is_file)
    base::fail_input(name, "a recipe file", "no such file: " + base::quoted(word), "check the path");
  const std::vector<std::string> names = names_of(parent);
  const std::string nearest = base::nearest_name(word, names);
  std::error_code error;
  const std::string advice = !nearest.empty() ? "did you mean " + nearest + "?"
                             : takes_recipe && !next.empty() && std::filesystem::is_regular_file(next, error)
                                 ? "type " + name + " " + next
                                 : "";
  base::fail_input(name,
                   (takes_recipe       ? "a recipe file, or one of "
                    : names.size() > 1 ? "one of "
                                       : "") +
                       base::joined(names, ", "),
                   base::quoted(word), advice);
}

void check_commands(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* parent = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::vector<std::string> names = names_of(*parent);
    if (names.empty() || word.empty() || word.starts_with('-')) return;
    std::error_code error;
    const bool is_recipe = parent->get_option_no_throw("RECIPE") != nullptr && std::filesystem::exists(word, error);
    if (std::ranges::find(names, word) == names.end()) {
      if (is_recipe) return;
      refuse_command(*parent, word, i + 1 < words.size() ? words[i + 1] : "");
    }
    parent = parent->get_subcommand(word);
  }
}

std::vector<std::string> with_bare_options(std::vector<std::string> words) {
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto next = word + 1;
    if (*word == "--resume" && (next == words.end() || next->starts_with("--"))) word = words.insert(next, "auto");
  }
  return words;
}

std::vector<std::string> with_shipped_recipes(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (base::is_shipped_recipe(word)) word = base::shipped_recipe(word);
  }
  return words;
}

base::Error argument_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::string name = full_name(*command);
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const std::string advice = is_extra ? advice_for_extra(*command, words) : "";
  const Fault fault = fault_of(*command, error);
  const std::string where = name + (fault.where.empty() ? "" : ": " + fault.where);
  const std::string help = "see " + name + " --help";
  if (fault.expected.empty()) return {base::ErrorKind::input, where + ": " + fault.got, "", "", help};
  return {base::ErrorKind::input, where, fault.expected, fault.got, advice.empty() ? help : advice};
}

CLI::Validator between(std::int64_t low, std::int64_t high) {
  const std::string range = std::to_string(low) + ".." + std::to_string(high);
  return {[low, high, range](std::string& text) -> std::string {
            const auto value = base::number_in<std::int64_t>(text);
            if (value && *value >= low && *value <= high) return {};
            return "expected an integer in " + range + ", got " + (value ? text : base::quoted(text));
          },
          range};
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return {[words](std::string& text) -> std::string {
            if (std::ranges::find(words, text) != words.end()) return {};
            const std::string advice = config::nearest_advice(text, words);
            return (words.size() > 1 ? "expected one of " : "expected ") + base::joined(words, ", ") + ", got " +
                   base::quoted(text) + (advice.empty() ? "" : "; " + advice);
          },
          "{" + base::joined(words, ",") + "}"};
}

CLI::Validator positive() {
  return {[](std::string& text) -> std::string {
            const bool fits = base::number_in<double>(text).value_or(0) > 0;
            return fits ? "" : "expected a number above 0, got " + base::quoted(text);
          },
          ""};
}

CLI::Validator value_of(const std::string& key) {
  return {[key](std::string& text) { return train::value_fault(train::keys(), key, text); }, ""};
}

CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? "expected a name, got an empty string" : std::string(); }, ""};
}

CLI::Validator whole_number() {
  return {[](std::string& text) -> std::string {
            const auto value = base::number_in<std::uint64_t>(text);
            if (value && text == std::to_string(*value)) return {};
            return "expected an integer from 0 to 2^64-1, got " + base::quoted(text);
          },
          ""};
}

}  // namespace qrl::app
