#include "data/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/ascii.h"
#include "base/text.h"
#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

namespace {

__extension__ using Wide = __int128;  // holds any product of two 64-bit integers

struct Call {
  const std::string& name;
  const Value& value;
  const Arguments& arguments;
  std::span<const std::string_view> parameters;
  Budget& budget;
  const Value& argument(std::size_t i) const { return arguments.get(i, parameters[i]); }
  const Text& text(std::size_t i) const { return text_of(argument(i), name); }
};

/// Charges a comparison with all of `part` at each byte of `whole`.
void spend_search(const Text& whole, const Text& part, Budget& budget) {
  budget.spend(whole.cost_bytes() + whole.size() * (part.size() / 16));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// ---- texts

Value stripped(const Call& call) {
  const Text text = printed(call.value, call.budget);
  const Value& set = call.argument(0);
  const bool is_left = call.name != "rstrip", is_right = call.name != "lstrip";
  const std::string& bytes = text.bytes();
  std::size_t begin = 0, end = bytes.size();
  if (call.arguments.size() == 0 || set.is_none()) {
    if (is_left) begin = leading_space_bytes(bytes);
    if (is_right) end -= trailing_space_bytes(std::string_view(bytes).substr(begin));
  } else {
    const std::string& characters = call.text(0).bytes();
    if (!is_ascii(characters)) fail("strip with non-ASCII characters");
    if (is_left) begin = std::min(bytes.find_first_not_of(characters), end);
    if (is_right) end = std::max(bytes.find_last_not_of(characters) + 1, begin);
  }
  return text.part(begin, end - begin);
}

Values parts_of(const Text& text, const Text& separator, std::int64_t most, Budget& budget) {
  if (separator.empty()) fail("an empty search string");
  spend_search(text, separator, budget);
  Values parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; most-- != 0 && (at = text.bytes().find(separator.bytes(), begin)) != std::string::npos;
       begin = at + separator.size())
    parts.push_back(text.part(begin, at - begin));
  parts.push_back(text.part(begin));
  return parts;
}

Value split(const Call& call) {
  const Value& most = call.argument(1);
  const std::int64_t limit = most.is_undefined() ? -1 : integer_of(most, call.name);
  return make_list(parts_of(*call.value.text(), call.text(0), limit, call.budget));
}

Value with_case(const Call& call) {
  const Text text = printed(call.value, call.budget);
  const std::string& bytes = text.bytes();
  const bool capitalizes = call.name == "capitalize";
  if (capitalizes ? !is_ascii(bytes) : call.name == "lower" && bytes.find("Σ") != std::string::npos)
    fail(call.name + " of an unsupported letter");
  Text result;
  for (const TextRun& run : text.runs()) {
    const std::string_view part = text.bytes(run);
    const std::size_t num_first = capitalizes && run.begin == 0 ? 1 : 0;
    result.add(with_case_of(part.substr(0, num_first), true), run.source);
    result.add(with_case_of(part.substr(num_first), call.name == "upper"), run.source);
  }
  return result;
}

Value joined(const Values& items, const Value& between, const Value& attribute, Budget& budget) {
  Text text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) print(between, text, budget);
    print(attribute.is_undefined() ? items[i] : item_of(items[i], attribute, budget), text, budget);
    budget.spend(64);
  }
  return text;
}

Value replaced(const Call& call) {
  const Values parts = parts_of(printed(call.value, call.budget), call.text(0), -1, call.budget);
  return joined(parts, text_of(call.argument(1), call.name), {}, call.budget);
}

Value to_json(const Call& call) {
  const Value& indent = call.argument(1);
  if (is_true(call.argument(0))) fail("tojson with ensure_ascii");
  const std::int64_t width = is_true(indent) ? std::clamp<std::int64_t>(integer_of(indent, call.name), 1, 16) : 0;
  return json_of(call.value, static_cast<std::size_t>(width), call.budget);
}

Value with_default(const Call& call) {
  const bool is_there = is_true(call.argument(1)) ? is_true(call.value) : !call.value.is_undefined();
  return is_there ? call.value : call.arguments.size() == 0 ? Value(Text()) : call.argument(0);
}

bool has_end(const Call& call) {
  const std::string &whole = call.value.text()->bytes(), &end = call.text(0).bytes();
  return call.name == "startswith" ? whole.starts_with(end) : whole.ends_with(end);
}

