// Owns the state of a parse: the class whose grammar parser.cpp and primaries.cpp write down. Included by those two.
#pragma once

#include <algorithm>
#include <vector>

#include "reward/math/tree.h"

namespace qrl::reward::math {

class Parser {
 public:
  explicit Parser(Tree& tree) : tree_(tree), tokens_(tree.tokens.tokens) {}

  void run();

 private:
  const Token& now(std::size_t ahead = 0) const noexcept { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(TokenType type, char code) const noexcept { return now().type == type && now().code == code; }
  bool is_op(char code) const noexcept { return is(TokenType::op, code); }
  bool take(TokenType type, char code = 0) noexcept;
  NodeIdx fail(std::string_view why) noexcept;

  NodeIdx make(Kind kind, const std::vector<Link>& links, std::string_view text = {});
  Node& made(NodeIdx idx) noexcept { return tree_.nodes[static_cast<std::size_t>(idx)]; }
  bool is_kind(NodeIdx idx, Kind kind) const noexcept { return idx >= 0 && tree_.at(idx).kind == kind; }

  /// Counts open calls of the functions that nest.
  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxTreeDepth) parser.fail("nested too deep");
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };

  // ---- lists and relations

  bool ends_list(TokenType closing) const noexcept;

  /// Items with separators between them; one item is itself. Semicolons separate lists of what commas separate.
  NodeIdx read_list(TokenType closing, bool semicolons);
  NodeIdx group(std::vector<Link> items);
  /// x = 2, y = 3 or x = 3, y = 2: a list for each of the alternatives that "or" joins, where each has one
  /// equation for each of the same letters, two at least. Empty where it is something else.
  std::vector<Link> alternatives(const std::vector<Link>& items);

  NodeIdx read_relation();
  /// Whether (k \in …) stands next.
  bool membership_follows() const noexcept;
  /// Whether \pmod{7}, mod 7 or (mod 7) stands next.
  bool modulus_follows() const noexcept;
  /// What is read so far, of that modulus where one follows.
  NodeIdx modulo(NodeIdx number);
  /// The item, or the right side of a relation, of a modulus that it has not itself.
  NodeIdx with_modulus(NodeIdx item, NodeIdx modulus);

  NodeIdx read_union();

  /// A number with the words behind it: 5 cm, 5 changes/day, 864 inches^2.
  NodeIdx read_quantity();
  /// Whether C or F stands behind degrees: 30°C, -4^\circ\text{F}.
  bool temperature_follows(NodeIdx degrees) const noexcept;
  NodeIdx read_temperature(NodeIdx degrees);
  /// 3 feet 4 inches, 2 hours and 30 minutes as one quantity of the smaller unit.
  NodeIdx with_smaller_units(NodeIdx quantity);
  /// How many tokens a number is that stands there as an exponent, perhaps in braces and negative; 0 where none does.
  std::size_t exponent_at(std::size_t ahead) const noexcept;
  /// Words behind a number that stand apart: (clips), \frac{\text{m}}{\text{s}}. How many tokens they are, and the
  /// first word among them; 0 where none do.
  struct WordsApart {
    std::size_t size = 0, first = 0;
  };
  WordsApart words_apart() const noexcept;
  /// The text from a token to the one before the next.
  std::string_view span_of(std::size_t first) const noexcept;

  NodeIdx read_ratio();

  // ---- arithmetic

  NodeIdx read_sum();
  NodeIdx read_dots();

  /// Whether an operand follows without an operation sign.
  bool starts_operand() const noexcept;

  NodeIdx read_product();
  static bool is_multiplicative(char code) noexcept;

  NodeIdx read_signed();
  /// −x² and −2x are what is negated whole; in a·−b only b is. Either way the value is the same.
  NodeIdx read_product_of_sign() { return read_signed(); }

  NodeIdx read_power();

  NodeIdx read_postfix() { return postfix_of(read_primary()); }

  NodeIdx postfix_of(NodeIdx idx);
  /// C_{10}^3, A_5^2 and P_5^2: a letter for subsets or arrangements with n and k, digits and k not above n.
  bool counts(NodeIdx letter, NodeIdx n, NodeIdx k) const noexcept;
  /// Their number.
  NodeIdx make_count(NodeIdx letter, NodeIdx n, NodeIdx k);

  // ---- primaries

  NodeIdx read_primary();

  NodeIdx read_words();

  /// The argument of \frac, \sqrt, _: a group or one operand.
  NodeIdx read_argument();

  NodeIdx plain_number();
  static bool is_digits(const Token& token) noexcept;
  /// Whether b is above a, both as digits.
  static bool below(std::string_view a, std::string_view b) noexcept;

  /// A number, alone or as the whole part of a mixed one: 11 5/6, 1\frac{4}{5}. A fraction behind a number that is not
  /// proper makes no sense as either.
  NodeIdx read_number();
  /// The next argument if it is digits, alone or in braces; type end otherwise.
  Token argument_digits() noexcept;

  /// Whether "(" after a symbol calls it rather than multiplies: f(…) always, P(A) and Y(t) for one symbol or number.
  bool applies_to_symbol() const noexcept;
  NodeIdx read_symbol(const Token& token);
  /// f, g, \Gamma and other names that a bracket behind them calls.
  static bool names_function(std::string_view name) noexcept;
  NodeIdx read_call_of(NodeIdx function);

  NodeIdx read_root();

  /// sin x, sin^2 x, log_2 8, max(a, b), \sum_{k=0}^{n} k. Links: arguments; `_` index; `^` exponent of the function.
  NodeIdx read_function(std::string_view name);
  /// What stands behind a function without brackets: factors up to the next function, sum or bracket.
  NodeIdx read_plain_argument();

  NodeIdx read_absolute();

  static char closing_of(char open) noexcept {
    return open == '(' ? ')' : open == '[' ? ']' : open == '{' ? '}' : open;
  }

  NodeIdx read_bracketed(char open);

  NodeIdx read_inside(char open);
  std::vector<Link> links_of(NodeIdx idx) const;

  NodeIdx read_environment(std::string_view name);
  NodeIdx read_entry();

  Tree& tree_;
  const std::vector<Token>& tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int num_bars_ = 0;
  bool in_set_ = false;
  bool entry_missing_ = true;
  bool ok_ = true;
};

}  // namespace qrl::reward::math
