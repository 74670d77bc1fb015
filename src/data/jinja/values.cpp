#include "data/jinja/values.h"

#include <algorithm>

#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

void fail(const std::string& what) { throw Unsupported(what); }

void Budget::spend(std::size_t amount) {
  if (amount > left) fail("more work than a chat template takes");
  left -= amount;
}

Value Arguments::get(std::size_t place, std::string_view name) const {
  if (place < positional.size()) return positional[place];
  const auto found = std::ranges::find_if(named, [name](const auto& one) { return one.first == name; });
  return found == named.end() ? Value() : found->second;
}

namespace {

/// The depth of something with this member.
int depth_with(const Value& member, int depth) {
  constexpr int kMaxValueDepth = 100;
  const Object* object = member.object();
  if (member.loop() != nullptr || (object != nullptr && object->is_namespace)) fail("a loop or namespace as a member");
  const int below = object != nullptr ? object->depth : member.list() != nullptr ? member.list()->depth : 0;
  if (below >= kMaxValueDepth) fail("lists and objects of more than 100 in each other");
  return std::max(depth, below + 1);
}

double real_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::get<double>(value);
}

}  // namespace

Value* Object::find(const Text& name) {
  const auto found = std::ranges::find_if(members, [&](const auto& member) { return member.first == name; });
  return found == members.end() ? nullptr : &found->second;
}

void Object::set(const Text& name, Value value) {
  depth = depth_with(value, depth);
  if (Value* found = find(name)) *found = std::move(value);
  else members.emplace_back(name, std::move(value));
}

Value make_list(Values items) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = depth_with(item, list->depth);
  list->items = std::move(items);
  return std::shared_ptr<const List>(std::move(list));
}

Value value_of(const Json& json, Unit source) {
  if (json.is_string()) return units_of(json.get_ref<const std::string&>(), source);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) fail("a number of more than 64 bits");
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_array()) {
    Values items;
    for (const Json& item : json) items.push_back(value_of(item, source));
    return make_list(std::move(items));
  }
  if (!json.is_object()) return nullptr;
  auto object = std::make_shared<Object>();
  for (const auto& [name, member] : json.items()) object->set(units_of(name, source), value_of(member, source));
  return object;
}

Json json_of(const Value& value, Unit& source, Budget& budget) {
  const auto take = [&](const Text& text) {
    budget.spend(text.size());
    for (const Unit unit : text) source = source_of(unit) != 0 ? source_of(unit) : source;
    return bytes_of(text);
  };
  budget.spend(16);
  if (const Text* text = value.text()) return take(*text);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (value.is<std::nullptr_t>()) return nullptr;
  if (const List* list = value.list()) {
    Json json = Json::array();
    for (const Value& item : list->items) json.push_back(json_of(item, source, budget));
    return json;
  }
  const Object* object = value.object();
  if (object == nullptr || object->is_namespace) fail("JSON of what has none");
  Json json = Json::object();
  for (const auto& [name, member] : object->members) json[take(name)] = json_of(member, source, budget);
  return json;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is<std::nullptr_t>()) return false;
  if (value.is_number()) return real_of(value) != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->items.empty();
  const Object* object = value.object();
  return object == nullptr || object->is_namespace || !object->members.empty();
}

const Text& text_of(const Value& value, const std::string& what) {
  if (value.text() == nullptr) fail(what + " of what is no text");
  return *value.text();
}

std::int64_t integer_of(const Value& value, const std::string& what) {
  if (!value.is<std::int64_t>()) fail(what + " of what is no integer");
  return std::get<std::int64_t>(value);
}

Values elements_of(const Value& value, const std::string& what, Budget& budget) {
  Values items;
  if (const Text* text = value.text()) {
    budget.spend(64 * text->size());
    for (const Unit unit : *text) {
      const bool begins = (unit & 0xc0U) != 0x80U || items.empty();
      if (begins) items.push_back(Text());
      std::get<std::shared_ptr<Text>>(items.back())->push_back(unit);
    }
  } else if (const List* list = value.list()) {
    budget.spend(16 * list->items.size());
    return list->items;
  } else if (const Object* object = value.object(); object != nullptr && !object->is_namespace) {
    for (const auto& [name, member] : object->members) items.push_back(name);
  } else if (!value.is_undefined()) {
    fail(what + " of what is no list");
  }
  return items;
}

