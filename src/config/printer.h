#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys/key.h"

namespace qrl::config {

/// Returns canonical YAML of all keys in declaration order. Reading it gives the same recipe. If `origins` (by key) is
/// given, a comment after each value states its origin.
std::string resolved_yaml(const Keys& keys, const Recipe& recipe,
                          const std::map<std::string, std::string>* origins = nullptr);

/// Describes a key whose canonical value differs between two recipes.
struct KeyChange {
  std::string key, before, after;
  bool may_be_allowed = false;  ///< true for OnResume::allow_change
};
/// Lists changed keys in declaration order, except those with OnResume::free.
std::vector<KeyChange> changes_on_resume(const Keys& keys, const Recipe& before, const Recipe& after);
/// Lists changed keys among `names` (full keys, or sections that end with a point).
std::vector<KeyChange> changes_among(const Keys& keys, std::span<const std::string_view> names, const Recipe& before,
                                     const Recipe& after);

/// Return texts for help.
std::string default_text(const Keys& keys, const Key& key);
std::string meaning_text(const Key& key);
/// Returns --help-all, a line per key: "section.key  TYPE, default VALUE  meaning".
std::string keys_help(const Keys& keys);

}  // namespace qrl::config
