// Owns a pre-tokenizer's pattern: where it cuts a text. Knows nothing of tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::data {

/// A regular expression as tokenizer.json has it, which the tokenizers library gives to Oniguruma and we to PCRE2 (UTF,
/// UCP, JIT). The two agree on what is accepted here, and nothing else is: literals and escaped punctuation, \r \n \t,
/// \s \S \d \D, \p{…} and \P{…} of general categories, classes without nesting or \S, \D, \P in them, groups (plain,
/// (?:, (?i:), look-ahead and look-behind, alternatives, greedy, lazy and possessive repeats. Where their tables
/// differ, Oniguruma's are meant: \s leaves out U+180E, and letters, digits and marks of Unicode 15 and 16 are added to
/// a PCRE2 that knows 14 only.
class SplitPattern {
 public:
  /// Input errors of `where` name what is not accepted, or what PCRE2 says of a pattern that is wrong.
  SplitPattern(const std::string& pattern, const std::string& where);

  /// What one thread needs to match. May be used for any number of patterns and texts, one after another.
  class Scratch {
   public:
    Scratch();

   private:
    friend class SplitPattern;
    std::shared_ptr<void> match_data_;
  };

  /// Finds the first match at byte `from` or after it in valid UTF-8; false when there is none. `begin` and `end` are
  /// its bytes. An input error when the pattern needs more steps than PCRE2 allows.
  bool find(std::string_view text, std::size_t from, Scratch& scratch, std::size_t& begin, std::size_t& end) const;

 private:
  std::string where_;
  std::shared_ptr<void> code_;
};

/// The pattern that matches exactly `text`.
std::string escaped_pattern(std::string_view text);

}  // namespace qrl::data
