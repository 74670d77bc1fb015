#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace qrl::data {

/// A pre-tokenizer's regular expression. The tokenizers library runs it in Oniguruma, this program in PCRE2 (UTF, UCP,
/// JIT). Accepts only syntax that means the same in both:
/// - literals and escaped punctuation, \r \n \t, \s \S \d \D, \p{…} and \P{…} of general categories;
/// - classes without nested classes, \S, \D or \P;
/// - groups that begin with "(", "(?:", "(?i:" or "(?>"; look-ahead, look-behind and alternatives;
/// - greedy, lazy and possessive repeats.
///
/// Uses Oniguruma's character tables. \s excludes U+180E. PCRE2 with Unicode 14 gets the letters, digits and marks of
/// Unicode 15 and 16.
class SplitPattern {
 public:
  /// Throws an input error with `where` for syntax that is not accepted, and for PCRE2's errors.
  SplitPattern(const std::string& pattern, const std::string& where);

  /// Holds working memory for one thread at a time, for any pattern and text.
  class Scratch {
   public:
    Scratch();

   private:
    friend class SplitPattern;
    std::shared_ptr<void> match_data_;
  };

  /// Finds the first match at or after byte `from` of valid UTF-8 and sets its bytes [begin, end). Returns false
  /// without a match. Throws an input error if the pattern takes more steps than PCRE2 allows.
  bool find(std::string_view text, std::size_t from, Scratch& scratch, std::size_t& begin, std::size_t& end) const;

 private:
  std::string where_;
  std::shared_ptr<void> code_;
};

std::string escaped_pattern(std::string_view text);

}  // namespace qrl::data
