#pragma once

#include <memory>
#include <string>

namespace qrl::model {

/// Matches one of PEFT's regular expressions of module names, of at most 1,000 bytes, that PCRE2 and Python read alike.
/// It may have letters, digits, \d, \w, \b, escaped punctuation, (?: (?! (?= and . * + ? | ( ) [ ] { } ^ $.
class ModulePattern {
 public:
  /// Compiles the pattern. Throws an input error at `where` for others than those above.
  ModulePattern(const std::string& pattern, const std::string& where);

  /// Returns whether the whole name matches. Throws an input error after too many steps, because folders are untrusted.
  bool fits(const std::string& module) const;

 private:
  std::string pattern_, where_;
  std::shared_ptr<void> code_;
};

}  // namespace qrl::model
