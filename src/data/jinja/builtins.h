#pragma once

#include <functional>

#include "data/jinja/values.h"

namespace qrl::data::jinja {

/// Precedence of an operator: a higher rank binds tighter.
using Rank = int;
inline constexpr Rank kOr = 0, kAnd = 1, kNot = 2, kCompared = 3, kAdded = 4, kJoined = 5, kMultiplied = 6, kUnary = 7;

/// A binary operator. `or` and `and` have no function, because they may skip the right operand.
struct Operator {
  std::string_view sign;
  Rank rank;
  std::function<Value(Value left, const Value& right, Budget& budget)> apply;
};
const std::vector<Operator>& operators();

/// How a template uses a name: `x | name`, `x is name`, `text.name()`, `object.name()` or `name()`.
using Use = unsigned;
inline constexpr Use kFilter = 1, kTest = 2, kOfText = 4, kOfObject = 8, kFunction = 16;

/// Applies a filter, test, method or function; functions ignore `value`.
using Builtin = std::function<Value(const Value& value, const Arguments& arguments, Budget& budget)>;

/// Returns the builtin with this name and use, never null. Calling it throws Unsupported if the name or an argument is
/// unknown.
Builtin builtin_of(Use use, const std::string& name);

}  // namespace qrl::data::jinja
