// Owns regular expressions of module names, as PEFT gives them to Python's `re`. Knows nothing of adapters.
#pragma once

#include <memory>
#include <string>

namespace qrl::model {

/// PCRE2's, of letters, digits, \d, \w, \b, escaped punctuation, (?: (?! (?= and . * + ? | ( ) [ ] { } ^ $, at most
/// 1,000 bytes: what Python reads alike.
class ModulePattern {
 public:
  /// Input errors of `where` name a pattern that is not one of these, or that takes too many steps.
  ModulePattern(const std::string& pattern, const std::string& where);

  /// Whether the whole name fits. Bounded: a folder may come from anywhere.
  bool fits(const std::string& module) const;

 private:
  std::string pattern_, where_;
  std::shared_ptr<void> code_;
};

}  // namespace qrl::model