// ---- lists and objects

Value list_of(const Call& call) { return elements_of(call.value, call.name, call.budget); }

std::int64_t length(const Call& call) {
  const Text* text = call.value.text();
  if (text == nullptr) return std::ssize(list_of(call).list()->items);
  call.budget.spend(text->size() / 8);
  return std::ranges::count_if(text->bytes(), [](char c) { return (c & 0xc0) != 0x80; });
}

Value pairs_of(const Call& call) {
  const bool is_sorted = call.name == "dictsort";
  if (call.value.is_undefined() && !is_sorted) return make_list({});
  if (call.value.object() == nullptr) fail("the items of a non-object");
  Values pairs;
  for (const auto& [name, member] : call.value.object()->members) {
    call.budget.spend(64 + (is_sorted ? 16 * name.cost_bytes() : 0));  // a sort compares each name some 16 times
    pairs.push_back(make_list({name, member}));
  }
  const auto key = [](const Value& pair) {
    std::string name = pair.list()->items[0].text()->bytes();
    std::ranges::transform(name, name.begin(), base::lower);
    return name;
  };
  if (is_sorted) std::ranges::stable_sort(pairs, {}, key);
  return make_list(std::move(pairs));
}

Value values_of(const Call& call) {
  Values values;
  call.budget.spend(64 * call.value.object()->members.size());
  for (const auto& [name, member] : call.value.object()->members) values.push_back(member);
  return make_list(std::move(values));
}

Value got(const Call& call) {
  call.budget.spend(cost_of_search(call.text(0).bytes()));
  const Value* found = call.value.object()->find(call.text(0).bytes());
  return found != nullptr ? *found : call.arguments.size() == 2 ? call.argument(1) : Value(nullptr);
}

Value chosen(const Call& call) {
  const Arguments& given = call.arguments;
  const bool is_map = call.name == "map", by_attribute = call.name.ends_with("attr");
  const std::size_t first = by_attribute ? 1 : 0;
  const Value attribute = by_attribute ? given.get(0) : is_map ? given.get(given.size(), "attribute") : Value();
  Arguments rest;
  for (std::size_t i = first + 1; i < given.positional.size(); ++i) rest.positional.push_back(given.get(i));
  Builtin applied;
  if (first < given.positional.size())
    applied = builtin_of(is_map ? kFilter : kTest, text_of(given.get(first), call.name).bytes());
  Values kept;
  const Value list = list_of(call);
  for (const Value& item : list.list()->items) {
    call.budget.spend(64);
    const Value asked = attribute.is_undefined() ? item : item_of(item, attribute, call.budget);
    const Value result = applied ? applied(asked, rest, call.budget) : asked;
    if (is_map) kept.push_back(result);
    else if (is_true(result) == call.name.starts_with("select")) kept.push_back(item);
  }
  return make_list(std::move(kept));
}

// ---- functions

Value range(const Call& call) {
  const auto bound = [&](std::size_t i) { return integer_of(call.argument(i), call.name); };
  const std::size_t num_bounds = call.arguments.size();
  const std::int64_t end = bound(num_bounds == 1 ? 0 : 1), step = num_bounds == 3 ? bound(2) : 1;
  if (step == 0 || step != static_cast<std::int32_t>(step)) fail("a range with an unsupported step");
  Values items;
  for (std::int64_t at = num_bounds == 1 ? 0 : bound(0); step > 0 ? at < end : at > end; at += step) {
    call.budget.spend(64);
    items.push_back(at);
  }
  return make_list(std::move(items));
}

Value new_namespace(const Call& call) {
  if (!call.arguments.positional.empty()) fail("a namespace with positional arguments");
  return make_object<Namespace>(call.arguments.named);
}

Value day(const Call& call) {
  std::tm day = {};
  day.tm_year = 124, day.tm_mon = 6, day.tm_mday = 26, day.tm_wday = 5, day.tm_yday = 207;
  std::array<char, 256> text = {};
  const Text form = printed(call.argument(0), call.budget);
  return Text(std::string(text.data(), std::strftime(text.data(), text.size(), form.bytes().c_str(), &day)));
}

Value raised(const Call& call) {
  fail("the template's own error: " + base::quoted(printed(call.argument(0), call.budget).bytes(), 200));
}

