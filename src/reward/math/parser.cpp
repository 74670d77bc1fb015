#include "reward/math/parser.h"

namespace qrl::reward::math {

using T = TokenType;

Node Parser::expression(int least) {
  if (++depth_ > kMaxTreeDepth) fail(Fault::kOperandMissing);
  Node left = prefix();
  for (const Operator* op = next_operator(left); op != nullptr && op->left >= least; op = next_operator(left))
    left = continue_with(*op, std::move(left));
  --depth_;
  return left;
}

/// Returns how the next token continues `left` without an operator token; Joint::none if it does not.
Joint Parser::joint_behind(const Node& left) const noexcept {
  const Token& token = now();
  const bool words = left.is(Kind::words, Kind::quantity);
  if (is_op('p') || (is(T::open, '(') && (is(now(1), T::op, 'p') || is(now(1), T::op, 'm')))) return Joint::modulo;
  if (token.type == T::word && inner_ != 'S' && words_.is(WordClass::verb, token.text) && begins_value(1))
    return Joint::verb;
  if (token.text == "U" && before().type == T::close && now(1).type == T::open) return Joint::united;
  if (token.text == "x" && before().type == T::number && now(1).text == "10" && is(now(2), T::op, '^'))
    return Joint::times;  // 6.02 x 10^23
  if (!words && begins_unit()) return Joint::unit;
  if (is(T::bar, 'm') && inner_ != 'S') return Joint::divides;
  if (equation_follows()) return Joint::equation;
  return !words && begins_operand() ? Joint::beside : Joint::none;
}

const Operator* Parser::next_operator(const Node& left) const noexcept {
  const Joint joint = joint_behind(left);
  if (joint == Joint::none && ends_element()) return nullptr;
  const auto found = std::ranges::find_if(operators(), [&](const Operator& row) {
    return row.joint == joint && (joint != Joint::none || (row.type == now().type && row.has(now().code)));
  });
  return found == operators().end() ? nullptr : &*found;
}

Node Parser::continue_with(const Operator& op, Node left) {
  if (op.kind == Kind::power) return power(std::move(left));
  if (op.kind == Kind::quantity) return unit_behind(std::move(left));
  if (op.kind == Kind::list) return separated(op, std::move(left));
  if (op.kind != Kind::factorial && op.kind != Kind::binomial && op.joint != Joint::modulo)
    return several(op, std::move(left));
  const bool bracket = take(T::open, '(');  // before a modulus: (mod 7)
  const char code = next().code;
  if (code == 'd') return degree(std::move(left));
  if (code == '_') return called(Node{Kind::subscript, std::move(left), argument()});
  if (code == '\'') return called(Node{Kind::prime, std::move(left)});
  if (code == '!' || code == '%') return Node{code == '!' ? Kind::factorial : Kind::percent, std::move(left)};
  if (op.kind == Kind::binomial)
    return Node{code == 'o' ? Kind::product : Kind::binomial, std::move(left), expression(op.right).behind('/')};
  Node all{Kind::product, std::move(left), expression(op.right).behind('m')};
  if (bracket && !take(T::close, ')')) fail(Fault::kOpenBracket);
  return all;
}

Node Parser::several(const Operator& op, Node left) {
  std::vector<Node> parts;
  parts.push_back(std::move(left));
  for (const Operator* next = &op; next != nullptr && next->left == op.left && next->kind == op.kind;
       next = next_operator(parts.back())) {
    const char joint = next->joint == Joint::none ? now().code : next->codes[0];
    if (next->joint == Joint::verb && words_.any(WordClass::turning, parts[0].text)) fail(Fault::kUnfitWords);
    if (next->joint != Joint::beside) ++at_;
    parts.push_back(expression(next->right).behind(joint));
  }
  if (op.kind == Kind::ratio && std::ranges::any_of(parts, [](const Node& part) { return part.is(Kind::words); }))
    fail(Fault::kUnfitWords);
  return Node{op.kind, std::move(parts)};
}

/// Consumes a subscript or superscript of a single sign, with or without braces. Returns the sign, or 0 if none is
/// next.
char Parser::take_lone(std::string_view signs) noexcept {
  const std::size_t braced = is(T::open, '{') ? 1 : 0;
  const Token sign = now(braced);
  if (sign.type != T::op || !has(signs, sign.code) || (braced != 0 && now(2).type != T::close)) return 0;
  at_ += 2 * braced + 1;
  return sign.code;
}

Node Parser::power(Node base) {
  ++at_;
  const char lone = take_lone(is_number_set(base) || is(T::open, '{') ? "d*+-" : "d*");
  if (lone == 'd') return degree(std::move(base));  // 90^\circ
  if (lone != 0)                                    // a dual, a one-sided limit, ℝ⁺
    return Node{Kind::subscript, std::move(base), relation_to_zero(lone == '*' ? 'n' : lone == '+' ? '>' : '<')};
  Node raised{Kind::power, std::move(base), expression(59)};
  return raised[1].is(Kind::sum) && integer_of(unsigned_of(raised[1])) == 1 ? called(std::move(raised)) : raised;
}

// ---- units

/// Parses a degree sign; 30^\circ C is a temperature.
Node Parser::degree(Node of) {
  const Meaning* unit = words_.find(WordClass::temperature, now().text);
  if (unit == nullptr) return Node{Kind::degree, std::move(of)};
  ++at_;
  return Node{Kind::quantity, std::move(of), Node(Kind::words, unit->text)};
}

bool Parser::begins_unit() const noexcept {
  const Token& token = now();
  if (token.type == T::word || ((is_op('/') || is_op(':')) && now(1).type == T::word))
    return true;  // $3/\text{hour}, 42 to the nearest integer
  if (token.type != T::symbol) return false;
  if (token.code == 't') return before().type == T::number || before().type == T::close;
  if (token.code == 'r') return token.space && words_.unit(token.text).code != 0;
  const bool alone = before().type == T::number && token.space && now(1).type == T::end;
  return token.text.size() > 1 && (alone || now(1).type == T::word) && words_.unit(token.text).code != 0;  // 5 \Omega
}

Node Parser::unit_behind(Node number) {
  // Plain words after variables are prose; in \text{…}, they may also be a unit.
  if (is(T::word, 0) && has_symbols(number)) fail(Fault::kUnfitWords);
  const std::size_t first = at_;
  int brackets = 0;
  for (bool more = true; more;) {
    const bool joint = is_op('/') || is_op('*') || is_op(':');
    const bool unit =
        now().type == T::word || (now().type == T::symbol && (now().code != 0 || words_.unit(now().text).code != 0));
    if (unit) ++at_;
    else if (take(T::op, '^')) expression(59);
    else if (joint && is_one_of(now(1), T::word, T::symbol)) at_ += 2;
    else if (joint && is(now(1), T::open, '(') && is_one_of(now(2), T::word, T::symbol)) at_ += 3, ++brackets;
    else if (brackets > 0 && is(T::close, ')')) ++at_, --brackets;
    else more = false;
  }
  const std::string_view unit = span_of(first);
  if (words_.any(WordClass::changing, unit)) fail(Fault::kUnfitWords);
  return Node{Kind::quantity, std::move(number), Node(Kind::words, unit)};
}

Tree parse(std::string_view text, Comma comma, const Vocabulary& vocabulary) {
  Tree tree{tokenize(text, comma, vocabulary), {}, {}};
  if (!tree.tokens.fault.empty()) return tree;
  try {
    tree.root = Parser(tree.tokens.tokens, vocabulary).run();
  } catch (const Unreadable& why) {
    tree.tokens.fault = why.fault;
  }
  return tree;
}

}  // namespace qrl::reward::math
