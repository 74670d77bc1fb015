#include "reward/math/compare.h"

#include <algorithm>

#include "base/ascii.h"
#include "reward/math/clause.h"
#include "reward/math/comparer.h"
#include "reward/math/options.h"
#include "reward/math/texts.h"

namespace qrl::reward::math {

namespace {

Comparison compare_values(std::string_view gold, std::string_view answer);

/// Choices with labels in front of them: what both name must agree, labels and values alike.
std::optional<Comparison> compare_labelled(std::string_view gold, std::string_view answer) {
  const auto of_gold = labelled(gold);
  const auto of_answer = labelled(answer);
  const char gold_letter = lone_label(gold);
  if (!of_gold && !of_answer) {
    const bool alone = gold_letter != 0 && gold_letter == lone_label(answer);
    return alone ? std::optional(Comparison::equal) : std::nullopt;
  }
  const char gold_label = of_gold ? of_gold->label : gold_letter;
  const char answer_label = of_answer ? of_answer->label : lone_label(answer);
  if (gold_label != 0 && answer_label != 0 && gold_label != answer_label) return Comparison::different;
  if ((!of_gold && gold_label != 0) || (!of_answer && answer_label != 0)) return Comparison::equal;
  return compare_values(bare(of_gold ? of_gold->rest : gold), bare(of_answer ? of_answer->rest : answer));
}

}  // namespace

Comparison compare(std::string_view gold, std::string_view answer) {
  const Comparison whole = compare_values(gold, answer);
  if (whole == Comparison::equal || whole == Comparison::out_of_budget) return whole;
  return compare_labelled(gold, answer).value_or(whole);
}

namespace {

/// Without an article in front: "an ellipse" is an ellipse. "A" alone is a choice.
std::string_view without_article(std::string_view text) noexcept {
  while (text.starts_with(' ')) text.remove_prefix(1);
  for (const std::string_view wrapper : {"\\text{", "\\textbf{", "\\mathrm{"}) {
    if (!text.starts_with(wrapper) || !text.ends_with('}') || text.find('}') + 1 != text.size()) continue;
    text = base::trimmed(text.substr(wrapper.size(), text.size() - wrapper.size() - 1));
    break;
  }
  for (const std::string_view article : {"a ", "an ", "the "}) {
    const std::string_view noun = text.substr(std::min(article.size(), text.size()));
    if (base::begins_with(text, article) && !noun.empty() && base::is_letter(noun.front())) return noun;  // no "A - B"
  }
  return text;
}

Comparison compare_values(std::string_view gold, std::string_view answer) {
  if (gold.size() > kMaxAnswer_bytes || answer.size() > kMaxAnswer_bytes) return Comparison::unreadable;
  if (same_text(gold, answer) && parse(gold, Comma::thousands).root >= 0) return Comparison::equal;
  if (const auto lists = same_word_lists(gold, answer)) return *lists ? Comparison::equal : Comparison::different;
  constexpr Comma kReadings[] = {Comma::thousands, Comma::separator, Comma::decimal};
  bool read = false;
  // As a gold answer 3,5 are two numbers. 2,74 is 2.74 where it stands alone and the other side is a decimal; (4,5) is
  // no number, and 1,250 is a thousand.
  const auto may_be_decimal = [](std::string_view text, std::string_view other, std::size_t least_places) {
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos) return false;
    std::size_t places = 0;
    while (comma + 1 + places < text.size() && text[comma + 1 + places] >= '0' && text[comma + 1 + places] <= '9')
      ++places;
    const std::size_t digit = text.find_first_of("0123456789");
    if (places < least_places) return false;
    const bool grouped = places == 3 && digit < comma && text[digit] != '0';
    return !grouped && text.find_first_of("([{") == std::string_view::npos && other.find('.') != std::string_view::npos;
  };
  for (const Comma of_gold : kReadings) {
    if (of_gold == Comma::decimal && !may_be_decimal(gold, answer, 2)) continue;
    const Tree g = parse(gold, of_gold);
    if (g.root >= 0) {
      for (const Comma of_answer : kReadings) {
        if (of_answer == Comma::decimal && !may_be_decimal(answer, gold, 1)) continue;
        const Tree a = parse(answer, of_answer);
        if (a.root >= 0) {
          read = true;
          Comparer comparer(g, a);
          if (comparer.run() && !comparer.out_of_budget()) return Comparison::equal;
          if (comparer.out_of_budget()) return Comparison::out_of_budget;  // another reading would cost as much again
        }
        if (!a.tokens.ambiguous_comma) break;
      }
    }
    if (!g.tokens.ambiguous_comma) break;
  }
  const std::string key = text_key(gold);
  const Tree g = parse(gold, Comma::thousands);
  const bool gold_is_text = g.root < 0 || g.at(g.root).kind == Kind::words;
  const bool letters = std::any_of(gold.begin(), gold.end(), [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; });
  if (gold_is_text && letters && !key.empty() && key == text_key(answer) && signs_shown(gold) == signs_shown(answer))
    return Comparison::equal;
  const std::string_view noun = without_article(gold);
  const bool is_noun = letters && noun.find_first_of("0123456789=$\\{") == std::string_view::npos && noun.size() > 2;
  if (is_noun && text_key(noun) == text_key(without_article(answer)) && signs_shown(noun).empty() &&
      signs_shown(answer).empty() && gold_is_text)
    return Comparison::equal;
  if (letters && begins_with_verdict(key, answer)) return Comparison::equal;
  return read ? Comparison::different : Comparison::unreadable;
}

}  // namespace

bool is_readable(std::string_view gold) {
  return !gold.empty() && (parse(gold, Comma::thousands).root >= 0 || gold_fault(gold).empty());
}

std::string gold_fault(std::string_view gold) {
  if (const auto option = labelled(gold)) gold = bare(option->rest);
  if (gold.size() > kMaxAnswer_bytes) return "longer than " + std::to_string(kMaxAnswer_bytes) + " bytes";
  const std::string key = text_key(gold);
  const Tree tree = parse(gold, Comma::thousands);
  if (tree.root >= 0) {
    Comparer comparer(tree, tree);
    const bool itself = comparer.run() || tree.at(tree.root).kind == Kind::words;
    return itself ? "" : "no value, such as a division by zero";
  }
  std::string fault = tree.tokens.fault.empty() ? std::string(tree.fault) : tree.tokens.fault;
  if (gold.find_first_not_of(" \t\r\n$.") == std::string_view::npos) return "empty";
  // Words that are no formula are an answer as a text; half a formula is not.
  const bool formula =
      gold.find('\\') != std::string_view::npos || key.find_first_of("0123456789") != std::string::npos;
  if ((!formula && key.size() > 1) || is_named_number(gold)) return "";
  return fault;
}

}  // namespace qrl::reward::math
