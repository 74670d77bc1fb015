#include <algorithm>
#include <array>
#include <ctime>

#include "base/ascii.h"
#include "base/text.h"
#include "data/jinja/values.h"
#include "data/python_json.h"
#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

namespace {

/// Before a search, which compares up to all of `part` at each byte of `whole`.
void spend_search(const Text& whole, const Text& part, Budget& budget) {
  budget.spend(whole.size() * (1 + part.size() / 16));
}

/// Python's strip, lstrip and rstrip: of white space, or of the characters of `set`.
Value stripped(Text text, const Value& set, bool left, bool right) {
  const bool is_space = set.is_undefined() || set.is<std::nullptr_t>();
  const Text characters = is_space ? Text() : text_of(set, "strip");
  if (std::ranges::any_of(characters, [](Unit unit) { return (unit & 0x80U) != 0; }))
    fail("strip of characters beyond ASCII");
  const auto ends = [&](bool front) -> std::size_t {
    const std::string bytes = is_space ? bytes_of(text) : std::string();
    if (is_space) return front ? leading_space_bytes(bytes) : trailing_space_bytes(bytes);
    const std::size_t at = front ? text.find_first_not_of(characters) : text.find_last_not_of(characters);
    return at == Text::npos ? text.size() : front ? at : text.size() - 1 - at;
  };
  if (left) text.erase(0, ends(true));
  if (right) text.resize(text.size() - ends(false));
  return text;
}

Value split(const Text& text, const Arguments& arguments, Budget& budget) {
  const Value limit = arguments.get(1, "maxsplit");
  std::int64_t rest = limit.is_undefined() ? -1 : integer_of(limit, "split");
  const Text& separator = text_of(arguments.get(0, "sep"), "split");
  if (separator.empty()) fail("split at nothing");
  spend_search(text, separator, budget);
  Values parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; rest-- != 0 && (at = text.find(separator, begin)) != Text::npos;
       begin = at + separator.size())
    parts.push_back(text.substr(begin, at - begin));
  parts.push_back(text.substr(begin));
  return make_list(std::move(parts));
}

Value replaced(const Text& text, const Arguments& arguments, Budget& budget) {
  const Text &from = text_of(arguments.get(0), "replace"), &to = text_of(arguments.get(1), "replace");
  if (from.empty() || arguments.size() != 2) fail("replace of nothing, or a number of times");
  spend_search(text, from, budget);
  Text result;
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(from, begin)) != Text::npos; begin = at + from.size()) {
    budget.spend(to.size());
    result.append(text, begin, at - begin).append(to);
  }
  return result.append(text, begin);
}

/// upper, lower and capitalize.
Text with_case(const std::string& name, const Text& text, Budget& budget) {
  Text result;
  for (const Value& character : elements_of(text, name, budget)) {
    const std::string bytes = bytes_of(*character.text());
    if (name == "capitalize" ? bytes.size() > 1 : name == "lower" && bytes == "Σ") fail(name + " of an unusual letter");
    const bool is_upper = name == "upper" || (name == "capitalize" && result.empty());
    result += units_of(with_case_of(bytes, is_upper), source_of(character.text()->front()));
  }
  return result;
}

Value joined(const Value& value, const Value& between, const Value& attribute, Budget& budget) {
  Text text;
  bool is_first = true;
  for (const Value& item : elements_of(value, "join", budget)) {
    if (!is_first) text += printed(between, budget);
    text += printed(attribute.is_undefined() ? item : item_of(item, attribute, budget), budget);
    budget.spend(text.size() / 16);
    is_first = false;
  }
  return text;
}

Value to_json(const Value& value, const Arguments& arguments, Budget& budget) {
  Unit source = 0;
  const Json json = json_of(value, source, budget);
  const Value ascii = arguments.get(0, "ensure_ascii"), indent = arguments.get(1, "indent");
  const std::size_t num_known = (ascii.is_undefined() ? 0U : 1U) + (indent.is_undefined() ? 0U : 1U);
  if (arguments.size() > num_known || is_true(ascii)) fail("tojson in ASCII, with separators or sorted keys");
  if (!is_true(indent)) return units_of(python_json(json), source);
  return units_of(json.dump(static_cast<int>(std::clamp<std::int64_t>(integer_of(indent, "tojson"), 1, 16))), source);
}

