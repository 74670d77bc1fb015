#include "config/modes/modes.h"

#include <vector>

#include "base/error.h"
#include "config/yaml/embedded.h"

namespace qrl::config {

namespace {

void add_defaults(const YamlNode& map, std::string_view with, std::vector<KeyDefault>& defaults) {
  for (const YamlMember& one : map.members) defaults.push_back({kept_text(one.name), kept_text(*one.value), with});
}

Choice mode_of(const base::EmbeddedFile& file) {
  Choice mode{.word = file.name.substr(0, file.name.rfind('.')), .what = {}};
  const YamlPtr root = embedded_yaml(file);
  for (const YamlMember& part : root->members) {
    if (part.name == "what") mode.what = kept_text(*part.value);
    else if (part.name == "paper") mode.paper = kept_text(*part.value);
    else if (part.name == "defaults") add_defaults(*part.value, "", mode.defaults);
    else if (part.name == "with")
      for (const YamlMember& key : part.value->members) add_defaults(*key.value, kept_text(key.name), mode.defaults);
    else base::fail_internal(std::string(file.name), "what, paper, defaults or with", part.name);
  }
  return mode;
}

std::vector<Choice> read_modes() {
  std::vector<Choice> modes;
  for (const base::EmbeddedFile& file : mode_files()) modes.push_back(mode_of(file));
  return modes;
}

}  // namespace

Choices modes() {
  static const std::vector<Choice> all = read_modes();
  Choices choices;
  for (const Choice& mode : all) choices.all.push_back(&mode);
  return choices;
}

}  // namespace qrl::config
