// Operators behind an operand, and units.
#include "reward/math/parser.h"

#include <functional>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

bool is_symbol(const Token& token, char letter) noexcept {
  return token.type == T::symbol && token.code == 0 && token.text.size() == 1 && token.text[0] == letter;
}

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

/// What joins the operand to the left with what follows, where that is no operator of one sign.
Joint Parser::joint_behind(NodeIdx left) const noexcept {
  const Token& token = now();
  const T before = at_ > 0 ? tokens_[at_ - 1].type : T::end;
  const bool words = is_kind(left, Kind::words) || is_kind(left, Kind::quantity);
  if (modulus_follows()) return Joint::modulo;
  if (token.type == T::word && !inner_.in_set && words_.is(WordClass::verb, token.text) && begins_value(1))
    return Joint::verb;
  if (token.type == T::word && words_.is(WordClass::ranging, token.text) && is_kind(left, Kind::number) &&
      now(1).type == T::number)
    return Joint::ratio;
  if (is_symbol(token, 'U') && before == T::close && now(1).type == T::open) return Joint::united;
  if (is_symbol(token, 'x') && before == T::number && is(now(2), T::op, '^') && now(1).text == "10")
    return Joint::times;  // 6.02 x 10^23
  if (!words && begins_unit()) return Joint::unit;
  if (token.type == T::bar && token.code == 'm' && !inner_.in_set) return Joint::divides;
  return !words && begins_operand() ? Joint::beside : Joint::none;
}

const Operator* Parser::next_operator(NodeIdx left) const noexcept {
  const Token& token = now();
  const Joint joint = joint_behind(left);
  if (joint == Joint::none && (is_op(':') && inner_.in_set)) return nullptr;
  const auto found = std::ranges::find_if(operators(), [&](const Operator& row) {
    return row.joint == joint && (joint != Joint::none || (row.type == token.type && row.has(token.code)));
  });
  return found == operators().end() ? nullptr : &*found;
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
  if (op.joint != Joint::modulo) return several(op, left);
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
    const char code = next->joint == Joint::none ? now().code : next->codes[0];
    if (next->joint == Joint::verb && words_.any(WordClass::turning, tree_.at(left).text))
      return fail(Fault::unfit_words);
    if (next->joint != Joint::beside) ++at_;
    links.push_back({expression(next->right), code});
  }
  if (op.kind == Kind::ratio &&
      std::any_of(links.begin(), links.end(), [this](Link l) { return is_kind(l.node, Kind::words); }))
    return fail(Fault::unfit_words);
  return make(op.kind, links);
}

/// Takes one of the signs where it is all of a script, perhaps in braces; 0: none.
char Parser::take_lone(std::string_view signs) noexcept {
  const std::size_t braced = is(T::open, '{') ? 1 : 0;
  const Token sign = now(braced);
  if (sign.type != T::op || signs.find(sign.code) == std::string_view::npos) return 0;
  if (braced != 0 && now(2).type != T::close) return 0;
  at_ += 2 * braced + 1;
  return sign.code;
}

NodeIdx Parser::power(NodeIdx base) {
  ++at_;
  const bool numbers = is_number_set(ref(base));
  const char lone = take_lone(numbers || is(T::open, '{') ? "d*+-" : "d*");
  if (lone == 'd') return degree(base);  // 90^\circ
  if (lone != 0) {                       // a dual, a limit from one side, ℝ⁺
    const NodeIdx index = relation_to_zero(lone == '*' ? 'n' : lone == '+' ? '>' : '<');
    return make(Kind::subscript, {{base, 0}, {index, 0}});
  }
  const NodeIdx exponent = expression(59);
  if (!ok_) return -1;
  const NodeIdx raised = make(Kind::power, {{base, 0}, {exponent, 0}});
  const bool inverse = is_kind(exponent, Kind::sum) && integer_of(unsigned_of(ref(exponent))) == 1;
  const bool inverts = inverse && is(T::open, '(') && is_kind(base, Kind::symbol);  // f^{-1}(x)
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
  const std::string_view unit = degrees(now().text);
  if (unit.empty()) return make(Kind::degree, {{of, 0}});
  ++at_;
  return make(Kind::quantity, {{of, 0}, {make(Kind::words, {}, unit), 0}});
}

bool Parser::begins_unit() const noexcept {
  const Token& token = now();
  if (token.type == T::word) return true;
  if (token.type == T::op && token.code == '/') return now(1).type == T::word;  // $3/\text{hour}
  if (token.type != T::symbol || at_ == 0) return false;
  const T before = tokens_[at_ - 1].type;
  if (token.text.size() > 1 && words_.unit(token.text).dimension != 0)  // an Omega, a mu
    return now(1).type == T::word || (before == T::number && token.space && now(1).type == T::end);
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
  if (now().type == T::word && now().code == 0 && has_symbols(ref(number))) return fail(Fault::unfit_words);
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
    tree.fault = text_of(Fault::no_mathematics);
    return tree;
  }
  tree.nodes.reserve(2 * tree.tokens.tokens.size());
  tree.links.reserve(2 * tree.tokens.tokens.size());
  Parser(tree, vocabulary).run();
  return tree;
}

}  // namespace qrl::reward::math
