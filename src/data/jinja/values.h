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

/// Why a template cannot be run here, or what it says itself (raise_exception).
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

/// Cheap to copy. Shared values are not changed, except namespaces. A macro that is null is a method that is not
/// called. With one type more, libstdc++'s variant would copy through a table of functions.
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
  /// Returns the value held, or null when it has another type.
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
  std::vector<std::pair<Text, Value>> members;  ///< in their order
  int depth = 1;
  const Value* find(std::string_view name) const;
  /// Throws Unsupported for what no object may hold: a loop, a namespace, or values nested too deeply.
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
  /// The argument at a place or of a name; undefined where it is not given.
  const Value& get(std::size_t place, std::string_view name = {}) const;
  std::size_t size() const noexcept { return positional.size() + named.size(); }
};

/// Limits the work of a run, in units of about a byte. Throws Unsupported when it is used up.
struct Budget {
  std::size_t left = 0;
  void spend(std::size_t amount);
};

/// Throws Unsupported as Object::set does.
std::shared_ptr<const List> make_list(Values items);
Value make_object(const std::vector<std::pair<Text, Value>>& members);
/// All texts and names in it have that source.
Value value_of(const nlohmann::ordered_json& json, Source source);

bool is_true(const Value& value);
/// The value's text. Throws Unsupported that names `what` where it is another; so do the two that follow.
const Text& text_of(const Value& value, std::string_view what);
std::int64_t integer_of(const Value& value, std::string_view what);
/// Returns what a loop over the value visits: elements, names or characters; nothing for an undefined value.
std::shared_ptr<const List> elements_of(const Value& value, std::string_view what, Budget& budget);
/// Writes the value as Python's str().
Text printed(const Value& value, Budget& budget);
/// Writes the value as json.dumps(value, ensure_ascii=False, indent=…) does; indent 0: on one line.
Text json_of(const Value& value, std::size_t indent, Budget& budget);
bool are_equal(const Value& left, const Value& right, Budget& budget);
/// −1, 0 or 1, as Python orders numbers and texts.
int compare(const Value& left, const Value& right);
/// Return base[key] and base.name; undefined where base has no such item.
Value item_of(const Value& base, const Value& key, Budget& budget);
Value member_of(const Value& base, std::string_view name);
/// Whether Python's dict has a method of that name, which base.name is then.
bool is_method(std::string_view name);

}  // namespace qrl::data::jinja
