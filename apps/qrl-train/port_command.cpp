#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "base/python.h"
#include "base/text.h"
#include "commands.h"
#include "config/keys/other_trainers.h"
#include "config/yaml/yaml_tree.h"
#include "state/file.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::app {

namespace {

using nlohmann::ordered_json;

constexpr const char* kReader = "python3 -m qrl_port";
constexpr const char* kDraft = "draft";  // the source's name while the recipe is checked

struct PortArguments {
  std::string file, out;
};

/// Converts a YAML tree to JSON. Scalars become strings.
ordered_json json_of(const config::YamlNode& node) {
  switch (node.kind) {
    case config::YamlNode::Kind::null:
      return nullptr;
    case config::YamlNode::Kind::scalar:
      return node.text;
    case config::YamlNode::Kind::sequence: {
      ordered_json items = ordered_json::array();
      for (const config::YamlPtr& item : node.items) items.push_back(json_of(*item));
      return items;
    }
    case config::YamlNode::Kind::map:
      break;
  }
  ordered_json members = ordered_json::object();
  for (const config::YamlMember& member : node.members) members[member.name] = json_of(*member.value);
  return members;
}

ordered_json parsed_yaml(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  config::Errors errors;
  const config::YamlPtr root = config::parse_yaml(text, {file}, errors);
  errors.raise();
  return json_of(*root);
}

/// Returns what the reader needs to know of the program: its keys, and the tables of other trainers.
ordered_json reader_input(const PortArguments& arguments) {
  ordered_json input = {{"file", arguments.file}, {"out", arguments.out}};
  for (const config::Key& key : train::keys().all())
    input["keys"][key.name] = {{"type", key.type}, {"default", key.print(train::keys().defaults())}};
  for (const config::Alias& alias : config::aliases(train::keys()))
    input["names"].push_back({alias.name, alias.key, alias.note, alias.rule});
  for (const config::ForeignValue& row : config::foreign_values()) {
    ordered_json settings = row.settings;
    if (!row.has_counterpart) settings = nullptr;
    input["values"][row.name][row.value] = {settings, row.note};
  }
  input["defaults"] = json_of(*config::foreign_defaults());
  if (arguments.file.ends_with(".yaml") || arguments.file.ends_with(".yml"))
    input["config"] = parsed_yaml(arguments.file);
  return input;
}

/// Runs the reader with `input` on its standard input. Returns its standard output. Throws an input error if it fails.
std::string run_reader(const std::string& input) {
  const int in = memfd_create("qrl-port", MFD_CLOEXEC);
  std::array<int, 2> out{};
  const auto size = static_cast<ssize_t>(input.size());
  QRL_INVARIANT(in >= 0 && write(in, input.data(), input.size()) == size && lseek(in, 0, SEEK_SET) == 0, kReader,
                "its input in memory", strerror(errno));
  QRL_INVARIANT(pipe2(out.data(), O_CLOEXEC) == 0, kReader, "a pipe", strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  const std::vector<std::string> words{base::python_program(), "-m", "qrl_port"};
  const std::vector<std::string> variables = base::python_environment("qrl_port/__main__.py");
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words[0].c_str(), &actions, nullptr, base::pointers_of(words).data(),
                                  base::pointers_of(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(in);
  close(out[1]);
  const std::string output = failed == 0 ? base::read_all(out[0]) : "";
  close(out[0]);
  QRL_REQUIRE(failed == 0, kReader, "a Python that starts", words[0] + ": " + strerror(failed),
              "install Python 3.10 or newer, or set QRL_PYTHON");
  const int status = base::wait_for(child);
  QRL_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0, kReader, "exit code 0",
              WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status)) : "a signal",
              "its own message is above; Python 3.10 or newer is needed");
  return output;
}

/// Describes a line of the recipe, and the other trainer's names that it is made of.
struct Line {
  std::string text;
  std::size_t num_names = 0;
  bool is_default = false;  ///< the other trainer's default, which its script does not name
};

struct Draft {
  std::vector<Line> lines;
  std::vector<std::string> open;  ///< faults that no line of the recipe has
  std::size_t num_translated = 0, num_without = 0, num_varying = 0;

  std::string text() const {
    std::string whole;
    for (const Line& line : lines) whole += line.text + "\n";
    return whole;
  }
  std::size_t num_read() const { return num_translated + num_without + num_varying; }
  std::string counts() const {
    return std::to_string(num_read()) + (num_read() == 1 ? " name read: " : " names read: ") +
           std::to_string(num_translated) + " translated, " + std::to_string(num_without) + " without a counterpart, " +
           std::to_string(num_varying) + " not constant";
  }
};

