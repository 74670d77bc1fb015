#include "data/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <cmath>
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
    if (is_left) begin = leading_space_bytes(bytes, Spaces::python);
    if (is_right) end -= trailing_space_bytes(std::string_view(bytes).substr(begin), Spaces::python);
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

/// Returns the attribute `path` of an item: a number, or names and numbers with points between them. Undefined or none:
/// the item.
Value attribute_of(const Value& item, const Value& path, Budget& budget) {
  if (path.is_undefined() || path.is_none()) return item;
  if (path.text() == nullptr) return item_of(item, integer_of(path, "an attribute"), budget);
  Value value = item;
  const std::string& names = path.text()->bytes();
  for (std::size_t begin = 0, end = 0; begin <= names.size(); begin = end + 1) {
    end = std::min(names.find('.', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const bool is_number = !name.empty() && name.size() <= 9 && std::ranges::all_of(name, base::is_digit);
    value = item_of(value, is_number ? Value(std::int64_t{std::stoi(name)}) : Value(Text(name)), budget);
  }
  return value;
}

Value joined(const Values& items, const Value& between, const Value& attribute, Budget& budget) {
  Text text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) print(between, text, budget);
    print(attribute_of(items[i], attribute, budget), text, budget);
    budget.spend(64);
  }
  return text;
}

Value joined_texts(const Call& call) {
  const Value list = elements_of(call.argument(0), call.name, call.budget);
  for (const Value& item : list.list()->items) (void)text_of(item, "join of a list");
  return joined(list.list()->items, call.value, {}, call.budget);
}

/// Formats like Python's str.format. Throws Unsupported for more than {}, {0} and {name}.
Value formatted(const Call& call) {
  const Text& form = *call.value.text();
  const std::string& bytes = form.bytes();
  Text out;
  std::size_t num_taken = 0;
  bool is_counted = false, is_numbered = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(form.part(at, brace - at));
    if (brace == bytes.size()) break;
    at = brace + 1;
    if (at < bytes.size() && bytes[at] == bytes[brace]) {
      out.append(form.part(at++, 1));
      continue;
    }
    const std::size_t end = bytes.find('}', at);
    if (bytes[brace] == '}' || end == std::string::npos) fail("format with a single brace");
    const std::string field = bytes.substr(at, end - at);
    at = end + 1;
    const bool is_number = !field.empty() && field.size() <= 4 && std::ranges::all_of(field, base::is_digit);
    const bool is_name =
        !field.empty() && std::ranges::all_of(field, [](char c) { return base::is_alphanumeric(c) || c == '_'; });
    if (!field.empty() && !is_name) fail("format with {" + field + "}");
    is_counted = is_counted || field.empty();
    is_numbered = is_numbered || is_number;
    if (is_counted && is_numbered) fail("format with {} and {0}");
    const std::size_t place = field.empty() ? num_taken++ : is_number ? std::stoul(field) : call.arguments.size();
    if (!call.arguments.has(place, is_number ? std::string() : field))
      fail("format without an argument for {" + field + "}");
    print(call.arguments.get(place, field), out, call.budget);
    call.budget.spend(64);
  }
  return out;
}

Value replaced(const Call& call) {
  const Values parts = parts_of(printed(call.value, call.budget), call.text(0), -1, call.budget);
  return joined(parts, text_of(call.argument(1), call.name), {}, call.budget);
}

