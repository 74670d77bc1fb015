// The grammar of answers, from loose to tight: list, relation, union, ratio, sum, product, sign, power, postfix,
// primary (primaries.cpp).
#include "reward/math/parser.h"

#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "reward/math/forms.h"
#include "reward/math/units.h"

namespace qrl::reward::math {

using T = TokenType;

void Parser::run() {
  const NodeIdx root = read_list(T::end, true);
  if (ok_ && now().type != T::end) fail("something is left over");
  if (ok_) tree_.root = root;
}

bool Parser::take(T type, char code) noexcept {
  if (now().type != type || (code != 0 && now().code != code)) return false;
  ++at_;
  return true;
}

NodeIdx Parser::fail(std::string_view why) noexcept {
  if (ok_) tree_.fault = why;
  ok_ = false;
  at_ = tokens_.size() - 1;
  return -1;
}

NodeIdx Parser::make(Kind kind, const std::vector<Link>& links, std::string_view text) {
  Node node;
  node.kind = kind;
  node.text = text;
  node.first = static_cast<std::int32_t>(tree_.links.size());
  node.count = static_cast<std::int32_t>(links.size());
  for (const Link& link : links) {
    if (link.node < 0) return fail("an operand is missing");
    node.depth = std::max(node.depth, tree_.at(link.node).depth + 1);
    tree_.links.push_back(link);
  }
  if (node.depth > kMaxTreeDepth) return fail("nested too deep");
  tree_.nodes.push_back(node);
  return static_cast<NodeIdx>(tree_.nodes.size() - 1);
}

bool Parser::ends_list(T closing) const noexcept {
  return now().type == T::end || now().type == closing || now().type == T::close || now().type == T::cell ||
         now().type == T::newline || now().type == T::finish;
}

NodeIdx Parser::read_list(T closing, bool semicolons) {
  const Nested nested(*this);
  std::vector<Link> groups, items;
  bool several = false;
  while (ok_) {
    bool separated = items.empty();
    bool alternative = false;
    while (now().type == T::separator && now().code != ';') {  // "19, 46, and 82"
      separated = true;
      alternative = alternative || now().code == '|';
      ++at_;
    }
    if (ends_list(closing)) break;
    if (in_set_ && !separated && (now().type == T::bar || is_op(':'))) break;  // {x | …}
    if (semicolons && is(T::separator, ';')) {
      ++at_;
      several = true;
      if (!items.empty()) groups.push_back({group(items), 0});
      items.clear();
      continue;
    }
    items.push_back({read_relation(), alternative ? '|' : '\0'});
    if (ok_ && membership_follows()) {  // k\pi (k \in \mathbb{Z})
      ++at_;
      items.push_back({read_relation(), 0});
      if (!take(T::close, ')')) return fail("a bracket is not closed");
    }
    if (now().type != T::separator && !ends_list(closing) && !(in_set_ && (now().type == T::bar || is_op(':')))) {
      return fail("two things without an operation between them");
    }
  }
  if (!ok_) return -1;
  if (!items.empty()) groups.push_back({group(items), 0});
  if (groups.empty()) return fail("something is missing");
  if (!several || groups.size() == 1) return groups.front().node;
  const NodeIdx idx = make(Kind::list, groups);
  if (ok_) made(idx).flag = true;
  return idx;
}

NodeIdx Parser::group(std::vector<Link> items) {
  // n ≡ 1, 3 (mod 8): of both
  if (const NodeIdx modulus = modulus_of(tree_, items.back().node); items.size() > 1 && modulus >= 0) {
    for (Link& item : items) item.node = with_modulus(item.node, modulus);
  }
  if (const auto solutions = alternatives(items); !solutions.empty()) return make(Kind::list, solutions);
  return items.size() == 1 ? items.front().node : make(Kind::list, items);
}

std::vector<Link> Parser::alternatives(const std::vector<Link>& items) {
  std::vector<Link> lists, current;
  std::string letters, of_first;  // of each alternative, in order
  for (std::size_t k = 0; k <= items.size(); ++k) {
    if (k == items.size() || (items[k].code == '|' && k > 0)) {
      if (current.size() < 2 || (k == items.size() && lists.empty())) return {};
      std::sort(letters.begin(), letters.end());
      if (std::adjacent_find(letters.begin(), letters.end()) != letters.end()) return {};
      if (!lists.empty() && letters != of_first) return {};
      of_first = std::exchange(letters, {});
      lists.push_back({make(Kind::list, current), 0});
      current.clear();
    }
    if (k == items.size()) break;
    const Node& item = tree_.at(items[k].node);
    if (item.kind != Kind::relation || item.count != 2 || tree_.link(item, 1).code != '=' ||
        tree_.child_at(item, 0).kind != Kind::symbol || tree_.child_at(item, 0).text.size() != 1)
      return {};
    letters += tree_.child_at(item, 0).text;
    current.push_back({items[k].node, 0});
  }
  return lists;
}

NodeIdx Parser::read_relation() {
  if (now().type == T::relation && (now().code == '=' || now().code == 'a' || now().code == 't')) ++at_;  // "≈ 12"
  std::vector<Link> links{{modulo(read_union()), 0}};
  while (ok_ && (now().type == T::relation || (is(T::bar, 'm') && !in_set_))) {
    char code = now().type == T::bar ? 's' : now().code;
    if (!now().text.empty()) {  // subset, supset: distinguished by all letters
      std::uint32_t hash = 0;
      for (const char c : now().text) hash = 31 * hash + static_cast<unsigned char>(c);
      code = static_cast<char>(0x80U | (hash & 0x7fU));
    }
    ++at_;
    links.push_back({modulo(read_union()), code});
  }
  return links.size() == 1 ? links.front().node : make(Kind::relation, links);
}

bool Parser::membership_follows() const noexcept {
  return is(T::open, '(') && now(1).type == T::symbol && now(2).type == T::relation && now(2).code == 'e';
}

bool Parser::modulus_follows() const noexcept {
  const Token& token = now(is(T::open, '(') || is(T::open, '{') ? 1 : 0);
  const Token& inner = now(is(T::open, '{') ? 2 : 0);
  const auto is_mod = [](const Token& t) { return t.type == T::op && (t.code == 'p' || t.code == 'm'); };
  return is_op('p') || (is(T::open, '(') && is_mod(token)) ||
         (is(T::open, '{') && token.type == T::open && token.code == '(' && is_mod(inner));
}

NodeIdx Parser::modulo(NodeIdx number) {
  if (!ok_ || !modulus_follows()) return number;
  const bool braced = take(T::open, '{');
  const bool bracket = take(T::open, '(');
  ++at_;
  const NodeIdx modulus = read_product();
  if (!ok_ || (bracket && !take(T::close, ')')) || (braced && !take(T::close, '}')))
    return fail("a bracket is not closed");
  return make(Kind::product, {{number, 0}, {modulus, 'm'}});
}

NodeIdx Parser::with_modulus(NodeIdx item, NodeIdx modulus) {
  const Node node = tree_.at(item);
  if (modulus_of(tree_, item) >= 0) return item;
  if (node.kind != Kind::relation) return make(Kind::product, {{item, 0}, {modulus, 'm'}});
  std::vector<Link> links = links_of(item);
  links.back().node = make(Kind::product, {{links.back().node, 0}, {modulus, 'm'}});
  return make(Kind::relation, links);
}

NodeIdx Parser::with_smaller_units(NodeIdx quantity) {
  struct Ratio {
    int value;
    std::string_view text;
  };
  constexpr Ratio kRatios[] = {{3, "3"},   {7, "7"},   {12, "12"},   {16, "16"},
                               {24, "24"}, {60, "60"}, {100, "100"}, {1000, "1000"}};
  while (ok_ && is_kind(quantity, Kind::quantity)) {
    const std::size_t begin = at_;
    if (is(T::separator, '&')) ++at_;
    const Node large = tree_.at(quantity);
    const Measure unit = measure(tree_.child_at(large, 1).text);
    const bool counted = now().type == T::number && now(1).type == T::word;
    const NodeIdx next = unit.known && counted ? read_quantity() : -1;
    const bool read = ok_ && is_kind(next, Kind::quantity);
    const Measure smaller = read ? measure(tree_.child_at(tree_.at(next), 1).text) : Measure{};
    const Ratio* ratio = std::find_if(std::begin(kRatios), std::end(kRatios), [&](const Ratio& r) {
      return std::abs(unit.factor / smaller.factor - r.value) < 1e-9L;
    });
    if (!read || !smaller.known || smaller.dimensions != unit.dimensions || ratio == std::end(kRatios)) {
      at_ = ok_ ? begin : at_;
      return quantity;
    }
    const NodeIdx times = make(Kind::number, {}, ratio->text);
    const NodeIdx scaled = make(Kind::product, {{tree_.child(large, 0), 0}, {times, '*'}});
    const NodeIdx total = make(Kind::sum, {{scaled, 0}, {tree_.child(tree_.at(next), 0), '+'}});
    quantity = make(Kind::quantity, {{total, 0}, {tree_.child(tree_.at(next), 1), 0}});
  }
  return quantity;
}

NodeIdx Parser::read_union() {
  std::vector<Link> links{{with_smaller_units(read_quantity()), 0}};
  while (ok_ && (is_op('U') || is_op('N') || is_op('D'))) {
    const char code = now().code;
    ++at_;
    links.push_back({read_quantity(), code});
  }
  return links.size() == 1 ? links.front().node : make(Kind::set_operation, links);
}

bool Parser::temperature_follows(NodeIdx degrees) const noexcept {
  if (!is_kind(degrees, Kind::degree)) return false;
  const Token& letter = now(is(T::open, '{') ? 1 : 0);
  const bool closed = !is(T::open, '{') || now(2).type == T::close;
  return closed && (letter.type == T::symbol || letter.type == T::word) && (letter.text == "C" || letter.text == "F");
}

NodeIdx Parser::read_temperature(NodeIdx degrees) {
  const NodeIdx number = tree_.child(tree_.at(degrees), 0);
  const bool braced = is(T::open, '{');
  const std::string_view scale = now(braced ? 1 : 0).text == "C" ? "celsius" : "fahrenheit";
  at_ += braced ? 3 : 1;
  return make(Kind::quantity, {{number, 0}, {make(Kind::words, {}, scale), 0}});
}

NodeIdx Parser::read_quantity() {
  NodeIdx number = read_ratio();
  if (!ok_) return number;
  if (temperature_follows(number)) return read_temperature(number);
  const bool per = is_op('/') && !now().text.empty() && now(1).type == T::word;  // $3/\text{hour}
  const WordsApart apart = words_apart();
  if ((now().type != T::word && !per && apart.size == 0) || is_kind(number, Kind::words)) return number;
  // Plain words behind variables are prose ("we find that"); \text{…} is a unit there too.
  if (now().code == 0 && has_symbols(tree_, number)) return fail("words behind a formula");
  const std::size_t first = at_ + apart.first;
  at_ += apart.size + (per ? 1 : 0);
  while (ok_) {
    if (now().type == T::word || now().type == T::symbol) ++at_;
    else if (is_op('^') && tokens_[at_ - 1].type != T::number && exponent_at(1) > 0) at_ += 1 + exponent_at(1);
    else if ((is_op('/') || is_op('*')) && (now(1).type == T::word || now(1).type == T::symbol)) at_ += 2;
    else break;
  }
  const NodeIdx unit = make(Kind::words, {}, span_of(first));
  return make(Kind::quantity, {{number, 0}, {unit, 0}});
}

std::size_t Parser::exponent_at(std::size_t ahead) const noexcept {
  const bool braced = now(ahead).type == T::open && now(ahead).code == '{';
  std::size_t end = ahead + (braced ? 1 : 0);
  if (now(end).type == T::op && now(end).code == '-') ++end;
  if (now(end).type != T::number || (braced && now(end + 1).type != T::close)) return 0;
  return end + (braced ? 2 : 1) - ahead;
}

Parser::WordsApart Parser::words_apart() const noexcept {
  if (at_ == 0 || tokens_[at_ - 1].type != T::number) return {};
  const auto is_word_in = [this](std::size_t ahead, char open) {
    return now(ahead).type == T::open && now(ahead).code == open && now(ahead + 1).type == T::word &&
           now(ahead + 2).type == T::close;
  };
  if (is_word_in(0, '(')) return {3, 1};
  return now().type == T::fraction && is_word_in(1, '{') && is_word_in(4, '{') ? WordsApart{7, 2} : WordsApart{};
}

std::string_view Parser::span_of(std::size_t first) const noexcept {
  const std::string_view from = tokens_[first].text;
  const std::vector<char>& source = tree_.tokens.source;
  const std::less<> before;
  const char* end = from.data() + from.size();
  for (std::size_t k = first; k < at_; ++k) {
    const std::string_view text = tokens_[k].text;  // of a command's name where that is no part of the source
    const bool within = !before(text.data(), from.data()) && !before(source.data() + source.size(), text.data());
    if (!text.empty() && within) end = std::max(end, text.data() + text.size());
  }
  return {from.data(), static_cast<std::size_t>(end - from.data())};
}

NodeIdx Parser::read_ratio() {
  std::vector<Link> links{{read_sum(), 0}};
  while (ok_ && !in_set_ && is_op(':')) {
    ++at_;
    links.push_back({read_sum(), ':'});
  }
  if (links.size() == 1) return links.front().node;
  for (const Link& link : links) {
    if (is_kind(link.node, Kind::words)) return fail("a label before a colon");
  }
  return make(Kind::ratio, links);
}

NodeIdx Parser::read_sum() {
  const Nested nested(*this);
  std::vector<Link> links{{read_product(), 0}};
  while (ok_ && (is_op('+') || is_op('-') || is_op('P') || is_op('M'))) {
    const char code = now().code;
    ++at_;
    links.push_back({now().type == T::dots ? read_dots() : read_product(), code});
  }
  const NodeIdx idx = links.size() == 1 ? links.front().node : make(Kind::sum, links);
  if (!ok_ || (!is_op('o') && !is_op('h'))) return idx;
  const Kind kind = now().code == 'o' ? Kind::product : Kind::binomial;  // a \over b, n + 1 \choose k: of all before it
  ++at_;
  return make(kind, {{idx, 0}, {read_sum(), '/'}});
}

NodeIdx Parser::read_dots() {
  ++at_;
  return make(Kind::dots, {});
}

bool Parser::starts_operand() const noexcept {
  const Token& token = now();
  switch (token.type) {
    case T::symbol:
    case T::constant:
    case T::function:
    case T::root:
    case T::begin:
      return true;
    case T::fraction:
      return words_apart().size == 0;
    case T::number:
      return tokens_[at_ - 1].type != T::number;  // 2 3 is no product
    case T::open:
      return token.code != 'S' && !modulus_follows() && !membership_follows() && words_apart().size == 0;
    case T::bar:
      return token.code == 0 && num_bars_ == 0 && !in_set_;
    default:
      return false;
  }
}

NodeIdx Parser::read_product() {
  std::vector<Link> links{{read_signed(), 0}};
  bool plain_fraction = is_kind(links.front().node, Kind::number) || is_kind(links.front().node, Kind::mixed);
  while (ok_) {
    char code = '*';
    if (is_op('/') && !now().text.empty() && now(1).type == T::word) break;  // a unit: read_quantity
    if (temperature_follows(links.back().node)) break;
    if (now().type == T::op && is_multiplicative(now().code)) {
      code = now().code;
      ++at_;
    } else if (!starts_operand() || is_kind(links.back().node, Kind::words)) {
      break;
    }
    const NodeIdx factor = code == '*' && tokens_[at_ - 1].type != T::op ? read_power() : read_signed();
    links.push_back({factor, code});
    plain_fraction = plain_fraction && code == '/' && is_kind(factor, Kind::number);
    if (is_op('%') && plain_fraction) break;
  }
  if (!ok_) return -1;
  NodeIdx idx = links.size() == 1 ? links.front().node : make(Kind::product, links);
  if (links.size() > 1 && plain_fraction && take(T::op, '%')) idx = make(Kind::percent, {{idx, 0}});
  return idx;
}

bool Parser::is_multiplicative(char code) noexcept {
  constexpr std::string_view kCodes = "*/mwvxOr";
  return kCodes.find(code) != std::string_view::npos;
}

NodeIdx Parser::read_signed() {
  const Nested nested(*this);
  if (!ok_) return -1;
  if (is_op('+') || is_op('-') || is_op('P') || is_op('M')) {
    const char code = now().code;
    ++at_;
    const NodeIdx operand = read_product_of_sign();
    if (code == '+' || !ok_) return operand;
    const Node of = tree_.at(operand);  // −5 % is (−5) %, so that it is told from −5 by its mark alone
    if (of.kind != Kind::percent && of.kind != Kind::degree) return make(Kind::sum, {{operand, code}});
    return make(of.kind, {{make(Kind::sum, {{tree_.child(of, 0), code}}), 0}});
  }
  return read_power();
}

NodeIdx Parser::read_power() {
  const NodeIdx base = read_postfix();
  if (!ok_ || !take(T::op, '^')) return base;
  if (is_op('d')) {  // 90^\circ
    ++at_;
    return postfix_of(make(Kind::degree, {{base, 0}}));
  }
  if (is(T::open, '{') && now(1).type == T::op && now(1).code == 'd' && now(2).type == T::close) {
    at_ += 3;
    return postfix_of(make(Kind::degree, {{base, 0}}));
  }
  if (is_op('\'') || (is(T::open, '{') && now(1).type == T::op && now(1).code == '\'')) {
    at_ += is_op('\'') ? 1 : 2;
    while (take(T::op, '\'')) {
    }
    take(T::close, '}');
    return postfix_of(make(Kind::prime, {{base, 0}}));
  }
  const bool braced = is(T::open, '{');
  const Token& sign = now(braced ? 1 : 0);
  const Node& of = tree_.at(base);
  const bool numbers = of.kind == Kind::symbol && of.text.starts_with("\\mathbb");
  const bool lone = sign.type == T::op && (sign.code == '*' || sign.code == '+' || sign.code == '-') &&
                    (braced ? now(2).type == T::close : sign.code == '*' || numbers);
  if (lone) {  // a dual, a limit from one side: x^*, 0^+
    at_ += braced ? 3 : 1;
    const std::string_view mark = sign.code == '*' ? "star" : sign.code == '+' ? "plus" : "minus";
    return postfix_of(make(Kind::subscript, {{base, 0}, {make(Kind::words, {}, mark), 0}}));
  }
  const Nested nested(*this);
  const NodeIdx exponent = read_signed();
  if (ok_ && is(T::open, '(') && is_kind(base, Kind::symbol) && names_function(tree_.at(base).text)) {
    const Node inverse = tree_.at(exponent);  // f^{-1}(x)
    if (inverse.kind == Kind::sum && inverse.count == 1 && tree_.child_at(inverse, 0).text == "1")
      return postfix_of(read_call_of(make(Kind::power, {{base, 0}, {exponent, 0}})));
  }
  if (ok_ && is_kind(base, Kind::subscript) &&
      counts(tree_.child(tree_.at(base), 0), tree_.child(tree_.at(base), 1), exponent))
    return postfix_of(make_count(tree_.child(tree_.at(base), 0), tree_.child(tree_.at(base), 1), exponent));
  if (ok_ && is_kind(exponent, Kind::subscript)) {  // C^3_{10}
    const NodeIdx k = tree_.child(tree_.at(exponent), 0), n = tree_.child(tree_.at(exponent), 1);
    if (counts(base, n, k)) return postfix_of(make_count(base, n, k));
  }
  return postfix_of(make(Kind::power, {{base, 0}, {exponent, 0}}));
}

bool Parser::counts(NodeIdx letter, NodeIdx n, NodeIdx k) const noexcept {
  const auto digits = [this](NodeIdx idx) {
    return is_kind(idx, Kind::number) && tree_.at(idx).text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!is_kind(letter, Kind::symbol) || !digits(n) || !digits(k)) return false;
  const std::string_view name = tree_.at(letter).text;
  return (name == "C" || name == "A" || name == "P") && !below(tree_.at(n).text, tree_.at(k).text);
}

NodeIdx Parser::make_count(NodeIdx letter, NodeIdx n, NodeIdx k) {
  const NodeIdx subsets = make(Kind::binomial, {{n, 0}, {k, 0}});
  if (tree_.at(letter).text == "C") return subsets;
  return make(Kind::product, {{subsets, 0}, {make(Kind::factorial, {{k, 0}}), '*'}});
}

NodeIdx Parser::postfix_of(NodeIdx idx) {
  while (ok_) {
    if (is_op('!')) {
      ++at_;
      idx = make(Kind::factorial, {{idx, 0}});
    } else if (is_op('%')) {
      ++at_;
      idx = make(Kind::percent, {{idx, 0}});
    } else if (is_op('d')) {
      ++at_;
      idx = make(Kind::degree, {{idx, 0}});
    } else if (is_op('\'')) {
      ++at_;
      idx = make(Kind::prime, {{idx, 0}});
      if (is(T::open, '(')) idx = read_call_of(idx);
    } else if (is_op('_')) {
      ++at_;
      const Nested nested(*this);
      idx = make(Kind::subscript, {{idx, 0}, {read_argument(), 0}});
      if (ok_ && is(T::open, '(') && applies_to_symbol()) idx = read_call_of(idx);
    } else {
      break;
    }
  }
  return ok_ ? idx : -1;
}

Tree parse(std::string_view text, Comma comma) {
  Tree tree;
  tree.tokens = tokenize(text, comma);
  if (!tree.tokens.fault.empty()) {
    tree.fault = "not written in LaTeX or plain mathematics";
    return tree;
  }
  tree.nodes.reserve(tree.tokens.tokens.size());
  Parser(tree).run();
  return tree;
}

}  // namespace qrl::reward::math
