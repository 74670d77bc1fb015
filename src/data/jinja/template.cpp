#include <algorithm>
#include <array>
#include <concepts>
#include <utility>

#include "base/text.h"
#include "data/jinja/builtins.h"
#include "data/jinja/jinja.h"
#include "data/jinja/lexer.h"

namespace qrl::data::jinja {

struct Run {
  enum class Leave : std::uint8_t { no, loop, turn };
  Budget& budget;
  std::vector<std::pair<int, Value>> names = {};  ///< variables of all open scopes
  std::vector<std::size_t> scopes = {0};          ///< index of each scope's first name, outermost scope first
  int num_macros = 0;
  Source mark = 0;
  Leave leave = Leave::no;  ///< what to leave: the loop (`break`) or its current turn (`continue`)
  Text out = {};

  const Value* find(int name) const {
    const auto found =
        std::find_if(names.rbegin(), names.rend(), [name](const auto& one) { return one.first == name; });
    budget.spend(16 + static_cast<std::size_t>(found - names.rbegin()));
    return found == names.rend() ? nullptr : &found->second;
  }
  void set(int name, Value value) {
    std::size_t i = scopes.back();
    while (i < names.size() && names[i].first != name) ++i;
    budget.spend(64 + i - scopes.back());
    if (i == names.size()) names.emplace_back(name, Value());
    names[i].second = std::move(value);
  }
  void write(const Value& value) {
    budget.spend(64);
    print(value, out, budget, mark);
  }
  template <class Body>
  void in_scope(const Body& body) {
    scopes.push_back(names.size());
    body();
    names.resize(scopes.back());
    scopes.pop_back();
  }
};

/// A compiled part of a template. Copies share it, so that a part of many parts compiles in linear time.
template <class Result>
class Compiled {
 public:
  Compiled() = default;
  template <class Function>
  requires(!std::same_as<std::remove_cvref_t<Function>, Compiled>) Compiled(Function&& run)
      : run_(std::make_shared<const std::function<Result(Run&)>>(std::forward<Function>(run))) {}
  Result operator()(Run& run) const { return (*run_)(run); }
  explicit operator bool() const noexcept { return run_ != nullptr; }