// ---- operators

bool contains(const Value& whole, const Value& part, Budget& budget) {
  if (const Text* text = whole.text()) {
    spend_search(*text, text_of(part, "`in`"), budget);
    return text->bytes().find(part.text()->bytes()) != std::string::npos;
  }
  const Value list = elements_of(whole, "`in`", budget);
  return std::ranges::any_of(list.list()->items, [&](const Value& one) { return are_equal(one, part, budget); });
}

Value concatenated(Value left, const Value& right, Budget& budget) {
  if (left.own_text() == nullptr) left = printed(left, budget);
  print(right, *left.own_text(), budget);
  return left;
}

Value calculated(const Value& left, const Value& right, Wide (*operation)(Wide, Wide)) {
  const Wide result = operation(integer_of(left, "arithmetic"), integer_of(right, "arithmetic"));
  if (result != static_cast<std::int64_t>(result)) fail("a number of more than 64 bits");
  return static_cast<std::int64_t>(result);
}

Wide quotient(Wide a, Wide b) {
  if (b == 0) fail("a division by 0");
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

Value sum(Value left, const Value& right, Budget& budget) {
  if (left.text() != nullptr && right.text() != nullptr) return concatenated(std::move(left), right, budget);
  if (left.list() == nullptr || right.list() == nullptr)
    return calculated(left, right, [](Wide a, Wide b) { return a + b; });
  Values items = left.list()->items;
  items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
  budget.spend(64 * items.size());
  return make_list(std::move(items));
}

std::function<Value(Value, const Value&, Budget&)> integers(Wide (*operation)(Wide, Wide)) {
  return [operation](const Value& left, const Value& right, Budget&) { return calculated(left, right, operation); };
}

/// Holds the names of builtins that share a function, their uses, and the names of their parameters. With the parameter
/// "*", the function checks its arguments itself.
struct Row {
  std::string_view names;
  Use uses;
  std::array<std::string_view, 3> parameters;
  std::function<Value(const Call& call)> run;
};

std::span<const Row> rows() {
  static const Row kRows[] = {
      {"capitalize lower upper", kFilter | kOfText, {}, with_case},
      {"trim", kFilter, {"chars"}, stripped},
      {"strip lstrip rstrip", kOfText, {"chars"}, stripped},
      {"split", kOfText, {"sep", "maxsplit"}, split},
      {"replace", kFilter | kOfText, {"old", "new"}, replaced},
      {"startswith endswith", kOfText, {"part"}, has_end},
      {"join",
       kOfText,
       {"d"},
       [](const Call& c) {
         return joined(elements_of(c.argument(0), c.name, c.budget).list()->items, c.value, {}, c.budget);
       }},
      {"join",
       kFilter,
       {"d", "attribute"},
       [](const Call& c) { return joined(list_of(c).list()->items, c.argument(0), c.argument(1), c.budget); }},
      {"safe string", kFilter, {}, [](const Call& c) { return printed(c.value, c.budget); }},
      {"tojson", kFilter, {"ensure_ascii", "indent"}, to_json},
      {"default", kFilter, {"default_value", "boolean"}, with_default},
      {"length count", kFilter, {}, length},
      {"first", kFilter, {}, [](const Call& c) { return item_of(list_of(c), std::int64_t{0}, c.budget); }},
      {"last", kFilter, {}, [](const Call& c) { return item_of(list_of(c), std::int64_t{-1}, c.budget); }},
      {"list", kFilter, {}, list_of},
      {"map select reject selectattr rejectattr", kFilter, {"*"}, chosen},
      {"items", kFilter | kOfObject, {}, pairs_of},
      {"dictsort", kFilter, {}, pairs_of},
      {"keys", kOfObject, {}, list_of},
      {"values", kOfObject, {}, values_of},
      {"get", kOfObject, {"key", "default"}, got},
      {"defined", kTest, {}, [](const Call& c) { return !c.value.is_undefined(); }},
      {"undefined", kTest, {}, [](const Call& c) { return c.value.is_undefined(); }},
      {"none", kTest, {}, [](const Call& c) { return c.value.is_none(); }},
      {"true", kTest, {}, [](const Call& c) { return c.value.kind() == Kind::flag && is_true(c.value); }},
      {"false", kTest, {}, [](const Call& c) { return c.value.kind() == Kind::flag && !is_true(c.value); }},
      {"boolean", kTest, {}, [](const Call& c) { return c.value.kind() == Kind::flag; }},
      {"integer", kTest, {}, [](const Call& c) { return c.value.integer() != nullptr; }},
      {"number", kTest, {}, [](const Call& c) { return c.value.is_number(); }},
      {"string", kTest, {}, [](const Call& c) { return c.value.text() != nullptr; }},
      {"mapping", kTest, {}, [](const Call& c) { return c.value.object() != nullptr; }},
      {"iterable sequence",
       kTest,
       {},
       [](const Call& c) { return c.value.is_undefined() || c.value.text() || c.value.list() || c.value.object(); }},
      {"in", kTest, {"seq"}, [](const Call& c) { return contains(c.argument(0), c.value, c.budget); }},
      {"eq equalto", kTest, {"other"}, [](const Call& c) { return are_equal(c.value, c.argument(0), c.budget); }},
      {"range", kFunction, {"start", "stop", "step"}, range},
      {"namespace", kFunction, {"*"}, new_namespace},
      {"strftime_now", kFunction, {"format"}, day},
      {"raise_exception", kFunction, {"message"}, raised},
  };
  return kRows;
}

}  // namespace

