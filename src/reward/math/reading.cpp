#include "reward/math/reading.h"

#include <algorithm>

#include "base/ascii.h"
#include "reward/math/equal.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::trimmed;

constexpr Comma kReadings[] = {Comma::thousands, Comma::separator, Comma::decimal};

// ---- choices

/// Without white space, LaTeX's spaces and its commands around text at the front.
std::string_view without_layout(std::string_view text) noexcept {
  constexpr std::string_view kLayout[] = {
      " ", "\n",  "~",   "\\ ",    "\\,",      "\\;",      "\\:",      "\\quad",   "\\qquad", "**",
      "$", "\\(", "\\)", "\\left", "\\textbf", "\\mathbf", "\\textrm", "\\mathrm", "\\text"};
  constexpr int kMost = 50;  // nobody writes as many before a label
  for (int k = 0; k < kMost; ++k) {
    const auto* layout =
        std::find_if(std::begin(kLayout), std::end(kLayout), [text](auto l) { return text.starts_with(l); });
    if (layout == std::end(kLayout)) break;
    text.remove_prefix(layout->size());
  }
  return text;
}

bool is_label(char c) noexcept { return c >= 'A' && c <= 'J'; }

struct Label {
  char letter = 0;
  std::string_view rest;  ///< behind it; empty: it stands alone
};

/// "(B) 42", "\text{(B)} 42", "B. 42", "Option B".
Label label_of(std::string_view text) noexcept {
  text = without_layout(text);
  const bool braced = text.starts_with('{');
  if (braced) text = without_layout(text.substr(1));
  bool named = false;
  for (const std::string_view word : {"option ", "choice "})
    if (base::begins_with(text, word)) text.remove_prefix(word.size()), named = true;
  const bool bracket = text.starts_with('(');
  if (bracket) text.remove_prefix(1);
  if (text.empty() || !is_label(text[0])) return {};
  Label read{text[0], text.substr(1)};
  if (read.rest.starts_with("\\right")) read.rest.remove_prefix(6);
  const bool marked =
      !read.rest.empty() && (read.rest[0] == ')' || (!bracket && (read.rest[0] == '.' || read.rest[0] == ':')));
  if (bracket && !marked) return {};
  if (marked) read.rest.remove_prefix(1);
  const std::string_view behind = trimmed(read.rest);
  bool apart =
      read.rest.empty() || read.rest[0] == ' ' || read.rest[0] == '~' || read.rest[0] == '\n' || read.rest[0] == '\\';
  if (braced && behind.starts_with('}')) read.rest = behind.substr(1), apart = true;
  else if (braced && behind.ends_with('}')) read.rest.remove_suffix(1);  // \text{(B) 42}
  else if (braced) return {};
  std::string_view rest = without_layout(read.rest);
  if (rest.empty() || rest == "." || rest == "}") return {read.letter, {}};
  // "(A)x" and "A.5" are mathematics: a label has a space behind it, or its brace.
  if (!marked || !apart || named) return {};
  for (std::size_t k = 1; k + 1 < rest.size(); ++k) {  // "42 or (C) 43" has two
    const bool begins = rest[k - 1] == ' ' || rest[k - 1] == '(' || rest[k - 1] == '{';
    if (is_label(rest[k]) && begins && (rest[k + 1] == ')' || rest[k + 1] == '.')) return {};
  }
  return read;
}

// ---- texts

/// Signs of operations in a text, negations and bars over it among them, in order, and a minus right before its first
/// word: what text_key leaves out.
std::string signs_shown(std::string_view text) {
  constexpr std::string_view kNegations[] = {"\\lnot", "\\neg", "\\overline", "\\bar"};
  std::string signs;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const std::string_view rest = text.substr(k);
    for (const std::string_view command : kNegations)
      if (rest.starts_with(command) && (rest.size() == command.size() || !is_letter(rest[command.size()])))
        signs += '!';
    const bool minus = k == 0 && text.size() > 1 && text[0] == '-' && is_letter(text[1]);
    if (minus || std::string_view("+/^=<>|").find(text[k]) != std::string_view::npos) signs += text[k];
  }
  return signs;
}

