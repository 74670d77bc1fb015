#include "reward/math/extract.h"

#include <algorithm>

#include "base/ascii.h"
#include "reward/answer.h"
#include "reward/math/lexer.h"

namespace qrl::reward::math {

namespace {

using base::is_letter;
using base::trimmed;
using P = Profile;
using W = WordClass;

constexpr std::size_t kMaxWhole_bytes = 300, kMaxBoxes = 64, kMaxGap_bytes = 60, kMaxQuestion_bytes = 120,
                      kMaxNouns = 1000, kNumFormulaShells = 4;
constexpr std::string_view kBox = "\\boxed", kEmphasis = " *_", kStops = ".:?!\n;", kJson = "\":", kWhere = "where",
                           kTextBegin = "\\text{ ", kNumbers = "0123456789.,/:-$* to", kMark = "####",
                           kLoud = " *_\"!\r", kClosing = " .\n", kOpen = "{ ";

void skip(std::string_view& text, std::string_view characters) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
}
std::string_view line_of(std::string_view text) noexcept { return text.substr(0, text.find('\n')); }

/// Removes a condition such as ", where b is any integer" after a formula, but keeps an equation.
std::string without_condition(std::string_view text) {
  const std::size_t at = text.substr(0, kMaxAnswer_bytes).find(kWhere);
  if (at == std::string_view::npos || at == 0 || is_letter(text[at - 1])) return std::string(text);
  std::string_view before = text.substr(0, at), condition = trimmed(text.substr(at + kWhere.size()));
  if (before.ends_with(kTextBegin)) before.remove_suffix(kTextBegin.size());
  skip(condition, "}");
  const bool part = has(condition, '=') && looks_like_formula(condition, default_vocabulary());
  return std::string(bare(before)) + (part ? ", " + std::string(condition) : std::string());
}

class Extraction {
 public:
  using Candidates = std::vector<std::string>;
  using Found = std::optional<Candidates>;  ///< none: the text lacks the profile's mark

  Extraction(std::string_view text, P profile, const Vocabulary& vocabulary)
      : text_(text), profile_(profile), vocabulary_(vocabulary) {}

  Candidates run() {
    constexpr std::pair<P, Found (Extraction::*)()> kFinders[] = {{P::boxed, &Extraction::boxed},
                                                                  {P::gsm8k, &Extraction::after_mark},
                                                                  {P::answer_is, &Extraction::after_nouns},
                                                                  {P::answer_tag, &Extraction::tagged},
                                                                  {P::text, &Extraction::whole},
                                                                  {P::last_number, &Extraction::last}};
    for (const auto& [profile, find] : kFinders) {
      if (profile_ != P::automatic && profile_ != profile) continue;
      if (const Found found = (this->*find)()) return *found;
    }
    return {};
  }

 private:
  static Candidates one(std::string_view text) { return {std::string(text)}; }

  Found tagged() {
    const auto content = last_tagged(text_);
    return content ? Found(said(*content)) : std::nullopt;
  }

  Found whole() {
    const std::string_view text = bare(text_);
    const bool short_one = text.size() <= kMaxWhole_bytes && text.find('$') == std::string_view::npos;
    const bool words = text.find_first_of("0123456789") == std::string_view::npos && std::ranges::count(text, ' ') < 5;
    const bool is_answer = profile_ == P::text || (short_one && (words || looks_like_formula(text, vocabulary_)));
    return is_answer ? Found(one(text)) : std::nullopt;
  }

  /// Returns a clause's value, then alternatives. They are 18 if the clause ends in "18!", and the last number if the
  /// value is prose.
  Candidates said(std::string_view clause) {
    clause = trimmed(clause);
    if (clause.size() > kMaxAnswer_bytes) return one(clause);
    Candidates all{value_of_clause(clause, vocabulary_)};
    const std::string_view word = letters_of(all[0]);
    const bool prose = all[0].empty() || (word.size() > 1 && vocabulary_.word(word) == nullptr);
    const auto number = prose ? last_number(clause.substr(0, kMaxWhole_bytes), vocabulary_) : std::nullopt;
    const std::string_view before = text_.substr(0, static_cast<std::size_t>(clause.data() - text_.data()));
    const std::size_t mark = std::min(clause.find_first_not_of(kNumbers), clause.size());
    const bool loud = std::ranges::all_of(clause.substr(mark), [](char c) { return (c & 0x80) || has(kLoud, c); });
    if (clause.substr(mark).starts_with('!') && loud && !before.ends_with('>') &&
        !vocabulary_.any(W::counting, before.substr(before.rfind('\n') + 1)))
      all.emplace_back(bare(clause.substr(0, mark)));
    if (number) all.push_back(*number);
    return all;
  }

