#include "data/jinja/values.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

void fail(const std::string& what) { throw Unsupported(what); }

namespace {

std::string_view name_of(const std::pair<Text, Value>& member) { return member.first.bytes(); }
/// Returns a member's name; none if its key is no text.
std::optional<std::string_view> name_of(const std::pair<Value, Value>& member) {
  const Text* name = member.first.text();
  return name == nullptr ? std::nullopt : std::optional<std::string_view>(name->bytes());
}

void require_key(const Value& key) {
  if (const List* list = key.list(); list != nullptr && list->type == Sequence::tuple) {
    for (const Value& item : list->items) require_key(item);
    return;
  }
  if (key.text() == nullptr && !key.is_number() && !key.is_none()) fail("a key that is no text, number, none or tuple");
}

/// Returns the end of the character at `begin`.
std::size_t character_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) ++end;
  return end;
}

/// Returns the depth that a list or object of depth `depth` has after `member` is added. Throws like Object::set.
int depth_with(const Value& member, int depth) {
  constexpr int kMaxValueDepth = 100;
  if (member.loop() != nullptr || member.names() != nullptr) fail("a loop or namespace as a member");
  const int below = member.object() != nullptr ? member.object()->depth
                    : member.list() != nullptr ? member.list()->depth
                                               : 0;
  if (below >= kMaxValueDepth) fail("lists and objects nested more than 100 deep");
  return std::max(depth, below + 1);
}

}  // namespace

const Value& Arguments::get(std::size_t place, std::string_view name) const {
  static const Value kNone{};
  if (place < positional.size()) return positional[place];
  const auto found = std::ranges::find(named, name, [](const auto& argument) { return name_of(argument); });
  return found == named.end() ? kNone : found->second;
}

bool Arguments::has(std::size_t place, std::string_view name) const {
  return place < positional.size() ||
         std::ranges::find(named, name, [](const auto& argument) { return name_of(argument); }) != named.end();
}

const Value* Object::find(std::string_view name) const {
  if (!places_.empty()) {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : &members[place->second].second;
  }
  const auto found =
      std::ranges::find(members, std::optional(name), [](const auto& member) { return name_of(member); });
  return found == members.end() ? nullptr : &found->second;
}

const Value* Object::find(const Value& key, Budget& budget) const {
  if (const Text* name = key.text()) return find(name->bytes());
  require_key(key);
  const auto found =
      std::ranges::find_if(members, [&](const auto& member) { return are_equal(member.first, key, budget); });
  return found == members.end() ? nullptr : &found->second;
}

void Object::set(Text name, Value value) {
  constexpr std::size_t kMostSearched = 16;
  depth = depth_with(value, depth);
  if (const Value* there = find(name.bytes())) {
    *const_cast<Value*>(there) = std::move(value);
    return;
  }
  members.emplace_back(std::move(name), std::move(value));
  if (members.size() <= kMostSearched) return;
  const std::size_t first_new = places_.empty() ? 0 : members.size() - 1;
  for (std::size_t i = first_new; i < members.size(); ++i) {
    if (const auto known = name_of(members[i])) places_.emplace(*known, i);
  }
}

void Object::set(const Value& key, Value value, Budget& budget) {
  if (const Text* name = key.text()) return set(*name, std::move(value));
  depth = depth_with(key, depth_with(value, depth));
  if (const Value* there = find(key, budget)) *const_cast<Value*>(there) = std::move(value);
  else members.emplace_back(key, std::move(value));
}

Value make_list(Values items, Sequence type) {
  auto list = std::make_shared<List>();
  list->type = type;
  for (const Value& item : items) list->depth = depth_with(item, list->depth);
  list->items = std::move(items);
  return list;
}

Value value_of(const nlohmann::ordered_json& json, Source source) {
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), source);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) fail("a number of more than 64 bits");
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_array()) {
    Values items;
    for (const auto& item : json) items.push_back(value_of(item, source));
    return make_list(std::move(items));
  }
  if (!json.is_object()) return nullptr;
  auto object = std::make_shared<Object>();
  for (const auto& [name, member] : json.get_ref<const nlohmann::ordered_json::object_t&>())
    object->set(Text(name, source), value_of(member, source));
  return object;
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.real() != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return list->type == Sequence::generator || !list->items.empty();
  return value.object() == nullptr || !value.object()->members.empty();
}

