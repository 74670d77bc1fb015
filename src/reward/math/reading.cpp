#include "reward/math/reading.h"

#include <algorithm>
#include <iterator>

#include "base/ascii.h"
#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::trimmed;

// ---- choices

/// Without white space, LaTeX's spaces and its commands around text at the front.
std::string_view without_layout(std::string_view text, const Vocabulary& vocabulary) noexcept {
  constexpr int kMost = 50;  // nobody writes as many before a label
  for (int k = 0; k < kMost && vocabulary.take(WordClass::silent, text);) ++k;
  return text;
}

struct Label {
  char letter = 0;
  std::string_view rest;  ///< behind it; empty: it stands alone
};

/// "(B) 42", "\text{(B)} 42", "B. 42", "Option B".
Label label_of(std::string_view whole, const Vocabulary& vocabulary) noexcept {
  std::string_view text = without_layout(whole, vocabulary);
  const bool braced = whole.substr(0, whole.size() - text.size()).find('{') != std::string_view::npos;
  vocabulary.take(WordClass::choice, text);
  const bool bracket = text.starts_with('(');
  if (bracket) text.remove_prefix(1);
  if (text.empty() || !is_choice(text[0])) return {};
  Label read{text[0], text.substr(1)};
  const bool marked =
      !read.rest.empty() && (read.rest[0] == ')' || (!bracket && (read.rest[0] == '.' || read.rest[0] == ':')));
  if (bracket && !marked) return {};
  if (marked) read.rest.remove_prefix(1);
  std::string_view rest = without_layout(read.rest, vocabulary);
  const bool apart = rest.size() < read.rest.size() || rest.starts_with('\\');
  if (rest.empty() || rest == ".") return {read.letter, {}};
  // "(A)x" and "A.5" are mathematics: a label has a space behind it, or its brace.
  if (!marked || !apart) return {};
  if (braced && trimmed(read.rest).starts_with('}')) read.rest = trimmed(read.rest).substr(1);
  else if (braced && read.rest.ends_with('}')) read.rest.remove_suffix(1);  // \text{(B) 42}
  for (std::size_t k = 1; k + 1 < rest.size(); ++k) {                       // "42 or (C) 43" has two
    const bool begins = rest[k - 1] == ' ' || rest[k - 1] == '(' || rest[k - 1] == '{';
    if (is_choice(rest[k]) && begins && (rest[k + 1] == ')' || rest[k + 1] == '.')) return {};
  }
  return read;
}

// ---- texts

/// Signs of operations in a text, in order, and a minus right before its first word: what text_key leaves out.
std::string signs_shown(std::string_view text) {
  std::string signs(text.substr(0, text.size() > 1 && text[0] == '-' && is_letter(text[1]) ? 1 : 0));
  std::ranges::copy_if(text, std::back_inserter(signs),
                       [](char c) { return std::string_view("+/^=<>|").find(c) != std::string_view::npos; });
  return signs;
}

/// Without an article in front: "an ellipse" is an ellipse. "A" alone is a choice.
std::string_view without_article(std::string_view text, const Vocabulary& vocabulary) noexcept {
  if (text.starts_with('{')) return text;  // no text, but what JSON begins with
  text = without_layout(text, vocabulary);
  if (text.ends_with('}') && text.find('{') == std::string_view::npos) text.remove_suffix(1);
  std::string_view noun = text;
  const bool article =
      vocabulary.take(WordClass::article, noun) && noun.size() > 1 && is_letter(noun[1]);  // no "A - B"
  return article && noun.starts_with(' ') ? noun : text;
}

/// Whether the gold answer is yes, no, true or false and the answer begins with it: a reason often follows. Not where
/// it ends with its opposite: "Yes, but no".
bool begins_with_verdict(const std::string& gold, std::string_view answer, const Vocabulary& vocabulary) {
  const std::size_t end = std::min(answer.find_first_of(",.;"), answer.size());
  if (!vocabulary.is(WordClass::verdict, gold) || text_key(answer.substr(0, end), vocabulary) != gold) return false;
  std::string last;
  for (Words words{answer.substr(end)}; words.next();) last = words.word;
  if (last.empty()) return std::none_of(answer.begin(), answer.end(), is_digit);  // "no, 7"
  return last == gold || !vocabulary.is(WordClass::verdict, last);
}

bool same_as_texts(const Reading& gold, const Reading& answer) {
  const std::string_view g = gold.text(), a = answer.text();
  const Tree& tree = gold.reads()[0].tree;
  const bool is_text = !tree.root || tree.root->is(Kind::words);
  if (std::none_of(g.begin(), g.end(), is_letter)) return false;
  const Vocabulary& words = gold.vocabulary();
  const std::string key = text_key(without_article(g, words), words);
  if (is_text && !key.empty() && key == text_key(without_article(a, words), words) && signs_shown(g) == signs_shown(a))
    return true;
  return begins_with_verdict(key, a, words);
}

// ---- comparison

