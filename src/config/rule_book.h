// Owns how a rule between keys is judged and its fault placed. Knows no rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/faults.h"
#include "config/keys.h"
#include "config/recipe.h"
#include "config/rules.h"

namespace qrl::config {

inline constexpr std::string_view kModePlace = "mode ";  // begins the place of a key that the mode set

/// Stands for the values of a rule's keys in what a rule found.
inline const std::string kTheirValues = "the values of the rule's keys";

/// The keys of one rule and the place of the first that was set.
class RuleBook {
 public:
  RuleBook(const Recipe& recipe, const Origins& origins, Faults& faults)
      : recipe_(recipe), origins_(origins), faults_(faults) {}

  /// Nothing when `holds`, or when one of `keys` was refused already.
  void require(const std::vector<std::string>& keys, bool holds, const std::string& expected, const std::string& got,
               const std::string& advice) {
    if (holds) return;
    std::string where = origins_.whole + ": " + keys.front();
    std::string of_mode;  // what the reader of the recipe's files does not find there
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

  /// By --set, not in a file.
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
