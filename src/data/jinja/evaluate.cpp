#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "data/jinja/jinja.h"
#include "data/jinja/values.h"
#include "data/python_json.h"

namespace qrl::data::jinja {

namespace {

constexpr std::size_t kMaxWork_bytes = std::size_t{4} << 20;  ///< of all values that a run makes, and 64 a step

/// Jinja's own names and transformers', but strftime_now: the day of the run is never there (recognize_template).
bool is_global(std::string_view name) {
  constexpr std::array<std::string_view, 7> kGlobals = {"range",  "dict",      "lipsum",         "cycler",
                                                        "joiner", "namespace", "raise_exception"};
  return std::ranges::find(kGlobals, name) != kGlobals.end();
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
  /// Before a search, which compares up to all of `part` at each byte of `whole`.
  void step_search(std::string_view whole, std::string_view part) { step(whole.size() * (1 + part.size() / 16)); }

  void step(std::size_t num_bytes = 0) {
    work_ += 64 + num_bytes;
    if (work_ > kMaxWork_bytes) fail("more work than a chat template takes");
  }

  void write(const std::string& text) {
    out_ += text;
    if (out_.size() > kMaxText_bytes) fail("a text of more than 1 MiB");
  }

  Value* find(const std::string& name) {
    for (auto at = scopes_.rbegin(); at != scopes_.rend(); ++at) {
      auto& scope = *at;
      if (const auto found = scope.find(name); found != scope.end()) return &found->second;
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

  /// A member of an object or an element of a list that is there.
  static const Json* part_of(const Json& base, const Node& node) {
    const bool is_attribute = node.kind == NodeKind::attribute;
    if (base.is_object() && (is_attribute || node.children[1].kind == NodeKind::literal)) {
      const auto found = base.find(is_attribute ? node.text : node.children[1].text);
      return found == base.end() ? nullptr : &*found;
    }
    const bool is_element = base.is_array() && !is_attribute && node.children[1].kind == NodeKind::number;
    const auto at = is_element ? index_in(node.children[1].number, base.size()) : std::nullopt;
    return at ? &base[*at] : nullptr;
  }

  /// Where a value lies within a variable, so that no more of it is copied; null where evaluate has to say more.
  const Json* place_of(const Node& node) {
    if (node.kind == NodeKind::name) {
      const Value* found = find(node.text);
      return found != nullptr && *found ? &**found : nullptr;
    }
    if (node.kind != NodeKind::attribute && node.kind != NodeKind::item) return nullptr;
    const Json* base = place_of(node.children[0]);
    return base == nullptr ? nullptr : part_of(*base, node);
  }

  Value evaluate(const Node& node) {
    if (node.kind == NodeKind::attribute || node.kind == NodeKind::item) {
      if (const Json* place = place_of(node)) return *place;
    }
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
    if (name == "split" && arguments.size() == 1) {
      step_search(text, argument(0));
      return split(text, argument(0));
    }
    if (name == "replace" && arguments.size() == 2) {
      step_search(text, argument(0));
      return replaced(text, argument(0), argument(1));
    }
    fail("the method " + base::quoted(name));
  }

  Value filter(const Node& node) {
    const Value value = value_of(node.children[0]);
    const bool is_alone = node.children.size() == 1;
    if (node.text == "trim" && is_alone) return stripped(text_of(value, "trim"), std::nullopt, true, true);
    if (node.text == "string" && is_alone) return printed(value);
    if (node.text == "tojson" && is_alone) return checked(python_json(defined(value, "tojson")));
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
    if (sign == "in" || sign == "not in") {
      if (right && right->is_string()) step_search(text_of(right, "`in`"), text_of(left, "`in`"));
      return contains(right, left) == (sign == "in");
    }
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
void add_literals(const Node& node, bool is_written, std::set<std::string_view>& seen,
                  std::vector<std::string>& found) {
  if (node.kind == NodeKind::literal && !is_written && seen.insert(node.text).second) found.push_back(node.text);
  const bool joins = node.kind == NodeKind::binary && (node.text == "+" || node.text == "~");
  for (const Node& child : node.children)
    add_literals(child, node.kind == NodeKind::output || (is_written && joins), seen, found);
}

}  // namespace

Template::Template(const std::string& text) : root_(parse_statements(text)) {}

std::string Template::render(const nlohmann::ordered_json& variables) const {
  Run run(variables);
  run.execute(root_);
  return run.take();
}

std::vector<std::string> Template::literals() const {
  std::set<std::string_view> seen;
  std::vector<std::string> found;
  add_literals(root_, false, seen, found);
  return found;
}

}  // namespace qrl::data::jinja
