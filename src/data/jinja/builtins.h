// Owns what Jinja provides by name: operators, filters, tests, methods and functions, a row of a table each.
#pragma once

#include <functional>

#include "data/jinja/values.h"

namespace qrl::data::jinja {

/// Orders operators: one of a higher rank binds tighter.
enum Rank : std::uint8_t { kOr, kAnd, kNot, kCompared, kAdded, kJoined, kMultiplied, kUnary };

/// An operator between two values; `or` and `and`, which may skip the right one, have no function.
struct Operator {
  std::string_view sign;
  Rank rank;
  std::function<Value(Value left, const Value& right, Budget& budget)> apply;
};
const std::vector<Operator>& operators();

/// How a template uses a name: `x | name`, `x is name`, `text.name()`, `object.name()` or `name()`.
enum Use : std::uint8_t { kFilter = 1, kTest = 2, kOfText = 4, kOfObject = 8, kFunction = 16 };

/// Applies a filter, test or method to a value; a function has none.
using Builtin = std::function<Value(const Value& value, const Arguments& arguments, Budget& budget)>;

/// Returns what has that name in this use. A name that is not known here throws Unsupported when it is called; so do
/// arguments that are not known.
Builtin builtin_of(Use use, const std::string& name);

}  // namespace qrl::data::jinja