const Text& text_of(const Value& value, std::string_view what) {
  if (value.text() == nullptr) fail(std::string(what) + " on a non-string");
  return *value.text();
}

std::int64_t integer_of(const Value& value, std::string_view what) {
  if (value.integer() == nullptr) fail(std::string(what) + " with a non-integer");
  return *value.integer();
}

Value elements_of(const Value& value, std::string_view what, Budget& budget) {
  if (const List* list = value.list()) {
    if (list->is_spent) fail("a generator that is read twice");
    list->is_spent = list->type == Sequence::generator;
    return value;
  }
  Values items;
  if (const Text* text = value.text()) {
    budget.spend(64 * text->size());
    const std::string& bytes = text->bytes();
    for (std::size_t begin = 0, end = 0; begin < bytes.size(); begin = end) {
      end = character_end(bytes, begin);
      items.push_back(text->part(begin, end - begin));
    }
  } else if (const Object* object = value.object()) {
    budget.spend(64 * object->members.size());
    for (const auto& [name, member] : object->members) items.push_back(name);
  } else if (!value.is_undefined()) {
    fail(std::string(what) + " on a non-list");
  }
  return make_list(std::move(items));
}

namespace {

/// Returns a character as JSON's \uXXXX, or as two of them.
std::string in_utf16(std::string_view character) {
  const unsigned mask = character.size() == 1 ? 0x7fU : 0xffU >> (character.size() + 1);
  std::uint32_t code = static_cast<unsigned char>(character[0]) & mask;
  for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  const bool is_pair = code >= 0x10000;
  std::string out;
  for (const std::uint32_t unit : {0xd800 + ((code - 0x10000) >> 10U), is_pair ? 0xdc00 + (code & 0x3ffU) : code}) {
    if (!is_pair && unit != code) continue;
    std::array<char, 8> text = {};
    (void)std::snprintf(text.data(), text.size(), "\\u%04x", unit);
    out += text.data();
  }
  return out;
}

/// Formats like Python's repr() or json.dumps(). Text that it adds has the template's source.
class Writer {
 public:
  Writer(bool is_json, const JsonForm& form, Budget& budget)
      : is_json_(is_json), is_ascii_(form.is_ascii), indent_(form.indent), budget_(budget) {}

  Text written(const Value& value) {
    write(value, 1);
    return std::move(out_);
  }

 private:
  void write(const Value& value, std::size_t level) {
    budget_.spend(16);
    if (const Text* text = value.text()) {
      quote(*text);
    } else if (const List* list = value.list()) {
      if (list->type > Sequence::tuple) fail("a range, view or generator as text");
      const bool is_tuple = list->type == Sequence::tuple && !is_json_;
      const std::string_view one = list->items.size() == 1 ? "," : "";
      group(
          is_tuple ? "()" : "[]", level, list->items, [&](const Value& item) { write(item, level + 1); },
          is_tuple ? one : "");
    } else if (const Object* object = value.object()) {
      group("{}", level, object->members, [&](const auto& member) {
        write_key(member.first, level + 1);
        out_.add(": ", 0);
        write(member.second, level + 1);
      });
    } else if (value.kind() == Kind::flag) {
      out_.add(is_json_ ? (is_true(value) ? "true" : "false") : (is_true(value) ? "True" : "False"), 0);
    } else if (value.is_none()) {
      out_.add(is_json_ ? "null" : "None", 0);
    } else if (const std::int64_t* number = value.integer()) {
      out_.add(std::to_string(*number), 0);
    } else if (value.kind() == Kind::real) {
      out_.add(nlohmann::json(value.real()).dump(), 0);
    } else {
      fail("a value that cannot be converted to text");
    }
  }

  /// Writes an object's key. In JSON every key is a text.
  void write_key(const Value& key, std::size_t level) {
    const bool is_quoted = is_json_ && key.text() == nullptr;
    if (is_quoted && key.list() != nullptr) fail("tojson of an object with a tuple as key");
    if (is_quoted) out_.add("\"", 0);
    write(key, level);
    if (is_quoted) out_.add("\"", 0);
  }

