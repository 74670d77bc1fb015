#include "reward/math/extract.h"

#include <algorithm>
#include <optional>

#include "base/ascii.h"
#include "reward/answer.h"
#include "reward/box.h"
#include "reward/math/clause.h"
#include "reward/math/lexer.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using base::trimmed;
using P = config::MathProfile;
using End = Marker::End;

constexpr std::size_t kMaxWhole_bytes = 300, kMaxBoxes = 64, kMaxGap_bytes = 60, kMaxQuestion_bytes = 120,
                      kMaxNouns = 1000, kMaxItems = 20;
constexpr std::string_view kBox = "\\boxed", kText = "\\text{", kEmphasis = " *_", kStops = ".:?!\n;",
                           kJson = "\":", kWhere = "where", kDollar = "\\$";
const std::string kDenied = "not ";

/// "f(x) = ax + b, where b is any integer" without its condition; one that is a formula is part of the answer.
std::string without_condition(std::string_view text) {
  const std::size_t at = text.substr(0, kMaxAnswer_bytes).find(kWhere);
  if (at == std::string_view::npos || at == 0 || is_letter(text[at - 1])) return std::string(text);
  std::string_view before = text.substr(0, at), condition = trimmed(text.substr(at + kWhere.size()));
  while (before.ends_with(' ')) before.remove_suffix(1);
  if (before.ends_with(kText)) before.remove_suffix(kText.size());
  if (condition.starts_with('}')) condition.remove_prefix(1);
  condition = bare(condition);
  const bool part =
      condition.find('=') != std::string_view::npos && looks_like_formula(condition, default_vocabulary());
  return std::string(bare(before)) + (part ? ", " + std::string(condition) : std::string());
}

void skip(std::string_view& text, std::string_view characters) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
}

class Extraction {
 public:
  using Found = std::optional<std::vector<Candidate>>;

  Extraction(std::string_view text, const Vocabulary& vocabulary, std::span<const Marker> markers)
      : text_(text), vocabulary_(vocabulary), markers_(markers) {}

  std::vector<Candidate> run(P profile) {
    if (profile == P::text) return candidates(bare(text_));
    if (profile == P::last_number) return last();
    if (profile != P::automatic) return marked(profile).value_or(std::vector<Candidate>());
    for (const P each : {P::boxed, P::gsm8k, P::answer_is, P::answer_tag})
      if (auto found = marked(each)) return *found;
    if (auto found = whole()) return *found;
    return last();
  }

 private:
  static std::vector<Candidate> candidates(std::string_view text) {
    return text.empty() ? std::vector<Candidate>() : std::vector{Candidate{std::string(text)}};
  }
  Extraction within(std::string_view text) const { return {text, vocabulary_, markers_}; }

  Found marked(P profile) {
    const auto marker = std::ranges::find(markers_, profile, &Marker::profile);
    if (marker == markers_.end()) return std::nullopt;
    if (marker->end == End::brace) return boxed();
    if (marker->end == End::line) return after_mark(marker->text);
    if (marker->end == End::clause) return after_nouns();
    const auto tagged = last_tagged(text_);
    return tagged ? std::optional(said(*tagged)) : std::nullopt;
  }

  /// What a clause says: all of it, or by the rule of the last number where it is prose.
  std::vector<Candidate> said(std::string_view clause) {
    clause = trimmed(clause);
    if (clause.size() > kMaxAnswer_bytes) return candidates(clause);
    std::vector<Candidate> all{{value_of_clause(clause, vocabulary_)}};
    const auto at = static_cast<std::size_t>(clause.data() - text_.data());
    if (const auto number = exclaimed(text_, at, clause, vocabulary_)) all.push_back({*number, true});
    const std::string& value = all[0].text;
    const auto letters = static_cast<std::size_t>(std::ranges::find_if_not(value, is_letter) - value.begin());
    const bool prose = letters > 1 && vocabulary_.word(value.substr(0, letters)) == nullptr;
    if (!prose && !value.empty()) return all;
    if (const auto number = last_number(clause.substr(0, kMaxWhole_bytes), vocabulary_))
      all.insert(prose ? all.begin() : all.end(), Candidate{*number});
    return all;
  }

  // ---- boxes

  /// The last box of a text; nothing where none is closed.
  static std::optional<Box> last_closed(std::string_view text) {
    return last_box(text, {"\\boxed", "\\boxed ", "\\boxed  ", "\\fbox", "\\framebox"});
  }

  Found boxed() {
    const auto last = last_closed(text_);
    if (!last) return in_open_box();
    std::string answer = without_condition(bare(last->content));
    if (is_denied(text_.substr(0, last->begin))) return candidates(kDenied + answer);
    std::size_t begin = last->begin;
    for (std::size_t n = 1; n < kMaxBoxes && answer.size() < kMaxAnswer_bytes; ++n) {
      const std::size_t from = begin > kMaxAnswer_bytes ? begin - kMaxAnswer_bytes : 0;
      const auto previous = last_closed(text_.substr(from, begin - from));
      const std::size_t end = previous ? from + previous->end : 0;
      if (!previous || begin - end > kMaxGap_bytes || !joins(text_.substr(end, begin - end))) break;
      answer.insert(0, std::string(bare(previous->content)) + ", ");
      begin = from + previous->begin;
    }
    return candidates(answer);
  }

