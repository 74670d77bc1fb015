// Owns what values of Jinja are: texts that know who wrote each byte, numbers, lists, objects. Knows no template.
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

using Json = nlohmann::ordered_json;

/// Why a template cannot be run here, or what it says itself (raise_exception).
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws Unsupported.
[[noreturn]] void fail(const std::string& what);

struct List;
struct Object;
struct Loop;
struct Macro;
struct Undefined {};
struct Method {};  ///< what `object.items` is without a call

/// Cheap to copy. Shared values are not changed, except namespaces.
struct Value : std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, std::shared_ptr<Text>,
                            std::shared_ptr<const List>, std::shared_ptr<Object>, std::shared_ptr<const Loop>,
                            std::shared_ptr<const Macro>, Method> {
  using variant::variant;
  Value(Text text) : variant(std::make_shared<Text>(std::move(text))) {}
  template <class T>
  bool is() const noexcept {
    return std::holds_alternative<T>(*this);
  }
  bool is_undefined() const noexcept { return is<Undefined>(); }
  bool is_number() const noexcept { return is<std::int64_t>() || is<double>() || is<bool>(); }
  /// Returns the value held, or null when it has another type.
  const Text* text() const noexcept { return held<Text>(); }
  const List* list() const noexcept { return held<const List>(); }
  const Loop* loop() const noexcept { return held<const Loop>(); }
  const Macro* macro() const noexcept { return held<const Macro>(); }
  Object* object() const noexcept { return held<Object>(); }

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
  std::vector<std::pair<Text, Value>> members;  ///< in their order
  bool is_namespace = false;
  int depth = 1;
  Value* find(const Text& name);
  /// Throws Unsupported for what no object may hold: a loop, a namespace, or values nested too deeply.
  void set(const Text& name, Value value);
};
struct Loop {
  Values items;
  std::size_t at = 0;
};
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
  /// The argument at a place or of a name; undefined where it is not given.
  Value get(std::size_t place, std::string_view name = {}) const;
  std::size_t size() const noexcept { return positional.size() + named.size(); }
};

/// Limits the work of a run, in units of about a byte. Throws Unsupported when it is used up.
struct Budget {
  std::size_t left = 0;
  void spend(std::size_t amount);
};

/// Throws Unsupported as Object::set does.
Value make_list(Values items);
/// All texts and names in it have that source.
Value value_of(const Json& json, Unit source);

bool is_true(const Value& value);
/// The value's text. Throws Unsupported that names `what` where it is another; so do the two that follow.
const Text& text_of(const Value& value, const std::string& what);
std::int64_t integer_of(const Value& value, const std::string& what);
/// Returns what a loop over the value visits: elements, names or characters; nothing for an undefined value.
Values elements_of(const Value& value, const std::string& what, Budget& budget);
/// Writes the value as Python's str().
Text printed(const Value& value, Budget& budget);
bool are_equal(const Value& left, const Value& right, Budget& budget);
/// −1, 0 or 1, as Python orders numbers and texts.
int compare(const Value& left, const Value& right);
/// The value as JSON, and in `source` that of a text in it: no template's where there is one.
Json json_of(const Value& value, Unit& source, Budget& budget);

/// Jinja's filters, tests, methods and functions. Throw Unsupported for those that are not known here.
Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget);
bool apply_test(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget);
Value call_method(const std::string& name, const Value& base, const Arguments& arguments, Budget& budget);
Value call_function(const std::string& name, const Arguments& arguments, Budget& budget);
/// left sign right, for all signs but `and` and `or`.
Value apply_operator(const std::string& sign, Value left, const Value& right, Budget& budget);
/// Return base[key] and base.name; undefined where base has no such item.
Value item_of(const Value& base, const Value& key, Budget& budget);
Value member_of(const Value& base, const Text& name);
/// Whether Python's dict has a method of that name, which base.name is then.
bool is_method(const Text& name);

}  // namespace qrl::data::jinja
