// Owns advice about unknown keys and values: the nearest key, or ours for a name or value of veRL, TRL or OpenRLHF.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"
#include "config/keys/key.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

std::span<const base::EmbeddedFile> table_files();  // written by src/embed.cmake

/// Maps another trainer's value to ours (config/keys/other_values.yaml).
struct ForeignValue {
  std::string name;  ///< the other trainer's name, or our key
  std::string value;
  std::string settings;  ///< our value, "KEY: VALUE", or several joined by " and "; "": nothing to set
  std::string note;      ///< difference, or why there is no counterpart; may be empty
  bool has_counterpart = true;
};

const std::vector<ForeignValue>& foreign_values();

/// Returns other_defaults.yaml: a map from each trainer to its names and values.
YamlPtr foreign_defaults();

/// Returns all aliases in the reference page's order: first other_trainers.yaml, then Option::aliases.
std::vector<Alias> aliases(const Keys& keys);

/// Returns advice about an unknown key: "did you mean …?", "here it is …" Returns "" for a long name.
std::string advice_for_unknown_key(const Keys& keys, std::string_view name);

/// Returns advice about another trainer's value of our key; "" for a value that no table has.
std::string advice_for_value(std::string_view key, std::string_view value);

}  // namespace qrl::config
