#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "data/jinja/jinja.h"
#include "data/jinja/lexer.h"

namespace qrl::data::jinja {

/// A template that is running: its variables, those of open scopes behind them, and what it has written.
struct Run {
  enum class Leave : std::uint8_t { no, loop, turn };
  Budget budget;
  std::vector<std::pair<std::string_view, Value>> names = {
      {}};                           ///< the first is no name: only the template begins there
  std::size_t num_own = 0;           ///< of the names the template's, which macros see
  std::size_t frame = 0, scope = 0;  ///< where the names of the running macro begin, and those of the scope
  int num_macros = 0;                ///< open calls
  Leave leave = Leave::no;           ///< a loop that is being left, or its turn
  Text out;

  const Value* find(std::string_view name) const {
    for (std::size_t i = names.size(); i > frame; --i) {
      if (names[i - 1].first == name) return &names[i - 1].second;
    }
    for (std::size_t i = std::min(num_own, frame); i > 0; --i) {
      if (names[i - 1].first == name) return &names[i - 1].second;
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    budget.spend(64);
    const auto found = std::find_if(names.begin() + static_cast<std::ptrdiff_t>(scope), names.end(),
                                    [name](const auto& one) { return one.first == name; });
    if (found != names.end()) found->second = std::move(value);
    else names.emplace_back(name, std::move(value));
    if (scope == 0) num_own = names.size();
  }
  void write(const Text& text) {
    budget.spend(64 + text.size());
    out += text;
  }
  /// Removes what was written from `begin` on, and returns it.
  Text take(std::size_t begin) {
    Text text = out.substr(begin);
    out.resize(begin);
    return text;
  }
};

using Expression = std::function<Value(Run&)>;
using Statement = std::function<void(Run&)>;

struct Macro {
  std::vector<std::string> parameters;
  std::vector<Expression> defaults;  ///< null: none
  Statement body;
};

namespace {

constexpr int kMaxDepth = 40;                               // of nested expressions and statements
constexpr int kMaxMacros = 30;                              // open calls
constexpr std::size_t kWork_bytes = std::size_t{64} << 20;  // of all texts that a run makes, and 64 a step

/// Names that are set while it lives are gone behind it. `is_frame`: it sees the template's names alone, as a macro
/// does.
class Scope {
 public:
  explicit Scope(Run& run, bool is_frame = false) : run_(run), scope_(run.scope), frame_(run.frame) {
    run.scope = begin_ = run.names.size();
    if (is_frame) run.frame = begin_;
  }
  ~Scope() {
    run_.names.resize(begin_);
    run_.scope = scope_;
    run_.frame = frame_;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Run& run_;
  std::size_t scope_, frame_, begin_ = 0;
};

Value call_macro(const Macro& macro, const Arguments& arguments, Run& run) {
  if (run.num_macros == kMaxMacros) fail("macros that call each other without end");
  if (arguments.positional.size() > macro.parameters.size()) fail("too many arguments of a macro");
  const Scope scope(run, true);
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    Value given = arguments.get(i, macro.parameters[i]);
    if (given.is_undefined() && macro.defaults[i]) given = macro.defaults[i](run);
    run.set(macro.parameters[i], std::move(given));
  }
  const std::size_t begin = run.out.size();
  ++run.num_macros;
  macro.body(run);
  --run.num_macros;
  return run.take(begin);
}

/// Reads a template and makes of it what runs it.
class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(words_of(text)) {}

  Statement run() {
    Statement all = statements();
    if (token().kind != TokenKind::end) fail("a stray " + base::quoted(tag_name()));
    return all;
  }
  bool marks_generation() const { return marks_generation_; }

