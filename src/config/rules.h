// Owns the check of rules that rows of keys and options state.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/errors.h"
#include "config/keys/key.h"

namespace qrl::config {

inline constexpr std::string_view kModePlace = "mode ";  // prefix of a key's place if the mode sets it

struct Origins {
  std::string whole;                          ///< name of the recipe, for keys without a place
  std::map<std::string, std::string> places;  ///< key → "file:line: key" where it was last set
  std::set<std::string> invalid;              ///< keys with invalid values, whose rules are skipped

  /// Returns whether --set set the key last.
  bool is_override(std::string_view key) const;
};

/// Reports each broken rule at the first of its keys that the recipe sets.
class RuleBook {
 public:
  /// All must outlive the book, to whose `errors` it adds.
  RuleBook(const Keys& keys, const Recipe& recipe, const Origins& origins, Errors& errors)
      : keys_(keys), recipe_(recipe), origins_(origins), errors_(errors) {}

  /// Adds an error if the rule does not hold, unless one of its keys has an invalid value. `keys` lists the keys that
  /// the rule reads, most relevant first. If `got` is empty, the error shows the keys' values.
  void require(bool holds, const std::vector<std::string>& keys, const std::string& expected, const std::string& advice,
               const std::string& got = {});
  /// Reports keys without effect unless they have their defaults. In a record, reports only keys of --set. Checks the
  /// requirements of keys with an effect.
  void check_rows(bool is_record);
  /// Checks the constraints of the selected options.
  void check_options();

 private:
  void check_requirements(const Key& key);

  const Keys& keys_;
  const Recipe& recipe_;
  const Origins& origins_;
  Errors& errors_;
};

}  // namespace qrl::config
