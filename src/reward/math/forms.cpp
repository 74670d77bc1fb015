#include "reward/math/forms.h"

#include <algorithm>
#include <set>
#include <string>

#include "reward/math/texts.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

constexpr std::string_view kIntegers = "klmn";  // letters that stand for integers

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

bool is_arithmetic(const Tree& tree, NodeIdx idx) noexcept {
  return !any_node(tree, idx, [](const Node& node) {
    constexpr Kind kKinds[] = {Kind::number,  Kind::symbol, Kind::constant, Kind::sum,
                               Kind::product, Kind::power,  Kind::root,     Kind::mixed};
    return std::find(std::begin(kKinds), std::end(kKinds), node.kind) == std::end(kKinds);
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

bool is_never_negative(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind == Kind::power) {
    const Node& base = tree.child_at(node, 0);
    const std::string_view exponent = tree.child_at(node, 1).kind == Kind::number ? tree.child_at(node, 1).text : "";
    const bool even = !exponent.empty() && exponent.find_first_not_of("0123456789") == std::string_view::npos &&
                      (exponent.back() - '0') % 2 == 0;
    return even && base.kind == Kind::symbol && base.text.size() == 1 && base.text != "z" && base.text != "w";
  }
  if (node.kind != Kind::sum && node.kind != Kind::product) return node.kind == Kind::number;
  for (std::int32_t k = 0; k < node.count; ++k) {
    const char code = tree.link(node, k).code;
    const bool kept = code == 0 || code == (node.kind == Kind::sum ? '+' : '*') || code == '/';
    if (!kept || !is_never_negative(tree, tree.child(node, k))) return false;
  }
  return true;
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

bool is_sum_of_names(const Tree& tree, NodeIdx idx) noexcept {
  const Node& sum = tree.at(idx);
  if (sum.kind != Kind::sum || sum.count < 2) return false;  // −x is no name
  for (std::int32_t k = 0; k < sum.count; ++k) {
    const Kind kind = tree.child_at(sum, k).kind;
    if ((kind != Kind::symbol && kind != Kind::subscript) || (k > 0 && tree.link(sum, k).code != '+')) return false;
    for (std::int32_t j = 0; j < k; ++j) {
      if (same_symbols(tree, tree.child(sum, j), tree, tree.child(sum, k))) return false;  // m + m is 2m
    }
  }
  return true;
}

namespace {

bool is_capital(const Node& node) noexcept {
  return node.kind == Kind::symbol && !node.text.empty() && node.text[0] >= 'A' && node.text[0] <= 'Z';
}

/// The same for two nodes that are written alike.
void append_form(const Tree& tree, NodeIdx idx, std::string& form) {
  const Node& node = tree.at(idx);
  form += static_cast<char>('0' + static_cast<int>(node.kind));
  form += node.text;
  form += '(';
  for (std::int32_t k = 0; k < node.count; ++k) {
    form += tree.link(node, k).code;
    append_form(tree, tree.child(node, k), form);
  }
  form += ')';
}

void note_names(const Tree& tree, NodeIdx idx, std::set<std::string>& names) {
  const Node& node = tree.at(idx);
  const bool call = node.kind == Kind::call && node.text.empty();  // \sin x has the names of x
  if (node.kind == Kind::symbol) {
    names.emplace(node.text);
    return;
  }
  if (node.kind == Kind::words || node.kind == Kind::subscript || call) {
    std::string form;
    append_form(tree, idx, form);
    names.insert(std::move(form));
    return;
  }
  for (std::int32_t k = 0; k < node.count; ++k) {
    std::string run;
    while (node.kind == Kind::product && k < node.count && tree.child_at(node, k).text.size() == 1 &&
           is_capital(tree.child_at(node, k)) && (run.empty() || tree.link(node, k).code == '*'))
      run += tree.child_at(node, k++).text;
    if (!run.empty()) names.insert(std::move(run));
    if (k < node.count) note_names(tree, tree.child(node, k), names);
  }
}

}  // namespace

std::size_t count_names(const Tree& tree, NodeIdx idx) {
  std::set<std::string> names;
  note_names(tree, idx, names);
  return names.size();
}

bool is_equation_side(const Tree& tree, NodeIdx idx) noexcept {
  const Node& sum = tree.at(idx);
  if (sum.kind == Kind::product) return !has_symbols(tree, tree.child(sum, 0));
  if (sum.kind != Kind::sum) return false;
  bool plain = true;
  for (std::int32_t k = 0; k < sum.count; ++k) {
    const Node* term = &tree.child_at(sum, k);
    const bool added = k == 0 ? sum.count > 1 : tree.link(sum, k).code == '+';
    plain = plain && added && has_symbols(tree, tree.child(sum, k));  // x + y + 1 is none
    if (term->kind == Kind::sum && term->count == 1) {                // −x + y
      plain = false;
      term = &tree.child_at(*term, 0);
    }
    if (term->kind == Kind::product && term->count == 2 && !has_symbols(tree, tree.child(*term, 0))) {
      const std::string_view factor = tree.child_at(*term, 0).text;
      plain = plain && factor.starts_with('1') && factor.find_first_not_of('0', 1) == std::string_view::npos;
      term = &tree.child_at(*term, 1);
    }
    if (term->kind != Kind::symbol && term->kind != Kind::subscript &&
        has_symbols(tree, static_cast<NodeIdx>(term - tree.nodes.data())))
      return false;
  }
  return !plain;
}

bool is_power_of_capital(const Tree& tree, NodeIdx idx) noexcept {
  const Node& power = tree.at(idx);
  if (power.kind != Kind::power) return false;
  const Node& base = tree.child_at(power, 0);
  if (base.kind == Kind::subscript) return is_capital(tree.child_at(base, 0));
  if (base.kind == Kind::power) return is_power_of_capital(tree, tree.child(power, 0));
  return is_capital(base) || !capitals(tree, tree.child(power, 0)).letters.empty();
}

std::array<NodeIdx, 3> unit_vectors(const Tree& tree, NodeIdx idx) noexcept {
  constexpr std::string_view kNames[] = {"i", "j", "k"}, kDotless[] = {"imath", "jmath", ""};
  std::array<NodeIdx, 3> with_hats{-1, -1, -1}, without = with_hats;
  any_node(tree, idx, [&](const Node& node) {
    const bool hat = node.kind == Kind::call && (node.text == "hat" || node.text == "widehat") && node.count == 1;
    const Node& letter = hat ? tree.child_at(node, 0) : node;
    for (std::size_t k = 0; k < with_hats.size(); ++k) {
      const bool named = letter.text == kNames[k] || (hat && letter.text == kDotless[k]);
      if (named && (letter.kind == Kind::symbol || letter.kind == Kind::constant))
        (hat ? with_hats : without)[k] = static_cast<NodeIdx>(&node - tree.nodes.data());
    }
    return false;
  });
  return with_hats[0] + with_hats[1] + with_hats[2] == -3 ? without : with_hats;
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
    const bool choice = member.kind == Kind::symbol && member.text.size() == 1;
    if (member.kind != Kind::relation && !choice) return std::nullopt;
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
  std::string_view first, last;
  const auto is_unit = [&](const Node& part) {
    const Node* letter = &part;
    if (part.kind == Kind::power) {  // m^2, s^{-1}
      const Node& exponent = tree.child_at(part, 1);
      const bool negative = exponent.kind == Kind::sum && exponent.count == 1;
      const Node& digits = negative ? tree.child_at(exponent, 0) : exponent;
      if (digits.kind != Kind::number) return false;
      letter = &tree.child_at(part, 0);
      last = digits.text;
    } else {
      last = part.text;
    }
    if (first.empty()) first = letter->text;
    return letter->kind == Kind::symbol && letter->text.size() == 1 && unit_of(letter->text).dimension != 0;
  };
  for (std::int32_t k = 1; k < node.count; ++k) {
    const Node& part = tree.child_at(node, k);
    const char code = tree.link(node, k).code;
    if (code != '*' && (code != '/' || k == 1)) return {};
    const bool fraction = part.kind == Kind::product && part.count == 2 && tree.link(part, 1).code == '/';
    const bool units = fraction ? is_unit(tree.child_at(part, 0)) && is_unit(tree.child_at(part, 1)) : is_unit(part);
    if (!units) return {};
  }
  if (first.data() <= number.data() + number.size()) return {};  // 6m is a product
  return {first.data(), static_cast<std::size_t>(last.data() - first.data()) + last.size()};
}

bool same_term(const Tree& a, NodeIdx of_a, const Tree& b, NodeIdx of_b) noexcept {
  const auto is_term = [](const Tree& tree, const Node& node) {
    return node.count == 2 && tree.child_at(node, 0).kind == Kind::symbol &&
           tree.child_at(node, 1).kind == Kind::symbol;
  };
  const Node &x = a.at(of_a), &y = b.at(of_b);
  if (!is_term(a, x) || !is_term(b, y)) return false;
  const Node& other = x.kind == Kind::subscript ? y : x;
  const char code = x.kind == Kind::subscript ? b.link(y, 1).code : a.link(x, 1).code;
  return x.kind != y.kind && (x.kind == Kind::subscript || y.kind == Kind::subscript) && other.kind == Kind::product &&
         code == '*' && a.child_at(x, 0).text == b.child_at(y, 0).text &&
         a.child_at(x, 1).text == b.child_at(y, 1).text;
}

NodeIdx without_point_name(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind != Kind::product || node.count != 2 || tree.link(node, 1).code != '*') return idx;
  const Node& name = tree.child_at(node, 0);
  const bool capital = name.kind == Kind::symbol && name.text.size() == 1 && name.text[0] >= 'A' && name.text[0] <= 'Z';
  return capital && tree.child_at(node, 1).kind == Kind::tuple ? tree.child(node, 1) : idx;
}

NodeIdx without_transpose(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind != Kind::power || tree.child_at(node, 0).kind != Kind::tuple) return idx;
  const Node& exponent = tree.child_at(node, 1);
  return exponent.kind == Kind::symbol && (exponent.text == "T" || exponent.text == "top") ? tree.child(node, 0) : idx;
}

NodeIdx without_words(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  const bool point = node.kind == Kind::quantity && tree.child_at(node, 0).kind == Kind::tuple;
  return point && tree.child_at(node, 1).text.starts_with("is the ") ? tree.child(node, 0) : idx;
}

NodeIdx without_domain(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  if (node.kind != Kind::list || node.count != 2 || tree.child_at(node, 1).kind != Kind::relation) return idx;
  const Node& membership = tree.child_at(node, 1);
  const Node& variable = tree.child_at(membership, 0);
  const Node& domain = tree.child_at(membership, 1);
  const bool named = membership.count == 2 && tree.link(membership, 1).code == 'e' && variable.kind == Kind::symbol &&
                     domain.kind == Kind::symbol && domain.text.starts_with("\\mathbb");
  if (!named || !has_symbol(tree, tree.child(node, 0), variable.text)) return idx;
  const bool integers = text_key(domain.text) == "z" && kIntegers.find(variable.text) != std::string_view::npos;
  return integers || text_key(domain.text) == "r" ? tree.child(node, 0) : idx;
}

FreeLetter free_letter(const Tree& tree, NodeIdx idx) noexcept {
  const Node& node = tree.at(idx);
  for (std::int32_t k = 0; node.kind == Kind::sum && k < node.count; ++k) {
    const Node& term = tree.child_at(node, k);
    const bool added = tree.link(node, k).code == 0 || tree.link(node, k).code == '+';
    if (!added || term.kind != Kind::symbol || (term.text != "C" && term.text != "c")) continue;
    std::int32_t times = 0;
    any_node(tree, idx, [&](const Node& n) {
      times += n.kind == Kind::symbol && n.text == term.text ? 1 : 0;
      return false;
    });
    return times == 1 ? FreeLetter{term.text, false} : FreeLetter{};
  }
  std::string_view letter;
  bool several = false;
  const auto note = [&](const Node& n) {
    if (n.kind != Kind::symbol || n.text.size() != 1 || kIntegers.find(n.text) == std::string_view::npos) return false;
    several = several || (!letter.empty() && letter != n.text);
    letter = n.text;
    return false;
  };
  any_node(tree, idx, note);
  const auto is_pi = [](const Node& n) { return n.kind == Kind::constant && n.text == "pi"; };
  const bool beside_pi = !letter.empty() && any_node(tree, idx, [&](const Node& n) {
    if (n.kind != Kind::product) return false;
    const auto at = static_cast<NodeIdx>(&n - tree.nodes.data());
    return has_symbol(tree, at, letter) && any_node(tree, at, is_pi);
  });
  return beside_pi && !several && !alternates(tree, idx) ? FreeLetter{letter, true} : FreeLetter{};
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