 private:
  const Token& token(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(TokenKind kind, std::string_view text, std::size_t ahead = 0) const {
    return token(ahead).kind == kind && token(ahead).text == text;
  }
  bool is_sign(std::string_view text, std::size_t ahead = 0) const { return is(TokenKind::sign, text, ahead); }
  bool take_sign(std::string_view text) { return is_sign(text) ? (++at_, true) : false; }
  bool take_word(std::string_view text) { return is(TokenKind::name, text) ? (++at_, true) : false; }
  void expect_sign(std::string_view text) {
    if (!take_sign(text)) fail("no " + base::quoted(text) + " where one belongs");
  }
  std::string expect_name() {
    if (token().kind != TokenKind::name) fail("no name where one belongs");
    return tokens_[at_++].text;
  }
  /// Calls read(), one level deeper.
  template <class Read>
  auto deeper(const Read& read) {
    if (++depth_ > kMaxDepth) fail("a template nested too deeply");
    auto result = read();
    --depth_;
    return result;
  }
  /// The word that a tag begins with, where a tag begins; else "".
  std::string tag_name() const {
    return is_sign("{%") && token(1).kind == TokenKind::name ? token(1).text : std::string();
  }
  bool take_tag(std::string_view name) { return tag_name() == name && is_sign("%}", 2) ? (at_ += 3, true) : false; }
  Statement body_until(const std::string& end) {
    Statement body = statements();
    if (!take_tag(end)) fail("no " + base::quoted(end) + " where one belongs");
    return body;
  }

  /// Parses statements up to a tag that ends or continues the enclosing block.
  Statement statements() {
    std::vector<Statement> all;
    for (;;) {
      const std::string name = tag_name();
      if (token().kind == TokenKind::text) {
        all.push_back([text = units_of(tokens_[at_++].text)](Run& run) { run.write(text); });
      } else if (take_sign("{{")) {
        all.push_back([value = expression()](Run& run) {
          const Value written = value(run);
          run.write(written.text() != nullptr ? *written.text() : printed(written, run.budget));
        });
        expect_sign("}}");
      } else if (is_sign("{%") && name != "else" && name != "elif" && !name.starts_with("end")) {
        ++at_;
        all.push_back(deeper([this] { return statement(expect_name()); }));
      } else {
        break;
      }
    }
    return [all = std::move(all)](Run& run) {
      for (const Statement& one : all) {
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
    if (name == "generation" && take_sign("%}")) {
      marks_generation_ = true;
      return [body = body_until("endgeneration")](Run& run) {
        const Scope scope(run);
        const std::size_t begin = run.out.size();
        body(run);
        for (std::size_t i = begin; i < run.out.size(); ++i) run.out[i] |= kGenerated;
      };
    }
    if ((name == "break" || name == "continue") && take_sign("%}"))
      return [leave = name == "break" ? Run::Leave::loop : Run::Leave::turn](Run& run) { run.leave = leave; };
    fail("the tag " + base::quoted(name));
  }

  Statement branch() {
    std::vector<std::pair<Expression, Statement>> cases;
    for (bool has_condition = true; has_condition;) {
      Expression condition = expression();
      expect_sign("%}");
      cases.emplace_back(std::move(condition), statements());
      has_condition = tag_name() == "elif";
      if (has_condition) at_ += 2;
    }
    Statement otherwise = take_tag("else") ? statements() : Statement([](Run&) {});
    if (!take_tag("endif")) fail("no \"endif\" where one belongs");
    return [cases = std::move(cases), otherwise = std::move(otherwise)](Run& run) {
      run.budget.spend(64);
      for (const auto& [condition, body] : cases) {
        if (is_true(condition(run))) return body(run);
      }
      otherwise(run);
    };
  }

  static void bind(const std::vector<std::string>& names, const Value& item, Run& run) {
    const Values parts = names.size() == 1 ? Values{item} : elements_of(item, "a loop's names", run.budget);
    if (parts.size() != names.size()) fail("a loop whose names are not as many as its values");
    for (std::size_t i = 0; i < names.size(); ++i) run.set(names[i], parts[i]);
  }

  Statement loop() {
    std::vector<std::string> names;
    do names.push_back(expect_name());
    while (take_sign(","));
    if (!take_word("in")) fail("a loop without `in`");
    const Expression sequence = ranked(0), condition = take_word("if") ? ranked(0) : Expression();
    expect_sign("%}");
    const Statement body = statements(), otherwise = take_tag("else") ? statements() : Statement();
    if (!take_tag("endfor")) fail("no \"endfor\" where one belongs");
    return [=](Run& run) {
      const auto state = std::make_shared<Loop>(Loop{elements_of(sequence(run), "a loop", run.budget), 0});
      if (condition) {
        std::erase_if(state->items, [&](const Value& item) {
          const Scope scope(run);
          bind(names, item, run);
          return !is_true(condition(run));
        });
      }
      if (state->items.empty() && otherwise) return otherwise(run);
      for (; state->at < state->items.size() && run.leave != Run::Leave::loop; ++state->at) {
        const Scope scope(run);
        run.leave = Run::Leave::no;
        bind(names, state->items[state->at], run);
        run.set("loop", std::shared_ptr<const Loop>(state));
        body(run);
      }
      run.leave = Run::Leave::no;
    };
  }

  Statement set() {
    const std::string name = expect_name();
    const Text member = take_sign(".") ? units_of(expect_name()) : Text();
    Expression value;
    if (take_sign("%}")) {
      value = [body = body_until("endset")](Run& run) {
        const Scope scope(run);
        const std::size_t begin = run.out.size();
        body(run);
        return Value(run.take(begin));
      };
    } else {
      expect_sign("=");
      value = expression();
      expect_sign("%}");
    }
    return [=](Run& run) {
      if (member.empty()) return run.set(name, value(run));
      Value result = value(run);
      const Value* target = run.find(name);
      Object* object = target == nullptr ? nullptr : target->object();
      if (object == nullptr || !object->is_namespace) fail("`set` of a member of what is no namespace");
      run.budget.spend(64);
      object->set(member, std::move(result));
    };
  }

  Statement macro() {
    const std::string name = expect_name();
    auto made = std::make_shared<Macro>();
    expect_sign("(");
    while (!take_sign(")")) {
      made->parameters.push_back(expect_name());
      made->defaults.push_back(take_sign("=") ? expression() : Expression());
      if (!is_sign(")")) expect_sign(",");
    }
    expect_sign("%}");
    made->body = body_until("endmacro");
    return [=](Run& run) { run.set(name, std::shared_ptr<const Macro>(made)); };
  }

  Expression expression() {
    return deeper([this] {
      Expression value = ranked(0);
      while (take_word("if")) {
        const Expression condition = ranked(0);
        const Expression otherwise = take_word("else") ? expression() : literal(Value());
        value = [value, condition, otherwise](Run& run) {
          return is_true(condition(run)) ? value(run) : otherwise(run);
        };
      }
      return value;
    });
  }

  /// Takes one of the operators of a rank; "" where there is none.
  std::string take_operator(std::size_t rank) {
    static const std::array<std::vector<std::string_view>, kUnary> kSigns = {
        {{"or"}, {"and"}, {}, {"==", "!=", "<=", ">=", "<", ">", "in"}, {"+", "-"}, {"~"}, {"*", "/", "//", "%"}}};
    for (const std::string_view sign : kSigns[rank]) {
      if (take_sign(sign) || take_word(sign)) return std::string(sign);
    }
    if (rank != kCompared || !is(TokenKind::name, "not") || !is(TokenKind::name, "in", 1)) return {};
    at_ += 2;
    return "not in";
  }

  /// An operator's operands are of higher ranks than its own.
  Expression ranked(std::size_t rank) {
    if (rank == kUnary) return unary(true);
    if (rank == kNot && take_word("not")) {
      return [value = deeper([this] { return ranked(kNot); })](Run& run) { return !is_true(value(run)); };
    }
    Expression first = ranked(rank + 1);
    std::vector<std::pair<std::string, Expression>> rest;
    for (std::string sign; !(sign = take_operator(rank)).empty();) rest.emplace_back(sign, ranked(rank + 1));
    if (rest.empty()) return first;
    const bool is_chain = rank == kCompared && rest.size() > 1;
    return [=](Run& run) {
      if (is_chain) fail("a chain of comparisons");
      Value left = first(run);
      for (const auto& [sign, operand] : rest) {
        // As in Python, the value that decided.
        if (rank <= kAnd) left = is_true(left) == (rank == kAnd) ? operand(run) : left;
        else left = apply_operator(sign, std::move(left), operand(run), run.budget);
      }
      return left;
    };
  }

  /// A minus binds tighter than a filter on what is behind it.
  Expression unary(bool with_filters) {
    Expression value;
    if (take_sign("-")) {
      value = [operand = deeper([this] { return unary(false); })](Run& run) {
        return apply_operator("-", std::int64_t{0}, operand(run), run.budget);
      };
    } else {
      value = postfix(primary());
    }
    return with_filters ? filters(std::move(value)) : value;
  }

  static Expression literal(Value value) {
    return [value = std::move(value)](Run&) { return value; };
  }

  Expression primary() {
    const Token& now = token();
    if (now.kind == TokenKind::string) {
      std::string text;
      while (token().kind == TokenKind::string) text += tokens_[at_++].text;
      return literal(units_of(text));
    }
    if (now.kind == TokenKind::number) return literal(std::int64_t{std::stoll(tokens_[at_++].text)});
    if (now.kind == TokenKind::name) return name();
    if (take_sign("(")) return tuple();
    if (take_sign("[")) return list(items("]"));
    if (take_sign("{")) return object(items("}"));
    fail("the sign " + base::quoted(now.text) + " where a value belongs");
  }

  Expression name() {
    const std::string name = expect_name();
    if (name == "none" || name == "None") return literal(nullptr);
    if (name == "true" || name == "True" || name == "false" || name == "False")
      return literal(name == "true" || name == "True");
    if (is_sign("(")) {
      return [name, arguments = arguments()](Run& run) {
        const Arguments given = arguments(run);
        const Value* found = run.find(name);
        const Value macro = found == nullptr ? Value() : *found;  // stays while its names move
        return macro.macro() != nullptr ? call_macro(*macro.macro(), given, run)
                                        : call_function(name, given, run.budget);
      };
    }
    constexpr std::array<std::string_view, 7> kGlobals = {"range",  "dict",      "lipsum",         "cycler",
                                                          "joiner", "namespace", "raise_exception"};
    return [name, is_global = std::ranges::find(kGlobals, name) != kGlobals.end()](Run& run) {
      const Value* found = run.find(name);
      if (found == nullptr && is_global) fail("`" + name + "` as a value");
      return found == nullptr ? Value() : *found;
    };
  }

  /// Holds an item between brackets: an object's item has a key, an argument of a call may have a name. `items` parses
  /// all up to the closing bracket.
  struct Item {
    std::string name;
    Expression key, value;
  };
  std::vector<Item> items(std::string_view end) {
    std::vector<Item> all;
    while (!take_sign(end)) {
      Item& item = all.emplace_back();
      const bool is_named = end == ")" && token().kind == TokenKind::name && is_sign("=", 1);
      if (is_named) item.name = expect_name();
      if (is_named) ++at_;
      item.value = expression();
      if (end == "}") expect_sign(":");
      if (end == "}") item.key = std::exchange(item.value, expression());
      if (!is_sign(end)) expect_sign(",");
    }
    return all;
  }

  /// Parses what follows an opening parenthesis: one value, or several, which form a list.
  Expression tuple() {
    std::vector<Item> all = items(")");
    const bool is_value = all.size() == 1 && tokens_[at_ - 2].text != ",";
    return is_value ? std::move(all[0].value) : list(std::move(all));
  }

  static Expression list(std::vector<Item> all) {
    return [all = std::move(all)](Run& run) {
      run.budget.spend(64 + 64 * all.size());
      Values values;
      for (const Item& item : all) values.push_back(item.value(run));
      return make_list(std::move(values));
    };
  }

  static Expression object(std::vector<Item> all) {
    return [all = std::move(all)](Run& run) {
      run.budget.spend(64 + 64 * all.size());
      auto made = std::make_shared<Object>();
      for (const Item& item : all) made->set(text_of(item.key(run), "a name"), item.value(run));
      return Value(made);
    };
  }

  std::function<Arguments(Run&)> arguments() {
    expect_sign("(");
    return [given = items(")")](Run& run) {
      Arguments values;
      for (const Item& item : given) {
        if (item.name.empty()) values.positional.push_back(item.value(run));
        else values.named.emplace_back(item.name, item.value(run));
      }
      return values;
    };
  }

  /// Transforms a value; with_steps applies the steps sequentially.
  using Step = std::function<Value(Run&, Value)>;
  static Expression with_steps(Expression value, std::vector<Step> steps) {
    if (steps.empty()) return value;
    return [value = std::move(value), steps = std::move(steps)](Run& run) {
      Value result = value(run);
      for (const Step& step : steps) {
        run.budget.spend(64);
        result = step(run, std::move(result));
      }
      return result;
    };
  }

  Expression postfix(Expression value) {
    std::vector<Step> steps;
    for (;;) {
      if (take_sign(".")) {
        const std::string name = expect_name();
        if (is_sign("(")) {
          steps.push_back([name, arguments = arguments()](Run& run, const Value& base) {
            return call_method(name, base, arguments(run), run.budget);
          });
        } else {
          steps.push_back([name = units_of(name), is_known = is_method(units_of(name))](Run&, const Value& base) {
            const bool is_method = is_known && base.object() != nullptr && !base.object()->is_namespace;
            return is_method ? Value(Method{}) : member_of(base, name);
          });
        }
      } else if (take_sign("[")) {
        steps.push_back(subscript());
      } else if (is_sign("(")) {
        fail("a call of what has no name");
      } else {
        return with_steps(std::move(value), std::move(steps));
      }
    }
  }

  Step subscript() {
    std::array<Expression, 3> bounds;
    if (!is_sign(":")) bounds[0] = expression();
    if (take_sign("]"))
      return [key = bounds[0]](Run& run, const Value& base) { return item_of(base, key(run), run.budget); };
    for (std::size_t i = 1; i < 3; ++i) {
      if (take_sign(":") && !is_sign(":") && !is_sign("]")) bounds[i] = expression();
    }
    expect_sign("]");
    return [bounds](Run& run, const Value& base) {
      if (base.list() == nullptr && base.text() == nullptr) fail("a part of what is no list");
      Values items = elements_of(base, "a part", run.budget);
      const std::int64_t size = std::ssize(items);
      const std::int64_t step = bounds[2] ? integer_of(bounds[2](run), "a part") : 1;
      if (step != 1 && (step != -1 || bounds[0] || bounds[1])) fail("a part of a list in steps");
      const auto bound = [&](std::size_t i, std::int64_t otherwise) {
        const Value given = bounds[i] ? bounds[i](run) : Value(nullptr);
        if (given.is<std::nullptr_t>()) return otherwise;
        const std::int64_t at = std::clamp(integer_of(given, "a part"), -size, size);
        return at < 0 ? at + size : at;
      };
      const std::int64_t begin = bound(0, 0), end = std::max(begin, bound(1, size));
      Values part(items.begin() + begin, items.begin() + end);
      if (step == -1) std::ranges::reverse(part);
      if (base.list() != nullptr) return make_list(std::move(part));
      Text text;
      for (const Value& character : part) text += *character.text();
      return Value(std::move(text));
    };
  }

  /// Whether a test has an argument without parentheses behind it.
  bool begins_argument() const {
    const Token& now = token();
    constexpr std::array<std::string_view, 5> kOthers = {"else", "or", "and", "if", "is"};
    if (now.kind == TokenKind::name) return std::ranges::find(kOthers, now.text) == kOthers.end();
    return now.kind == TokenKind::string || now.kind == TokenKind::number || is_sign("[");
  }

  Expression filters(Expression value) {
    std::vector<Step> steps;
    for (;;) {
      const bool is_filter = take_sign("|");
      if (!is_filter && !take_word("is")) return with_steps(std::move(value), std::move(steps));
      const bool is_negated = !is_filter && take_word("not");
      const std::string name = expect_name();
      std::function<Arguments(Run&)> given = [](Run&) { return Arguments(); };
      if (is_sign("(")) given = arguments();
      else if (!is_filter && begins_argument())
        given = [one = postfix(primary())](Run& run) { return Arguments{{one(run)}, {}}; };
      if (is_filter) {
        steps.push_back([=](Run& run, const Value& base) { return apply_filter(name, base, given(run), run.budget); });
      } else {
        steps.push_back(
            [=](Run& run, const Value& base) { return apply_test(name, base, given(run), run.budget) != is_negated; });
      }
    }
  }

  static constexpr std::size_t kAnd = 1, kNot = 2, kCompared = 3, kUnary = 7;  // ranks

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool marks_generation_ = false;
};

}  // namespace

Template::Template(const std::string& text) {
  Parser parser(text);
  body_ = parser.run();
  marks_generation_ = parser.marks_generation();
}

Text Template::render(const std::vector<std::pair<std::string, Value>>& variables) const {
  Run run;
  run.budget.left = kWork_bytes;
  for (const auto& [name, value] : variables) run.set(name, value);
  body_(run);
  return std::move(run.out);
}

}  // namespace qrl::data::jinja