 private:
  std::shared_ptr<const std::function<Result(Run&)>> run_;
};
using Expression = Compiled<Value>;
using Statement = Compiled<void>;

struct Macro {
  static constexpr Kind kKind = Kind::macro;
  struct Parameter {
    std::string name;
    int id;
    Expression otherwise;  ///< default value, or null
  };
  std::vector<Parameter> parameters;
  Statement body;
};

namespace {

constexpr int kMaxDepth = 40;   // nesting of expressions and statements
constexpr int kMaxMacros = 16;  // calls within calls: with kMaxDepth each, they fit a stack of 512 kB
constexpr std::size_t kWork_bytes = std::size_t{64}
                                    << 20;  // limit on the bytes of all texts that a render makes, plus 64 per step

/// Returns what the macro writes. The macro sees its parameters and the template's top-level names.
Value call_macro(const Macro& macro, const Arguments& arguments, Run& run) {
  if (run.num_macros == kMaxMacros) fail("macro calls nested too deeply");
  if (arguments.positional.size() > macro.parameters.size()) fail("too many arguments for a macro");
  for (auto given = arguments.named.begin(); given != arguments.named.end(); ++given) {
    const auto is_same = [&](const auto& other) { return other.first.bytes() == given->first.bytes(); };
    const auto parameter = std::ranges::find(macro.parameters, given->first.bytes(), &Macro::Parameter::name);
    const auto place = static_cast<std::size_t>(parameter - macro.parameters.begin());
    if (parameter == macro.parameters.end() || place < arguments.positional.size() ||
        std::any_of(arguments.named.begin(), given, is_same))
      fail("an unknown or repeated argument of a macro");
  }
  const std::size_t num_own = run.scopes.size() > 1 ? run.scopes[1] : run.names.size();
  run.budget.spend(64 * num_own);
  Run call{run.budget, {run.names.begin(), run.names.begin() + static_cast<std::ptrdiff_t>(num_own)}, {0, num_own}};
  call.num_macros = run.num_macros + 1;
  for (std::size_t i = 0; const auto& [name, id, otherwise] : macro.parameters) {
    const bool is_given = arguments.has(i, name);
    call.set(id, !is_given && otherwise ? otherwise(call) : arguments.get(i, name));
    ++i;
  }
  macro.body(call);
  return std::move(call.out);
}

/// Returns base[begin:end:step] of a list or text, as in Python; None means no bound. Throws Unsupported unless the
/// step is 1, or is −1 without bounds.
Value slice(const Value& base, const std::array<Value, 3>& bounds, Budget& budget) {
  const bool is_list = base.list() != nullptr && base.list()->type <= Sequence::tuple;
  if (!is_list && base.text() == nullptr) fail("a slice of a non-list");
  const Value list = elements_of(base, "a slice", budget);
  const Values& items = list.list()->items;
  const std::int64_t size = std::ssize(items);
  budget.spend(64 + 16 * items.size());
  const auto is_given = [&](std::size_t i) { return !bounds[i].is_none(); };
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = is_given(i) ? integer_of(bounds[i], "a slice") : otherwise;
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t begin = place(0, 0), end = std::max(begin, place(1, size));
  const std::int64_t step = is_given(2) ? integer_of(bounds[2], "a slice") : 1;
  if (step != 1 && (step != -1 || is_given(0) || is_given(1))) fail("a slice with an unsupported step");
  Values part(items.begin() + begin, items.begin() + end);
  if (step == -1) std::ranges::reverse(part);
  if (base.list() != nullptr) return make_list(std::move(part), base.list()->type);
  Text text;
  for (const Value& character : part) text.append(*character.text());
  return text;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(words_of(text)) {}

  Statement run() {
    Statement all = statements();
    if (token().kind != TokenKind::end) fail("a stray " + base::quoted(tag_name()));
    return all;
  }
  Names names;
  bool marks_generation = false;

 private:
  const Token& token(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(std::string_view word, std::size_t ahead = 0) const {
    const auto& [kind, text] = token(ahead);
    return (kind == TokenKind::sign || kind == TokenKind::name) && text == word;
  }
  bool take(std::string_view word) { return is(word) ? (++at_, true) : false; }
  void expect(std::string_view word) {
    if (!take(word)) fail("no " + base::quoted(word) + " where it is expected");
  }
  std::string expect_name() {
    if (token().kind != TokenKind::name) fail("no name where one is expected");
    return tokens_[at_++].text;
  }
  int id_of(const std::string& name) { return names.try_emplace(name, std::ssize(names)).first->second; }
  template <class Read>
  auto deeper(const Read& read) {
    if (++depth_ > kMaxDepth) fail("a template nested too deeply");
    auto result = read();
    --depth_;
    return result;
  }
  std::string tag_name() const { return is("{%") && token(1).kind == TokenKind::name ? token(1).text : ""; }
  bool take_tag(std::string_view name) { return tag_name() == name && is("%}", 2) ? (at_ += 3, true) : false; }
  void expect_tag(const std::string& name) {
    if (!take_tag(name)) fail("no " + base::quoted(name) + " where it is expected");
  }
  Statement body_until(const std::string& end) {
    Statement body = statements();
    expect_tag(end);
    return body;
  }

  /// Parses statements until a tag that ends or continues the enclosing block.
  Statement statements() {
    std::vector<Statement> all;
    for (;;) {
      const std::string name = tag_name();
      if (token().kind == TokenKind::text) {
        all.emplace_back([text = Value(Text(tokens_[at_++].text))](Run& run) { run.write(text); });
      } else if (take("{{")) {
        all.emplace_back([value = expression()](Run& run) { run.write(value(run)); });
        expect("}}");
      } else if (is("{%") && name != "else" && name != "elif" && !name.starts_with("end")) {
        ++at_;
        all.push_back(deeper([this] { return statement(expect_name()); }));
      } else {
        break;
      }
    }
    return [all = std::move(all)](Run& run) {
      for (const Statement& one : all) {
        run.budget.spend(64);
        one(run);
        if (run.leave != Run::Leave::no) return;
      }
    };
  }

  Statement statement(const std::string& name) {
    if (name == "if") return branch();
    if (name == "for") return loop();
    if (name == "set") return set();
    if (name == "macro") return macro();
    if (name == "generation" && take("%}")) {
      marks_generation = true;
      return [body = body_until("endgeneration")](Run& run) {
        const Source outer = std::exchange(run.mark, kGenerated);
        run.in_scope([&] { body(run); });
        run.mark = outer;
      };
    }
    if ((name == "break" || name == "continue") && num_loops_ == 0) fail("`" + name + "` outside of a loop");
    if ((name == "break" || name == "continue") && take("%}"))
      return [leave = name == "break" ? Run::Leave::loop : Run::Leave::turn](Run& run) { run.leave = leave; };
    fail("the tag " + base::quoted(name));
  }

  Statement branch() {
    std::vector<std::pair<Expression, Statement>> cases;
    do {
      Expression condition = expression();
      expect("%}");
      cases.emplace_back(std::move(condition), statements());
    } while (tag_name() == "elif" ? (at_ += 2, true) : false);
    if (take_tag("else")) cases.emplace_back(literal(true), statements());
    expect_tag("endif");
    return [cases = std::move(cases)](Run& run) {
      for (const auto& [condition, body] : cases) {
        run.budget.spend(64);
        if (is_true(condition(run))) return body(run);
      }
    };
  }

  static void bind(const std::vector<int>& ids, const Value& item, Run& run) {
    if (ids.size() == 1) return run.set(ids[0], item);
    const Value parts = elements_of(item, "loop unpacking", run.budget);
    const Values& values = parts.list()->items;
    if (values.size() != ids.size()) fail("a loop whose names and values differ in number");
    for (std::size_t i = 0; i < ids.size(); ++i) run.set(ids[i], values[i]);
  }

  Statement loop() {
    std::vector<int> ids;
    do ids.push_back(id_of(expect_name()));
    while (take(","));
    expect("in");
    const Expression sequence = ranked(0), condition = take("if") ? ranked(0) : Expression();
    expect("%}");
    ++num_loops_;
    const Statement body = statements();
    --num_loops_;
    const Statement otherwise = take_tag("else") ? statements() : Statement();
    expect_tag("endfor");
    return [=, loop = id_of("loop")](Run& run) {
      Value list = elements_of(sequence(run), "a loop", run.budget);
      if (condition) {
        Values kept;
        for (const Value& item : list.list()->items) {
          run.in_scope([&] {
            bind(ids, item, run);
            if (is_true(condition(run))) kept.push_back(item);
          });
        }
        list = make_list(std::move(kept));
      }
      const Values& items = list.list()->items;
      bool has_ended = false;  // whether a turn came to its end; if none did, Jinja runs `else`
      const auto state = std::make_shared<Loop>(Loop{list});
      for (; state->at < items.size() && run.leave != Run::Leave::loop; ++state->at) {
        run.leave = Run::Leave::no;
        run.in_scope([&] {
          bind(ids, items[state->at], run);
          run.set(loop, std::shared_ptr<const Loop>(state));
          body(run);
        });
        has_ended = has_ended || run.leave == Run::Leave::no;
      }
      run.leave = Run::Leave::no;
      if (!has_ended && otherwise) run.in_scope([&] { otherwise(run); });
    };
  }

  Statement set() {
    const int id = id_of(expect_name());
    const std::string member = take(".") ? expect_name() : "";
    Expression value;
    if (take("%}")) {
      value = [body = body_until("endset")](Run& run) -> Value {
        Text before = std::exchange(run.out, {});
        const Source mark = std::exchange(run.mark, 0);
        run.in_scope([&] { body(run); });
        run.mark = mark;
        return std::exchange(run.out, std::move(before));
      };
    } else {
      expect("=");
      value = expression();
      expect("%}");
    }
    return [=](Run& run) {
      Value result = value(run);
      if (member.empty()) return run.set(id, std::move(result));
      const Value* target = run.find(id);
      if (target == nullptr || target->names() == nullptr) fail("`set` of a member of a non-namespace");
      run.budget.spend(64 + cost_of_search(member));
      target->names()->set(Text(member), std::move(result));
    };
  }

  Statement macro() {
    const int id = id_of(expect_name());
    auto made = std::make_shared<Macro>();
    expect("(");
    while (!take(")")) {
      const std::string name = expect_name();
      made->parameters.push_back({name, id_of(name), take("=") ? expression() : Expression()});
      if (!is(")")) expect(",");
    }
    expect("%}");
    const int outer = std::exchange(num_loops_, 0);
    made->body = body_until("endmacro");
    num_loops_ = outer;
    return [=](Run& run) {
      if (run.scopes.size() > 1) fail("a macro within a loop, a macro or a block");
      run.set(id, std::shared_ptr<const Macro>(made));
    };
  }

  Expression expression() {
    return deeper([this] {
      Expression value = ranked(0);
      while (take("if")) {
        const Expression condition = ranked(0);
        const Expression otherwise = take("else") ? expression() : literal(Value());
        value = [value, condition, otherwise](Run& run) {
          return is_true(condition(run)) ? value(run) : otherwise(run);
        };
      }
      return value;
    });
  }

  const Operator* take_operator(Rank rank) {
    for (const Operator& one : operators()) {
      if (one.rank != rank) continue;
      if (take(one.sign)) return &one;
      if (one.sign != "not in" || !is("not") || !is("in", 1)) continue;
      at_ += 2;
      return &one;
    }
    return nullptr;
  }

  Expression ranked(Rank rank) {
    if (rank == kUnary) return unary();
    if (rank == kNot && take("not"))
      return [value = deeper([this] { return ranked(kNot); })](Run& run) { return !is_true(value(run)); };
    Expression first = ranked(rank + 1);
    std::vector<std::pair<const Operator*, Expression>> rest;
    while (const Operator* taken = take_operator(rank)) rest.emplace_back(taken, ranked(rank + 1));
    if (rest.empty()) return first;
    const bool is_chain = rank == kCompared && rest.size() > 1;
    return [=](Run& run) {
      if (is_chain) fail("a chained comparison");
      Value left = first(run);
      for (const auto& [taken, operand] : rest) {
        run.budget.spend(64 + (left.text() == nullptr ? 0 : left.text()->size() / 8));
        // `and` and `or` return the operand that decides, as in Python.
        if (rank > kAnd) left = taken->apply(std::move(left), operand(run), run.budget);
        else if (is_true(left) == (rank == kAnd)) left = operand(run);
      }
      return left;
    };
  }

  /// Parses an operand with its minus signs, which bind tighter than a filter after the operand.
  Expression unary(bool with_filters = true) {
    if (!take("-")) return with_steps(primary(), with_filters);
    const Operator* minus = &*std::ranges::find(operators(), "-", &Operator::sign);
    Expression value = [minus, operand = deeper([this] { return unary(false); })](Run& run) {
      return minus->apply(std::int64_t{0}, operand(run), run.budget);
    };
    return with_filters ? with_steps(std::move(value), true) : value;
  }

  static Expression literal(Value value) {
    return [value = std::move(value)](Run&) { return value; };
  }

  Expression primary() {
    const Token now = token();
    if (now.kind == TokenKind::name) return name();
    if (now.kind == TokenKind::string) {
      std::string text;
      while (token().kind == TokenKind::string) text += tokens_[at_++].text;
      return literal(Text(text));
    }
    ++at_;
    if (now.kind == TokenKind::number) return literal(std::int64_t{std::stoll(now.text)});
    if (now.text == "(") return tuple();
    if (now.text == "[") return list(items("]"));
    if (now.text != "{") fail("the sign " + base::quoted(now.text) + " where a value is expected");
    return [all = items("}")](Run& run) -> Value {
      auto object = std::make_shared<Object>();
      for (const auto& [key, value] : all) {
        run.budget.spend(64);
        const Value name = key(run);
        object->set(name, value(run), run.budget);
      }
      return object;
    };
  }

  Expression name() {
    const std::string name = expect_name();
    if (name == "none" || name == "None") return literal(nullptr);
    if (name == "true" || name == "True") return literal(true);
    if (name == "false" || name == "False") return literal(false);
    const int id = id_of(name);
    if (take("(")) {
      return [id, builtin = builtin_of(kFunction, name), given = evaluated(items(")"))](Run& run) {
        const Value* found = run.find(id);
        const Macro* macro = found == nullptr ? nullptr : found->macro();
        return macro != nullptr ? call_macro(*macro, given(run), run) : builtin({}, given(run), run.budget);
      };
    }
    constexpr std::array<std::string_view, 7> kGlobals = {"range",  "dict",      "lipsum",         "cycler",
                                                          "joiner", "namespace", "raise_exception"};
    const bool is_of_macro = name == "varargs" || name == "kwargs" || name == "caller";
    return [id, name, is_of_macro, is_global = std::ranges::find(kGlobals, name) != kGlobals.end()](Run& run) {
      const Value* found = run.find(id);
      if (found == nullptr && (name == "self" || (is_of_macro && run.num_macros > 0))) fail("`" + name + "`");
      if (found == nullptr && is_global) fail("`" + name + "` as a value");
      return found == nullptr ? Value() : *found;
    };
  }

  struct Item {
    Expression key, value;
  };
  std::vector<Item> items(std::string_view end) {
    std::vector<Item> all;
    while (!take(end)) {
      Item& item = all.emplace_back();
      const bool is_named = end == ")" && token().kind == TokenKind::name && is("=", 1);
      if (is_named) item.key = literal(Text(expect_name()));
      if (is_named) ++at_;
      item.value = expression();
      if (end == "}") expect(":");
      if (end == "}") item.key = std::exchange(item.value, expression());
      if (!is(end)) expect(",");
    }
    return all;
  }
  static std::function<Arguments(Run&)> evaluated(std::vector<Item> all) {
    return [all = std::move(all)](Run& run) {
      run.budget.spend(16 + 64 * all.size());
      Arguments values;
      values.positional.reserve(all.size());
      for (const auto& [key, value] : all) {
        if (!key) values.positional.push_back(value(run));
        else values.named.emplace_back(text_of(key(run), "a name"), value(run));
      }
      return values;
    };
  }
  static Expression list(std::vector<Item> all) {
    return [given = evaluated(std::move(all))](Run& run) { return make_list(given(run).positional); };
  }
  Expression tuple() {
    std::vector<Item> all = items(")");
    const bool is_value = all.size() == 1 && tokens_[at_ - 2].text != ",";
    if (is_value) return std::move(all[0].value);
    return [given = evaluated(std::move(all))](Run& run) { return make_list(given(run).positional, Sequence::tuple); };
  }

  /// Parses the members, elements, methods, filters and tests that follow a value.
  Expression with_steps(Expression value, bool with_filters) {
    for (bool is_filtered = false;;) {
      if (!is_filtered && take(".")) value = member(std::move(value), expect_name());
      else if (!is_filtered && take("[")) value = subscript(value);
      else if (with_filters && take("|")) value = filter(value, kFilter), is_filtered = true;
      else if (with_filters && take("is")) value = filter(value, kTest), is_filtered = true;
      else break;
    }
    if (is("(")) fail("a call of an unnamed value");
    return value;
  }

  Expression member(Expression value, const std::string& name) {
    if (take("(")) {
      return [value = std::move(value), of_text = builtin_of(kOfText, name), of_object = builtin_of(kOfObject, name),
              given = evaluated(items(")"))](Run& run) {
        const Value base = value(run);
        return (base.object() != nullptr ? of_object : of_text)(base, given(run), run.budget);
      };
    }
    return [value = std::move(value), name](Run& run) {
      run.budget.spend(64 + cost_of_search(name));
      const Value base = value(run);
      return base.object() != nullptr && is_method(base, name) ? Value(Kind::method) : member_of(base, name);
    };
  }

  Expression subscript(const Expression& value) {
    std::array<Expression, 3> bounds;
    bounds.fill(literal(nullptr));
    if (!is(":")) bounds[0] = expression();
    if (take("]")) {
      return [=, key = bounds[0]](Run& run) {
        const Value base = value(run);
        return item_of(base, key(run), run.budget);
      };
    }
    for (std::size_t i = 1; i < 3; ++i) {
      if (take(":") && !is(":") && !is("]")) bounds[i] = expression();
    }
    expect("]");
    return [=](Run& run) {
      const Value base = value(run);
      return slice(base, {bounds[0](run), bounds[1](run), bounds[2](run)}, run.budget);
    };
  }

  bool begins_argument() const {
    const Token& now = token();
    constexpr std::array<std::string_view, 3> kOthers = {"else", "or", "and"};
    if (is("is")) fail("a test of a test");
    if (now.kind == TokenKind::name) return std::ranges::find(kOthers, now.text) == kOthers.end();
    return now.kind == TokenKind::string || now.kind == TokenKind::number || is("[") || is("{");
  }

  Expression filter(const Expression& value, Use use) {
    const bool is_negated = use == kTest && take("not");
    Builtin builtin = builtin_of(use, expect_name());
    std::vector<Item> all;
    if (take("(")) all = items(")");
    else if (use == kTest && begins_argument()) all.push_back({{}, with_steps(primary(), false)});
    return [=, given = evaluated(std::move(all))](Run& run) {
      const Value base = value(run);
      Value result = builtin(base, given(run), run.budget);
      return is_negated ? Value(!is_true(result)) : result;
    };
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, num_loops_ = 0;
};

}  // namespace

Template::Template(const std::string& text) {
  Parser parser(text);
  body_ = parser.run();
  marks_generation_ = parser.marks_generation;
  names_ = std::move(parser.names);
}

Text Template::render(const std::vector<std::pair<std::string_view, Value>>& variables) const {
  Budget budget{kWork_bytes};
  Run run{budget};
  run.names.reserve(24);
  for (const auto& [name, value] : variables) {
    if (const auto found = names_.find(name); found != names_.end()) run.set(found->second, value);
  }
  body_(run);
  return std::move(run.out);
}

}  // namespace qrl::data::jinja