  template <class Items, class Write>
  void group(std::string_view brackets, std::size_t level, const Items& items, const Write& write_item,
             std::string_view end = "") {
    const bool has_lines = indent_ && !items.empty();
    std::string line = has_lines ? "\n" : "", last = line;
    for (std::size_t i = 0; has_lines && i < level; ++i) {
      budget_.spend(indent_->size());
      last = line;
      line += *indent_;
    }
    out_.add(brackets.substr(0, 1), 0);
    for (std::size_t i = 0; i < items.size(); ++i) {
      budget_.spend(16 + line.size());
      if (i > 0) out_.add(has_lines ? "," : ", ", 0);
      out_.add(line, 0);
      write_item(items[i]);
    }
    out_.add(last, 0);
    out_.add(end, 0);
    out_.add(brackets.substr(1), 0);
  }

  void quote(const Text& text) {
    const std::string& bytes = text.bytes();
    budget_.spend(16 + text.cost_bytes());
    if (!is_json_ && !is_printable(bytes)) fail("a list or object with unprintable characters as text");
    const bool is_double = is_json_ || (bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos);
    const char mark = is_double ? '"' : '\'';
    out_.add({&mark, 1}, 0);
    for (const TextRun& run : text.runs()) {
      for (std::size_t i = run.begin, end = 0; i < run.end; i = end) {
        end = is_ascii_ ? run.begin + character_end(text.bytes(run), i - run.begin) : i + 1;
        if (end > i + 1 || (is_ascii_ && bytes[i] == 0x7f))
          out_.add(in_utf16(std::string_view(bytes).substr(i, end - i)), run.source);
        else out_.add(escaped(bytes[i], mark), run.source);
      }
    }
    out_.add({&mark, 1}, 0);
  }

  std::string escaped(char c, char mark) const {
    constexpr std::string_view kEscaped = "\n\r\t\b\f", kNames = "nrtbf";
    if (c == '\\' || c == mark) return {'\\', c};
    if (const std::size_t which = kEscaped.find(c); which != std::string_view::npos) return {'\\', kNames[which]};
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20) return {c};
    return {'\\', 'u', '0', '0', kDigits[code / 16], kDigits[code % 16]};
  }

  bool is_json_, is_ascii_;
  std::optional<std::string> indent_;
  Budget& budget_;
  Text out_;
};

}  // namespace

void print(const Value& value, Text& out, Budget& budget, Source flag) {
  if (value.is_undefined()) return;
  const Text* text = value.text();
  if (text == nullptr) return out.append(Writer(false, {}, budget).written(value), flag);
  budget.spend(text->cost_bytes());
  out.append(*text, flag);
}

Text printed(const Value& value, Budget& budget) {
  Text text;
  print(value, text, budget);
  return text;
}

Text json_of(const Value& value, const JsonForm& form, Budget& budget) {
  return Writer(true, form, budget).written(value);
}

