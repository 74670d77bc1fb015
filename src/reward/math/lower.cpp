// Trees to answers: the table of rules, and what form each kind of node has.
#include <algorithm>
#include <cstdlib>

#include "base/ascii.h"
#include "reward/math/answer.h"

namespace qrl::reward::math {

namespace {

using base::is_letter;

constexpr std::string_view kCounts = "CAP";  // letters of combinations and arrangements

/// Both of digits.
bool not_above(const Node& k, const Node& n) noexcept {
  if (!is_digits(k) || !is_digits(n)) return false;
  return k.text.size() != n.text.size() ? k.text.size() < n.text.size() : k.text <= n.text;
}

/// The number of subsets (C) or arrangements (A, P) of k out of n.
NodeIdx count_of(Lowering& to, std::string_view letter, NodeIdx n, NodeIdx k) {
  const NodeIdx subsets = to.tree.make(Kind::binomial, {{n, 0}, {k, 0}});
  if (letter == kCounts.substr(0, 1)) return subsets;
  return to.tree.make(Kind::product, {{subsets, 0}, {to.tree.make(Kind::factorial, {{k, 0}}), '*'}});
}

}  // namespace

/// C_{10}^3 and C^3_{10}; {}_{10}C_3 is a product.
NodeIdx combination(Lowering& to, NodeIdx idx, Notes&) {
  const Tree& t = to.tree;
  const Node& node = t.at(idx);
  const Node &one = t.child_at(node, 0), &other = t.child_at(node, 1);
  if (node.count != 2 || other.kind == Kind::words) return -1;
  const auto counts = [&t](const Node& n) { return kCounts.find(t.child_at(n, 0).text) != std::string_view::npos; };
  const auto is_named = [&](const Node& n) {
    return n.kind == Kind::subscript && is_capital(t.child_at(n, 0)) && counts(n);
  };
  if (node.kind == Kind::product) {
    const bool hollow =
        (one.kind == Kind::subscript || one.kind == Kind::power) && t.child_at(one, 0).kind == Kind::words;
    return hollow && is_named(other) && is_digits(t.child_at(one, 1))
               ? count_of(to, t.child_at(other, 0).text, t.child(one, 1), t.child(other, 1))
               : -1;
  }
  if (is_named(one) && not_above(other, t.child_at(one, 1)))
    return count_of(to, t.child_at(one, 0).text, t.child(one, 1), t.child(node, 1));
  if (other.kind == Kind::subscript && is_capital(one) && counts(node) &&
      not_above(t.child_at(other, 0), t.child_at(other, 1)))
    return count_of(to, one.text, t.child(other, 1), t.child(other, 0));
  return -1;
}

NodeIdx named_point(Lowering& to, NodeIdx idx, Notes& notes) {
  const Node& node = to.tree.at(idx);
  if (node.count != 2 || !is_capital(to.tree.child_at(node, 0)) || to.tree.child_at(node, 1).kind != Kind::tuple)
    return -1;
  notes.name = to.tree.child_at(node, 0).text;
  return to.tree.child(node, 1);
}

NodeIdx named_reals(Lowering& to, NodeIdx idx, Notes&) {
  const std::string key = text_key(to.tree.at(idx).text, to.vocabulary);
  if (to.vocabulary.is(WordClass::reals, key)) return to.tree.make(Kind::symbol, {}, "\\mathbb{R}");
  return to.vocabulary.is(WordClass::nothing, key) ? to.tree.constant('0', "empty") : -1;
}

namespace {

/// "m/s^2" of 6 m/s^2: what stands behind a number, apart from it, where all of it may be units.
std::string_view unit_letters(const Lowering& to) noexcept {
  const Node& root = to.tree.at(to.tree.root);
  if (root.kind != Kind::product || to.tree.child_at(root, 0).kind != Kind::number) return {};
  const char* number = to.tree.child_at(root, 0).text.data();
  const std::vector<Token>& tokens = to.tree.tokens.tokens;
  auto at = std::ranges::find(tokens, number, [](const Token& token) { return token.text.data(); });
  if (at == tokens.end() || (!(at + 1)->space && at->groups == 0)) return {};  // 6m is a product
  const char* begin = nullptr;
  for (++at; at->type != TokenType::end; ++at) {
    const Unit unit = at->text.size() == 1 ? to.vocabulary.unit(at->text) : Unit{};
    const bool letter = at->type == TokenType::symbol && unit.dimension != 0 && unit.dimension != '?';
    const bool sign = at->type == TokenType::op && std::string_view("/^-*").find(at->code) != std::string_view::npos;
    if (begin == nullptr && letter) begin = at->text.data();
    if (!letter && !sign && at->type != TokenType::number && at->type != TokenType::fraction && at->code != '{' &&
        at->code != '}')
      return {};
  }
  return begin == nullptr ? std::string_view()
                          : std::string_view(begin, to.tree.tokens.source.data() + to.tree.tokens.source.size());
}

}  // namespace

NodeIdx with_unit(Lowering& to, NodeIdx idx, Notes& notes) {
  const Node node = to.tree.at(idx);
  notes.words = to.tree.child_at(node, 1).text;
  for_each_word(notes.words, [&](std::string_view word) { notes.scale *= to.vocabulary.magnitude(word); });
  notes.unit = measure(notes.words, to.vocabulary);
  return to.tree.child(node, 0);
}

constexpr std::string_view kAngle = "angle";

/// Capitals next to each other: a word or points, and a product besides.
NodeIdx run_of_capitals(Lowering& to, NodeIdx idx, Notes& notes) {
  const Node& node = to.tree.at(idx);
  std::string_view run;
  const bool angle = to.tree.child_at(node, 0).text.ends_with(kAngle);
  for (const auto& [child, code] : to.tree.of(node).subspan(angle ? 1 : 0)) {
    const Node& part = to.tree.at(child);
    const bool next = run.empty() || part.text.data() == run.data() + run.size();
    if (!is_capital(part) || !next || (code != 0 && code != '*')) return -1;
    run = {run.empty() ? part.text.data() : run.data(), run.size() + 1};
  }
  notes.run = run;
  if (angle && run.size() == 3) notes.run = std::min(notes.run, std::string(run.rbegin(), run.rend()));
  return -1;
}

/// x ∈ {1, 2} and x ∈ (0, 1): the set, of that variable.
NodeIdx membership(Lowering& to, NodeIdx idx, Notes& notes) {
  const Tree& t = to.tree;
  const Node& node = t.at(idx);
  if (node.count != 2 || t.link(node, 1).code != 'e' || t.child_at(node, 1).kind != Kind::set) return -1;
  const Node& left = t.child_at(node, 0);
  if (left.kind == Kind::product || !is_name(t, t.child(node, 0))) return -1;
  notes.name = left.kind == Kind::symbol || left.kind == Kind::subscript ? form_of(t, t.child(node, 0)) : "";
  return t.child(node, 1);
}

namespace {

bool is_set_like(const Tree& tree, const Node& node) noexcept {
  if (node.kind == Kind::subscript) return is_number_set(tree.child_at(node, 0));
  if (node.kind == Kind::sum && node.count == 2)
    return is_number_set(tree.child_at(node, 0)) && tree.child_at(node, 1).kind == Kind::set &&
           tree.link(node, 1).code == '-';
  return node.kind == Kind::set_operation || node.kind == Kind::set_builder || is_number_set(node) ||
         (node.kind == Kind::constant && node.code == '0');
}

Form form_of_node(const Tree& tree, const Node& node) noexcept {
  switch (node.kind) {
    case Kind::list:
      return Form::list;
    case Kind::set:
      return Form::set;
    case Kind::tuple:
      return Form::tuple;
    case Kind::relation:
      return Form::relation;
    case Kind::words:
      return Form::text;
    case Kind::matrix:
      return node.text != "cases" ? Form::matrix : Form::list;
    default:
      return is_set_like(tree, node) ? Form::sets : Form::value;
  }
}

Answer answer_of(Lowering& to, std::span<const Rule> rules, NodeIdx idx, int sign, Notes notes = {}) {
  for (std::size_t k = 0; k < rules.size(); ++k) {
    if (rules[k].kind != to.tree.at(idx).kind) continue;
    const NodeIdx next = rules[k].rewrites(to, idx, notes);
    if (next < 0) continue;
    idx = next;
    k = std::size_t(-1);  // all rules again, of what it is now
  }
  Answer answer;
  answer.tree = &to.tree;
  answer.node = idx;
  answer.sign = sign;
  answer.notes = std::move(notes);
  const Node node = to.tree.at(idx);
  answer.form = form_of_node(to.tree, node);
  const bool collection = answer.form == Form::list || answer.form == Form::set || answer.form == Form::tuple;
  if (sign == 0 && !collection && has_plus_minus(to.tree, idx)) {
    answer.form = Form::list;
    answer.signs = true;
    for (const int each : {1, -1}) answer.parts.push_back(answer_of(to, rules, idx, each, answer.notes));
    return answer;
  }
  if (answer.form == Form::value) return answer;
  const std::int32_t columns = node.kind == Kind::matrix && collection ? node.columns : 1;  // of cases
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = to.tree.link(node, k);
    answer.either = answer.either || link.code == '|';
    Answer part = answer_of(to, rules, link.node, sign, {.name = answer.notes.name});
    if (columns > 1) {
      if (k % columns == 0) answer.parts.emplace_back() = {Form::tuple, &to.tree, idx, sign};
      answer.parts.back().parts.push_back(std::move(part));
    } else if (part.signs && collection)
      std::move(part.parts.begin(), part.parts.end(), std::back_inserter(answer.parts));
    else answer.parts.push_back(std::move(part));
  }
  return answer;
}

}  // namespace

