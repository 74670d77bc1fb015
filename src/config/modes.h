// Owns what each paper's system sets: defaults of keys, nothing else. Knows no YAML but values.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/recipe.h"

namespace qrl::config {

/// A key that no file and no argument sets has this value. With `with`, only while that key has the mode's own value: a
/// recipe that takes another format or method does not inherit what belongs to the mode's.
struct ModeDefault {
  std::string_view key, value;  ///< value as YAML
  std::string_view with = {};
};

std::span<const ModeDefault> defaults_of(Mode mode);
std::string_view word_of(Mode mode);  ///< "" for none

/// A section of docs/reference/recipe-keys.md, made from the same list.
std::string modes_markdown();

}  // namespace qrl::config