Value pairs_of(const Value& value, bool is_sorted) {
  if (value.is_undefined() && !is_sorted) return make_list({});
  const Object* object = value.object();
  if (object == nullptr || object->is_namespace) fail("the items of what is no object");
  Values pairs;
  for (const auto& [name, member] : object->members) pairs.push_back(make_list({name, member}));
  const auto key = [](const Value& pair) {
    std::string name = bytes_of(*pair.list()->items[0].text());
    std::ranges::transform(name, name.begin(), base::lower);
    return name;
  };
  if (is_sorted) std::ranges::stable_sort(pairs, {}, key);
  return make_list(std::move(pairs));
}

/// map, select, reject, selectattr and rejectattr.
Value chosen(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget) {
  const bool is_map = name == "map", by_attribute = name.ends_with("attr");
  const std::size_t first = by_attribute ? 1 : 0;
  const Value attribute = by_attribute ? arguments.get(0) : is_map ? arguments.get(Text::npos, "attribute") : Value();
  const std::string word = first < arguments.positional.size() ? bytes_of(text_of(arguments.get(first), name)) : "";
  Arguments rest;
  for (std::size_t i = first + 1; i < arguments.positional.size(); ++i) rest.positional.push_back(arguments.get(i));
  Values kept;
  for (const Value& item : elements_of(value, name, budget)) {
    budget.spend(64);
    const Value asked = attribute.is_undefined() ? item : item_of(item, attribute, budget);
    if (is_map) kept.push_back(word.empty() ? asked : apply_filter(word, asked, rest, budget));
    else if ((word.empty() ? is_true(asked) : apply_test(word, asked, rest, budget)) == name.starts_with("select"))
      kept.push_back(item);
  }
  return make_list(std::move(kept));
}

}  // namespace

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget) {
  if (name == "tojson") return to_json(value, arguments, budget);
  if (name == "default") {
    const bool is_there = is_true(arguments.get(1, "boolean")) ? is_true(value) : !value.is_undefined();
    return is_there ? value : arguments.size() == 0 ? Value(Text()) : arguments.get(0, "default_value");
  }
  if (name == "join") return joined(value, arguments.get(0, "d"), arguments.get(1, "attribute"), budget);
  if (name == "map" || name.starts_with("select") || name.starts_with("reject"))
    return chosen(name, value, arguments, budget);
  if (name == "replace") return replaced(printed(value, budget), arguments, budget);
  if (name == "trim") return stripped(printed(value, budget), arguments.get(0, "chars"), true, true);
  if (arguments.size() > 0) fail("the filter " + base::quoted(name) + " with arguments");
  if (name == "string" || name == "safe") return printed(value, budget);
  if (name == "items" || name == "dictsort") return pairs_of(value, name == "dictsort");
  if (name == "upper" || name == "lower" || name == "capitalize")
    return with_case(name, printed(value, budget), budget);
  if ((name == "length" || name == "count") && value.text() != nullptr)
    return std::int64_t{std::ranges::count_if(*value.text(), [](Unit unit) { return (unit & 0xc0U) != 0x80U; })};
  const Value list = make_list(elements_of(value, name, budget));
  if (name == "length" || name == "count") return std::ssize(list.list()->items);
  if (name == "first" || name == "last") return item_of(list, std::int64_t{name == "first" ? 0 : -1}, budget);
  if (name != "list") fail("the filter " + base::quoted(name));
  return list;
}

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget) {
  const bool is_mapping = value.object() != nullptr && !value.object()->is_namespace;
  if (arguments.size() == 0) {
    if (name == "defined" || name == "undefined") return value.is_undefined() == (name == "undefined");
    if (name == "none") return value.is<std::nullptr_t>();
    if (name == "string") return value.text() != nullptr;
    if (name == "mapping") return is_mapping;
    if (name == "number") return value.is_number();
    if (name == "integer") return value.is<std::int64_t>();
    if (name == "boolean") return value.is<bool>();
    if (name == "true" || name == "false") return value.is<bool>() && std::get<bool>(value) == (name == "true");
    if (name == "sequence" || name == "iterable")
      return value.is_undefined() || value.text() != nullptr || value.list() != nullptr || is_mapping;
  }
  if (name == "in" && arguments.size() == 1) return is_true(apply_operator(name, value, arguments.get(0), budget));
  if ((name == "equalto" || name == "eq") && arguments.size() == 1) return are_equal(value, arguments.get(0), budget);
  fail("the test " + base::quoted(name));
}

