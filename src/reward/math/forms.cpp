#include "reward/math/forms.h"

#include <algorithm>
#include <set>
#include <string>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

template <class Predicate>
bool any_node(const Tree& tree, NodeIdx idx, const Predicate& predicate) {  // depth: kMaxTreeDepth
  const Node& node = tree.at(idx);
  if (predicate(node)) return true;
  for (std::int32_t k = 0; k < node.count; ++k) {
    if (any_node(tree, tree.child(node, k), predicate)) return true;
  }
  return false;
}

}  // namespace

bool has_symbols(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [](const Node& node) { return node.kind == Kind::symbol || node.kind == Kind::words; });
}

bool has_symbol(const Tree& tree, NodeIdx idx, std::string_view name) noexcept {
  return any_node(tree, idx, [name](const Node& node) { return node.kind == Kind::symbol && node.text == name; });
}

bool alternates(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [&tree](const Node& node) {
    if (node.kind != Kind::power || !has_symbols(tree, tree.child(node, 1))) return false;
    return tree.child_at(node, 0).kind == Kind::sum && !has_symbols(tree, tree.child(node, 0));
  });
}

bool has_symbolic_factorials(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [&tree](const Node& node) {
    if (node.kind != Kind::factorial && node.kind != Kind::binomial) return false;
    return has_symbols(tree, tree.child(node, 0));
  });
}

bool is_rational_function(const Tree& tree, NodeIdx idx) noexcept {
  return !any_node(tree, idx, [&tree](const Node& node) {
    if (node.kind == Kind::product) {
      for (std::int32_t k = 1; k < node.count; ++k) {
        if (tree.link(node, k).code != '*' && tree.link(node, k).code != '/') return true;
      }
      return false;
    }
    if (node.kind == Kind::power) {
      const Node& exponent = tree.child_at(node, 1);
      return exponent.kind != Kind::number || exponent.text.find_first_not_of("0123456789") != std::string_view::npos;
    }
    return node.kind != Kind::sum && node.kind != Kind::number && node.kind != Kind::symbol && node.kind != Kind::mixed;
  });
}

bool same_symbols(const Tree& a, NodeIdx of_a, const Tree& b, NodeIdx of_b) {
  const auto symbols = [](const Tree& tree, NodeIdx idx) {
    std::set<std::string> names;
    any_node(tree, idx, [&](const Node& node) {
      if (node.kind == Kind::symbol) names.emplace(node.text);
      if (node.kind == Kind::subscript)  // x_1 is not x_2
        names.insert(std::string(tree.child_at(node, 0).text) + "_" + std::string(tree.child_at(node, 1).text));
      return false;
    });
    return names;
  };
  return symbols(a, of_a) == symbols(b, of_b);
}

bool has_quantity(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [](const Node& node) { return node.kind == Kind::quantity; });
}

bool has_plus_minus(const Tree& tree, NodeIdx idx) noexcept {
  return any_node(tree, idx, [&tree](const Node& node) {
    if (node.kind != Kind::sum) return false;
    for (std::int32_t k = 0; k < node.count; ++k) {
      const char code = tree.link(node, k).code;
      if (code == 'P' || code == 'M') return true;
    }
    return false;
  });
}

bool is_name(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  switch (node.kind) {
    case Kind::symbol:
    case Kind::words:
    case Kind::call:
    case Kind::prime:
    case Kind::subscript:
      return true;
    case Kind::product:
    case Kind::ratio:
    case Kind::tuple:
    case Kind::list:
    case Kind::absolute:
    case Kind::determinant:
    case Kind::set_operation:
      for (std::int32_t k = 0; k < node.count; ++k) {
        const NodeIdx child = tree.child(node, k);
        if (has_symbols(tree, child) && !is_name(tree, child)) return false;
        if (node.kind == Kind::product && !has_symbols(tree, child)) return false;  // 2x is no name
      }
      return true;
    case Kind::sum:  // angle A + angle B is no name, −x is none either
    default:
      return false;
  }
}

