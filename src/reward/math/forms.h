// Owns questions about the form of an answer that need no values.
#pragma once

#include <array>
#include <optional>

#include "reward/math/tree.h"

namespace qrl::reward::math {

/// Whether a variable occurs in it; words count as one.
bool has_symbols(const Tree& tree, NodeIdx idx) noexcept;
bool has_symbol(const Tree& tree, NodeIdx idx, std::string_view name) noexcept;
/// Made of numbers, constants and symbols by sums, products, powers and roots.
bool is_arithmetic(const Tree& tree, NodeIdx idx) noexcept;
/// Whether it is made of numbers and variables by + − · / and powers with integers.
bool is_rational_function(const Tree& tree, NodeIdx idx) noexcept;
/// Whether a sign in it depends on whether a variable is even: (−1)ⁿ.
bool alternates(const Tree& tree, NodeIdx idx) noexcept;
/// Whether a factorial or a binomial coefficient of variables occurs in it.
bool has_symbolic_factorials(const Tree& tree, NodeIdx idx) noexcept;
/// Whether the same variables occur in both, with the same indices.
bool same_symbols(const Tree& a, NodeIdx of_a, const Tree& b, NodeIdx of_b);
/// Whether it is a sum of even powers of real variables and numbers without a minus; z and w are none, they may be
/// complex.
bool is_never_negative(const Tree& tree, NodeIdx idx) noexcept;
bool has_plus_minus(const Tree& tree, NodeIdx idx) noexcept;
/// Whether a number with words occurs in it.
bool has_quantity(const Tree& tree, NodeIdx idx) noexcept;

/// Whether it merely names a value, left of "… = value": no sum, power or inequality of variables.
bool is_name(const Tree& tree, NodeIdx idx) noexcept;
/// How many different symbols, indexed ones and calls f(1) occur in it; capitals in a row, AB, are one.
std::size_t count_names(const Tree& tree, NodeIdx idx);
/// 2xy, m − n, m + 2n: a multiple of names, or a linear form other than a sum of names and of powers of ten times them
/// (100a + b), which is the side of an equation rather than what is asked for.
bool is_equation_side(const Tree& tree, NodeIdx idx) noexcept;
/// A^{-1}, A^T, (AB)^2: a power of a capital, an index of one or a product of them.
bool is_power_of_capital(const Tree& tree, NodeIdx idx) noexcept;
/// Where the unit vectors i, j and k stand in it, with hats or, where none has one, without; −1 for those that do not.
std::array<NodeIdx, 3> unit_vectors(const Tree& tree, NodeIdx idx) noexcept;
/// m + n, a + b + c: what "m + n = 204" names. No other sum.
bool is_sum_of_names(const Tree& tree, NodeIdx idx) noexcept;
/// Whether "or" stands between inequalities or choices of a list; nothing where it is no list of these alone.
std::optional<bool> offers_alternatives(const Tree& tree, NodeIdx idx) noexcept;
/// x, x_1, f(x), (x, y) or a word, but no product.
bool is_variable(const Tree& tree, NodeIdx idx) noexcept;
/// The letters behind a number that may be units rather than variables, apart from it: "m/s^2" of "6 m/s^2". Empty:
/// none.
std::string_view unit_letters(const Tree& tree, NodeIdx idx) noexcept;

/// Whether both are the same term of a sequence: a_n and a(n), where the latter is read as a product.
bool same_term(const Tree& a, NodeIdx of_a, const Tree& b, NodeIdx of_b) noexcept;

/// What an answer is without what may be left out of it beside one that has it not; `idx` where there is no such.
NodeIdx without_point_name(const Tree& tree, NodeIdx idx) noexcept;  ///< (1, 2) of A(1, 2)
NodeIdx without_transpose(const Tree& tree, NodeIdx idx) noexcept;   ///< (1, 2) of (1, 2)^T
NodeIdx without_words(const Tree& tree, NodeIdx idx) noexcept;       ///< (1, 2) of "(1, 2) is the vertex"
/// x² of "x², x ∈ ℝ" and 2kπ of "2kπ, k ∈ ℤ": of a domain of a variable that occurs in it.
NodeIdx without_domain(const Tree& tree, NodeIdx idx) noexcept;

/// The letter of an answer whose name does not matter: C or c added as a constant of integration, or the only one of k,
/// l, m and n where it stands beside π as in 2kπ. Empty: there is none.
struct FreeLetter {
  std::string_view name;
  bool is_integer = false;
};
FreeLetter free_letter(const Tree& tree, NodeIdx idx) noexcept;

/// The modulus of "3 mod 7", and of a relation that ends so; −1 where there is none.
NodeIdx modulus_of(const Tree& tree, NodeIdx idx) noexcept;

/// Capitals written next to each other, with nothing between them, and what stands before them.
struct Capitals {
  std::string_view letters;  ///< empty: there are none, or something else besides
  bool angle = false;
};
/// "HTH", "\angle ABC": a word, a sequence or points rather than a product, where nothing else is there.
Capitals capitals(const Tree& tree, NodeIdx idx) noexcept;
/// In the same order; the three points of an angle also from the other side.
bool same_capitals(const Capitals& a, const Capitals& b) noexcept;

bool is_collection(const Node& node) noexcept;             ///< list, tuple, set
bool is_set_like(const Tree& tree, NodeIdx idx) noexcept;  ///< unions, ℝ, ℝ⁺, ℝ − {0}, ∅, {x | …}
bool is_matrix(const Tree& tree, NodeIdx idx) noexcept;

}  // namespace qrl::reward::math
