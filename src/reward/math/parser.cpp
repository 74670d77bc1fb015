// Operators behind an operand, and units.
#include "reward/math/parser.h"

#include <functional>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

constexpr int kLoosest = 10;
constexpr Operator kOperators[] = {
    {T::relation, "", kLoosest, 11, Kind::relation},
    {T::op, "UND", 20, 21, Kind::set_operation},
    {T::op, ":", 30, 31, Kind::ratio},
    {T::op, "oh", 35, 36, Kind::binomial},  // a \over b, n + 1 \choose k: of all before it
    {T::op, "+-PM", 40, 41, Kind::sum},
    {T::op, "*/mwvxOr", 50, 51, Kind::product},
    {T::op, "^", 60, 59, Kind::power},
    {T::op, "!%d'_", 70, 71, Kind::factorial},
};
constexpr Operator kEquals{T::word, "=", kLoosest, 11, Kind::relation};  // "The sum is" 5
constexpr Operator kDivides{T::bar, "m", kLoosest, 11, Kind::relation};
constexpr Operator kModulo{T::op, "p", 15, 51, Kind::product};
constexpr Operator kUnit{T::word, "", 25, 26, Kind::quantity};
constexpr Operator kTo{T::word, ":", 30, 31, Kind::ratio};               // 2 to 3
constexpr Operator kUnion{T::symbol, "U", 20, 21, Kind::set_operation};  // [1, 2] U [3, 4]
constexpr Operator kTimes{T::symbol, "*", 50, 51, Kind::product};        // 6.02 x 10^23
constexpr Operator kBeside{T::end, "*", 50, 60, Kind::product};

}  // namespace

void Parser::run() {
  const NodeIdx root = list(T::end);
  if (ok_ && now().type != T::end) fail(Fault::no_operation_between);
  if (ok_) tree_.root = root;
}

bool Parser::take(T type, char code) noexcept {
  if (!is(type, code)) return false;
  ++at_;
  return true;
}

NodeIdx Parser::fail(Fault why) noexcept {
  if (ok_) tree_.fault = text_of(why);
  ok_ = false;
  at_ = tokens_.size() - 1;
  return -1;
}

NodeIdx Parser::make(Kind kind, const std::vector<Link>& links, std::string_view text) {
  const NodeIdx idx = tree_.make(kind, links, text);
  return idx >= 0 ? idx : fail(Fault::operand_missing);
}

NodeIdx Parser::expression(int least) {
  if (++depth_ > kMaxTreeDepth) fail(Fault::nested_too_deep);
  NodeIdx left = prefix();
  while (ok_) {
    const Operator* op = next_operator(left);
    if (op == nullptr || op->left < least) break;
    left = continue_with(*op, left);
  }
  --depth_;
  return ok_ ? left : -1;
}

const Operator* Parser::next_operator(NodeIdx left) const noexcept {
  const Token& token = now();
  const bool words = is_kind(left, Kind::words) || is_kind(left, Kind::quantity);
  const std::size_t before = at_ - (at_ > 0 ? 1 : 0);
  if (modulus_follows()) return &kModulo;
  if (token.type == T::word && !in_set_ && words_.is(WordClass::verb, token.text) && begins_value(1)) return &kEquals;
  if (token.type == T::word && token.text == "to" && is_kind(left, Kind::number) && now(1).type == T::number)
    return &kTo;
  if (is(T::symbol, 0) && token.text == "U" && tokens_[before].type == T::close && now(1).type == T::open)
    return &kUnion;
  if (is(T::symbol, 0) && token.text == "x" && tokens_[before].type == T::number && now(1).text == "10" &&
      is(now(2), T::op, '^'))
    return &kTimes;
  if (!words && begins_unit()) return &kUnit;
  if (token.type == T::bar && token.code == 'm' && !in_set_) return &kDivides;
  if (token.type == T::op || token.type == T::relation) {
    if (token.code == ':' && token.type == T::op && in_set_) return nullptr;
    const auto* op = std::find_if(std::begin(kOperators), std::end(kOperators), [&token](const Operator& o) {
      return o.type == token.type && (o.codes.empty() || o.codes.find(token.code) != std::string_view::npos);
    });
    return op == std::end(kOperators) ? nullptr : op;
  }
  return !words && begins_operand() ? &kBeside : nullptr;
}