/// Without an article in front: "an ellipse" is an ellipse. "A" alone is a choice.
std::string_view without_article(std::string_view text) noexcept {
  text = trimmed(text);
  for (const std::string_view wrapper : {"\\text{", "\\textbf{", "\\mathrm{"}) {
    if (!text.starts_with(wrapper) || text.find('}') + 1 != text.size()) continue;
    text = trimmed(text.substr(wrapper.size(), text.size() - wrapper.size() - 1));
    break;
  }
  for (const std::string_view article : {"a ", "an ", "the "}) {
    const std::string_view noun = text.substr(std::min(article.size(), text.size()));
    if (base::begins_with(text, article) && !noun.empty() && is_letter(noun.front())) return noun;  // no "A - B"
  }
  return text;
}

/// Whether the gold answer is yes, no, true or false and the answer begins with it: a reason often follows. Not where
/// it is negated by a sign or ends with its opposite: "Yes, but no".
bool begins_with_verdict(const std::string& gold, std::string_view answer, const Vocabulary& vocabulary) {
  constexpr std::string_view kOpposites[][2] = {{"yes", "no"}, {"no", "yes"}, {"true", "false"}, {"false", "true"}};
  const auto* pair =
      std::find_if(std::begin(kOpposites), std::end(kOpposites), [&](const auto& p) { return p[0] == gold; });
  if (pair == std::end(kOpposites) || signs_shown(answer).find('!') != std::string::npos) return false;
  std::size_t end = 0;
  for (; end < answer.size() && !is_letter(answer[end]); ++end) {
    if (is_digit(answer[end])) return false;
    if (answer[end] != '\\') continue;  // a command: \text{Yes, …}
    while (end + 1 < answer.size() && is_letter(answer[end + 1])) ++end;
  }
  const std::size_t begin = end;
  while (end < answer.size() && is_letter(answer[end])) ++end;
  const bool ends = end == answer.size() || answer[end] == ',' || answer[end] == '.' || answer[end] == ';';
  if (!ends || text_key(answer.substr(begin, end - begin), vocabulary) != gold) return false;
  std::size_t last = answer.size();
  while (last > end && !is_letter(answer[last - 1])) --last;
  if (last == end && std::any_of(answer.begin() + static_cast<std::ptrdiff_t>(end), answer.end(), is_digit))
    return false;  // "no, 7"
  std::size_t first = last;
  while (first > end && is_letter(answer[first - 1])) --first;
  return text_key(answer.substr(first, last - first), vocabulary) != (*pair)[1];
}

bool same_as_texts(const Reading& gold, const Reading& answer) {
  const std::string_view g = gold.text(), a = answer.text();
  const Tree& tree = gold.tree(Comma::thousands);
  const bool is_text = tree.root < 0 || tree.at(tree.root).kind == Kind::words;
  if (std::none_of(g.begin(), g.end(), is_letter)) return false;
  const std::string key = text_key(g, gold.vocabulary());
  if (is_text && !key.empty() && key == text_key(a, gold.vocabulary()) && signs_shown(g) == signs_shown(a)) return true;
  const std::string_view noun = without_article(g);
  const bool is_noun = is_text && noun.find_first_of("0123456789=$\\{") == std::string_view::npos && noun.size() > 2 &&
                       signs_shown(noun).empty();
  if (is_noun && signs_shown(a).empty() &&
      text_key(noun, gold.vocabulary()) == text_key(without_article(a), gold.vocabulary()))
    return true;
  return begins_with_verdict(key, a, gold.vocabulary());
}

// ---- comparison