  // ---- boxes

  static std::optional<Box> last_closed(std::string_view text) {
    return last_box(text, {"\\boxed", "\\boxed ", "\\boxed  ", "\\fbox", "\\framebox"});
  }

  Found boxed() {
    const auto last = last_closed(text_);
    if (!last) {  // an unclosed box extends to the end of its line
      const std::size_t at = find_last(text_, kBox);
      if (at == std::string_view::npos) return std::nullopt;
      std::string_view rest = text_.substr(at + kBox.size());
      skip(rest, " {");
      return one(bare(line_of(rest)));
    }
    std::string_view before = text_.substr(0, last->begin);
    before = before.substr(0, before.find_last_not_of(" $*:\\([") + 1);
    if (vocabulary_.ends(W::denied, before)) return Candidates();
    std::string answer = without_condition(without_label(bare(last->content)));
    std::size_t begin = last->begin;
    for (std::size_t n = 1; n < kMaxBoxes && answer.size() < kMaxAnswer_bytes; ++n) {
      const std::size_t from = begin - std::min(begin, kMaxAnswer_bytes);
      const auto previous = last_closed(text_.substr(from, begin - from));
      if (!previous || !joins(text_.substr(from + previous->end, begin - from - previous->end))) break;
      answer.insert(0, std::string(bare(previous->content)) + ", ");
      begin = from + previous->begin;
    }
    return one(answer);
  }

  std::string_view without_label(std::string_view content) const noexcept {
    std::string_view rest = content;
    vocabulary_.take(W::silent, rest);  // \text
    const bool braced = rest.starts_with('{');
    skip(rest, kOpen);
    if (!vocabulary_.take(W::label, rest)) return content;
    skip(rest, kEmphasis);
    if (braced && rest.starts_with('}')) rest.remove_prefix(1);
    else if (braced && rest.ends_with('}')) rest.remove_suffix(1);
    return bare(rest);
  }

  /// Returns whether the text between two boxes joins them into a list.
  bool joins(std::string_view between) const {
    if (between.size() > kMaxGap_bytes) return false;
    bool joined = between.find_first_of(",;&") != std::string_view::npos;
    for (Words words{between}; words.next();) {
      if (vocabulary_.is(W::joining, words.word)) joined = true;
      else if (words.word.size() > 1) return false;
    }
    return joined && between.find_first_of(kStops) == std::string_view::npos;
  }

  // ---- marks

  Found after_mark() {
    const std::size_t at = find_last(text_, kMark);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = trimmed(text_.substr(at + kMark.size())), line = line_of(rest);
    // Skips a heading such as "#### Step 4: the sum", with text below it.
    if (letters_of(line).size() > 1 && line.size() < rest.size()) return std::nullopt;
    return said(sentence(line, vocabulary_));
  }

  /// Consumes the verb, colon or dash after a noun ("answer"). Returns whether one was found.
  bool take_joint(std::string_view& rest) const noexcept {
    skip(rest, kEmphasis);
    if (rest.starts_with(kJson)) rest.remove_prefix(1);
    std::string_view question = rest.substr(0, kMaxQuestion_bytes);
    const std::size_t verb = question.find(" is ");  // "the answer to the question is"
    if (verb < question.find_first_of(kStops) && vocabulary_.take(W::about, question)) rest.remove_prefix(verb + 1);
    bool joint = false;
    for (; vocabulary_.take(W::says, rest); joint = true) skip(rest, kEmphasis);
    return joint || vocabulary_.take(W::dash, rest);  // "is - 42" is −42
  }

  std::string listed(std::string_view rest) {
    std::string all;
    skip(rest, " *_:\r");
    while (rest.starts_with('\n') && all.size() < kMaxAnswer_bytes) {
      rest = trimmed(rest);
      const std::string_view line = line_of(rest), item = item_of(line);
      if (item.empty()) break;
      all += (all.empty() ? "" : ", ") + value_of_clause(sentence(item, vocabulary_), vocabulary_);
      rest.remove_prefix(line.size());
    }
    return all;
  }

  /// Returns whether `before`, the text before "answer", denies the answer: "I doubt that the answer is".
  bool is_doubted(std::string_view before) const {
    before.remove_prefix(before.size() - std::min(before.size(), kMaxQuestion_bytes));
    bool denied = false;
    for (Words words{before.substr(before.find_last_of(kStops) + 1)}; words.next();) {
      if (denied && vocabulary_.is(W::claim, words.word)) return true;
      denied = denied || vocabulary_.is(W::denial, words.word);
    }
    return false;
  }

