// Owns what a tree is worth. Knows nothing of how answers are compared.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reward/math/tree.h"
#include "reward/math/value.h"

namespace qrl::reward::math {

/// Counts the work of a verdict; what is asked for after it is spent is undefined.
class Budget {
 public:
  bool spend(std::int64_t steps = 1) noexcept { return (left_ -= steps) >= 0; }
  bool spent() const noexcept { return left_ < 0; }

 private:
  std::int64_t left_ = 4000;  ///< nodes evaluated or compared: up to 1 µs each, our choice
};

/// Values of a tree's nodes. Every node has one: what is no number (a set within a function, a relation under a sum)
/// is an opaque value of its parts.
class Evaluator {
 public:
  /// `upper`: ± is + and ∓ is −; otherwise ± is − and ∓ is +.
  Evaluator(Algebra algebra, Budget& budget, bool upper = true) noexcept
      : algebra_(algebra), budget_(budget), upper_(upper) {}

  Value value(const Node& at);
  /// From now on `variable` is worth `value`, which must outlive it.
  void assign(std::string_view variable, const Value& value) noexcept { variable_ = variable, assigned_ = &value; }

 private:
  Value sum(const Node& at);
  Value product(const Node& at);
  Value power(const Node& at);
  Value root(const Node& at);
  Value call(const Node& at);
  std::optional<Value> known_call(Law law, std::vector<Value>& arguments, const std::optional<Value>& index);
  Value subscript(const Node& at);
  Value ratio(const Node& at);
  Value matrix(const Node& at);
  Value matrix_product(const Node& at);
  /// A symbol for an entry of matrices of a shape.
  Value place(std::size_t size, std::size_t columns, std::size_t k) const;
  Value opaque(const Node& at);

  Algebra algebra_;
  Budget& budget_;
  bool upper_;
  std::string_view variable_;
  const Value* assigned_ = nullptr;
};

}  // namespace qrl::reward::math
