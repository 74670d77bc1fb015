// Owns the values of Jinja: texts with the source of each byte, numbers, lists and objects. Knows no template.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/marked_text.h"

namespace qrl::data::jinja {

/// Reports why a template cannot be rendered here, or the template's own raise_exception.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws Unsupported.
[[noreturn]] void fail(const std::string& what);

struct List;
struct Object;
struct Namespace;
struct Loop;
struct Macro;
struct Undefined {};

/// Holds any value; copies are cheap. Shared values are immutable, except namespaces. A null macro represents a method
/// that is named but not called. Do not add a type: libstdc++'s variant would copy through a function table.
struct Value : std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, std::shared_ptr<Text>,
                            std::shared_ptr<const List>, std::shared_ptr<const Object>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const Loop>, std::shared_ptr<const Macro>> {
  using variant::variant;
  Value(Text text) : variant(std::make_shared<Text>(std::move(text))) {}
  template <class T>
  bool is() const noexcept {
    return std::holds_alternative<T>(*this);
  }
  bool is_undefined() const noexcept { return is<Undefined>(); }
  bool is_none() const noexcept { return is<std::nullptr_t>(); }
  bool is_number() const noexcept { return is<std::int64_t>() || is<double>() || is<bool>(); }
  /// Each of these returns the held value, or null if it has another type.
  const Text* text() const noexcept { return held<Text>(); }
  const List* list() const noexcept { return held<const List>(); }
  const Object* object() const noexcept { return held<const Object>(); }
  Namespace* names() const noexcept { return held<Namespace>(); }
  const Loop* loop() const noexcept { return held<const Loop>(); }
  const Macro* macro() const noexcept { return held<const Macro>(); }

 private:
  template <class T>
  T* held() const noexcept {
    const auto* found = std::get_if<std::shared_ptr<T>>(this);
    return found == nullptr ? nullptr : found->get();
  }
};

using Values = std::vector<Value>;
struct List {
  Values items;
  int depth = 1;
};
struct Object {
  std::vector<std::pair<Text, Value>> members;  ///< in insertion order
  int depth = 1;
  const Value* find(std::string_view name) const;  ///< null: no such member
  /// Adds or replaces a member. Throws Unsupported for a loop, a namespace, or values nested too deeply.
  void set(const Text& name, Value value);

 private:
  std::size_t place_of(std::string_view name) const;
};
struct Namespace : Object {};
struct Loop {
  std::shared_ptr<const List> list;
  std::size_t at = 0;
};
struct Arguments {
  Values positional;
  std::vector<std::pair<Text, Value>> named;
  /// Returns the argument by position or name; an undefined value if it was not passed.
  const Value& get(std::size_t place, std::string_view name = {}) const;
  std::size_t size() const noexcept { return positional.size() + named.size(); }
};

/// Limits the work of a render; one unit costs about a byte. spend() throws Unsupported if the budget is exhausted.
struct Budget {
  std::size_t left = 0;
  void spend(std::size_t amount);
};

/// These two build a list or an object. They throw Unsupported like Object::set.
std::shared_ptr<const List> make_list(Values items);
Value make_object(const std::vector<std::pair<Text, Value>>& members);
/// Converts JSON; every text and member name gets this source. Throws Unsupported for integers beyond 64 bits.
Value value_of(const nlohmann::ordered_json& json, Source source);

bool is_true(const Value& value);  ///< by Python's rules
/// Returns the text. Throws Unsupported with `what` for another type, like the next two functions.
const Text& text_of(const Value& value, std::string_view what);
std::int64_t integer_of(const Value& value, std::string_view what);
/// Returns what a loop over the value visits: a list's elements, an object's names or a text's characters. An
/// undefined value gives an empty list.
std::shared_ptr<const List> elements_of(const Value& value, std::string_view what, Budget& budget);
/// Formats the value like Python's str().
Text printed(const Value& value, Budget& budget);
/// Formats the value like json.dumps(value, ensure_ascii=False, indent=…); indent 0: on one line.
Text json_of(const Value& value, std::size_t indent, Budget& budget);
bool are_equal(const Value& left, const Value& right, Budget& budget);
/// Returns −1, 0 or 1 in Python's order of numbers or texts. Throws Unsupported for other types.
int compare(const Value& left, const Value& right);
/// These return base[key] and base.name; an undefined value if there is no such item.
Value item_of(const Value& base, const Value& key, Budget& budget);
Value member_of(const Value& base, std::string_view name);
/// Returns whether Python's dict has a method of this name; `base.name` is then that method.
bool is_method(std::string_view name);

}  // namespace qrl::data::jinja