/// Turns each line that the recipe's reader refuses into a comment with the error, or deletes it if it is a default.
/// Returns whether there was one.
bool comment_refused(Draft& draft, const std::string& faults) {
  bool found = false;
  draft.open.clear();
  const std::string begin = std::string(kDraft) + ":";
  for (const std::string_view fault : config::split(faults, "\n")) {
    std::size_t number = 0;
    if (fault.starts_with(begin)) number = std::strtoul(std::string(fault.substr(begin.size())).c_str(), nullptr, 10);
    if (number == 0 || number > draft.lines.size() ||
        draft.lines[number - 1].text.find_first_not_of(' ') == std::string::npos) {
      draft.open.emplace_back(fault);
      continue;
    }
    Line& line = draft.lines[number - 1];
    const std::size_t indent = line.text.find_first_not_of(' ');
    if (line.text[indent] == '#') continue;  // by an earlier fault of the same line
    const std::string_view reason = fault.substr(fault.find(": ") + 2);
    found = true;
    if (line.is_default) {
      line.text = "# deleted";
      continue;
    }
    line.text = line.text.substr(0, indent) + "# " + line.text.substr(indent) + "\n" + line.text.substr(0, indent) +
                "#   refused: " + base::printable(reason);
    draft.num_translated -= line.num_names;
    draft.num_without += line.num_names;
    line.num_names = 0;
  }
  return found;
}

/// Splits lines at their line breaks, so that a line's number is its place again.
void split_lines(Draft& draft) {
  std::vector<Line> lines;
  for (const Line& line : draft.lines) {
    if (line.is_default && line.text.starts_with('#')) continue;
    std::size_t num_names = line.num_names;
    for (const std::string_view part : config::split(line.text, "\n"))
      lines.push_back({std::string(part), std::exchange(num_names, 0), line.is_default});
  }
  draft.lines = std::move(lines);
}

void check_draft(Draft& draft) {
  constexpr int kMaxPasses = 20;
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    try {
      (void)train::parse_recipe(train::keys(), draft.text(), kDraft, "", {}, false, train::RecipeUse::training);
      draft.open.clear();
      return;
    } catch (const base::Error& error) {
      if (!comment_refused(draft, error.what())) return;
      split_lines(draft);
    }
  }
}

void write_file(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  QRL_REQUIRE(stream.good(), file, "a file that can be written", strerror(errno), "check the folder and the disk");
}

/// Returns what the reader makes of the script. It names a YAML config that the script's command reads, which is parsed
/// for it.
ordered_json read_script(const PortArguments& arguments) {
  ordered_json input = reader_input(arguments);
  for (;;) {
    ordered_json made =
        ordered_json::parse(run_reader(input.dump(-1, ' ', false, ordered_json::error_handler_t::replace)));
    if (!made.contains("config")) return made;
    const std::string file = made["config"];
    input["configs"][file] = parsed_yaml(file);
  }
}

void port(const PortArguments& arguments) {
  QRL_REQUIRE(std::filesystem::is_regular_file(arguments.file), arguments.file,
              "a script, notebook or config of another trainer",
              std::filesystem::is_directory(arguments.file) ? "a folder"
              : std::filesystem::exists(arguments.file)     ? "not a regular file"
                                                            : "no such file",
              "check the path");
  if (!arguments.out.empty()) require_new_file(arguments.out, "--out");
  const ordered_json made = read_script(arguments);
  if (made.contains("error")) {
    const auto parts = made["error"].get<std::array<std::string, 4>>();
    base::fail_input(parts[0], parts[1], parts[2], parts[3]);
  }
  Draft draft;
  draft.num_translated = made["translated"];
  draft.num_without = made["without"];
  draft.num_varying = made["varying"];
  for (const ordered_json& line : made["lines"]) draft.lines.push_back({line[0], line[1], line[2]});
  check_draft(draft);
  std::string recipe = "# qrl-train port " + state::shown(arguments.file) + ": " + draft.counts() + ".\n";
  for (const ordered_json& line : made["head"]) recipe += "# " + line.get<std::string>() + "\n";
  for (const std::string& fault : draft.open) recipe += "# open: " + base::printable(fault) + "\n";
  recipe += draft.text();
  if (arguments.out.empty()) {
    std::fwrite(recipe.data(), 1, recipe.size(), stdout);
    return;
  }
  for (const auto& [file, text] : made["files"].items()) require_new_file(file, "--out");
  for (const auto& [file, text] : made["files"].items()) write_file(file, text.get<std::string>());
  write_file(arguments.out, recipe);
  std::printf("%s: %s\n", arguments.out.c_str(), draft.counts().c_str());
  for (const auto& [file, text] : made["files"].items())
    std::printf("%s: the script's reward functions\n", file.c_str());
  std::printf("next: qrl-train %s --dry-run\n", base::shell_word(arguments.out).c_str());
}

}  // namespace

void add_port(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<PortArguments>();
  CLI::App* command = app.add_subcommand(
      "port",
      "write the recipe of another trainer's script; reads shell scripts, Python scripts, notebooks, JSON and YAML "
      "configs of TRL, Unsloth, veRL and OpenRLHF, and runs nothing of them");
  command->add_option("FILE", arguments->file, "the script or config")->required()->check(not_empty());
  add_text(*command, "--out", arguments->out, "RECIPE",
           "write the recipe to this new file, and the script's reward functions beside it; default: print the recipe");
  set_work(*command, action, arguments, port);
}

}  // namespace qrl::app