Answer lower(Tree& tree, const Vocabulary& vocabulary, std::span<const Rule> rules) {
  Lowering to{tree, vocabulary};
  Answer answer = answer_of(to, rules, tree.root, 0);
  const Node root = tree.at(tree.root);
  const std::string_view letters = unit_letters(to);
  if (!letters.empty() && answer.form == Form::value) {  // the other reading is a part
    const NodeIdx words = tree.make(Kind::words, {}, letters);
    answer.parts.push_back(answer_of(to, rules, tree.make(Kind::quantity, {{tree.child(root, 0), 0}, {words, 0}}), 0));
  }
  return answer;
}

// ---- units

namespace {

/// The exponent of a unit, 2 or ^3 or ^{-1}, which `at` is behind then; 1 where there is none.
int take_exponent(std::string_view words, std::size_t& at) noexcept {
  std::size_t k = std::min(words.find_first_not_of(" }$^{", at), words.size());
  const bool negative = words.substr(k).starts_with('-');
  if (negative) ++k;
  if (k == words.size() || words[k] < '1' || words[k] > '3') return 1;
  at = k + 1;
  return (negative ? -1 : 1) * (words[k] - '0');
}

}  // namespace

/// Not known when any word is not, or when all there is is "units".
Measure measure(std::string_view words, const Vocabulary& vocabulary) {
  Measure m{"", 1, true};
  bool below = false;
  int power = 1;
  for (std::size_t k = 0; k < words.size();) {
    if (words[k] == '\\') {  // \text{…} is in the words where several stand in a row
      for (++k; k < words.size() && is_letter(words[k]);) ++k;
      continue;
    }
    if (!is_letter(words[k])) {
      below = below || words[k] == '/' || words.substr(k).starts_with("}{");  // \frac{\text{m}}{\text{s}}
      ++k;
      continue;
    }
    const std::string word = lower_word(words, k);
    const Unit unit = vocabulary.unit(word);
    if (unit.dimension == '/') below = true;
    if (unit.dimension == '^') power = static_cast<int>(unit.factor);
    if (unit.dimension == '/' || unit.dimension == '^' || vocabulary.magnitude(word) != 1) continue;
    if (unit.dimension == 0 || unit.dimension == '?') return {};
    const int exponent = take_exponent(words, k);
    const bool inverse = below != (exponent < 0);
    for (int j = 0; j < power * std::abs(exponent); ++j) {
      const std::string_view each = unit.dimension == 's' ? "lT" : std::string_view(&unit.dimension, 1);
      for (const char c : each) m.dimensions += static_cast<char>(inverse ? c ^ 32 : c);
      m.factor *= inverse ? 1 / unit.factor : unit.factor;
    }
    power = 1;
  }
  m.known = !m.dimensions.empty();
  const bool temperature = m.dimensions.find_first_of("kf") != std::string::npos;  // degrees Celsius are no angle
  if (temperature) std::erase(m.dimensions, 'a');
  std::sort(m.dimensions.begin(), m.dimensions.end());
  return m;
}

}  // namespace qrl::reward::math
