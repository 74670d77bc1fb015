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

/// What a text says, without an article in front: "an ellipse" is an ellipse. "A" alone is a choice.
std::string key_of(std::string_view text, const Vocabulary& vocabulary) {
  std::string_view noun = without_layout(text, vocabulary);
  const bool article =
      vocabulary.take(WordClass::article, noun) && noun.size() > 1 && noun[0] == ' ' && is_letter(noun[1]);
  return text_key(article ? noun : text, vocabulary);
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
  const Tree& tree = gold.reads()[0].tree;
  const bool is_text = !tree.root || tree.root->is(Kind::words);
  if (std::ranges::none_of(gold.text(), is_letter)) return false;
  const std::string key = key_of(gold.text(), gold.vocabulary());
  return (is_text && !key.empty() && key == key_of(answer.text(), gold.vocabulary())) ||
         begins_with_verdict(key, answer.text(), gold.vocabulary());
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
  for (const Reading::Read& g : gold.reads()) {
    if (g.comma == Comma::decimal && !may_be_decimal(gold.text(), answer.text(), 2)) continue;
    for (const Reading::Read& a : answer.reads()) {
      const bool decimal = a.comma != Comma::decimal || may_be_decimal(answer.text(), gold.text(), 1);
      if (!g.answer || !a.answer || !decimal) continue;
      read = true;
      Equality equality(gold.vocabulary());
      const bool same = equality.run(*g.answer, *a.answer);
      if (equality.out_of_budget()) return Comparison::out_of_budget;  // another reading would cost as much again
      if (same) return Comparison::equal;
    }
  }
  if (same_as_texts(gold, answer)) return Comparison::equal;
  return read ? Comparison::different : Comparison::unreadable;
}

}  // namespace

Reading::Reading(std::string_view text, const Vocabulary& vocabulary) : text_(text), vocabulary_(vocabulary) {
  const Label label = label_of(text_, vocabulary);
  label_ = label.letter;
  is_choice_ = label_ != 0 && label.rest.empty();
  if (!label.rest.empty()) text_ = std::string(trimmed(label.rest));
  reads_.reserve(3);  // answers point to their trees
  for (const Comma comma : {Comma::thousands, Comma::separator, Comma::decimal}) {
    if (comma == Comma::separator && !reads_[0].tree.root) reads_.clear();  // the pair (1,234)
    Tree& tree = reads_.emplace_back(Read{comma, parse(text_, comma, vocabulary), std::nullopt}).tree;
    if (tree.root) reads_.back().answer = lower(tree, vocabulary, default_rules());
    const bool several = text_.find(',') != text_.rfind(',');  // no decimal comma then
    if (!tree.tokens.ambiguous_comma || (several && comma == Comma::separator)) break;
  }
}

Comparison compare(const Reading& gold, const Reading& answer) {
  // Choices with labels in front of them: what both name must agree, labels and values alike.
  const bool labelled = gold.label() != 0 && answer.label() != 0;
  if (labelled && gold.label() != answer.label()) return Comparison::different;
  return labelled && (gold.is_choice() || answer.is_choice()) ? Comparison::equal : compare_values(gold, answer);
}

std::string fault_of(const Reading& gold) {
  const std::string_view text = gold.text();
  if (text.size() > kMaxAnswer_bytes) return "longer than " + std::to_string(kMaxAnswer_bytes) + " bytes";
  if (const auto& answer = gold.reads()[0].answer) {
    Equality equality(gold.vocabulary());
    return answer->form == Form::text || equality.run(*answer, *answer) ? "" : "no value, such as a division by zero";
  }
  if (text.find_first_not_of(" \t\r\n$.") == std::string_view::npos) return "empty";
  // Words that are no formula are an answer as a text, and so is "Figure 3"; half a formula is not.
  const std::string key = text_key(text, gold.vocabulary());
  const std::string_view plain = without_layout(text, gold.vocabulary());
  bool named = plain.size() < text.size();  // \text{…}, Figure 3
  for (Words words{text}; words.next();) named = named || words.word.size() >= 4;
  const bool formula =
      key.find_first_of("0123456789") != std::string::npos &&
      (!named || text.starts_with('{') || plain.find_first_of("({)^=_+*/<>|") != std::string_view::npos);
  const auto num_letters = std::ranges::count_if(key, [](char c) { return is_letter(c) || (c & 0x80) != 0; });
  if (num_letters > 1 && !formula && !has(plain, '\\')) return "";
  return gold.reads()[0].tree.tokens.fault;
}

}  // namespace qrl::reward::math
