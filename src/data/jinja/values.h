#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/marked_text.h"

namespace qrl::data::jinja {

/// Thrown if a template cannot be rendered here, or calls raise_exception.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& what);

struct List;
struct Object;
struct Namespace;
struct Loop;
struct Macro;
struct Budget;

/// Types of values; `method`: a method that is named but not called.
enum class Kind : std::uint8_t { undefined, none, flag, integer, real, text, list, object, names, loop, macro, method };

/// Any value; copies are cheap. Shared values are immutable, except namespaces.
class Value {
 public:
  Value() = default;
  explicit Value(Kind kind) noexcept : kind_(kind) {}
  Value(std::nullptr_t) noexcept : kind_(Kind::none) {}
  Value(std::same_as<bool> auto flag) noexcept : kind_(Kind::flag), number_{.integer = flag} {}
  Value(std::int64_t integer) noexcept : kind_(Kind::integer), number_{.integer = integer} {}
  Value(double real) noexcept : kind_(Kind::real), number_{.real = real} {}
  Value(Text text) : kind_(Kind::text), shared_(std::make_shared<Text>(std::move(text))) {}
  template <class T>
  Value(std::shared_ptr<T> shared) noexcept : kind_(T::kKind), shared_(std::move(shared)) {}

  Kind kind() const noexcept { return kind_; }
  bool is_undefined() const noexcept { return kind_ == Kind::undefined; }
  bool is_none() const noexcept { return kind_ == Kind::none; }
  bool is_number() const noexcept { return kind_ >= Kind::flag && kind_ <= Kind::real; }
  /// Returns a number; 1 or 0 for a boolean.
  double real() const noexcept { return kind_ == Kind::real ? number_.real : static_cast<double>(number_.integer); }
  /// The functions below return the value, or null for another type.
  const std::int64_t* integer() const noexcept { return kind_ == Kind::integer ? &number_.integer : nullptr; }
  const Text* text() const noexcept { return held<Text>(Kind::text); }
  const List* list() const noexcept { return held<List>(Kind::list); }
  const Object* object() const noexcept { return held<Object>(Kind::object); }
  Namespace* names() const noexcept { return held<Namespace>(Kind::names); }
  const Loop* loop() const noexcept { return held<Loop>(Kind::loop); }
  const Macro* macro() const noexcept { return held<Macro>(Kind::macro); }
  /// Returns whether the filter `safe` made this text. What `+` adds to it is escaped for HTML.
  bool is_safe() const noexcept { return is_safe_; }
  Value as_safe() && noexcept { return is_safe_ = true, std::move(*this); }
  /// Returns the text if no other value shares it, else null.
  Text* own_text() noexcept { return shared_.use_count() == 1 ? held<Text>(Kind::text) : nullptr; }

 private:
  template <class T>
  T* held(Kind kind) const noexcept {
    return kind_ == kind ? static_cast<T*>(const_cast<void*>(shared_.get())) : nullptr;
  }

  Kind kind_ = Kind::undefined;
  bool is_safe_ = false;
  union {
    std::int64_t integer = 0;
    double real;
  } number_;
  std::shared_ptr<const void> shared_;
};

using Values = std::vector<Value>;
/// Python's types of sequences. view: dict.keys(), values(), items(); generator: what `map` and `select` return.
enum class Sequence : std::uint8_t { list, tuple, range, view, generator };
struct List {
  static constexpr Kind kKind = Kind::list;
  Values items;
  int depth = 1;
  Sequence type = Sequence::list;
  mutable bool is_spent = false;  ///< a generator that was read, which Python reads only once
  bool has_elements() const noexcept { return type <= Sequence::range; }
};
struct Object {
  static constexpr Kind kKind = Kind::object;
  std::vector<std::pair<Value, Value>> members;  ///< in order of insertion; keys are texts, numbers, none or tuples
  int depth = 1;
  const Value* find(std::string_view name) const;  ///< null if absent
  const Value* find(const Value& key, Budget& budget) const;
  /// Adds or replaces a member. Throws Unsupported for a loop, a namespace, or values nested too deeply.
  void set(Text name, Value value);
  /// The same for a key of any type. Throws Unsupported for a key that Python cannot hash.
  void set(const Value& key, Value value, Budget& budget);

 private:
  std::map<std::string, std::size_t, std::less<>> places_;  ///< indices of members by name, once they are many
};
struct Namespace : Object {
  static constexpr Kind kKind = Kind::names;
};
struct Loop {
  static constexpr Kind kKind = Kind::loop;
  Value list;
  std::size_t at = 0;
};
struct Arguments {
  Values positional;
  std::vector<std::pair<Text, Value>> named;
  /// Returns the argument by position or name; undefined if it was not passed.
  const Value& get(std::size_t place, std::string_view name = {}) const;
  bool has(std::size_t place, std::string_view name) const;
  std::size_t size() const noexcept { return positional.size() + named.size(); }
};

/// Limits a render's work; a unit is about a byte of text, or a name that a search compares. spend() throws Unsupported
/// beyond the limit.
struct Budget {
  std::size_t left = 0;
  void spend(std::size_t amount) {
    if (amount > left) fail("more work than a chat template may do");
    left -= amount;
  }
};

/// Throws like Object::set.
Value make_list(Values items, Sequence type = Sequence::list);
/// Converts JSON. Every text and member name gets this source. Throws Unsupported for integers beyond 64 bits.
Value value_of(const nlohmann::ordered_json& json, Source source);

bool is_true(const Value& value);
/// Return the text or integer. Throw Unsupported with `what` for another type.
const Text& text_of(const Value& value, std::string_view what);
std::int64_t integer_of(const Value& value, std::string_view what);
/// Returns a list of what a loop visits: a list's elements, an object's keys or a text's characters. For an undefined
/// value, the list is empty. Throws like text_of, and for a generator that was read before.
Value elements_of(const Value& value, std::string_view what, Budget& budget);
/// Appends the value to `out`, formatted like Python's str(). Sets `flag` in the source of each appended byte.
void print(const Value& value, Text& out, Budget& budget, Source flag = 0);
Text printed(const Value& value, Budget& budget);  ///< like print, into a new text
struct JsonForm {
  std::optional<std::string> indent = {};  ///< text before a member, for each level; none: all on one line
  bool is_ascii = false;                   ///< escapes other characters
};
/// Formats the value like json.dumps(value, ensure_ascii=…, indent=…).
Text json_of(const Value& value, const JsonForm& form, Budget& budget);
bool are_equal(const Value& left, const Value& right, Budget& budget);
/// Compares numbers or texts in Python's order. Returns −1, 0 or 1. Throws Unsupported for other types.
int compare(const Value& left, const Value& right);
/// Returns what the search for a member of this name costs of a budget, however many members there are.
inline std::size_t cost_of_search(std::string_view name) { return 16 + name.size(); }
/// Return base[key] and base.name; undefined if absent.
Value item_of(const Value& base, const Value& key, Budget& budget);
Value member_of(const Value& base, std::string_view name);
/// Returns whether the value's Python type has a method of this name. If so, `base.name` is the method. Throws
/// Unsupported for a method that changes the value.
bool is_method(const Value& base, std::string_view name);

}  // namespace qrl::data::jinja