  /// Extracts the text after the last "answer is", "answer:", "Ans:" or "correct option is".
  Found after_nouns() {
    std::string initials;
    vocabulary_.for_each(W::noun, [&](std::string_view noun) { initials += noun.front(); });
    std::size_t num_nouns = 0;
    for (std::size_t i = text_.size(); i-- > 0 && num_nouns < kMaxNouns;) {
      const bool first = initials.find(base::lower(text_[i])) != std::string::npos;
      if (!first || (i > 0 && is_letter(text_[i]) && is_letter(text_[i - 1]))) continue;
      std::string_view rest = text_.substr(i);
      if (!vocabulary_.take(W::noun, rest)) continue;
      ++num_nouns;
      const bool json = rest.starts_with(kJson);  // {"answer": 42}
      const bool point = rest.data()[-1] == '.';  // Ans. 42
      if (!take_joint(rest) && !point) continue;
      if (is_doubted(text_.substr(0, i))) return Candidates();
      if (const std::string list = listed(rest); !list.empty()) return one(list);
      do skip(rest, " *_\n\r\t,:");
      while (vocabulary_.take(W::tag, rest));
      std::string_view clause = sentence(rest, vocabulary_);
      if (json) clause = clause.substr(0, clause.find_first_of(",}"));
      if (!trimmed(clause).empty()) return said(clause);
    }
    return std::nullopt;
  }

  // ---- no mark

  /// Extracts the formula in delimiters ($…$) at the end of the text, else the last number.
  Found last() {
    std::string_view text = text_.substr(0, text_.find_last_not_of(kClosing) + 1);
    for (const auto& [open, close] : shells().first(kNumFormulaShells)) {
      if (!text.ends_with(close)) continue;
      const std::string_view inside = text.substr(0, text.size() - close.size());
      const std::size_t begin = find_last(inside, open);
      if (begin == std::string_view::npos) continue;
      const std::string_view formula = bare(inside.substr(begin + open.size()));
      if (formula.empty()) continue;
      std::string_view before = text.substr(0, text.find_last_not_of(" $\\([", begin) + 1);
      const bool item = !item_of(line_of(text.substr(before.rfind('\n') + 1))).empty();
      before.remove_prefix(before.find_last_of(kStops) + 1);
      const bool refused = item || vocabulary_.any(W::turning, before) || vocabulary_.ends(W::operand, before);
      return refused ? Candidates() : one(formula);
    }
    return one(last_number(text_, vocabulary_).value_or(""));
  }

  std::string_view text_;
  P profile_;
  const Vocabulary& vocabulary_;
};

}  // namespace

namespace {

std::string_view first_turn(std::string_view text, const Vocabulary& vocabulary) noexcept {
  constexpr std::size_t kLongestToken_bytes = 40;
  for (std::size_t at = text.find('<', 1); at < text.size(); at = text.find('<', at + 1)) {
    const std::string_view token = text.substr(at, kLongestToken_bytes);
    if (vocabulary.is(W::turn, token.substr(0, token.find('>') + 1))) return trimmed(text.substr(0, at));
  }
  return text;
}

}  // namespace

std::vector<std::string> extract(std::string_view response, P profile, const Vocabulary& vocabulary) {
  if (response.size() > kMaxScanned_bytes) response.remove_prefix(response.size() - kMaxScanned_bytes);
  response = first_turn(trimmed(response), vocabulary);
  for (std::size_t at = 0; response.ends_with("|>") && (at = find_last(response, "<|")) != std::string_view::npos;)
    response = trimmed(response.substr(0, at));  // drops control tokens
  // Skips the reasoning before </think>, unless nothing follows it.
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = find_last(response, kThought); end != std::string_view::npos) {
    const std::string_view said = trimmed(response.substr(end + kThought.size()));
    if (!said.empty()) response = said;
  }
  for (const std::string_view speaker : {"\nHuman:", "\nUser:"}) response = response.substr(0, response.find(speaker));
  return Extraction(response, profile, vocabulary).run();
}

std::string extract_gold(std::string_view ground_truth) {
  for (const P profile : {P::boxed, P::gsm8k}) {
    const auto found = Extraction(ground_truth, profile, default_vocabulary()).run();
    if (!found.empty() && !found[0].empty()) return found[0];
  }
  return without_condition(bare(ground_truth));
}

}  // namespace qrl::reward::math