NodeIdx Parser::continue_with(const Operator& op, NodeIdx left) {
  switch (op.kind) {
    case Kind::power:
      return power(left);
    case Kind::factorial:
      return postfix(left);
    case Kind::quantity:
      return unit_behind(left);
    case Kind::binomial: {
      const Kind kind = now().code == 'o' ? Kind::product : Kind::binomial;
      ++at_;
      return make(kind, {{left, 0}, {expression(op.right), '/'}});
    }
    default:
      break;
  }
  if (&op != &kModulo) return several(op, left);
  const bool bracket = take(T::open, '(');
  ++at_;
  const NodeIdx modulus = expression(op.right);
  if (bracket && !take(T::close, ')')) return fail(Fault::open_bracket);
  return make(Kind::product, {{left, 0}, {modulus, 'm'}});
}

/// An operation of all operands that operators of its row join.
NodeIdx Parser::several(const Operator& op, NodeIdx left) {
  std::vector<Link> links{{left, 0}};
  for (const Operator* next = &op; ok_ && next != nullptr && next->left == op.left && next->kind == op.kind;
       next = next_operator(links.back().node)) {
    const bool beside = next == &kBeside;
    const bool row = next->type == T::op || next->type == T::relation;
    const char code = beside || !row ? next->codes[0] : now().code;
    if (next == &kEquals) {
      if (words_.any(WordClass::turning, tree_.at(left).text)) return fail(Fault::unfit_words);
    }
    if (!beside) ++at_;
    links.push_back({expression(next->right), next == &kDivides ? 'F' : code});
  }
  if (op.kind == Kind::ratio &&
      std::any_of(links.begin(), links.end(), [this](Link l) { return is_kind(l.node, Kind::words); }))
    return fail(Fault::unfit_words);
  return make(op.kind, links);
}

NodeIdx Parser::power(NodeIdx base) {
  ++at_;
  const bool braced = is(T::open, '{');
  const Token& sign = now(braced ? 1 : 0);
  const bool alone = braced ? now(2).type == T::close : true;
  if (sign.type == T::op && sign.code == 'd' && alone) {  // 90^\circ
    at_ += braced ? 3 : 1;
    return degree(base);
  }
  const bool numbers = is_kind(base, Kind::symbol) && tree_.at(base).text.starts_with("\\mathbb");
  const bool lone = sign.type == T::op && (sign.code == '*' || sign.code == '+' || sign.code == '-') &&
                    (braced ? alone : sign.code == '*' || numbers);
  if (lone) {  // a dual, a limit from one side, ℝ⁺
    const char code = sign.code;
    at_ += braced ? 3 : 1;
    const NodeIdx index = relation_to(make(Kind::number, {}, "0"), code == '*' ? 'n' : code == '+' ? '>' : '<');
    return make(Kind::subscript, {{base, 0}, {index, 0}});
  }
  const NodeIdx exponent = expression(59);
  if (!ok_) return -1;
  const NodeIdx raised = make(Kind::power, {{base, 0}, {exponent, 0}});
  const Node& inverse = unsigned_of(tree_, tree_.at(exponent));  // f^{-1}(x)
  const bool inverts =
      is(T::open, '(') && is_kind(exponent, Kind::sum) && inverse.text == "1" && is_kind(base, Kind::symbol);
  return inverts && calls(base) ? call_of(raised) : raised;
}

NodeIdx Parser::postfix(NodeIdx idx) {
  const char code = now().code;
  ++at_;
  if (code == '_') {
    idx = make(Kind::subscript, {{idx, 0}, {argument(), 0}});
    return ok_ && calls(idx) ? call_of(idx) : idx;
  }
  const Kind kind = code == '!'   ? Kind::factorial
                    : code == '%' ? Kind::percent
                    : code == 'd' ? Kind::degree
                                  : Kind::prime;
  if (kind == Kind::degree) return degree(idx);
  idx = make(kind, {{idx, 0}});
  return kind == Kind::prime && is(T::open, '(') ? call_of(idx) : idx;
}

