#include "reward/math/math_verifier.h"

#include <algorithm>
#include <iterator>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::trimmed;

// ---- choices

std::string_view without_layout(std::string_view text, const Vocabulary& vocabulary) noexcept {
  constexpr int kMost = 50;  // maximum number of layout commands before a label
  for (int k = 0; k < kMost && vocabulary.take(WordClass::silent, text);) ++k;
  return text;
}

struct Label {
  char letter = 0;
  std::string_view rest;  ///< text after the label; empty: a label only
};

/// Parses a choice label: "(B) 42", "\text{(B)} 42", "B. 42", "Option B".
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
  // Requires a space or a closing brace after a label: "(A)x" and "A.5" are mathematics.
  if (!marked || !apart) return {};
  if (braced && trimmed(read.rest).starts_with('}')) read.rest = trimmed(read.rest).substr(1);
  else if (braced && read.rest.ends_with('}')) read.rest.remove_suffix(1);  // \text{(B) 42}
  for (std::size_t k = 1; k + 1 < rest.size(); ++k)                         // "42 or (C) 43" has two labels: no choice
    if (is_choice(rest[k]) && !is_letter(rest[k - 1]) && (rest[k + 1] == ')' || rest[k + 1] == '.')) return {};
  return read;
}

// ---- texts

/// Returns a text's comparison key without a leading article: "an ellipse" becomes "ellipse", but "A" stays a choice.
std::string key_of(std::string_view text, const Vocabulary& vocabulary) {
  std::string_view noun = without_layout(text, vocabulary);
  const bool article =
      vocabulary.take(WordClass::article, noun) && noun.size() > 1 && noun[0] == ' ' && is_letter(noun[1]);
  return text_key(article ? noun : text, vocabulary);
}

/// Returns whether the answer begins with the gold answer (yes, no, true or false) and does not end in its opposite
/// ("Yes, but no").
bool begins_with_verdict(const std::string& gold, std::string_view answer, const Vocabulary& vocabulary) {
  const std::size_t end = std::min(answer.find_first_of(",.;"), answer.size());
  if (!vocabulary.is(WordClass::verdict, gold) || text_key(answer.substr(0, end), vocabulary) != gold) return false;
  std::string last;
  for (Words words{answer.substr(end)}; words.next();) last = words.word;
  if (last.empty()) return std::ranges::none_of(answer, is_digit);  // rejects "no, 7"
  return last == gold || !vocabulary.is(WordClass::verdict, last);
}

bool same_as_texts(const Reading& gold, const Reading& answer) {
  const Tree& tree = gold.reads[0].tree;
  const bool is_text = !tree.root || tree.root->is(Kind::words);
  if (std::ranges::none_of(gold.text, is_letter)) return false;
  const std::string key = key_of(gold.text, gold.vocabulary);
  return (is_text && !key.empty() && key == key_of(answer.text, gold.vocabulary)) ||
         begins_with_verdict(key, answer.text, gold.vocabulary);
}

// ---- comparison

/// Returns whether the comma may be a decimal point (2,74, not 1,250). Requires a text without brackets, and a point in
/// `other`.
bool may_be_decimal(std::string_view text, std::string_view other, std::size_t least_places) noexcept {
  const std::size_t comma = text.find(','), digit = text.find_first_of("0123456789");
  std::size_t places = 0;
  while (comma + 1 + places < text.size() && is_digit(text[comma + 1 + places])) ++places;
  const bool grouped = places == 3 && digit < comma && text[digit] != '0';
  return places >= least_places && !grouped && text.find_first_of("([{") == std::string_view::npos &&
         other.find('.') != std::string_view::npos;
}

}  // namespace

Reading::Reading(std::string_view whole, const Vocabulary& words) : vocabulary(words), text(whole) {
  const Label read = label_of(text, vocabulary);
  label = read.letter;
  is_choice = label != 0 && read.rest.empty();
  if (!read.rest.empty()) text = std::string(trimmed(read.rest));
  reads.reserve(3);  // never reallocates: answers point into the elements
  for (const Comma comma : {Comma::thousands, Comma::separator, Comma::decimal}) {
    if (comma == Comma::separator && !reads[0].tree.root) reads.clear();  // (1,234) is only a pair
    Tree& tree = reads.emplace_back(Read{comma, parse(text, comma, vocabulary), std::nullopt}).tree;
    if (tree.root) reads.back().answer = lower(tree, vocabulary, default_rules());
    const bool several = text.find(',') != text.rfind(',');  // several commas: none is decimal
    if (!tree.tokens.ambiguous_comma || (several && comma == Comma::separator)) break;
  }
}

