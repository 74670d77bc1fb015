#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "data/jinja/jinja.h"
#include "data/tokenizer/unicode.h"

namespace qrl::data::jinja {

namespace {

using Json = nlohmann::json;
/// Nothing: undefined.
using Value = std::optional<Json>;

constexpr std::size_t kMaxText_bytes = std::size_t{1} << 20;
constexpr std::size_t kMaxWork_bytes = std::size_t{16} << 20;  ///< of all values that a run makes, and 64 a step

[[noreturn]] void fail(const std::string& what) { throw Unsupported(what); }

bool is_true(const Value& value) {
  if (!value || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<std::int64_t>() != 0;
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  return !value->empty();
}

const std::string& text_of(const Value& value, const std::string& what) {
  if (!value || !value->is_string()) fail(what + " of what is no text");
  return value->get_ref<const std::string&>();
}

std::int64_t integer_of(const Value& value, const std::string& what) {
  if (!value || !value->is_number_integer()) fail(what + " of what is no integer");
  return value->get<std::int64_t>();
}

Json checked(std::string text) {
  if (text.size() > kMaxText_bytes) fail("a text of more than 1 MiB");
  return text;
}

/// Jinja's own names and transformers', but strftime_now: the day of the run is never there (recognise_template).
bool is_global(std::string_view name) {
  constexpr std::array<std::string_view, 7> kGlobals = {"range",  "dict",      "lipsum",         "cycler",
                                                        "joiner", "namespace", "raise_exception"};
  return std::ranges::find(kGlobals, name) != kGlobals.end();
}

/// About the memory that a value takes.
std::size_t weight_of(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  std::size_t sum = 16;
  if (value.is_structured()) {
    for (const Json& part : value) sum += 16 + weight_of(part);
  }
  return sum;
}

/// As Python's str() writes it.
std::string printed(const Value& value) {
  if (!value) return {};
  if (value->is_string()) return value->get<std::string>();
  if (value->is_boolean()) return value->get<bool>() ? "True" : "False";
  if (value->is_null()) return "None";
  if (value->is_number()) return value->dump();
  fail("a list or an object where text belongs");
}

bool are_equal(const Value& left, const Value& right) {
  if (!left || !right) return !left && !right;
  // In Python 1 == True.
  if (left->is_boolean() != right->is_boolean() && left->is_number() != right->is_number())
    fail("the comparison of a number and a truth value");
  return *left == *right;
}

bool contains(const Value& whole, const Value& part) {
  if (!whole) fail("`in` of what is not defined");
  if (whole->is_string()) return whole->get_ref<const std::string&>().find(text_of(part, "`in`")) != std::string::npos;
  if (whole->is_object()) return whole->contains(text_of(part, "`in`"));
  if (!whole->is_array()) fail("`in` of what holds nothing");
  return std::any_of(whole->begin(), whole->end(), [&](const Json& one) { return are_equal(one, part); });
}

bool compare(std::string_view sign, const Value& left, const Value& right) {
  const std::int64_t a = integer_of(left, "an order"), b = integer_of(right, "an order");
  if (sign == "<") return a < b;
  if (sign == "<=") return a <= b;
  return sign == ">" ? a > b : a >= b;
}

Json calculate(std::string_view sign, const Value& left, const Value& right) {
  const bool both_text = left && right && left->is_string() && right->is_string();
  if (sign == "+" && both_text) return checked(left->get<std::string>() + right->get<std::string>());
  const std::string what = "`" + std::string(sign) + "`";
  const std::int64_t a = integer_of(left, what), b = integer_of(right, what);
  std::int64_t result = 0;
  bool overflows = false;
  if (sign == "+") overflows = __builtin_add_overflow(a, b, &result);
  else if (sign == "-") overflows = __builtin_sub_overflow(a, b, &result);
  else if (sign == "*") overflows = __builtin_mul_overflow(a, b, &result);
  else if (sign == "%" && a >= 0 && b > 0) result = a % b;
  else fail("the operator " + what);
  if (overflows) fail("a number of more than 64 bits");
  return result;
}

/// The index that Python's list[at] means, or nothing outside of it.
std::optional<std::size_t> index_in(std::int64_t at, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (at < 0) at += count;
  return at < 0 || at >= count ? std::nullopt : std::optional(static_cast<std::size_t>(at));
}

/// Python's strip, lstrip and rstrip: of white space, or of the characters of `set`.
Json stripped(std::string_view text, const Value& set, bool left, bool right) {
  const std::string characters = set ? text_of(set, "strip") : std::string();
  if (!std::ranges::all_of(characters, [](unsigned char c) { return c < 0x80; }))
    fail("strip of characters beyond ASCII");
  const auto ends = [&](bool front) -> std::size_t {
    if (!set) return front ? leading_space_bytes(text) : trailing_space_bytes(text);
    const std::size_t at = front ? text.find_first_not_of(characters) : text.find_last_not_of(characters);
    if (at == std::string_view::npos) return text.size();
    return front ? at : text.size() - 1 - at;
  };
  if (left) text.remove_prefix(ends(true));
  if (right) text.remove_suffix(ends(false));
  return std::string(text);
}

Json split(std::string_view text, const std::string& separator) {
  if (separator.empty()) fail("split at nothing");
  Json parts = Json::array();
  for (std::size_t at = 0; (at = text.find(separator)) != std::string_view::npos;) {
    parts.push_back(std::string(text.substr(0, at)));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(std::string(text));
  return parts;
}

Json replaced(std::string_view text, const std::string& from, const std::string& to) {
  if (from.empty()) fail("replace of nothing");
  std::string out;
  for (std::size_t at = 0; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size())) {
    out += std::string(text.substr(0, at)) + to;
    if (out.size() > kMaxText_bytes) break;
  }
  return checked(out.append(text));
}

class Run {
 public:
  explicit Run(const Json& variables) : scopes_(1) {
    for (const auto& [name, value] : variables.items()) scopes_[0][name] = value;
  }

  void execute(const Node& node) {
    step();
    switch (node.kind) {
      case NodeKind::text:
        return write(node.text);
      case NodeKind::output:
        return write(printed(value_of(node.children[0])));
      case NodeKind::set:
        return assign(node);
      case NodeKind::loop:
        return loop(node);
      case NodeKind::branch:
        return branch(node);
      case NodeKind::unsupported:
        fail(node.text);
      default:
        for (const Node& statement : node.children) execute(statement);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void step(std::size_t num_bytes = 0) {
    work_ += 64 + num_bytes;
    if (work_ > kMaxWork_bytes) fail("more work than a chat template takes");
  }

  void write(const std::string& text) {
    out_ += text;
    if (out_.size() > kMaxText_bytes) fail("a text of more than 1 MiB");
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  void assign(const Node& node) {
    Value value = value_of(node.children[0]);
    const Node& from = node.children[0];
    if (!node.attribute.empty()) {
      // A namespace is the one thing that a loop's body can change outside of itself.
      Value* target = namespaces_.contains(node.text) ? find(node.text) : nullptr;
      if (target == nullptr) fail("`set` of a member of what is no namespace");
      (**target)[node.attribute] = defined(std::move(value), "`set`");
      return;
    }
    const bool is_namespace = from.kind == NodeKind::call && from.children[0].kind == NodeKind::name;
    if (is_namespace) namespaces_.insert(node.text);
    else if (namespaces_.contains(node.text)) fail("a name for a namespace and for something else");
    scopes_.back()[node.text] = std::move(value);
  }

  void branch(const Node& node) {
    for (std::size_t i = 0; i < node.children.size(); i += 2) {
      const bool is_else = i + 1 == node.children.size();
      if (!is_else && !is_true(value_of(node.children[i]))) continue;
      return execute(node.children[is_else ? i : i + 1]);
    }
  }

  void loop(const Node& node) {
    const Value sequence = value_of(node.children[0]);
    if (!sequence || !sequence->is_array()) fail("a loop over what is no list");
    for (std::size_t i = 0; i < sequence->size(); ++i) {
      Json state = {{"index0", i},
                    {"index", i + 1},
                    {"first", i == 0},
                    {"last", i + 1 == sequence->size()},
                    {"length", sequence->size()}};
      if (i > 0) state["previtem"] = (*sequence)[i - 1];
      if (i + 1 < sequence->size()) state["nextitem"] = (*sequence)[i + 1];
      if (namespaces_.contains(node.text)) fail("a name for a namespace and for something else");
      scopes_.emplace_back();
      scopes_.back()[node.text] = (*sequence)[i];
      scopes_.back()["loop"] = std::move(state);
      execute(node.children[1]);
      scopes_.pop_back();
    }
  }

  Value value_of(const Node& node) {
    Value value = evaluate(node);
    step(value ? weight_of(*value) : 0);
    return value;
  }

  Value evaluate(const Node& node) {
    switch (node.kind) {
      case NodeKind::literal:
        return node.text;
      case NodeKind::number:
        return node.number;
      case NodeKind::boolean:
        return node.number != 0;
      case NodeKind::none:
        return Json();
      case NodeKind::name: {
        // Elsewhere it would be one thing under two names.
        if (namespaces_.contains(node.text)) fail("a namespace as a value");
        const Value* found = find(node.text);
        if (found == nullptr && is_global(node.text)) fail("`" + node.text + "` as a value");
        return found == nullptr ? std::nullopt : *found;
      }
      case NodeKind::attribute: {
        const Node& base = node.children[0];
        const Value* known = base.kind == NodeKind::name ? find(base.text) : nullptr;
        return known != nullptr ? member(*known, node) : member(value_of(base), node);
      }
      case NodeKind::item:
        return item(value_of(node.children[0]), value_of(node.children[1]));
      case NodeKind::slice:
        return slice(node);
      case NodeKind::call:
        return call(node);
      case NodeKind::filter:
        return filter(node);
      case NodeKind::test:
        return test(node);
      case NodeKind::negation:
        return !is_true(value_of(node.children[0]));
      case NodeKind::minus:
        return calculate("-", Json(0), value_of(node.children[0]));
      case NodeKind::binary:
        return binary(node);
      case NodeKind::conditional:
        if (is_true(value_of(node.children[0]))) return value_of(node.children[1]);
        return node.children.size() > 2 ? value_of(node.children[2]) : std::nullopt;
      case NodeKind::list: {
        Json list = Json::array();
        for (const Node& child : node.children) list.push_back(defined(value_of(child), "a list"));
        return list;
      }
      case NodeKind::unsupported:
        fail(node.text);
      default:
        fail("a named argument");
    }
  }

  static Json defined(Value value, const std::string& what) {
    if (!value) fail(what + " of what is not defined");
    return std::move(*value);
  }

  /// base.name of an object. Members that Python or Jinja has there are not told from those of a message.
  Value member(const Value& base, const Node& node) const {
    constexpr std::array<std::string_view, 16> kForeign = {
        "items",      "keys",    "values", "get",   "update", "pop",      "copy",      "clear",
        "setdefault", "popitem", "cycle",  "depth", "depth0", "revindex", "revindex0", "changed"};
    if (!base || !base->is_object()) fail("`." + node.text + "` of what is no object");
    const auto found = base->find(node.text);
    if (found != base->end()) return *found;
    if (std::ranges::find(kForeign, node.text) != kForeign.end()) fail("`." + node.text + "`");
    return std::nullopt;
  }

  static Value item(const Value& base, const Value& key) {
    if (base && base->is_object()) {
      const auto found = base->find(text_of(key, "a member"));
      return found == base->end() ? std::nullopt : Value(*found);
    }
    if (!base || !base->is_array()) fail("an element of what is no list");
    const auto at = index_in(integer_of(key, "an element"), base->size());
    return at ? Value((*base)[*at]) : std::nullopt;
  }

  Value slice(const Node& node) {
    const Value base = value_of(node.children[0]);
    if (!base || !base->is_array()) fail("a part of what is no list");
    const auto is_absent = [&](std::size_t i) { return node.children[i].text == ":"; };
    const auto size = static_cast<std::int64_t>(base->size());
    const std::int64_t step = is_absent(3) ? 1 : integer_of(value_of(node.children[3]), "a part");
    const bool is_reversed = step == -1 && is_absent(1) && is_absent(2);
    if (step != 1 && !is_reversed) fail("a part of a list in steps");
    const auto bound = [&](std::size_t i, std::int64_t otherwise) {
      if (is_absent(i)) return otherwise;
      const std::int64_t at = std::clamp(integer_of(value_of(node.children[i]), "a part"), -size, size);
      return at < 0 ? at + size : at;
    };
    Json part = Json::array();
    for (std::int64_t i = bound(1, 0), end = bound(2, size); i < end; ++i)
      part.push_back((*base)[static_cast<std::size_t>(is_reversed ? size - 1 - i : i)]);
    return part;
  }

  Value call(const Node& node) {
    const Node& what = node.children[0];
    if (what.kind == NodeKind::attribute) return method(node, what);
    if (what.kind == NodeKind::name && what.text == "namespace") return make_namespace(node);
    if (what.kind == NodeKind::name && what.text == "raise_exception")
      fail("its own error: " + base::quoted(node.children.size() > 1 ? printed(value_of(node.children[1])) : ""));
    fail("a call of " + base::quoted(what.text));
  }

  Value make_namespace(const Node& node) {
    Json members = Json::object();
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      const Node& argument = node.children[i];
      if (argument.kind != NodeKind::keyword) fail("a namespace of an object");
      members[argument.text] = defined(value_of(argument.children[0]), "a namespace");
    }
    return members;
  }

  Value method(const Node& node, const Node& what) {
    const Value base = value_of(what.children[0]);
    const std::string& name = what.text;
    std::vector<Value> arguments;
    for (std::size_t i = 1; i < node.children.size(); ++i) arguments.push_back(value_of(node.children[i]));
    if (name == "get" && base && base->is_object() && !arguments.empty() && arguments.size() <= 2) {
      const Value found = item(base, arguments[0]);
      return found ? found : arguments.size() == 2 ? arguments[1] : Value(Json());
    }
    const std::string& text = text_of(base, "`." + name + "()`");
    const auto argument = [&](std::size_t i) { return text_of(arguments[i], "`." + name + "()`"); };
    const bool strips = name == "strip" || name == "lstrip" || name == "rstrip";
    if (strips && arguments.size() <= 1) {
      if (!arguments.empty() && !arguments[0]) fail("strip of what is not defined");
      return stripped(text, arguments.empty() ? Value() : arguments[0], name != "rstrip", name != "lstrip");
    }
    if (name == "startswith" && arguments.size() == 1) return text.starts_with(argument(0));
    if (name == "endswith" && arguments.size() == 1) return text.ends_with(argument(0));
    if (name == "split" && arguments.size() == 1) return split(text, argument(0));
    if (name == "replace" && arguments.size() == 2) return replaced(text, argument(0), argument(1));
    fail("the method " + base::quoted(name));
  }

  Value filter(const Node& node) {
    const Value value = value_of(node.children[0]);
    const bool is_alone = node.children.size() == 1;
    if (node.text == "trim" && is_alone) return stripped(text_of(value, "trim"), std::nullopt, true, true);
    if (node.text == "string" && is_alone) return printed(value);
    if ((node.text == "length" || node.text == "count") && is_alone) {
      if (!value || !value->is_structured()) fail("the length of what is no list");
      return value->size();
    }
    if (node.text == "default" && node.children.size() == 2) return value ? value : value_of(node.children[1]);
    if ((node.text == "first" || node.text == "last") && is_alone)
      return item(value, Json(node.text == "first" ? 0 : -1));
    fail("the filter " + base::quoted(node.text));
  }

  bool test(const Node& node) {
    const Value value = value_of(node.children[0]);
    const std::string& name = node.text;
    if (node.children.size() > 1) fail("the test " + base::quoted(name) + " with arguments");
    if (name == "defined") return value.has_value();
    if (name == "undefined") return !value;
    if (name == "none") return value && value->is_null();
    if (name == "string") return value && value->is_string();
    if (name == "mapping") return value && value->is_object();
    if (name == "boolean") return value && value->is_boolean();
    if (name == "true" || name == "false") return value && *value == Json(name == "true");
    if (name == "sequence" || name == "iterable") {
      if (!value) fail("the test " + base::quoted(name) + " of what is not defined");
      return value->is_string() || value->is_structured();
    }
    fail("the test " + base::quoted(name));
  }

  Value binary(const Node& node) {
    const std::string& sign = node.text;
    const Value left = value_of(node.children[0]);
    // As in Python, the value that decided.
    if (sign == "and") return is_true(left) ? value_of(node.children[1]) : left;
    if (sign == "or") return is_true(left) ? left : value_of(node.children[1]);
    const Value right = value_of(node.children[1]);
    if (sign == "==") return are_equal(left, right);
    if (sign == "!=") return !are_equal(left, right);
    if (sign == "in") return contains(right, left);
    if (sign == "not in") return !contains(right, left);
    if (sign == "~") return checked(printed(left) + printed(right));
    if (sign.front() == '<' || sign.front() == '>') return compare(sign, left, right);
    return calculate(sign, left, right);
  }

  std::vector<std::map<std::string, Value>> scopes_;
  std::set<std::string> namespaces_;
  std::size_t work_ = 0;
  std::string out_;
};

/// `is_written`: `node` is what a tag writes, or a part that it is joined of.
void add_literals(const Node& node, bool is_written, std::vector<std::string>& found) {
  if (node.kind == NodeKind::literal && !is_written && std::ranges::find(found, node.text) == found.end())
    found.push_back(node.text);
  const bool joins = node.kind == NodeKind::binary && (node.text == "+" || node.text == "~");
  for (const Node& child : node.children)
    add_literals(child, node.kind == NodeKind::output || (is_written && joins), found);
}

}  // namespace

Template::Template(const std::string& text) : root_(parse_statements(text)) {}

std::string Template::render(const nlohmann::json& variables) const {
  Run run(variables);
  run.execute(root_);
  return run.take();
}

std::vector<std::string> Template::literals() const {
  std::vector<std::string> found;
  add_literals(root_, false, found);
  return found;
}

}  // namespace qrl::data::jinja