Value call_method(const std::string& name, const Value& base, const Arguments& arguments, Budget& budget) {
  const Value first = arguments.get(0);
  if (base.object() != nullptr) {
    const Value* found = name == "get" ? base.object()->find(text_of(first, name)) : nullptr;
    if (name == "get") return found != nullptr ? *found : arguments.size() == 2 ? arguments.get(1) : Value(nullptr);
    if (name == "items") return pairs_of(base, false);
    if (name == "keys") return make_list(elements_of(base, name, budget));
    if (name == "values") return chosen("map", pairs_of(base, false), {{}, {{"attribute", std::int64_t{1}}}}, budget);
    fail("the method " + base::quoted(name));
  }
  const Text& text = text_of(base, name);
  budget.spend(text.size());
  if (name == "split") return split(text, arguments, budget);
  if (name == "replace") return replaced(text, arguments, budget);
  if (arguments.size() > 1 || (arguments.size() == 1 && first.is_undefined()))
    fail("the method " + base::quoted(name) + " of such arguments");
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return stripped(text, first, name != "rstrip", name != "lstrip");
  if (name == "startswith") return text.starts_with(text_of(first, name));
  if (name == "endswith") return text.ends_with(text_of(first, name));
  if (name == "join") return joined(first, base, {}, budget);
  if (name == "upper" || name == "lower" || name == "capitalize") return with_case(name, text, budget);
  fail("the method " + base::quoted(name));
}

Value call_function(const std::string& name, const Arguments& arguments, Budget& budget) {
  if (name == "raise_exception")
    fail("its own error: " + base::quoted(bytes_of(printed(arguments.get(0), budget)), 200));
  if (name == "namespace" && arguments.positional.empty()) {
    auto made = std::make_shared<Object>();
    made->is_namespace = true;
    for (const auto& [key, value] : arguments.named) made->set(units_of(key), value);
    return made;
  }
  if (name == "range" && arguments.size() >= 1 && arguments.size() <= 3) {
    const auto bound = [&](std::size_t i) { return integer_of(arguments.get(i), "range"); };
    const bool is_short = arguments.size() == 1;
    const std::int64_t end = bound(is_short ? 0 : 1), step = arguments.size() == 3 ? bound(2) : 1;
    if (step == 0 || step != static_cast<std::int32_t>(step)) fail("a range in such steps");
    Values items;
    for (std::int64_t at = is_short ? 0 : bound(0); step > 0 ? at < end : at > end; at += step) {
      budget.spend(64);
      items.push_back(at);
    }
    return make_list(std::move(items));
  }
  if (name == "strftime_now") {
    std::tm day = {};
    day.tm_year = 124, day.tm_mon = 6, day.tm_mday = 26, day.tm_wday = 5, day.tm_yday = 207;
    std::array<char, 256> text = {};
    const std::string form = bytes_of(printed(arguments.get(0), budget));
    return units_of({text.data(), std::strftime(text.data(), text.size(), form.c_str(), &day)});
  }
  fail("a call of " + base::quoted(name));
}