Value to_json(const Call& call) {
  const Value& indent = call.argument(1);
  JsonForm form{.is_ascii = is_true(call.argument(0))};
  if (indent.is_undefined() || indent.is_none()) return json_of(call.value, form, call.budget);
  form.indent = indent.text() == nullptr ? "" : indent.text()->bytes();
  if (indent.text() != nullptr) return json_of(call.value, form, call.budget);
  if (indent.kind() == Kind::real) fail("tojson with an indent that is no integer");
  const double width = std::max(indent.real(), 0.0);
  if (width > 1000) fail("tojson with an indent above 1000");
  form.indent = std::string(static_cast<std::size_t>(width), ' ');
  return json_of(call.value, form, call.budget);
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

Value elements_of_call(const Call& call) { return elements_of(call.value, call.name, call.budget); }

/// Returns the elements as a list of their own.
Value list_of(const Call& call) {
  const Value elements = elements_of_call(call);
  if (elements.list()->type == Sequence::list) return elements;
  call.budget.spend(64 * elements.list()->items.size());
  return make_list(elements.list()->items);
}

Value keys_of(const Call& call) { return make_list(elements_of_call(call).list()->items, Sequence::view); }

/// Returns the first or last element, or an undefined value.
Value end_of(const Call& call) {
  const bool is_generator = call.value.list() != nullptr && call.value.list()->type == Sequence::generator;
  if (call.name == "last" && is_generator) fail("the last element of a generator");
  const Value elements = elements_of_call(call);
  const Values& items = elements.list()->items;
  return items.empty() ? Value() : call.name == "first" ? items.front() : items.back();
}

/// Returns what orders values as Python does, where texts are compared without their case.
Value order_of(const Value& value) {
  if (value.text() == nullptr) return value;
  if (value.text()->bytes().find("Σ") != std::string::npos) fail("an order of unsupported letters");
  return Text(with_case_of(value.text()->bytes(), false));
}

/// Returns the least or the largest element; of equal ones the first.
Value extreme_of(const Call& call) {
  const Value elements = elements_of_call(call);
  const Value* best = nullptr;
  Value of_best;
  for (const Value& item : elements.list()->items) {
    const Value asked = attribute_of(item, call.argument(1), call.budget);
    const Value order = is_true(call.argument(0)) ? asked : order_of(asked);
    call.budget.spend(64 + (order.text() == nullptr ? 0 : order.text()->size()));
    const int against = best == nullptr ? 0 : compare(order, of_best);
    if (best != nullptr && (call.name == "min" ? against >= 0 : against <= 0)) continue;
    best = &item;
    of_best = order;
  }
  return best == nullptr ? Value() : *best;
}

/// Converts like Python's int(), or by way of float(). Returns the default for a text that is no number.
Value as_integer(const Call& call) {
  const Value& otherwise = call.argument(0);
  if (!call.argument(1).is_undefined()) fail("int with a base");
  if (call.value.is_undefined()) fail("int of an undefined value");
  if (call.value.integer() != nullptr) return call.value;
  double number = call.value.real();
  if (const Text* text = call.value.text()) {
    if (!is_ascii(text->bytes())) fail("int of a text beyond ASCII");
    std::string_view bytes = text->bytes();
    bytes.remove_prefix(leading_space_bytes(bytes, Spaces::python));
    bytes.remove_suffix(trailing_space_bytes(bytes, Spaces::python));
    if (bytes.find('_') != std::string_view::npos) fail("int of a text with _");
    const bool has_plus = bytes.starts_with('+') && !bytes.substr(1).starts_with('-');
    if (const auto integer = base::number_in<std::int64_t>(bytes.substr(has_plus ? 1 : 0))) return *integer;
    const auto real = base::number_in<double>(bytes.substr(has_plus ? 1 : 0));
    if (!real || !std::isfinite(*real)) return otherwise.is_undefined() ? Value(std::int64_t{0}) : otherwise;
    number = *real;
  } else if (!call.value.is_number()) {
    return otherwise.is_undefined() ? Value(std::int64_t{0}) : otherwise;
  }
  if (!(std::abs(number) < 0x1p62)) fail("int of a number of more than 64 bits");
  return static_cast<std::int64_t>(number);
}

std::int64_t length(const Call& call) {
  const Text* text = call.value.text();
  const List* list = call.value.list();
  if (list != nullptr && list->type == Sequence::generator) fail("the length of a generator");
  if (text == nullptr) return std::ssize(elements_of_call(call).list()->items);
  call.budget.spend(text->size() / 8);
  return std::ranges::count_if(text->bytes(), [](char c) { return (c & 0xc0) != 0x80; });
}

Value pairs_of(const Call& call) {
  const bool is_sorted = call.name == "dictsort";
  if (call.value.is_undefined() && !is_sorted) return make_list({}, Sequence::generator);
  if (call.value.object() == nullptr) fail("the items of a non-object");
  Values pairs;
  for (const auto& [name, member] : call.value.object()->members) {
    // A sort compares each name some 16 times.
    call.budget.spend(64 + (is_sorted && name.text() != nullptr ? 16 * name.text()->cost_bytes() : 0));
    pairs.push_back(make_list({name, member}, Sequence::tuple));
  }
  if (!is_sorted) return make_list(std::move(pairs), Sequence::view);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& pair : pairs) {
    Value key = order_of(pair.list()->items[0]);
    keyed.emplace_back(std::move(key), std::move(pair));
  }
  std::ranges::stable_sort(keyed, [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
  std::ranges::transform(keyed, pairs.begin(), [](auto& one) { return std::move(one.second); });
  return make_list(std::move(pairs), Sequence::list);
}

Value values_of(const Call& call) {
  Values values;
  call.budget.spend(64 * call.value.object()->members.size());
  for (const auto& [name, member] : call.value.object()->members) values.push_back(member);
  return make_list(std::move(values), Sequence::view);
}

Value got(const Call& call) {
  const Text* name = call.argument(0).text();
  call.budget.spend(cost_of_search(name == nullptr ? "" : name->bytes()));
  const Value* found = call.value.object()->find(call.argument(0), call.budget);
  return found != nullptr ? *found : call.arguments.size() == 2 ? call.argument(1) : Value(nullptr);
}

Value chosen(const Call& call) {
  const Arguments& given = call.arguments;
  const bool is_map = call.name == "map", by_attribute = call.name.ends_with("attr");
  const std::size_t first = by_attribute ? 1 : 0;
  const Value attribute = by_attribute ? given.get(0) : is_map ? given.get(given.size(), "attribute") : Value();
  if (given.named.size() > (is_map && !attribute.is_undefined() ? 1 : 0)) fail(call.name + " with these arguments");
  if (!is_true(call.value)) return make_list({}, Sequence::generator);
  Arguments rest;
  for (std::size_t i = first + 1; i < given.positional.size(); ++i) rest.positional.push_back(given.get(i));
  Builtin applied;
  if (first < given.positional.size())
    applied = builtin_of(is_map ? kFilter : kTest, text_of(given.get(first), call.name).bytes());
  Values kept;
  const Value list = elements_of_call(call);
  for (const Value& item : list.list()->items) {
    call.budget.spend(64);
    const Value asked = attribute_of(item, attribute, call.budget);
    const Value result = applied ? applied(asked, rest, call.budget) : asked;
    if (is_map) kept.push_back(result);
    else if (is_true(result) == call.name.starts_with("select")) kept.push_back(item);
  }
  return make_list(std::move(kept), Sequence::generator);
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
  return make_list(std::move(items), Sequence::range);
}

Value new_namespace(const Call& call) {
  if (!call.arguments.positional.empty()) fail("a namespace with positional arguments");
  auto made = std::make_shared<Namespace>();
  for (const auto& [name, member] : call.arguments.named) made->set(name, member);
  return made;
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

/// Returns a text with &, <, >, ' and " as HTML's entities; a safe text unchanged.
Text in_html(const Value& value, Budget& budget) {
  const Text text = printed(value, budget);
  if (value.is_safe()) return text;
  Text out;
  for (const TextRun& run : text.runs()) {
    for (const char c : text.bytes(run)) {
      constexpr std::string_view kSigns = "&<>'\"";
      constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
      const std::size_t which = kSigns.find(c);
      out.add(which == std::string_view::npos ? std::string_view(&c, 1) : kEntities[which], run.source);
    }
  }
  budget.spend(out.cost_bytes());
  return out;
}

/// Joins as `~` does, which makes a text that is not safe.
Value concatenated(Value left, const Value& right, Budget& budget) {
  if (left.own_text() == nullptr || left.is_safe()) left = printed(left, budget);
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
  const bool are_texts = left.text() != nullptr && right.text() != nullptr;
  if (are_texts && (left.is_safe() || right.is_safe())) {
    Text all = in_html(left, budget);
    all.append(in_html(right, budget));
    return Value(std::move(all)).as_safe();
  }
  if (are_texts) return concatenated(std::move(left), right, budget);
  if (left.list() == nullptr || right.list() == nullptr)
    return calculated(left, right, [](Wide a, Wide b) { return a + b; });
  const Sequence type = left.list()->type;
  if (type != right.list()->type || type > Sequence::tuple) fail("a sum of such sequences");
  Values items = left.list()->items;
  items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
  budget.spend(64 * items.size());
  return make_list(std::move(items), type);
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
      {"join", kOfText, {"d"}, joined_texts},
      {"join",
       kFilter,
       {"d", "attribute"},
       [](const Call& c) { return joined(elements_of_call(c).list()->items, c.argument(0), c.argument(1), c.budget); }},
      {"format", kOfText, {"*"}, formatted},
      {"int", kFilter, {"default", "base"}, as_integer},
      {"min max", kFilter, {"case_sensitive", "attribute"}, extreme_of},
      {"safe", kFilter, {}, [](const Call& c) { return Value(printed(c.value, c.budget)).as_safe(); }},
      {"string",
       kFilter,
       {},
       [](const Call& c) { return c.value.is_safe() ? c.value : Value(printed(c.value, c.budget)); }},
      {"tojson", kFilter, {"ensure_ascii", "indent"}, to_json},
      {"default", kFilter, {"default_value", "boolean"}, with_default},
      {"length count", kFilter, {}, length},
      {"first last", kFilter, {}, end_of},
      {"list", kFilter, {}, list_of},
      {"map select reject selectattr rejectattr", kFilter, {"*"}, chosen},
      {"items", kFilter, {}, [](const Call& c) { return make_list(pairs_of(c).list()->items, Sequence::generator); }},
      {"items", kOfObject, {}, pairs_of},
      {"dictsort", kFilter, {}, pairs_of},
      {"keys", kOfObject, {}, keys_of},
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
       [](const Call& c) {
         const bool is_list = c.value.list() && (c.name == "iterable" || c.value.list()->has_elements());
         return c.value.is_undefined() || c.value.text() || is_list || c.value.object();
       }},
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
    constexpr std::string_view kOfSafe = " safe string tojson default length count first last list int ";
    const bool may_be_safe = use == kTest || kOfSafe.find(" " + name + " ") != std::string_view::npos;
    if (value.is_safe() && !may_be_safe) fail(what + " of a safe text");
    budget.spend(64 + (use == kOfText ? text_of(value, name).cost_bytes() : 0));
    return row.run({name, value, given, row.parameters, budget});
  };
}

}  // namespace qrl::data::jinja
