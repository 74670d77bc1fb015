// Owns the check of rules between keys, and the place of each fault.
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

struct Origins {
  std::string whole;                          ///< the recipe's name, for keys without a source
  std::map<std::string, std::string> places;  ///< key → "file:line: key" of its last setting
  std::set<std::string> refused;              ///< keys with refused values, whose rules are skipped
};

/// Describes a broken rule.
struct Fault {
  std::vector<std::string> keys;  ///< that the rule reads, the most telling first
  std::string expected;
  std::string advice;
  std::string got = {};  ///< "": the values of `keys`
};

/// Reports each fault at the first of the rule's keys that the recipe sets.
class RuleBook {
 public:
  RuleBook(const Recipe& recipe, const Origins& origins, Faults& faults)
      : recipe_(recipe), origins_(origins), faults_(faults) {}

  /// Adds the fault unless the rule holds, or one of its keys was refused.
  void require(bool holds, const Fault& fault);

  /// Checks each key's condition (except in a record, where --set alone must have an effect), requirements and
  /// conflicts. Values at their defaults have no condition: every printed recipe has them.
  void check_rows(bool is_record);

  bool is_set(const std::string& key) const { return origins_.places.contains(key); }
  /// Returns a key's printed value, "none" for null.
  std::string value(const std::string& key) const;

 private:
  void check_requirements(const Key& key);

  const Recipe& recipe_;
  const Origins& origins_;
  Faults& faults_;
};

}  // namespace qrl::config