Value apply_operator(const std::string& sign, Value left, const Value& right, Budget& budget) {
  budget.spend(64 + (left.text() == nullptr ? 0 : left.text()->size() / 8));
  if (sign == "==" || sign == "!=") return are_equal(left, right, budget) == (sign == "==");
  if (sign == "in" || sign == "not in") {
    bool holds = false;
    if (const Text* whole = right.text()) {
      const Text& part = text_of(left, "`in`");
      spend_search(*whole, part, budget);
      holds = whole->find(part) != Text::npos;
    } else {
      const Values elements = elements_of(right, "`in`", budget);
      holds = std::ranges::any_of(elements, [&](const Value& one) { return are_equal(one, left, budget); });
    }
    return holds == (sign == "in");
  }
  if (sign.front() == '<' || sign.front() == '>') {
    const int order = compare(left, right);
    return order == 0 ? sign.size() == 2 : (order < 0) == (sign.front() == '<');
  }
  if (sign == "~" || (sign == "+" && left.text() != nullptr && right.text() != nullptr)) {
    auto* text = std::get_if<std::shared_ptr<Text>>(&left);
    const bool is_own = text != nullptr && text->use_count() == 1;
    Value whole = is_own ? std::move(left) : Value(printed(left, budget));
    const Text* more = right.text();
    budget.spend(more == nullptr ? 0 : more->size());
    *std::get<std::shared_ptr<Text>>(whole) += more == nullptr ? printed(right, budget) : *more;
    return whole;
  }
  if (sign == "+" && left.list() != nullptr && right.list() != nullptr) {
    Values items = left.list()->items;
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    budget.spend(64 * items.size());
    return make_list(std::move(items));
  }
  const std::string what = "`" + sign + "`";
  const std::int64_t a = integer_of(left, what), b = integer_of(right, what);
  std::int64_t result = 0;
  bool overflows = false;
  if (sign == "+") overflows = __builtin_add_overflow(a, b, &result);
  else if (sign == "-") overflows = __builtin_sub_overflow(a, b, &result);
  else if (sign == "*") overflows = __builtin_mul_overflow(a, b, &result);
  else if (sign == "%" && b > 0) result = (a % b + b) % b;
  else fail("the operator " + what);
  if (overflows) fail("a number of more than 64 bits");
  return result;
}

Value member_of(const Value& base, const Text& name) {
  if (const Loop* loop = base.loop()) {
    const std::size_t size = loop->items.size();
    const std::string word = bytes_of(name);
    if (word == "first") return loop->at == 0;
    if (word == "last") return loop->at + 1 == size;
    if (word == "previtem") return loop->at > 0 ? loop->items[loop->at - 1] : Value();
    if (word == "nextitem") return loop->at + 1 < size ? loop->items[loop->at + 1] : Value();
    for (const auto& [known, value] : {std::pair("index0", loop->at),
                                       {"index", loop->at + 1},
                                       {"length", size},
                                       {"revindex", size - loop->at},
                                       {"revindex0", size - loop->at - 1}}) {
      if (word == known) return static_cast<std::int64_t>(value);
    }
    fail("`loop." + word + "`");
  }
  if (base.is_undefined()) fail("`." + bytes_of(name) + "` of what is not defined");
  const Value* found = base.object() == nullptr ? nullptr : base.object()->find(name);
  return found == nullptr ? Value() : *found;
}

bool is_method(const Text& name) {
  constexpr std::array<std::string_view, 10> kNames = {"items", "keys", "values", "get",        "update",
                                                       "pop",   "copy", "clear",  "setdefault", "popitem"};
  return std::ranges::find(kNames, bytes_of(name)) != kNames.end();
}

Value item_of(const Value& base, const Value& key, Budget& budget) {
  if (base.object() != nullptr) {
    const Value* found = key.text() == nullptr ? nullptr : base.object()->find(*key.text());
    const bool is_other = found == nullptr && key.text() != nullptr && is_method(*key.text());
    return found != nullptr ? *found : is_other ? Value(Method{}) : Value();
  }
  if (base.is_undefined()) fail("an element of what is not defined");
  if (base.list() == nullptr && base.text() == nullptr) return {};
  if (!key.is<std::int64_t>()) return {};
  const Values characters = base.list() == nullptr ? elements_of(base, "an element", budget) : Values();
  const Values& items = base.list() == nullptr ? characters : base.list()->items;
  const std::int64_t at = integer_of(key, "an element"), size = std::ssize(items);
  const std::int64_t place = at < 0 ? at + size : at;
  return place < 0 || place >= size ? Value() : items[static_cast<std::size_t>(place)];
}

}  // namespace qrl::data::jinja
