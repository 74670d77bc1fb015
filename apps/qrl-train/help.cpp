#include "help.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace qrl::app {

namespace {

std::string first_fact(const std::string& description) { return description.substr(0, description.find(';')); }

std::string columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, fact] : rows) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, fact] : rows) text += "  " + name + std::string(width - name.size() + 2, ' ') + fact + "\n";
  return text;
}

std::string screen(const CLI::App& program) {
  const std::string name = program.get_name();
  std::vector<std::pair<std::string, std::string>> options, commands;
  for (const CLI::Option* option : program.get_options()) {
    if (option->get_group() == kRareOptions) continue;
    const std::string type =
        option->get_type_size() > 0 && !option->get_positional() ? " " + option->get_type_name() : "";
    options.emplace_back((option->get_positional() ? option->get_name(true) : option->get_name(false, true)) + type,
                         first_fact(option->get_description()));
  }
  std::string others;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group() == kRareCommands) others += (others.empty() ? "" : ", ") + command->get_name();
    else commands.emplace_back(command->get_name(), first_fact(command->get_description()));
  }
  commands.emplace_back("more", others);
  return program.get_description() + "\n\n" +
         columns({{name + " RECIPE [OPTIONS]", "trains"}, {name + " COMMAND --help", "shows a command's help"}}) +
         "\n" + columns(options) + "\n" + columns(commands);
}

}  // namespace

void add_help(CLI::App& program) {
  program.set_help_flag("-h,--help", "print this help, and exit")->group(kRareOptions);
  program.set_help_all_flag("--help-all", "print all options and recipe keys, and exit");
  const auto whole = std::dynamic_pointer_cast<CLI::Formatter>(program.get_formatter());
  program.formatter_fn([whole](const CLI::App* app, std::string name, CLI::AppFormatMode mode) {
    return mode == CLI::AppFormatMode::Normal ? screen(*app) : whole->make_help(app, std::move(name), mode);
  });
}

}  // namespace qrl::app