const std::vector<Operator>& operators() {
  static const std::vector<Operator> kOperators = {
      {"or", kOr, {}},
      {"and", kAnd, {}},
      {"==", kCompared, [](const Value& a, const Value& b, Budget& left) { return are_equal(a, b, left); }},
      {"!=", kCompared, [](const Value& a, const Value& b, Budget& left) { return !are_equal(a, b, left); }},
      {"<=", kCompared, [](const Value& a, const Value& b, Budget&) { return compare(a, b) <= 0; }},
      {">=", kCompared, [](const Value& a, const Value& b, Budget&) { return compare(a, b) >= 0; }},
      {"<", kCompared, [](const Value& a, const Value& b, Budget&) { return compare(a, b) < 0; }},
      {">", kCompared, [](const Value& a, const Value& b, Budget&) { return compare(a, b) > 0; }},
      {"in", kCompared, [](const Value& a, const Value& b, Budget& left) { return contains(b, a, left); }},
      {"not in", kCompared, [](const Value& a, const Value& b, Budget& left) { return !contains(b, a, left); }},
      {"+", kAdded, sum},
      {"-", kAdded, integers([](Wide a, Wide b) { return a - b; })},
      {"~", kJoined, concatenated},
      {"*", kMultiplied, integers([](Wide a, Wide b) { return a * b; })},
      {"//", kMultiplied, integers(quotient)},
      {"%", kMultiplied, integers([](Wide a, Wide b) { return a - quotient(a, b) * b; })},
      {"/", kMultiplied, [](const Value&, const Value&, Budget&) -> Value { fail("the operator /"); }},
  };
  return kOperators;
}

Builtin builtin_of(Use use, const std::string& name) {
  const auto is_named = [&](const Row& row) {
    return (row.uses & use) != 0 && (" " + std::string(row.names) + " ").find(" " + name + " ") != std::string::npos;
  };
  const auto row = std::ranges::find_if(rows(), is_named);
  const std::string what = (use == kFilter     ? "the filter "
                            : use == kTest     ? "the test "
                            : use == kFunction ? "the function "
                                               : "the method ") +
                           base::quoted(name);
  if (row == rows().end()) return [what](const Value&, const Arguments&, Budget&) -> Value { fail(what); };
  const auto most = std::ranges::find(row->parameters, "") - row->parameters.begin();
  return [=, &row = *row](const Value& value, const Arguments& given, Budget& budget) {
    const auto is_known = [&](const auto& one) {
      return std::ranges::find(row.parameters, one.first.bytes()) != row.parameters.end();
    };
    const bool fits = std::cmp_less_equal(given.size(), most) && std::ranges::all_of(given.named, is_known);
    if (!fits && row.parameters[0] != "*") fail(what + " with these arguments");
    budget.spend(64 + (use == kOfText ? text_of(value, name).cost_bytes() : 0));
    return row.run({name, value, given, row.parameters, budget});
  };
}

}  // namespace qrl::data::jinja