namespace {

/// Writes the value as Python's repr(), which is what str() writes inside of a list or an object.
Text spelled(const Value& value, Budget& budget) {
  const Text* text = value.text();
  if (text == nullptr) return printed(value, budget);
  const std::string bytes = bytes_of(*text);
  const Unit origin = text->empty() ? 0 : text->front() & ~Unit{0xff};
  const Unit quote =
      (bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'') | origin;
  if (!is_printable(bytes)) fail("a list or an object with unusual characters where text belongs");
  constexpr std::string_view kEscaped = "\n\r\t\\", kNames = "nrt\\";
  Text out(1, quote);
  for (const Unit unit : *text) {
    const std::size_t which = kEscaped.find(static_cast<char>(unit & 0xffU));
    if (which != std::string::npos || ByteTraits::eq(unit, quote)) out += '\\' | origin;
    out += which != std::string::npos ? static_cast<unsigned char>(kNames[which]) | origin : unit;
  }
  return out += quote;
}

}  // namespace

Text printed(const Value& value, Budget& budget) {
  budget.spend(value.text() == nullptr ? 16 : value.text()->size());
  if (const Text* text = value.text()) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return units_of(*flag ? "True" : "False");
  if (value.is<std::nullptr_t>()) return units_of("None");
  if (const auto* number = std::get_if<std::int64_t>(&value)) return units_of(std::to_string(*number));
  if (value.is<double>()) return units_of(Json(real_of(value)).dump());
  if (value.is_undefined()) return {};
  const Object* object = value.object();
  if (value.list() == nullptr && (object == nullptr || object->is_namespace))
    fail("what is no value where text belongs");
  Text out;
  const auto add = [&](const Text& item) {
    budget.spend(16 + item.size());
    out += (out.empty() ? Text() : units_of(", ")) + item;
  };
  if (object == nullptr) {
    for (const Value& item : value.list()->items) add(spelled(item, budget));
    return units_of("[") + out + units_of("]");
  }
  for (const auto& [name, member] : object->members)
    add(spelled(name, budget) + units_of(": ") + spelled(member, budget));
  return units_of("{") + out + units_of("}");
}

bool are_equal(const Value& left, const Value& right, Budget& budget) {
  budget.spend(16);
  if (left.is_number() && right.is_number()) return compare(left, right) == 0;
  if (left.index() != right.index()) return false;
  if (const Text* text = left.text()) return *text == *right.text();
  if (const List* list = left.list()) {
    return std::ranges::equal(list->items, right.list()->items,
                              [&](const Value& a, const Value& b) { return are_equal(a, b, budget); });
  }
  const Object* object = left.object();
  if (object == nullptr) return left.is_undefined() || left.is<std::nullptr_t>();
  if (object->is_namespace || right.object()->is_namespace) return object == right.object();
  return object->members.size() == right.object()->members.size() &&
         std::ranges::all_of(object->members, [&](const auto& member) {
           const Value* found = right.object()->find(member.first);
           return found != nullptr && are_equal(member.second, *found, budget);
         });
}

int compare(const Value& left, const Value& right) {
  const auto order = [](const auto& a, const auto& b) { return a < b ? -1 : b < a ? 1 : 0; };
  if (left.text() != nullptr && right.text() != nullptr) return order(*left.text(), *right.text());
  if (!left.is_number() || !right.is_number()) fail("an order of what has none");
  const auto *a = std::get_if<std::int64_t>(&left), *b = std::get_if<std::int64_t>(&right);
  return a != nullptr && b != nullptr ? order(*a, *b) : order(real_of(left), real_of(right));
}

}  // namespace qrl::data::jinja
