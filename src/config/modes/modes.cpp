#include "config/modes/modes.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

namespace {

std::string text_of(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::sequence) return node.text;
  std::vector<std::string> texts;
  for (const YamlPtr& item : node.items) texts.push_back(item->text);
  return "[" + base::joined(texts, ", ") + "]";
}

void add_defaults(const YamlNode& map, const std::string& with, Option& mode) {
  for (const YamlMember& one : map.members) mode.defaults.push_back({one.name, text_of(*one.value), with});
}

Option mode_of(const base::EmbeddedFile& file) {
  const std::string name(file.name);
  Option mode{.word = name.substr(0, name.rfind('.')), .what = {}};
  const YamlPtr root = parse_own_yaml(file.text, name);
  for (const YamlMember& part : root->members) {
    if (part.name == "what") mode.what = part.value->text;
    else if (part.name == "paper") mode.paper = part.value->text;
    else if (part.name == "defaults") add_defaults(*part.value, "", mode);
    else if (part.name == "with") {
      for (const YamlMember& key : part.value->members) add_defaults(*key.value, key.name, mode);
    } else {
      base::fail_internal(name, "what, paper, defaults or with", part.name);
    }
  }
  return mode;
}

}  // namespace

Choices<Option> modes() {
  static const std::vector<Option> all = [] {
    std::vector<Option> modes;
    for (const base::EmbeddedFile& file : mode_files()) modes.push_back(mode_of(file));
    return modes;
  }();
  Choices<Option> choices;
  for (const Option& mode : all) choices.add(mode);
  return choices;
}

}  // namespace qrl::config