bool are_equal(const Value& left, const Value& right, Budget& budget) {
  budget.spend(16);
  if (left.is_number() && right.is_number()) return compare(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  if (const Text* text = left.text()) {
    budget.spend(text->size() / 8);
    return text->bytes() == right.text()->bytes();
  }
  if (const List* list = left.list()) {
    const Sequence other = right.list()->type;
    if (list->type > Sequence::range || other > Sequence::range) fail("a comparison of a view or generator");
    return list->type == other &&
           std::ranges::equal(list->items, right.list()->items,
                              [&](const Value& a, const Value& b) { return are_equal(a, b, budget); });
  }
  if (left.names() != nullptr) return left.names() == right.names();
  const Object* object = left.object();
  if (object == nullptr) return left.is_undefined() || left.is_none();
  return object->members.size() == right.object()->members.size() &&
         std::ranges::all_of(object->members, [&](const auto& member) {
           const Text* name = member.first.text();
           budget.spend(cost_of_search(name == nullptr ? "" : name->bytes()));
           const Value* found = right.object()->find(member.first, budget);
           return found != nullptr && are_equal(member.second, *found, budget);
         });
}

int compare(const Value& left, const Value& right) {
  const auto order = [](const auto& a, const auto& b) { return a < b ? -1 : b < a ? 1 : 0; };
  if (left.text() != nullptr && right.text() != nullptr) return order(left.text()->bytes(), right.text()->bytes());
  if (!left.is_number() || !right.is_number()) fail("an order comparison of such values");
  const std::int64_t *a = left.integer(), *b = right.integer();
  return a != nullptr && b != nullptr ? order(*a, *b) : order(left.real(), right.real());
}

Value member_of(const Value& base, std::string_view name) {
  if (base.is_undefined()) fail("`." + std::string(name) + "` of an undefined value");
  if (name.starts_with("__") || (name.starts_with('_') && base.names() != nullptr))
    fail("`." + std::string(name) + "`, which is private");
  const Object* object = base.names() != nullptr ? base.names() : base.object();
  if (const Value* found = object == nullptr ? nullptr : object->find(name)) return *found;
  const Loop* loop = base.loop();
  if (loop == nullptr) return is_method(base, name) ? Value(Kind::method) : Value();
  const Values& items = loop->list.list()->items;
  const std::size_t at = loop->at, size = items.size();
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == size;
  if (name == "previtem") return at == 0 ? Value() : items[at - 1];
  if (name == "nextitem") return at + 1 == size ? Value() : items[at + 1];
  for (const auto& [known, number] : {std::pair("index0", at),
                                      {"index", at + 1},
                                      {"length", size},
                                      {"revindex", size - at},
                                      {"revindex0", size - at - 1}}) {
    if (name == known) return static_cast<std::int64_t>(number);
  }
  fail("`loop." + std::string(name) + "`");
}

bool is_method(const Value& base, std::string_view name) {
  constexpr std::string_view kTextMethods =
      " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha "
      "isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower "
      "lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
      "splitlines startswith strip swapcase title translate upper zfill ";
  constexpr std::string_view kObjectMethods = " items keys values get copy fromkeys ",
                             kListMethods = " copy count index ";
  constexpr std::string_view kNumberMembers =
      " real imag numerator denominator bit_length bit_count conjugate to_bytes "
      "from_bytes as_integer_ratio is_integer hex fromhex ";
  // Methods that change an object or a list; transformers' environment forbids them.
  constexpr std::string_view kChanging =
      " update pop clear setdefault popitem append extend insert remove reverse sort ";
  const auto is_in = [&](std::string_view names) {
    return names.find(" " + std::string(name) + " ") != std::string_view::npos;
  };
  if (base.object() != nullptr || base.list() != nullptr) {
    if (is_in(kChanging)) fail("`." + std::string(name) + "`, which changes a value");
    return is_in(base.object() != nullptr ? kObjectMethods : kListMethods);
  }
  return (base.text() != nullptr && is_in(kTextMethods)) || (base.is_number() && is_in(kNumberMembers));
}

Value item_of(const Value& base, const Value& key, Budget& budget) {
  const Text* name = key.text();
  budget.spend(64 + (name == nullptr ? 0 : cost_of_search(name->bytes())));
  if (base.is_undefined()) fail("an element of an undefined value");
  if (const Object* object = base.object()) {
    const Value* found = object->find(key, budget);
    if (found != nullptr) return *found;
    return name != nullptr && is_method(base, name->bytes()) ? Value(Kind::method) : Value();
  }
  if (name != nullptr) return member_of(base, name->bytes());
  const bool has_elements = base.text() != nullptr || (base.list() != nullptr && base.list()->has_elements());
  if (!has_elements || !key.is_number() || key.kind() == Kind::real) return {};
  const Value list = elements_of(base, "an element", budget);
  const Values& items = list.list()->items;
  const std::int64_t at = key.integer() != nullptr ? *key.integer() : static_cast<std::int64_t>(key.real());
  const std::int64_t size = std::ssize(items), place = at < 0 ? at + size : at;
  return place < 0 || place >= size ? Value() : items[static_cast<std::size_t>(place)];
}

}  // namespace qrl::data::jinja