  /// A box that is begun and never closed says what stands on its line.
  Found in_open_box() {
    const std::size_t at = find_last(text_, kBox);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = text_.substr(at + kBox.size());
    skip(rest, " ");
    if (rest.starts_with('{')) rest.remove_prefix(1);
    return candidates(bare(rest.substr(0, rest.find('\n'))));
  }

  /// "The answer is not", before a box.
  bool is_denied(std::string_view before) const noexcept {
    before = before.substr(0, before.find_last_not_of(" $*:\\([") + 1);
    return vocabulary_.ends(Phrase::denied, before);
  }

  /// Whether text between two boxes merely joins them: a comma, semicolon, "and" or "or", once at least, and names.
  bool joins(std::string_view between) const noexcept {
    bool joined = false;
    while (!between.empty()) {
      if (vocabulary_.take(Phrase::joining, between)) {
        joined = true;
      } else if (!vocabulary_.take(Phrase::silent, between)) {  // x_1 =
        const std::size_t sign = between.find('=');
        if (!joined || !is_letter(between[0]) || sign == std::string_view::npos ||
            trimmed(between.substr(0, sign)).size() > 5)
          return false;
        between.remove_prefix(sign + 1);
      }
    }
    return joined;
  }

  // ---- marks

  Found after_mark(std::string_view mark) {
    const std::size_t at = find_last(text_, mark);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = trimmed(text_.substr(at + mark.size()));
    const std::size_t line_end = std::min(rest.find('\n'), rest.size());
    const bool headline = line_end > 1 && is_letter(rest[0]) && is_letter(rest[1]) && line_end < rest.size();
    rest = rest.substr(0, std::min(line_end, rest.find("</answer>")));
    if (auto found = within(rest).after_nouns()) return found;
    return headline ? std::nullopt : std::optional(said(sentence(rest)));  // "#### Step 4: the sum" is none
  }

  /// Takes what joins a noun to the answer: a verb, a sign, or both. False when neither stands there.
  bool take_joint(std::string_view& rest) const noexcept {
    skip(rest, kEmphasis);
    if (rest.starts_with(kJson)) rest.remove_prefix(1);
    std::string_view about = rest;
    if (vocabulary_.take(Phrase::about, about)) {  // the answer to the question is
      const std::size_t verb = about.substr(0, kMaxQuestion_bytes).find(" is ");
      if (verb != std::string_view::npos && about.substr(0, verb).find_first_of(kStops) == std::string_view::npos)
        rest = about.substr(verb + 1);
    }
    const bool verb = vocabulary_.take(Phrase::verb, rest);
    skip(rest, kEmphasis);
    if (rest.size() > 1 && rest[0] == '-' && is_digit(rest[1]) && rest.data()[-1] == ' ') return true;  // Answer -42
    if (!verb && vocabulary_.take(Phrase::dash, rest)) return true;  // "is - 42" says −42
    return vocabulary_.take(Phrase::sign, rest) || verb;
  }

  /// What follows a joint in lines of its own: the items of a list as one list, or what a fence holds.
  std::optional<std::string> in_lines_below(std::string_view rest) {
    const std::size_t line_end = rest.find('\n');
    if (line_end == std::string_view::npos || rest.substr(0, line_end).find_first_not_of(" *_:\r") < line_end)
      return std::nullopt;
    rest = trimmed(rest.substr(line_end));
    std::string all;
    for (std::size_t k = 0; k < kMaxItems && !rest.empty() && all.size() < kMaxAnswer_bytes; ++k) {
      const std::string_view line = rest.substr(0, rest.find('\n')), item = item_of(line);
      if (item.empty()) break;
      all += (all.empty() ? "" : ", ") + value_of_clause(sentence(item), vocabulary_);
      rest = trimmed(rest.substr(line.size()));
    }
    return all.empty() ? std::nullopt : std::optional(all);
  }

  /// "I doubt that the answer is": denied before the mark.
  bool is_doubted(std::string_view before) const {
    if (before.size() > kMaxQuestion_bytes) before.remove_prefix(before.size() - kMaxQuestion_bytes);
    before.remove_prefix(before.find_last_of(kStops) + 1);
    bool denied = false, claimed = false;
    for_each_word(before, [&](const std::string& word) {
      claimed = claimed || (denied && vocabulary_.is(WordClass::claim, word));
      denied = denied || vocabulary_.is(WordClass::denial, word);
    });
    return claimed;
  }

