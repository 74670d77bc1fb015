#include "tasks/countdown/solver.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/rational.h"

namespace qrl::tasks {

namespace {

using base::Rational;

using Mask = unsigned;

/// Holds an expression and its last operation ('\0': a number).
struct Term {
  std::string text;
  char op = '\0';
};

Term joined(const Term& a, char op, const Term& b) {
  const bool product = op == '*' || op == '/';
  const bool left = product && (a.op == '+' || a.op == '-');
  const bool right =
      (product && b.op != '\0' && (b.op != '*' || op == '/')) || (op == '-' && (b.op == '+' || b.op == '-'));
  const auto wrapped = [](const std::string& text, bool wrap) { return wrap ? "(" + text + ")" : text; };
  return {wrapped(a.text, left) + op + wrapped(b.text, right), op};
}

struct Operation {
  char op;
  bool swapped;
};
constexpr std::array<Operation, 6> kOperations = {
    {{'+', false}, {'*', false}, {'-', false}, {'/', false}, {'-', true}, {'/', true}}};

std::optional<Rational> applied(Operation operation, Rational first, Rational second) {
  if (operation.swapped) std::swap(first, second);
  switch (operation.op) {
    case '+':
      return sum(first, second);
    case '-':
      return difference(first, second);
    case '*':
      return product(first, second);
    default:
      return quotient(first, second);
  }
}

/// Returns the second operand for which `operation` on `first` gives `target`; none unless exactly one exists.
std::optional<Rational> missing(Operation operation, Rational first, Rational target) {
  switch (operation.op) {
    case '+':
      return difference(target, first);
    case '-':
      return operation.swapped ? sum(target, first) : difference(first, target);
    case '*':
      return first.numerator == 0 ? std::nullopt : quotient(target, first);
    default:
      if (first.numerator == 0) return std::nullopt;
      return operation.swapped ? product(target, first) : quotient(first, target);
  }
}

/// Tabulates the values of small subsets, and inverts operations from the target until the missing value is in a table.
class Search {
 public:
  explicit Search(std::span<const std::int64_t> numbers)
      : numbers_(numbers),
        num_tabled_(static_cast<int>(numbers.size()) / 2 + 1),
        tables_(std::size_t{1} << numbers.size()) {
    for (Mask mask = 1; mask < tables_.size(); ++mask) {
      if (std::popcount(mask) <= num_tabled_) fill(mask);
    }
  }

  std::optional<Term> solve(Mask mask, Rational target) const {
    if (std::popcount(mask) <= num_tabled_) {
      const Entry* entry = find(mask, target);
      return entry != nullptr ? std::optional(term(mask, *entry)) : std::nullopt;
    }
    for (Mask part = (mask - 1) & mask; part > 0; part = (part - 1) & mask) {
      if (std::popcount(part) > num_tabled_ || 2 * std::popcount(part) > std::popcount(mask)) continue;
      for (const Entry& entry : tables_[part]) {
        if (const auto found = solve_with(part, entry, mask & ~part, target)) return found;
      }
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    Rational value;
    Operation operation{'\0', false};  ///< '\0': a number
    Mask first_mask = 0;
    Rational first, second;  ///< values of the operands
  };

  static bool before(const Rational& a, const Rational& b) {
    return std::tie(a.numerator, a.denominator) < std::tie(b.numerator, b.denominator);
  }
  const Entry* find(Mask mask, Rational value) const {
    const std::vector<Entry>& table = tables_[mask];
    const auto at = std::lower_bound(table.begin(), table.end(), value,
                                     [](const Entry& entry, const Rational& v) { return before(entry.value, v); });
    return at != table.end() && at->value == value ? &*at : nullptr;
  }

  void fill(Mask mask) {
    std::vector<Entry>& table = tables_[mask];
    if (std::has_single_bit(mask)) {
      table.push_back({{numbers_[static_cast<std::size_t>(std::countr_zero(mask))], 1}, {'\0', false}, 0, {}, {}});
      return;
    }
    for (Mask part = (mask - 1) & mask; part > 0; part = (part - 1) & mask) {
      if (part < (mask & ~part)) continue;  // visits each partition once
      for (const Entry& a : tables_[part]) {
        for (const Entry& b : tables_[mask & ~part]) {
          for (const Operation operation : kOperations) {
            if (const auto value = applied(operation, a.value, b.value))
              table.push_back({*value, operation, part, a.value, b.value});
          }
        }
      }
    }
    std::ranges::stable_sort(table, [](const Entry& a, const Entry& b) { return before(a.value, b.value); });
    const auto same = [](const Entry& a, const Entry& b) { return a.value == b.value; };
    table.erase(std::unique(table.begin(), table.end(), same), table.end());
  }

  Term term(Mask mask, const Entry& entry) const {
    if (entry.operation.op == '\0') return {std::to_string(entry.value.numerator), '\0'};
    const Term first = term(entry.first_mask, *find(entry.first_mask, entry.first));
    const Term second = term(mask & ~entry.first_mask, *find(mask & ~entry.first_mask, entry.second));
    return in_order(first, entry.operation, second);
  }
  static Term in_order(const Term& first, Operation operation, const Term& second) {
    return operation.swapped ? joined(second, operation.op, first) : joined(first, operation.op, second);
  }

  std::optional<Term> solve_with(Mask part, const Entry& entry, Mask rest, Rational target) const {
    if (entry.value.numerator == 0 && target.numerator == 0)
      return in_order(term(part, entry), {'*', false}, sum_of(rest));
    for (const Operation operation : kOperations) {
      const auto second = missing(operation, entry.value, target);
      if (!second) continue;
      if (const auto found = solve(rest, *second)) return in_order(term(part, entry), operation, *found);
    }
    return std::nullopt;
  }
  Term sum_of(Mask mask) const {
    Term total;
    for (Mask left = mask; left > 0; left &= left - 1) {
      const Term number{std::to_string(numbers_[static_cast<std::size_t>(std::countr_zero(left))]), '\0'};
      total = total.text.empty() ? number : joined(total, '+', number);
    }
    return total;
  }

  std::span<const std::int64_t> numbers_;
  int num_tabled_;
  std::vector<std::vector<Entry>> tables_;  ///< values of each subset of at most num_tabled_ numbers, sorted
};

}  // namespace

std::optional<std::string> solve_countdown(std::span<const std::int64_t> numbers, std::int64_t target, Numbers use) {
  QRL_REQUIRE(!numbers.empty() && numbers.size() <= kMaxCountdownNumbers, "solve_countdown",
              "1 to " + std::to_string(kMaxCountdownNumbers) + " numbers", std::to_string(numbers.size()));
  // This is no valid Rational, so no answer equals it.
  if (target == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  const Search search(numbers);
  const Mask all = (Mask{1} << numbers.size()) - 1;
  for (Mask mask = all; mask > 0; --mask) {
    if (const auto found = search.solve(mask, {target, 1})) return found->text;
    if (use == Numbers::all) break;
  }
  return std::nullopt;
}

}  // namespace qrl::tasks
