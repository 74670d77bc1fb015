// Lists, tuples, sets, ratios, matrices and sets.
#include <algorithm>
#include <cmath>

#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

std::vector<const Answer*> parts_of(const Answer& x) {
  std::vector<const Answer*> parts;
  for (const Answer& part : x.parts) parts.push_back(&part);
  return parts;
}

/// What a member counts, where it is a number with words: "apple" of 3 apples.
std::string label_of(const Answer& x, const Vocabulary& vocabulary) {
  std::string label = text_key(x.notes.words, vocabulary);
  if (label.size() > 3 && label.back() == 's') label.pop_back();
  return label;
}

/// Whether all members are inequalities or letters: "and" and "or" between them differ.
bool is_joint(const Answer& x) {
  return x.form == Form::list && x.parts.size() > 1 && std::ranges::all_of(x.parts, [](const Answer& part) {
           const auto ordered = [](const Node& side) { return is_order(side.joint); };
           return part.form == Form::relation ? std::ranges::all_of(part.at().rest(), ordered)
                                              : !shown_letters(part).empty();
         });
}

/// The letters of choices: of "A, C" and of "AC", in order.
std::string letters_of(const Answer& x) {
  std::string all = x.notes.run;
  for (const Answer& part : x.parts)
    if (is_capital(part.at())) all += part.at().text;
  std::ranges::sort(all);
  return all;
}

}  // namespace

bool Equality::same_collections(const Answer& g, const Answer& a) {
  if (is_joint(g) && is_joint(a) && g.either != a.either) return false;
  const bool tuples[] = {g.form == Form::tuple, a.form == Form::tuple};
  if (g.is_collection() != a.is_collection()) {
    const Answer& list = g.is_collection() ? g : a;
    if (list.form == Form::tuple) return list.at().is(Kind::matrix) && same_value(g, a);  // 2A
    if (list.form == Form::list && letters_of(g).size() == list.parts.size() && letters_of(g) == letters_of(a))
      return true;
    if (list.form == Form::set && (g.form == Form::sets || a.form == Form::sets))
      return false;  // {∅} has a member, ∅ none
  }
  const Parts x = g.is_collection() ? parts_of(g) : Parts{&g}, y = a.is_collection() ? parts_of(a) : Parts{&a};
  if (tuples[0] && tuples[1]) {
    const Node &gold = g.at(), &answer = a.at();
    const bool matrices = gold.is(Kind::matrix) && answer.is(Kind::matrix);
    const bool intervals = x.size() == 2 && gold.is(Kind::tuple) && answer.is(Kind::tuple);
    return (!matrices || gold.columns == answer.columns) &&
           (!intervals || (gold.open == answer.open && gold.close == answer.close)) && in_order(x, y);
  }
  if (tuples[0] || tuples[1]) {
    const Answer &tuple = tuples[0] ? g : a, &other = tuples[0] ? a : g;
    if (other.form != Form::list) return false;
    const auto name_of = [](const Answer& part) {
      return part.form == Form::relation ? form_of(part.parts[0].at()) : std::string();
    };
    // x = 3, y = 4 is (3, 4); of y = 4, x = 3 nothing is known.
    if (tuple.at().open == '(' && tuple.at().close == ')' && !other.signs && !other.either &&
        std::ranges::is_sorted(other.parts, {}, name_of) && in_order(x, y))
      return true;
    if (other.parts.size() != 1) return false;  // a list of one is its member
  }
  // 1, 1, 2 is not 1, 2; solutions in brackets are often named twice.
  return as_sets(x, y, g.form == Form::list && a.form == Form::list && !x[0]->is_collection());
}

bool Equality::in_order(const Parts& x, const Parts& y) {
  return std::ranges::equal(x, y, [this](const Answer* one, const Answer* other) { return same(*one, *other); });
}

/// The same for members that are equal numbers or points of such; 0 of any other.
std::uint64_t Equality::image(const Answer& of) {
  const auto is_more = [](const Node& part) { return part.is(Kind::quantity) || is_capital(part); };
  const bool number = of.form == Form::value || of.at().is(Kind::tuple);
  if (!number || !of.notes.words.empty() || any_node(of.at(), is_more)) return 0;
  const auto one = value(of).image, other = value(of, 1).image;
  return one && other ? (*one ^ (*other << 1)) | 1 : 0;
}

/// Every member of each is one of the other; `counted`: as often. Those of one image are tried first, so that their
/// order costs little.
bool Equality::as_sets(const Parts& x, const Parts& y, bool counted) {
  const std::size_t most = std::max(x.size(), y.size());
  if ((counted && x.size() != y.size()) || most > 2 * std::min(x.size(), y.size()) + 2) return false;
  struct Member {
    const Answer* answer;
    std::uint64_t image;
    std::string label;
  };
  const auto members = [&](const Parts& of) {
    std::vector<Member> all;
    for (const Answer* each : of) all.push_back({each, image(*each), label_of(*each, vocabulary_)});
    std::ranges::stable_sort(all, {}, &Member::image);
    const auto twice = [](const Member& m, const Member& n) { return m.image != 0 && m.image == n.image; };
    if (!counted) all.erase(std::unique(all.begin(), all.end(), twice), all.end());
    return all;
  };
  const std::vector<Member> gold = members(x), answer = members(y);
  if (gold[0].image != 0 && std::ranges::equal(gold, answer, {}, &Member::image, &Member::image)) return true;
  const auto has = [](const std::vector<Member>& all, const std::string& label) {
    return std::ranges::find(all, label, &Member::label) != all.end();
  };
  std::vector<bool> found(answer.size());
  const auto match = [&](std::size_t i, std::size_t j) {
    const auto& [one, _, label] = gold[i];
    const auto& [other, __, other_label] = answer[j];
    // 3 apples are not 3 pears where the other side has apples, too.
    const bool apart = !label.empty() && !other_label.empty() && label != other_label &&
                       (has(answer, label) || has(gold, other_label));
    const bool taken = counted && found[j];
    return !taken && !apart && budget_.spend() && same(*one, *other) && (found[j] = true);
  };
  const auto any_match = [](const Member& of, const std::vector<Member>& others, const auto& matches) {
    const auto first = std::ranges::lower_bound(others, of.image, {}, &Member::image) - others.begin();
    std::size_t k = 0;
    while (k < others.size() && !matches((static_cast<std::size_t>(first) + k) % others.size())) ++k;
    return k < others.size();
  };
  for (std::size_t i = 0; i < gold.size(); ++i)
    if (!any_match(gold[i], answer, [&](std::size_t j) { return match(i, j); })) return false;
  for (std::size_t j = 0; j < answer.size(); ++j)
    if (!found[j] && !any_match(answer[j], gold, [&](std::size_t i) { return match(i, j); })) return false;
  return true;
}

/// Unions and differences part by part: for what is no set of real constants.
bool Equality::same_sets(const Answer& g, const Answer& a) {
  if (!g.at().is(Kind::set_operation) || !a.at().is(Kind::set_operation)) return same_value(g, a);
  const auto& operands = g.at().parts;
  if (!std::ranges::equal(operands, a.at().parts, {}, &Node::joint, &Node::joint)) return false;
  return std::ranges::count(operands, 'D', &Node::joint) > 0 ? in_order(parts_of(g), parts_of(a))
                                                             : as_sets(parts_of(g), parts_of(a), false);
}

}  // namespace qrl::reward::math