/// 2,74 is 2.74 where it stands alone and the other side is a decimal; 1,250 is a thousand.
bool may_be_decimal(std::string_view text, std::string_view other, std::size_t least_places) noexcept {
  const std::size_t comma = text.find(','), digit = text.find_first_of("0123456789");
  std::size_t places = 0;
  while (comma + 1 + places < text.size() && is_digit(text[comma + 1 + places])) ++places;
  const bool grouped = places == 3 && digit < comma && text[digit] != '0';
  return places >= least_places && !grouped && text.find_first_of("([{") == std::string_view::npos &&
         other.find('.') != std::string_view::npos;
}

Comparison compare_values(const Reading& gold, const Reading& answer) {
  if (std::max(gold.text().size(), answer.text().size()) > kMaxAnswer_bytes) return Comparison::unreadable;
  if (gold.text() == answer.text() && !gold.text().empty() && gold.reads()[0].answer) return Comparison::equal;
  bool read = false;
  constexpr auto kDecimal = static_cast<std::size_t>(Comma::decimal);
  for (std::size_t g = 0; g < gold.reads().size(); ++g) {
    if (g == kDecimal && !may_be_decimal(gold.text(), answer.text(), 2)) continue;
    for (std::size_t a = 0; a < answer.reads().size(); ++a) {
      const std::optional<Answer>&of_gold = gold.reads()[g].answer, &of_answer = answer.reads()[a].answer;
      const bool decimal = a != kDecimal || may_be_decimal(answer.text(), gold.text(), 1);
      if (!of_gold || !of_answer || !decimal) continue;
      read = true;
      Equality equality(gold.vocabulary());
      const bool same = equality.run(*of_gold, *of_answer);
      if (equality.out_of_budget()) return Comparison::out_of_budget;  // another reading would cost as much again
      if (same) return Comparison::equal;
    }
  }
  if (same_as_texts(gold, answer)) return Comparison::equal;
  return read ? Comparison::different : Comparison::unreadable;
}

/// Choices with labels in front of them: what both name must agree, labels and values alike.
std::optional<Comparison> compare_labels(const Reading& gold, const Reading& answer) {
  if (gold.label() == 0 && answer.labelled() == nullptr) return std::nullopt;
  if (gold.label() != 0 && answer.label() != 0 && gold.label() != answer.label()) return Comparison::different;
  const bool alone =
      (gold.label() != 0 && gold.labelled() == nullptr) || (answer.label() != 0 && answer.labelled() == nullptr);
  if (alone) return gold.label() == answer.label() ? std::optional(Comparison::equal) : std::nullopt;
  return compare_values(gold.labelled() != nullptr ? *gold.labelled() : gold,
                        answer.labelled() != nullptr ? *answer.labelled() : answer);
}

}  // namespace

Reading::Reading(std::string_view text, const Vocabulary& vocabulary) : text_(text), vocabulary_(vocabulary) {
  const Label label = label_of(text_, vocabulary);
  label_ = label.letter;
  if (!label.rest.empty()) rest_ = std::make_unique<Reading>(trimmed(label.rest), vocabulary);
  reads_.reserve(3);  // answers point to their trees
  for (const Comma comma : {Comma::thousands, Comma::separator, Comma::decimal}) {
    Tree& tree = reads_.emplace_back(Read{parse(text_, comma, vocabulary), std::nullopt}).tree;
    if (tree.root) reads_.back().answer = lower(tree, vocabulary, default_rules());
    const bool several = text_.find(',') != text_.rfind(',');  // no decimal comma then
    if (!tree.tokens.ambiguous_comma || (several && comma == Comma::separator)) break;
  }
}

Comparison compare(const Reading& gold, const Reading& answer) {
  const Comparison whole = compare_values(gold, answer);
  if (whole == Comparison::equal || whole == Comparison::out_of_budget) return whole;
  return compare_labels(gold, answer).value_or(whole);
}

std::string fault_of(const Reading& gold) {
  if (gold.labelled() != nullptr) return fault_of(*gold.labelled());
  const std::string_view text = gold.text();
  if (text.size() > kMaxAnswer_bytes) return "longer than " + std::to_string(kMaxAnswer_bytes) + " bytes";
  if (const auto& answer = gold.reads()[0].answer) {
    Equality equality(gold.vocabulary());
    return answer->form == Form::text || equality.run(*answer, *answer) ? "" : "no value, such as a division by zero";
  }
  if (text.find_first_not_of(" \t\r\n$.") == std::string_view::npos) return "empty";
  // Words that are no formula are an answer as a text, and so is "Figure 3"; half a formula is not.
  const std::string key = text_key(text, gold.vocabulary());
  std::size_t letters = 0;
  for (std::size_t k = 0, run = 0; k < text.size(); ++k)
    letters = std::max(letters, run = is_letter(text[k]) ? run + 1 : 0);
  const std::string_view plain = without_article(text, gold.vocabulary());
  const bool digits = key.find_first_of("0123456789") != std::string::npos;
  const bool named = letters >= 4 && plain.find_first_of("(){}^=_+*/<>|") == std::string_view::npos;  // Figure 3
  const bool formula = plain.find('\\') != std::string_view::npos || (digits && !named);
  if (!formula && key.size() > 1) return "";
  const Tree& tree = gold.reads()[0].tree;
  return tree.tokens.fault.empty() ? std::string(tree.fault) : tree.tokens.fault;
}

}  // namespace qrl::reward::math
