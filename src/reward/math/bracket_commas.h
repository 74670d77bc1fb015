// Owns commas directly inside brackets: what stands in (1,234) are two things, not a number in a bracket. Knows nothing
// of characters.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "reward/math/lexer.h"

namespace qrl::reward::math {

/// Told of every token, it takes numbers with thousands apart again where they and their commas are all that separates
/// the content of a bracket, (…), […] or \{…\}, that is an item by itself: an answer, or a member of one. Where the
/// bracket is an operand, (1,000)(0.05), and where other commas stand in it, (1,234, 5), a number stays one.
class BracketCommas {
 public:
  /// Braces that a text begins with are a set's; others are LaTeX's and group.
  BracketCommas(std::vector<Token>& tokens, bool begins_with_brace) noexcept
      : tokens_(tokens), begins_with_brace_(begins_with_brace) {}

  /// The token pushed last. `rest`: the text behind it.
  void pushed(std::string_view rest);
  /// The number pushed last has thousands between commas, the first `first_group` digits before them.
  void pushed_thousands(std::size_t first_group);

 private:
  struct Bracket {
    std::size_t open = 0;
    bool item = false;       ///< it may be one, as far as what stands before it says
    bool separated = false;  ///< by a comma of its own, or by another separator
  };
  struct Number {
    std::size_t at = 0;
    std::size_t first_group = 0;
    std::size_t depth = 0;  ///< brackets open around it
  };
  bool begins_item(std::size_t open) const noexcept;
  void take_apart(const Number& number);

  std::vector<Token>& tokens_;
  bool begins_with_brace_;
  std::vector<Bracket> brackets_;
  std::vector<Number> numbers_;
};

}  // namespace qrl::reward::math