  /// What follows the last "answer is", "answer:", "Ans:" or "correct option is".
  Found after_nouns() {
    std::size_t num_nouns = 0;
    std::string initials;
    for (const Marker& marker : markers_)
      if (marker.end == End::clause) initials += marker.text.front();
    for (std::size_t i = text_.size(); i-- > 0 && num_nouns < kMaxNouns;) {
      const bool first = initials.find(base::lower(text_[i])) != std::string::npos;
      if (!first || (i > 0 && is_letter(text_[i]) && is_letter(text_[i - 1]))) continue;
      std::string_view rest = text_.substr(i);
      const auto marker = std::ranges::find_if(
          markers_, [&rest](const Marker& m) { return m.end == End::clause && take_word(rest, m.text); });
      if (marker == markers_.end()) continue;
      ++num_nouns;
      const bool json = rest.starts_with(kJson);  // {"answer": 42}
      if (!take_joint(rest) && !marker->text.ends_with('.')) continue;
      const bool doubted = is_doubted(text_.substr(0, i));
      if (const auto below = in_lines_below(rest); below && !doubted) return candidates(*below);
      do skip(rest, " *_\n\r\t,:");
      while (vocabulary_.take(Phrase::tag, rest));
      std::string_view clause = sentence(rest);
      if (json) clause = clause.substr(0, clause.find_first_of(",}"));
      if (doubted) return candidates(kDenied + std::string(trimmed(clause)));
      if (!trimmed(clause).empty()) return said(clause);
    }
    return std::nullopt;
  }

  // ---- no mark

  /// All of a short response that is a formula or a few words.
  Found whole() {
    const std::string_view text = bare(text_);
    if (text.empty() || text.size() > kMaxWhole_bytes) return std::nullopt;
    if (text.find('$') != std::string_view::npos && text.find(kDollar) == std::string_view::npos) return std::nullopt;
    constexpr std::ptrdiff_t kMaxWords = 5;
    const bool words = std::ranges::none_of(text, is_digit) && std::ranges::count(text, ' ') < kMaxWords;
    const std::size_t line_end = text.find('\n');
    const bool table = line_end != std::string_view::npos && text.find(": ") < line_end;
    const bool number = is_digit(text[0]) && line_end == std::string_view::npos;
    if (words || (!table && (number || looks_like_formula(text, vocabulary_)))) return candidates(text);
    return std::nullopt;
  }

  /// The last number, or the last formula between delimiters where it stands behind that.
  std::vector<Candidate> last() {
    std::string_view formula;
    for (const auto& [open, close] : {std::pair{"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}}) {
      const std::size_t end = find_last(text_, close);
      const std::size_t begin = end == std::string_view::npos ? end : find_last(text_.substr(0, end), open);
      if (begin == std::string_view::npos) continue;
      const std::size_t first = begin + std::string_view(open).size();
      const std::string_view found = bare(text_.substr(first, end - first));
      if (!found.empty() && (formula.empty() || found.data() > formula.data())) formula = found;
    }
    const std::size_t digit = text_.find_last_of(kDigits) + 1;
    if (!formula.empty() && text_.data() + digit <= formula.data() + formula.size()) {
      const auto at = static_cast<std::size_t>(formula.data() - text_.data());
      std::string_view before = text_.substr(0, at);
      before = before.substr(0, before.find_last_not_of(" $\\([") + 1);
      const std::size_t line = before.rfind('\n') + 1;
      before.remove_prefix(before.find_last_of(".?!\n:") + 1);
      const bool refused = vocabulary_.any(WordClass::turning, before) || vocabulary_.ends(Phrase::operand, before) ||
                           !item_of(text_.substr(line, kMaxWhole_bytes)).empty();
      return refused ? std::vector<Candidate>() : candidates(formula);
    }
    const auto number = last_number(text_, vocabulary_);
    if (!number) return {};
    std::vector<Candidate> all = candidates(*number);
    const std::size_t at = find_last(text_, *number);
    if (at != std::string_view::npos)
      if (const auto plain = exclaimed(text_, at, *number, vocabulary_)) all.push_back({*plain, true});
    return all;
  }

  std::string_view text_;
  const Vocabulary& vocabulary_;
  std::span<const Marker> markers_;
};

}  // namespace

std::vector<Candidate> extract(std::string_view response, P profile, const Vocabulary& vocabulary,
                               std::span<const Marker> markers) {
  if (response.size() > kMaxScanned_bytes) response.remove_prefix(response.size() - kMaxScanned_bytes);
  response = without_control_tokens(response);
  // What a model thinks is no answer; what it never stopped thinking is all there is.
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = find_last(response, kThought); end != std::string_view::npos) {
    const std::string_view said = trimmed(response.substr(end + kThought.size()));
    if (!said.empty()) response = said;
  }
  return Extraction(response, vocabulary, markers).run(profile);
}

std::string extract_gold(std::string_view ground_truth) {
  for (const P profile : {P::boxed, P::gsm8k}) {
    const auto found = Extraction(ground_truth, default_vocabulary(), default_markers()).run(profile);
    if (!found.empty() && !found[0].text.empty()) return found[0].text;
  }
  return without_condition(bare(ground_truth));
}

}  // namespace qrl::reward::math
