#include <algorithm>
#include <cmath>
#include <functional>

#include "reward/math/answer.h"

namespace qrl::reward::math {

/// Rewrites notations for combinations (C) and arrangements (A, P) of k out of n: C_{10}^3, C^3_{10}, {}_{10}C_3.
const Node* combination(Lowering& to, const Node& at, Notes&) {
  if (at.parts.size() != 2) return nullptr;
  const Node &one = at[0], &other = at[1];
  const bool product = at.is(Kind::product), in_front = product && one.is(Kind::subscript, Kind::power);
  std::array<const Node*, 3> of;
  if (in_front && one[0].is(Kind::words) && other.is(Kind::subscript)) of = {&other[0], &one[1], &other[1]};
  else if (!product && one.is(Kind::subscript)) of = {&one[0], &one[1], &other};
  else if (!product && other.is(Kind::subscript)) of = {&one, &other[1], &other[0]};
  else return nullptr;
  const auto [letter, n, k] = of;
  const auto most = integer_of(*n), taken = integer_of(*k);
  if (!is_capital(*letter) || !has("CAP", letter->text[0]) || !most || !taken || *taken > *most) return nullptr;
  Node subsets{Kind::binomial, *n, *k};
  if (letter->text[0] == 'C') return to.add(std::move(subsets));
  return to.add(Node{Kind::product, std::move(subsets), Node{Kind::factorial, *k}.behind('*')});
}

const Node* named_point(Lowering&, const Node& at, Notes& notes) {
  if (at.parts.size() != 2 || !is_capital(at[0]) || !at[1].is(Kind::tuple)) return nullptr;
  notes.name = at[0].text;
  return &at[1];
}

const Node* named_reals(Lowering& to, const Node& at, Notes&) {
  const std::string key = text_key(at.text, to.vocabulary);
  if (to.vocabulary.is(WordClass::reals, key)) return to.add(Node(Kind::symbol, "\\mathbb{R}"));
  return to.vocabulary.is(WordClass::nothing, key) ? to.add(Node(Kind::constant, {}, '0')) : nullptr;
}

/// Removes a domain that is usual for its letter: x ∈ ℝ after x², k ∈ ℤ after 2kπ.
const Node* usual_domain(Lowering& to, const Node& at, Notes&) {
  const Node& last = at.parts.empty() ? at : at.parts.back();
  if (!last.is(Kind::relation) || last[1].joint != 'e' || !last[0].is(Kind::symbol) || !is_number_set(last[1]))
    return nullptr;
  const bool integer = last[0].text.find_first_not_of("kmn") == std::string_view::npos;
  const Node* before = at.parts.size() == 2 ? &at[0] : to.add(Node(at.kind, {at.parts.begin(), at.parts.end() - 1}));
  return has(last[1].text, integer ? 'Z' : 'R') && has_symbol(*before, last[0].text) ? before : nullptr;
}

namespace {

/// Returns how many first factors of a product are an amount: 2 for 3.5 × 10⁴, 1 for another number, else 0.
std::size_t size_of_amount(const Node& product) noexcept {
  if (!product.is(Kind::product) || !unsigned_of(product[0]).is(Kind::number)) return 0;
  const Node& next = product[1];
  const bool is_power_of_ten = next.joint == '*' && next.is(Kind::power) && integer_of(next[0]) == 10 &&
                               integer_of(unsigned_of(next[1])).has_value();
  return is_power_of_ten ? 2 : 1;
}

/// Returns whether a space, or a comma between thousands, separates a token from the number before it.
bool follows_space(const std::vector<Token>& tokens, std::vector<Token>::const_iterator at) noexcept {
  for (; at != tokens.begin(); --at) {
    if (at->space) return true;
    const Token& before = *(at - 1);
    if (before.type == TokenType::number || before.type == TokenType::close) return before.thousands;
  }
  return false;
}

/// Returns the text of the letters after a product's amount and a space if they are units ("m/s^2"), else "".
std::string_view unit_letters(const Lowering& to, const Node& product) {
  const std::size_t first = size_of_amount(product);
  if (first == 0 || first == product.parts.size()) return {};
  const char *begin = nullptr, *end = nullptr;
  const auto is_other = [&](const Node& part) {
    if (part.is(Kind::symbol) && begin == nullptr) begin = part.text.data();
    if (part.is(Kind::symbol, Kind::number)) end = std::max(end, part.text.data() + part.text.size(), std::less<>());
    if (part.is(Kind::symbol)) return part.text.size() > 1;
    return part.is(Kind::sum) ? part.parts.size() > 1 : !part.is(Kind::product, Kind::power, Kind::number);
  };
  if (std::ranges::any_of(product.rest(first), [&](const Node& part) { return any_node(part, is_other); }) ||
      begin == nullptr)
    return {};
  const std::vector<Token>& tokens = to.tree.tokens.tokens;
  const auto at = std::ranges::find(tokens, begin, [](const Token& token) { return token.text.data(); });
  if (at == tokens.end() || !follows_space(tokens, at)) return {};  // 6m is a product
  const std::string_view letters(begin, end);
  return measure(letters, to.vocabulary).is_unit ? letters : std::string_view();
}

/// Returns whether letters after a number may be units here: in an answer that is such a product, in the value of a
/// name (F = 12 N), and in lists of such products.
bool may_be_unit(const Lowering& to, const Node& product) {
  const Node& root = *to.tree.root;
  if (&product == &root) return true;
  if (root.is(Kind::relation))
    return root.parts.size() == 2 && &product == &root[1] && product.joint == '=' && root[0].is(Kind::symbol) &&
           !has_symbol(product, root[0].text);
  return root.is(Kind::list, Kind::set) &&
         std::ranges::all_of(root.parts, [&](const Node& part) { return !unit_letters(to, part).empty(); });
}

}  // namespace

const Node* with_unit(Lowering& to, const Node& at, Notes& notes) {
  notes.words = at[1].text;
  notes.unit = measure(notes.words, to.vocabulary);
  return &at[0];
}

/// Records adjacent capitals such as HTH or AB in `notes`. Keeps the node.
const Node* run_of_capitals(Lowering&, const Node& at, Notes& notes) {
  const bool angle = at[0].text.ends_with("angle");
  const auto letters = at.rest(angle ? 1 : 0);
  if (!std::ranges::all_of(letters, is_capital)) return nullptr;
  notes.run = letters_in_a_row(letters);
  if (angle && letters.size() == 3) notes.run = std::min(notes.run, std::string(notes.run.rbegin(), notes.run.rend()));
  return nullptr;
}

/// Replaces x ∈ {1, 2} by the set. Records the variable as the answer's name.
const Node* membership(Lowering&, const Node& at, Notes& notes) {
  if (at.parts.size() != 2 || at[1].joint != 'e' || !at[1].is(Kind::set) || at[0].is(Kind::product) || !is_name(at[0]))
    return nullptr;
  notes.name = at[0].is(Kind::symbol, Kind::subscript) ? form_of(at[0]) : "";
  return &at[1];
}

namespace {

Form form_of_node(const Node& at) noexcept {
  if (at.is(Kind::list)) return Form::list;
  if (at.is(Kind::set)) return Form::set;
  if (at.is(Kind::tuple)) return Form::tuple;
  if (at.is(Kind::relation)) return Form::relation;
  if (at.is(Kind::words)) return Form::text;
  if (at.is(Kind::matrix)) return at.text == kCases ? Form::list : Form::tuple;
  const bool empty = at.is(Kind::constant) && at.code == '0';
  const bool reals = is_number_set(at.is(Kind::subscript, Kind::sum) ? at[0] : at);  // \mathbb{R}^+, ℝ − {0}
  return at.is(Kind::set_operation, Kind::set_builder) || reals || empty ? Form::sets : Form::value;
}

Answer answer_of(Lowering& to, std::span<const Rule> rules, const Node* at, int sign, Notes notes = {}) {
  for (std::size_t k = 0; k < rules.size(); ++k) {
    const Node* next = rules[k].kind == at->kind ? rules[k].rewrites(to, *at, notes) : nullptr;
    if (next == nullptr) continue;
    at = next;
    k = std::size_t(-1);  // restarts all rules on the new node
  }
  Answer answer{form_of_node(*at), &to.tree, at, sign};
  answer.notes = std::move(notes);
  const bool matrix = at->is(Kind::matrix),
             collection = answer.is_collection() && (!matrix || answer.form == Form::list);
  if (sign == 0 && !collection && has_plus_minus(*at)) {
    answer.form = Form::list;
    answer.signs = true;
    for (const int each : {1, -1}) answer.parts.push_back(answer_of(to, rules, at, each, answer.notes));
    return answer;
  }
  if (answer.form == Form::value) {
    const std::string_view letters = unit_letters(to, *at);
    if (letters.empty() || !may_be_unit(to, *at)) return answer;
    Node amount = size_of_amount(*at) == 1 ? at->parts[0] : Node{Kind::product, at->parts[0], at->parts[1]};
    const Node* quantity = to.add(Node{Kind::quantity, std::move(amount), Node(Kind::words, letters)});
    answer.parts.push_back(answer_of(to, rules, quantity, sign));
    return answer;
  }
  const std::size_t columns = matrix && (collection || at->columns < at->parts.size()) ? at->columns : 1;
  for (const Node& each : at->parts) {
    answer.either = answer.either || each.joint == '|';
    Answer part = answer_of(to, rules, &each, sign, {.name = answer.notes.name});
    const bool new_row = columns > 1 && (&each - at->parts.data()) % columns == 0;
    if (new_row) answer.parts.push_back({Form::tuple, &to.tree, at, sign});
    std::vector<Answer>& row = columns > 1 ? answer.parts.back().parts : answer.parts;
    if (part.signs) std::ranges::move(part.parts, std::back_inserter(row));
    else row.push_back(std::move(part));
  }
  return answer;
}

}  // namespace

Answer lower(Tree& tree, const Vocabulary& vocabulary, std::span<const Rule> rules) {
  Lowering to{tree, vocabulary};
  return answer_of(to, rules, &*tree.root, 0);
}

// ---- units

namespace {

int exponent_of(std::string_view behind) noexcept {
  behind.remove_prefix(std::min(behind.find_first_not_of(" }$^{"), behind.size()));
  const bool negative = behind.starts_with('-');
  if (negative) behind.remove_prefix(1);
  if (behind.empty() || behind[0] < '1' || behind[0] > '3') return 1;
  return (negative ? -1 : 1) * (behind[0] - '0');
}

}  // namespace

/// Returns the unit that `words` name. Its dimensions are unknown if any word is no unit, or a unit without conversion
/// factor ("eV").
Measure measure(std::string_view words, const Vocabulary& vocabulary) {
  Measure all;
  bool below = false, known = true;
  int power = 1;
  std::size_t before = 0;
  for (Words each{words}; each.next(); before = each.end) {
    const std::string_view between = words.substr(before, each.begin - before);
    const std::string_view spelled = words.substr(each.begin, each.end - each.begin);
    Meaning unit = vocabulary.unit(spelled);  // mW is not MW
    if (unit.code == 0 && spelled.size() > 1) unit = vocabulary.unit(each.word);
    if (has(between, '/') || between.find("}{") != std::string_view::npos || unit.code == '/')
      below = true;  // \frac{m}{s}
    if (unit.code == '^') power = static_cast<int>(unit.value);
    if (unit.code == 'x') all.scale *= unit.value;
    all.is_unit = (all.is_unit || before == 0) && unit.code != 0;
    if (has("/^x", unit.code)) continue;
    if (unit.code == 'k' || unit.code == 'f') all.dimensions = 0;  // degrees Celsius are no angle
    known = known && unit.code != 0 && unit.code != '?';
    const int exponent = (below ? -power : power) * exponent_of(words.substr(each.end));
    all.dimensions += Measure::number_of(unit.code) * static_cast<std::uint64_t>(exponent);
    all.factor *= std::pow(unit.value, static_cast<long double>(exponent));
    power = 1;
  }
  if (!known) all.dimensions = 0;
  return all;
}

std::optional<std::array<long double, 2>> scales(const Measure& one, const Measure& other) noexcept {
  const auto are_degrees = [](const Measure& x, const Measure& y) {
    return (x.is('k') || x.is('f')) && y.is('a') && y.factor == 1;
  };
  const bool both = one.is_known() && other.is_known() && !are_degrees(one, other) && !are_degrees(other, one);
  if (both && one.dimensions != other.dimensions) return std::nullopt;
  return {{one.scale * (both ? one.factor : 1), other.scale * (both ? other.factor : 1)}};
}

}  // namespace qrl::reward::math