Verdict compare(const Reading& gold, const Reading& answer) {
  Verdict correct{Outcome::correct, "correct"}, wrong{Outcome::wrong, "wrong value"};
  if (answer.text.empty()) return {Outcome::no_answer, "no answer"};
  if (answer.text.size() > kMaxAnswer_bytes) return {Outcome::no_answer, "answer too long", true};
  const bool labelled = gold.label != 0 && answer.label != 0;
  if (labelled && gold.label != answer.label) return wrong;
  if (labelled && (gold.is_choice || answer.is_choice)) return correct;
  if (gold.text == answer.text && gold.reads[0].answer) return correct;
  bool read = false;
  for (const Reading::Read& g : gold.reads) {
    if (g.comma == Comma::decimal && !may_be_decimal(gold.text, answer.text, 2)) continue;
    for (const Reading::Read& a : answer.reads) {
      const bool decimal = a.comma != Comma::decimal || may_be_decimal(answer.text, gold.text, 1);
      if (!g.answer || !a.answer || !decimal) continue;
      read = true;
      Equality equality(gold.vocabulary);
      const bool same = equality.run(*g.answer, *a.answer);
      // Stops: comparing other readings would need as much work.
      if (equality.out_of_budget()) return {Outcome::no_answer, "out of budget", true};
      if (same) return correct;
    }
  }
  if (same_as_texts(gold, answer)) return correct;
  return read ? wrong : Verdict{Outcome::no_answer, "not readable"};
}

std::string fault_of(const Reading& gold) {
  const std::string_view text = gold.text;
  if (text.size() > kMaxAnswer_bytes) return "longer than " + std::to_string(kMaxAnswer_bytes) + " bytes";
  if (const auto& answer = gold.reads[0].answer) {
    Equality equality(gold.vocabulary);
    return answer->form == Form::text || equality.run(*answer, *answer) ? "" : "no value, such as a division by zero";
  }
  if (text.find_first_not_of(" \t\r\n$.") == std::string_view::npos) return "empty";
  // Accepts words without a formula, and "Figure 3", as a text answer. Rejects an incomplete formula.
  const std::string key = text_key(text, gold.vocabulary);
  const std::string_view plain = without_layout(text, gold.vocabulary);
  const bool formula = key.find_first_of("0123456789") != std::string::npos &&
                       (text.starts_with('{') || plain.find_first_of("({)^=_+*/<>|") != std::string_view::npos);
  const auto num_letters = std::ranges::count_if(key, [](char c) { return is_letter(c) || (c & 0x80) != 0; });
  if (num_letters > 1 && !formula && !has(plain, '\\')) return "";
  return gold.reads[0].tree.tokens.fault;
}

// ---- the verifier

Gold read_gold(std::string_view ground_truth) {
  Gold gold{Reading(extract_gold(ground_truth))};
  gold.is_readable =
      !gold.reading.text.empty() && (gold.reading.reads[0].answer.has_value() || fault_of(gold.reading).empty());
  return gold;
}

Verdict MathVerifier::judge(std::string_view response, const Gold& gold) const noexcept try {
  if (!gold.is_readable) return {Outcome::no_answer, "gold", true};
  Verdict verdict{Outcome::no_answer, "no answer"};
  for (const std::string& candidate : extract(response, profile_)) {
    const Reading answer(candidate);
    Verdict next = compare(gold.reading, answer);
    if (next.outcome == Outcome::correct && form_ == RequiredForm::value && !is_worked_out_as(gold.reading, answer))
      next = {Outcome::wrong, "operation left to do"};
    next.extracted = shown(candidate);
    const bool first = verdict.extracted.empty();
    if (first || next.outcome == Outcome::correct || verdict.outcome == Outcome::no_answer) verdict = std::move(next);
    if (verdict.outcome == Outcome::correct) break;
  }
  return verdict;
} catch (...) {
  return {Outcome::no_answer, "out of memory", true};
}

void MathVerifier::check_ground_truth(std::string_view ground_truth, const std::string& where) const {
  const std::string fault = fault_of(Reading(extract_gold(ground_truth)));
  QRL_REQUIRE(fault.empty(), where, "a gold answer in LaTeX or plain mathematics", base::quoted(ground_truth), fault);
}

bool MathVerifier::same_answer(std::string_view one, std::string_view other) const noexcept try {
  if (one == other) return true;
  // Longer answers may be truncated.
  constexpr std::size_t kLongestWhole_bytes = kMaxExtracted_bytes - 4;
  if (std::max(one.size(), other.size()) >= kLongestWhole_bytes) return false;
  const Reading x(one), y(other);
  return compare(x, y).outcome == Outcome::correct && compare(y, x).outcome == Outcome::correct;
} catch (...) {
  return false;
}

}  // namespace qrl::reward::math