std::optional<bool> offers_alternatives(const Tree& tree, NodeIdx idx) noexcept {
  const Node& list = tree.at(idx);
  if (list.kind != Kind::list || list.count < 2) return std::nullopt;
  bool alternatives = false;
  for (std::int32_t k = 0; k < list.count; ++k) {
    const Node& member = tree.child_at(list, k);
    if (member.kind != Kind::relation) return std::nullopt;
    for (std::int32_t i = 1; i < member.count; ++i)
      if (std::string_view("<>lg").find(tree.link(member, i).code) == std::string_view::npos) return std::nullopt;
    alternatives = alternatives || tree.link(list, k).code == '|';
  }
  return alternatives;
}

bool is_variable(const Tree& tree, NodeIdx idx) noexcept {
  return tree.at(idx).kind != Kind::product && is_name(tree, idx);
}

std::string_view unit_letters(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind != Kind::product || node.count < 2 || tree.child_at(node, 0).kind != Kind::number) return {};
  const std::string_view number = tree.child_at(node, 0).text;
  const std::string_view first = tree.child_at(node, 1).text;
  std::string_view last;
  for (std::int32_t k = 1; k < node.count; ++k) {
    const Node& part = tree.child_at(node, k);
    const char code = tree.link(node, k).code;
    if (part.kind != Kind::symbol || part.text.size() != 1 || unit_of(part.text).dimension == 0 ||
        (code != '*' && (code != '/' || k == 1)))
      return {};
    last = part.text;
  }
  if (first.data() <= number.data() + number.size()) return {};  // 6m is a product
  return {first.data(), static_cast<std::size_t>(last.data() - first.data()) + last.size()};
}

NodeIdx modulus_of(const Tree& tree, NodeIdx idx) noexcept {
  if (idx < 0) return -1;
  const Node* node = &tree.at(idx);
  if (node->kind == Kind::relation) node = &tree.child_at(*node, node->count - 1);
  const bool modular = node->kind == Kind::product && node->count == 2 && tree.link(*node, 1).code == 'm';
  return modular ? tree.child(*node, 1) : -1;
}

Capitals capitals(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  Capitals run;
  if (node.kind != Kind::product) return run;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree.link(node, k);
    const Node& part = tree.at(link.node);
    if (part.kind != Kind::symbol || (k > 0 && link.code != '*')) return {};
    if (k == 0 && (part.text == "angle" || part.text == "measuredangle")) {
      run.angle = true;
      continue;
    }
    const bool capital = part.text.size() == 1 && part.text[0] >= 'A' && part.text[0] <= 'Z';
    const bool next = run.letters.empty() || part.text.data() == run.letters.data() + run.letters.size();
    if (!capital || !next) return {};
    run.letters = {run.letters.empty() ? part.text.data() : run.letters.data(), run.letters.size() + 1};
  }
  return run;
}

bool same_capitals(const Capitals& a, const Capitals& b) noexcept {
  if (a.letters == b.letters) return true;
  const bool angle = (a.angle || b.angle) && a.letters.size() == 3;
  return angle && std::equal(a.letters.begin(), a.letters.end(), b.letters.rbegin(), b.letters.rend());
}

bool is_collection(const Node& node) noexcept {
  const bool system = node.kind == Kind::matrix && node.text == "cases" && node.columns == 1;
  return node.kind == Kind::list || node.kind == Kind::tuple || node.kind == Kind::set || system;
}
bool is_set_like(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind == Kind::subscript || (node.kind == Kind::sum && node.count == 2)) {
    const bool difference = node.kind == Kind::sum && tree.child_at(node, 1).kind != Kind::set;
    const Node& base = tree.child_at(node, 0);
    return !difference && base.kind == Kind::symbol && base.text.starts_with("\\mathbb");
  }
  return node.kind == Kind::set_operation || node.kind == Kind::set_builder ||
         (node.kind == Kind::symbol && node.text.starts_with("\\mathbb")) ||
         (node.kind == Kind::constant && node.text == "empty");
}
bool is_matrix(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind == Kind::matrix) return !is_collection(node);
  if (node.kind != Kind::product && node.kind != Kind::sum && node.kind != Kind::power) return false;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Kind kind = tree.child_at(node, k).kind;
    if (kind == Kind::matrix || kind == Kind::tuple) return true;
  }
  return false;
}

}  // namespace qrl::reward::math
