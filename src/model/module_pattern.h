// Owns regular expressions of module names, which PEFT passes to Python's `re`.
#pragma once

#include <memory>
#include <string>

namespace qrl::model {

/// A regular expression that PCRE2 and Python read alike, of at most 1,000 bytes. It may have letters, digits, \d, \w,
/// \b, escaped punctuation, (?: (?! (?= and . * + ? | ( ) [ ] { } ^ $.
class ModulePattern {
 public:
  /// Throws an input error at `where` for any other pattern.
  ModulePattern(const std::string& pattern, const std::string& where);

  /// Returns whether the whole name matches. Throws an input error for a pattern that takes too many steps, since
  /// folders are untrusted.
  bool fits(const std::string& module) const;

 private:
  std::string pattern_, where_;
  std::shared_ptr<void> code_;
};

}  // namespace qrl::model