// ---- units

/// 30^\circ C is a temperature.
NodeIdx Parser::degree(NodeIdx of) {
  const std::string_view letter = now().text;
  if (letter != "C" && letter != "F") return make(Kind::degree, {{of, 0}});
  ++at_;
  return make(Kind::quantity, {{of, 0}, {make(Kind::words, {}, letter == "C" ? "celsius" : "fahrenheit"), 0}});
}

bool Parser::begins_unit() const noexcept {
  const Token& token = now();
  if (token.type == T::word) return true;
  if (token.type == T::op && token.code == '/') return now(1).type == T::word;  // $3/\text{hour}
  if (token.type != T::symbol || at_ == 0) return false;
  const T before = tokens_[at_ - 1].type;
  if (token.text == "Omega") return before == T::number && token.space && now(1).type == T::end;
  if (token.text == "mu") return now(1).type == T::word;
  if (token.code == 't') return before == T::number || before == T::close;
  return token.code == 'r' && token.space && words_.unit(token.text).dimension != 0;
}

/// Behind ^2, ^{-1} and the like.
void Parser::pass_exponent() noexcept {
  const bool braced = is(now(1), T::open, '{');
  while (braced && now().type != T::close && now().type != T::end) ++at_;
  at_ = std::min(at_ + (braced ? 1 : is(now(1), T::op, '-') ? 3 : 2), tokens_.size() - 1);
}

NodeIdx Parser::unit_behind(NodeIdx number) {
  // Plain words behind variables are prose; \text{…} is a unit there, too.
  if (now().type == T::word && now().code == 0 && has_symbols(tree_, number)) return fail(Fault::unfit_words);
  const std::size_t first = at_;
  at_ += is_op('/') ? 1 : 0;
  int brackets = 0;
  for (bool more = true; more && ok_;) {
    const bool joint = is_op('/') || is_op('*');
    const bool unit = now().type == T::word ||
                      (now().type == T::symbol && (now().code != 0 || words_.unit(now().text).dimension != 0));
    if (unit) ++at_;
    else if (is_op('^') && at_ > first) pass_exponent();
    else if (joint && (now(1).type == T::word || now(1).type == T::symbol)) at_ += 2;
    else if (joint && is(now(1), T::open, '(') && (now(2).type == T::word || now(2).type == T::symbol))
      at_ += 3, ++brackets;
    else if (brackets > 0 && is(T::close, ')')) ++at_, --brackets;
    else more = false;
  }
  const std::string_view unit = span_of(first);
  if (words_.any(WordClass::changing, unit)) return fail(Fault::unfit_words);
  return make(Kind::quantity, {{number, 0}, {make(Kind::words, {}, unit), 0}});
}

std::string_view Parser::span_of(std::size_t first) const noexcept {
  const std::string_view source(tree_.tokens.source.data(), tree_.tokens.source.size());
  const char *begin = nullptr, *end = nullptr;
  for (std::size_t k = first; k < at_; ++k) {
    const std::string_view text = tokens_[k].text;  // that of a command may be a table's
    const std::less<> before;
    if (text.empty() || before(text.data(), source.data()) || !before(text.data(), source.data() + source.size()))
      continue;
    if (begin == nullptr) begin = text.data();
    end = text.data() + text.size();
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

Tree parse(std::string_view text, Comma comma, const Vocabulary& vocabulary) {
  Tree tree;
  tree.tokens = tokenize(text, comma, vocabulary);
  if (!tree.tokens.fault.empty()) {
    tree.fault = "not written in LaTeX or plain mathematics";
    return tree;
  }
  tree.nodes.reserve(2 * tree.tokens.tokens.size());
  tree.links.reserve(2 * tree.tokens.tokens.size());
  Parser(tree, vocabulary).run();
  return tree;
}

}  // namespace qrl::reward::math
