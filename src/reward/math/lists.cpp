// Lists of items, and what begins one.
#include "reward/math/parser.h"

namespace qrl::reward::math {

namespace {

using T = TokenType;

}  // namespace

bool Parser::ends_list(T closing) const noexcept {
  const T type = now().type;
  return type == T::end || type == closing || type == T::close || type == T::cell || type == T::newline ||
         type == T::finish || closes_outward();
}

/// Items with separators between them; one item is itself. Semicolons separate lists of what commas separate.
NodeIdx Parser::list(T closing) {
  std::vector<Link> groups, items;
  bool several = false;
  const auto ends_element = [this] { return inner_.in_set && (now().type == T::bar || is_op(':')); };
  while (ok_) {
    bool separated = items.empty(), alternative = false;
    for (; now().type == T::separator && now().code != ';'; ++at_) {  // "19, 46, and 82"
      inner_.separated = inner_.separated || !items.empty();
      separated = true;
      alternative = alternative || now().code == '|';
    }
    const bool outward = closing == T::end && is(T::close, ']');  // ]2, 5[
    if ((!outward && ends_list(closing)) || (inner_.in_set && !separated && ends_element())) break;
    if (alternative && items.size() == 1 && now().type == T::word && words_.is(WordClass::hedge, now().text) &&
        begins_value(1)) {
      ++at_;  // 1/6, or approximately 0.1667
      items[0].node = make(Kind::relation, {items[0], {expression(11), 'a'}});
      continue;
    }
    if (take(T::separator, ';')) {
      several = inner_.separated = true;
      if (!items.empty()) groups.push_back({group(std::move(items)), 0});
      items.clear();
      continue;
    }
    items.push_back({expression(0), alternative ? '|' : '\0'});
    if (now().type != T::separator && !ends_list(closing) && !ends_element() && !equation_follows())
      return fail(Fault::no_operation_between);
  }
  if (!ok_) return -1;
  if (!items.empty()) groups.push_back({group(std::move(items)), 0});
  if (groups.empty()) return fail(Fault::operand_missing);
  if (!several || groups.size() == 1) return groups.front().node;
  const NodeIdx idx = make(Kind::list, groups);
  if (ok_) made(idx).flag = true;
  return idx;
}

/// The modulus of n ≡ 1, 3 (mod 8) is of both, which is not read.
NodeIdx Parser::group(std::vector<Link> items) {
  const auto modular = [this](Link item) { return item.node >= 0 && modulus_of(ref(item.node)); };
  if (modular(items.back()) && !modular(items.front())) return fail(Fault::operand_missing);
  return items.size() == 1 || items.back().node < 0 ? items.front().node : make(Kind::list, items);
}

bool Parser::modulus_follows() const noexcept {
  const auto is_mod = [](const Token& t) { return t.type == T::op && (t.code == 'p' || t.code == 'm'); };
  const std::size_t braced = is(T::open, '{') ? 1 : 0;
  return is_op('p') || (is(now(braced), T::open, '(') && is_mod(now(braced + 1)));
}

/// Whether "y =", behind a line break or \quad, begins another equation: x = 2 \quad y = 3.
bool Parser::equation_follows() const noexcept {
  constexpr std::size_t kMaxName = 8;  // a_{10}, f(2)
  if (!now().newline || now().type != T::symbol) return false;
  std::size_t depth = 0;
  for (std::size_t k = 1; k < kMaxName; ++k) {
    if (depth == 0 && is(now(k), T::relation, '=')) return true;
    if (now(k).type == T::open) ++depth;
    else if (now(k).type == T::close && depth > 0) --depth;
    else if (depth == 0 && !is(now(k), T::op, '_') && !is(now(k - 1), T::op, '_')) return false;
  }
  return false;
}

bool Parser::begins_value(std::size_t ahead) const noexcept {
  while (is(now(ahead), T::op, '-') || now(ahead).type == T::open) ++ahead;
  const Token& token = now(ahead);
  return token.type == T::number || token.type == T::fraction || token.type == T::root || is(token, T::constant, 'p');
}

/// Whether an operand follows without an operation sign.
bool Parser::begins_operand() const noexcept {
  const Token& token = now();
  switch (token.type) {
    case T::symbol:
      return !equation_follows();
    case T::constant:
    case T::function:
    case T::root:
    case T::begin:
    case T::fraction:
      return true;
    case T::number:
      return at_ == 0 || tokens_[at_ - 1].type != T::number;  // 2 3 is no product
    case T::open:
      return token.code != 'S' && !closes_outward();
    case T::bar:
      return token.code == 0 && inner_.bars == 0 && !inner_.in_set;
    default:
      return false;
  }
}

}  // namespace qrl::reward::math