/// 2,74 is 2.74 where it stands alone and the other side is a decimal; 1,250 is a thousand.
bool may_be_decimal(std::string_view text, std::string_view other, std::size_t least_places) noexcept {
  const std::size_t comma = text.find(','), digit = text.find_first_of("0123456789");
  if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos) return false;
  std::size_t places = 0;
  while (comma + 1 + places < text.size() && is_digit(text[comma + 1 + places])) ++places;
  const bool grouped = places == 3 && digit < comma && text[digit] != '0';
  return places >= least_places && !grouped && text.find_first_of("([{") == std::string_view::npos &&
         other.find('.') != std::string_view::npos;
}

Comparison compare_values(const Reading& gold, const Reading& answer) {
  if (std::max(gold.text().size(), answer.text().size()) > kMaxAnswer_bytes) return Comparison::unreadable;
  if (gold.text() == answer.text() && !gold.text().empty() && gold.answer(Comma::thousands) != nullptr)
    return Comparison::equal;
  bool read = false;
  for (const Comma of_gold : kReadings) {
    if (of_gold == Comma::decimal && !may_be_decimal(gold.text(), answer.text(), 2)) continue;
    for (const Comma of_answer : kReadings) {
      if (gold.answer(of_gold) == nullptr) break;
      if (of_answer == Comma::decimal && !may_be_decimal(answer.text(), gold.text(), 1)) continue;
      if (const Answer* a = answer.answer(of_answer)) {
        read = true;
        Equality equality(gold.vocabulary());
        const bool same = equality.run(*gold.answer(of_gold), *a);
        if (equality.out_of_budget()) return Comparison::out_of_budget;  // another reading would cost as much again
        if (same) return Comparison::equal;
      }
      if (!answer.tree(of_answer).tokens.ambiguous_comma) break;
    }
    if (!gold.tree(of_gold).tokens.ambiguous_comma) break;
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

Reading::Reading(std::string_view text, bool of_gold, const Vocabulary& vocabulary)
    : text_(text), of_gold_(of_gold), vocabulary_(vocabulary) {
  const Label label = label_of(text_);
  label_ = label.letter;
  if (!label.rest.empty()) rest_ = std::make_unique<Reading>(trimmed(label.rest), of_gold, vocabulary);
}

const Tree& Reading::tree(Comma comma) const {
  auto& read = read_[static_cast<std::size_t>(comma)];
  if (!read) {
    read = std::make_unique<Read>(Read{parse(text_, comma, vocabulary_), std::nullopt});
    if (read->tree.root >= 0) read->answer = lower(read->tree, vocabulary_, default_rules(), of_gold_);
  }
  return read->tree;
}

const Answer* Reading::answer(Comma comma) const {
  tree(comma);
  const auto& read = read_[static_cast<std::size_t>(comma)];
  return read->answer ? &*read->answer : nullptr;
}

void Reading::read_all() const {
  for (const Comma comma : kReadings)
    if (!tree(comma).tokens.ambiguous_comma) break;
  if (rest_) rest_->read_all();
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
  if (const Answer* answer = gold.answer(Comma::thousands)) {
    Equality equality(gold.vocabulary());
    return answer->form == Form::text || equality.run(*answer, *answer) ? "" : "no value, such as a division by zero";
  }
  if (text.find_first_not_of(" \t\r\n$.") == std::string_view::npos) return "empty";
  // Words that are no formula are an answer as a text, and so is "Figure 3"; half a formula is not.
  const std::string key = text_key(text, gold.vocabulary());
  std::size_t letters = 0;
  for (std::size_t k = 0, run = 0; k < text.size(); ++k)
    letters = std::max(letters, run = is_letter(text[k]) ? run + 1 : 0);
  const std::string_view plain = without_article(text);
  const bool digits = key.find_first_of("0123456789") != std::string::npos;
  const bool named = letters >= 4 && plain.find_first_of("(){}^=_+*/<>|") == std::string_view::npos;  // Figure 3
  const bool formula = plain.find('\\') != std::string_view::npos || (digits && !named);
  if (!formula && key.size() > 1) return "";
  const Tree& tree = gold.tree(Comma::thousands);
  return tree.tokens.fault.empty() ? std::string(tree.fault) : tree.tokens.fault;
}

}  // namespace qrl::reward::math
