// Owns checking rules between keys and placing their faults.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/faults.h"
#include "config/keys/key.h"
#include "config/recipe.h"

namespace qrl::config {

inline constexpr std::string_view kModePlace = "mode ";  // starts the place of a mode's key

/// As `got`, prints the values of the rule's keys.
inline const std::string kTheirValues = "the values of the rule's keys";

struct Origins {
  std::string whole;                          ///< the recipe's name, for keys without a source
  std::map<std::string, std::string> places;  ///< key → "file:line: key" of its last setting
  std::set<std::string> refused;              ///< keys with refused values, whose rules are skipped
};

/// Reports each fault at the first of the rule's keys that the recipe sets.
class RuleBook {
 public:
  RuleBook(const Recipe& recipe, const Origins& origins, Faults& faults)
      : recipe_(recipe), origins_(origins), faults_(faults) {}

  /// Adds a fault unless `holds`, or one of `keys` was refused.
  void require(const std::vector<std::string>& keys, bool holds, const std::string& expected, const std::string& got,
               const std::string& advice) {
    if (holds) return;
    std::string where = origins_.whole + ": " + keys.front();
    std::string of_mode;  // keys of the mode, not in the recipe's files
    bool placed = false;
    for (const std::string& key : keys) {
      if (origins_.refused.count(key) > 0) return;
      const auto place = origins_.places.find(key);
      if (place == origins_.places.end()) continue;
      if (!placed) where = place->second;
      else if (place->second.starts_with(kModePlace))
        of_mode += "; " + key + " is set by " + place->second.substr(0, place->second.find(':'));
      placed = true;
    }
    faults_.add(where, expected, got == kTheirValues ? values_of(keys) : got, advice + of_mode);
  }

  bool is_set(const std::string& key) const { return origins_.places.count(key) > 0; }

  /// Returns whether --set, not a file, set the key.
  bool is_override(const std::string& key) const {
    const auto place = origins_.places.find(key);
    return place != origins_.places.end() && place->second.starts_with("--set ");
  }

 private:
  std::string values_of(const std::vector<std::string>& keys) const {
    std::string text;
    for (const std::string& key : keys)
      text += (text.empty() ? "" : ", ") + key + " " + recipe_.keys->find(key)->print(recipe_);
    return text;
  }

  const Recipe& recipe_;
  const Origins& origins_;
  Faults& faults_;
};

}  // namespace qrl::config
