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

constexpr Marker kMarkers[] = {
    {P::boxed, "\\boxed", End::brace},
    {P::boxed, "\\fbox", End::brace},
    {P::boxed, "\\framebox", End::brace},
    {P::gsm8k, "####", End::line},
    {P::answer_is, "answers", End::clause},
    {P::answer_is, "answer choice", End::clause},
    {P::answer_is, "answer option", End::clause},
    {P::answer_is, "answer", End::clause},
    {P::answer_is, "ans", End::clause},
    {P::answer_is, "correct option", End::clause},
    {P::answer_is, "correct choice", End::clause},
    {P::answer_is, "答案", End::clause},
    {P::answer_tag, "<answer>", End::tag},
};

/// Without the control tokens that a decoder left behind the text: <|eot_id|>, <|im_start|>user.
std::string_view without_control_tokens(std::string_view text) noexcept {
  constexpr std::size_t kMaxToken_bytes = 48;
  for (text = trimmed(text);; text = trimmed(text)) {
    std::string_view rest = text;
    if (rest.ends_with("<|im_start|>user")) rest.remove_suffix(4);
    const std::size_t from = rest.size() > kMaxToken_bytes ? rest.size() - kMaxToken_bytes : 0;
    const std::size_t open = rest.ends_with("</s>") ? rest.size() - 4
                             : rest.ends_with("|>") ? rest.find("<|", from)
                                                    : std::string_view::npos;
    if (open == std::string_view::npos) return text;
    text = rest.substr(0, open);
  }
}

/// Without the rest of what was opened before the text begins: what a box holds that is cut off is no sentence.
std::string_view without_cut_groups(std::string_view text) noexcept {
  std::size_t depth = 0, begin = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    if (text[k] == '\\') ++k;  // \{
    else if (text[k] == '{') ++depth;
    else if (text[k] == '}' && depth > 0) --depth;
    else if (text[k] == '}') begin = k + 1;
  }
  return text.substr(begin);
}

/// Without the calculations that GSM8K's solutions write before a result: 9*2 = <<9*2=18>>18.
std::string without_calculations(std::string_view text) {
  constexpr std::size_t kMaxCalculation_bytes = 100;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find("<<", at), text.size());
    out += text.substr(at, begin - at);
    if (begin == text.size()) break;
    const std::string_view inside = text.substr(begin + 2, kMaxCalculation_bytes);
    const std::size_t size = std::min(inside.find_first_not_of("0123456789.,+-*/()=% "), inside.size());
    const bool closed = size > 0 && inside.substr(size).starts_with(">>");
    at = begin + 2 + (closed ? size + 2 : 0);
    if (!closed) out += "<<";
  }
  return out;
}

/// Digits of full width (０ to ９) as ASCII's, so that numbers are found.
std::string with_ascii_digits(std::string_view text) {
  std::string out;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const bool digit =
        text.substr(k).starts_with("\xef\xbc") && k + 2 < text.size() && text[k + 2] >= '\x90' && text[k + 2] <= '\x99';
    out += digit ? static_cast<char>(text[k + 2] - '\x90' + '0') : text[k];
    k += digit ? 2 : 0;
  }
  return out;
}

/// "f(x) = ax + b, where b is any integer" without its condition; one that is a formula is part of the answer.
std::string without_condition(std::string_view text) {
  for (const std::string_view word : {", where ", "\\text{ where", "\\text{where", " where "}) {
    const std::size_t at = text.substr(0, kMaxAnswer_bytes).find(word);
    if (at == std::string_view::npos || at == 0) continue;
    std::string_view condition = trimmed(text.substr(at + word.size()));
    if (condition.starts_with('}')) condition.remove_prefix(1);
    condition = bare(condition);
    const bool part =
        condition.find('=') != std::string_view::npos && looks_like_formula(condition, default_vocabulary());
    return std::string(bare(text.substr(0, at))) + (part ? ", " + std::string(condition) : std::string());
  }
  return std::string(text);
}

/// Takes one of `words` that the text begins with and that ends there as a word.
bool take_word(std::string_view& text, std::initializer_list<std::string_view> words) noexcept {
  for (const std::string_view word : words) {
    if (!base::begins_with(text, word) ||
        (text.size() > word.size() && is_letter(text[word.size()]) && is_letter(word.back())))
      continue;
    text.remove_prefix(word.size());
    return true;
  }
  return false;
}

void skip(std::string_view& text, std::string_view characters) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
}

class Extraction {
 public:
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
  std::vector<Candidate> candidates(std::string_view text) const {
    return text.empty() ? std::vector<Candidate>() : std::vector{Candidate{std::string(text)}};
  }

  std::optional<std::vector<Candidate>> marked(P profile) {
    for (const Marker& marker : markers_) {
      if (marker.profile != profile) continue;
      switch (marker.end) {
        case End::brace:
          return boxed();
        case End::line:
          return after_mark(marker.text);
        case End::tag: {
          const auto tagged = last_tagged(text_);
          return tagged ? std::optional(said(*tagged)) : std::nullopt;
        }
        case End::clause:
          return after_nouns();
      }
    }
    return std::nullopt;
  }

  /// What a clause says: all of it, or by the rule of the last number where it is prose.
  std::vector<Candidate> said(std::string_view clause) {
    clause = trimmed(clause);
    if (find_last(clause, "\\boxed") != std::string_view::npos) {
      Extraction within(clause, vocabulary_, markers_);
      if (auto box = within.boxed()) return *box;
    }
    if (clause.size() > kMaxAnswer_bytes) return candidates(clause);
    std::vector<Candidate> all{{value_of_clause(clause, vocabulary_)}};
    const auto at = static_cast<std::size_t>(clause.data() - text_.data());
    if (const auto number = exclaimed(text_, at, clause)) all.push_back({*number, true});
    std::string plain(clause.substr(0, kMaxWhole_bytes));
    for (std::size_t k = plain.find("**"); k != std::string::npos; k = plain.find("**", k)) plain.erase(k, 2);
    std::size_t letters = 0;
    while (letters < all[0].text.size() && is_letter(all[0].text[letters])) ++letters;
    const bool prose = letters > 1 && vocabulary_.word(std::string_view(all[0].text).substr(0, letters)) == nullptr;
    const auto number = prose || all[0].text.empty() ? last_number(plain, vocabulary_) : std::nullopt;
    if (number && prose) all.insert(all.begin(), Candidate{*number});
    else if (number) all.push_back({*number});
    return all;
  }

  // ---- boxes

  /// The last box of a text; nothing where none is closed.
  std::optional<Box> last_closed(std::string_view text) const {
    return last_box(text, {"\\boxed", "\\boxed ", "\\boxed  ", "\\fbox", "\\framebox"});
  }

  std::optional<std::vector<Candidate>> boxed() {
    const auto last = last_closed(text_);
    if (!last) return in_open_box();
    std::string answer = without_condition(bare(last->content));
    if (is_denied(text_.substr(0, last->begin))) return candidates("not " + answer);
    std::size_t begin = last->begin;
    for (std::size_t n = 1; n < kMaxBoxes && answer.size() < kMaxAnswer_bytes; ++n) {
      const std::size_t from = begin > kMaxAnswer_bytes ? begin - kMaxAnswer_bytes : 0;
      const auto previous = last_closed(text_.substr(from, begin - from));
      const std::size_t end = previous ? from + previous->end : 0;
      if (!previous || begin - end > kMaxGap_bytes || !joins(text_.substr(end, begin - end))) break;
      answer.insert(0, std::string(bare(previous->content)) + ", ");
      begin = from + previous->begin;
    }
    if (answer.size() <= kMaxAnswer_bytes &&
        answer.find("nswer") != std::string::npos) {  // "The answer is 42" within it
      std::string plain = answer;
      for (std::size_t at = plain.find("\\text{"); at != std::string::npos; at = plain.find("\\text{", at)) {
        plain.erase(at, 6);
        if (const std::size_t close = plain.find('}', at); close != std::string::npos) plain.erase(close, 1);
      }
      Extraction within(plain, vocabulary_, markers_);
      if (is_letter(plain.empty() ? '0' : plain[0]))
        if (auto found = within.after_nouns()) return found;
    }
    std::vector<Candidate> all = candidates(answer);
    return all;
  }

  /// A box that is begun and never closed says what stands on its line.
  std::optional<std::vector<Candidate>> in_open_box() {
    const std::size_t at = find_last(text_, "\\boxed");
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = text_.substr(at + 6);
    skip(rest, " ");
    if (rest.starts_with('{')) rest.remove_prefix(1);
    return candidates(bare(rest.substr(0, rest.find('\n'))));
  }

  /// "The answer is not", before a box.
  static bool is_denied(std::string_view before) noexcept {
    for (std::size_t size = before.size() + 1; size != before.size();) {
      size = before.size();
      while (!before.empty() && std::string_view(" $*:").find(before.back()) != std::string_view::npos)
        before.remove_suffix(1);
      if (before.ends_with("\\(") || before.ends_with("\\[")) before.remove_suffix(2);
    }
    constexpr std::string_view kNot[] = {" not", "*not", "n't", "n’t", " not equal to", " cannot be", "\\ne", "\\neq"};
    return std::any_of(std::begin(kNot), std::end(kNot), [before](auto word) { return before.ends_with(word); });
  }

  /// Whether text between two boxes merely joins them: a comma, semicolon, "and" or "or", once at least, and names.
  static bool joins(std::string_view between) noexcept {
    bool joined = false;
    while (!between.empty()) {
      constexpr std::string_view kSilent[] = {"\\text",   "\\quad", "\\qquad", "\\[", "\\]", "\\(", "\\)",
                                              "\\ ",      "\\,",    "\\;",     "$",   "{",   "}",   "\\mathrm",
                                              "\\textbf", " ",      "\n",      "\t",  "\r"};
      constexpr std::string_view kJoining[] = {",", ";", "and", "or", "&"};
      const auto starts = [between](std::string_view s) { return between.starts_with(s); };
      const auto *silent = std::find_if(std::begin(kSilent), std::end(kSilent), starts),
                 *joining = std::find_if(std::begin(kJoining), std::end(kJoining), starts);
      std::size_t name = is_letter(between[0]) ? 1 : 0;  // x_1 =
      if (name == 1 && between.substr(1).starts_with('_')) name += between.size() > 2 && between[2] == '{' ? 4 : 2;
      while (name > 0 && name < between.size() && is_space(between[name])) ++name;
      if (joining != std::end(kJoining)) joined = true, between.remove_prefix(joining->size());
      else if (silent != std::end(kSilent)) between.remove_prefix(silent->size());
      else if (joined && name > 0 && name < between.size() && between[name] == '=') between.remove_prefix(name + 1);
      else return false;
    }
    return joined;
  }

  // ---- marks

  std::optional<std::vector<Candidate>> after_mark(std::string_view mark) {
    const std::size_t at = find_last(text_, mark);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = trimmed(text_.substr(at + mark.size()));
    const std::size_t line_end = std::min(rest.find('\n'), rest.size());
    const bool headline = rest.size() > 1 && is_letter(rest[0]) && is_letter(rest[1]) &&
                          line_end < rest.size();  // "#### Step 4: the sum"
    rest = rest.substr(0, std::min(line_end, rest.find("</answer>")));
    Extraction within(rest, vocabulary_, markers_);
    if (auto found = within.after_nouns()) return found;
    return headline ? std::nullopt : std::optional(said(sentence(rest)));
  }

  /// Takes what joins a noun to the answer: a verb, a sign, or both. False when neither stands there.
  static bool take_joint(std::string_view& rest, std::string_view noun) noexcept {
    skip(rest, " *_");
    if (rest.starts_with("\":")) rest.remove_prefix(1);
    bool joined = noun == "ans" && rest.starts_with('.');
    if (joined) rest.remove_prefix(1);
    std::string_view about = rest;
    if (take_word(about, {"to", "for", "of"})) {  // the answer to the question is
      const std::size_t verb = about.substr(0, kMaxQuestion_bytes).find(" is ");
      if (verb != std::string_view::npos && about.substr(0, verb).find_first_of(".:?!\n") == std::string_view::npos)
        rest = about.substr(verb + 1);
    }
    const bool verb = take_word(rest, {"is", "are", "was", "would be", "must be", "should be", "will be", "has to be",
                                       "equals", "becomes", "是", "为"});
    if (verb && (rest.starts_with("n't") || rest.starts_with("n’t")))
      return true;  // "isn't 42" says what "not 42" says
    skip(rest, " *_");
    if (rest.size() > 1 && rest[0] == '-' && is_digit(rest[1]) && rest.data()[-1] == ' ') return true;  // Answer -42
    if (!verb && take_word(rest, {"- ", "– ", "— "})) return true;  // "is - 42" says −42
    return take_word(rest, {":", "=", "："}) || verb || joined;
  }

  /// "## Final Answer" or "**Answer**", with nothing else on the line.
  bool is_headline(std::size_t at, std::string_view rest) const noexcept {
    constexpr std::size_t kMaxHeadline_bytes = 24;
    std::string_view before = text_.substr(at - std::min(at, kMaxHeadline_bytes), std::min(at, kMaxHeadline_bytes));
    if (const std::size_t line = before.rfind('\n'); line != std::string_view::npos) before.remove_prefix(line + 1);
    const bool marked = before.starts_with('#') || before.starts_with("**");
    skip(before, "#* ");
    take_word(before, {"final"});
    skip(before, "* ");
    skip(rest, "* ");
    return before.empty() && rest.starts_with('\n') &&
           (marked || at == 0 || text_[at - 1] == ' ' || text_[at - 1] == '\n');
  }

  /// The text of an item at the start of a line, behind "- ", "* ", "1. " or "2) "; empty where there is none.
  static std::string_view item_of(std::string_view line) noexcept {
    line = trimmed(line);
    if (line.starts_with("- ") || line.starts_with("* ")) return trimmed(line.substr(2));
    const bool numbered = line.size() > 3 && is_digit(line[0]) && (line[1] == '.' || line[1] == ')') && line[2] == ' ';
    return numbered ? trimmed(line.substr(3)) : std::string_view();
  }

  /// What follows a joint in lines of its own: the items of a list as one list, or what a fence holds.
  std::optional<std::string> in_lines_below(std::string_view rest) {
    const std::size_t line_end = rest.find('\n');
    if (line_end == std::string_view::npos || rest.substr(0, line_end).find_first_not_of(" *_:\r") < line_end)
      return std::nullopt;
    rest = trimmed(rest.substr(line_end));
    if (rest.starts_with("```")) {
      const std::size_t begin = std::min(rest.find('\n'), rest.size());
      const std::string_view name = rest.substr(3, begin - 3);
      if (!std::all_of(name.begin(), name.end(), is_letter)) return std::nullopt;
      return std::string(trimmed(rest.substr(begin, rest.find("```", begin) - begin)));  // several lines are no answer
    }
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
    constexpr std::string_view kDenials[] = {"not", "t", "doubt", "false", "impossible", "never", "untrue"};
    constexpr std::string_view kJoints[] = {"that", "think", "believe", "say", "claim", "mean", "suppose", "if"};
    if (before.size() > kMaxQuestion_bytes) before.remove_prefix(before.size() - kMaxQuestion_bytes);
    const std::size_t stop = before.find_last_of(".:?!\n;");
    if (stop != std::string_view::npos) before.remove_prefix(stop + 1);
    bool denied = false, joint = false;
    for (std::size_t k = 0; k < before.size();) {
      std::string word;
      const bool apostrophe = k > 1 && (before[k - 1] == '\'' || static_cast<unsigned char>(before[k - 1]) >= 0x80);
      for (; k < before.size() && is_letter(before[k]); ++k) word += base::lower(before[k]);
      if (word.empty()) ++k;
      else if (std::find(std::begin(kDenials), std::end(kDenials), word) != std::end(kDenials))
        denied = denied || word != "t" || apostrophe;
      else joint = joint || (denied && std::find(std::begin(kJoints), std::end(kJoints), word) != std::end(kJoints));
    }
    return denied && joint;
  }

  /// What follows the last "answer is", "answer:", "Ans:" or "correct option is".
  std::optional<std::vector<Candidate>> after_nouns() {
    std::size_t num_nouns = 0;
    std::string initials;
    for (const Marker& marker : markers_)
      if (marker.end == End::clause) initials += marker.text.front();
    for (std::size_t i = text_.size(); i-- > 0 && num_nouns < kMaxNouns;) {
      const bool first = initials.find(base::lower(text_[i])) != std::string::npos;
      if (!first || (i > 0 && is_letter(text_[i]) && is_letter(text_[i - 1]))) continue;
      std::string_view rest = text_.substr(i), noun;
      for (const Marker& marker : markers_) {
        if (marker.end != End::clause || !noun.empty() || !take_word(rest, {marker.text})) continue;
        noun = marker.text;
      }
      if (noun.empty()) continue;
      ++num_nouns;
      const bool json = rest.starts_with("\":");  // {"answer": 42}
      const bool headline = is_headline(i, rest);
      if (!take_joint(rest, noun) && !headline) continue;
      const bool doubted = is_doubted(text_.substr(0, i));
      auto below = in_lines_below(rest);
      if (below && !doubted) return candidates(*below);
      skip(rest, " *_\n\r\t,:");
      take_word(rest, {"<answer>", "<b>", "<strong>"});
      skip(rest, " *_\n\r\t");
      std::string_view clause = sentence(rest);
      if (json && !clause.starts_with('"')) clause = clause.substr(0, clause.find_first_of(",}"));
      if (json && clause.starts_with('"')) clause = clause.substr(1, clause.find('"', 1) - 1);
      if (trimmed(clause).empty() && !doubted) continue;
      return doubted ? candidates("not " + std::string(trimmed(clause))) : said(clause);
    }
    return affirmed();
  }

  /// The choice that the last sentence says is right: "Therefore, option B is correct".
  std::optional<std::vector<Candidate>> affirmed() const {
    std::string_view text = trimmed(text_);
    if (text.ends_with('.')) text.remove_suffix(1);
    if (const std::size_t line = text.rfind('\n'); line != std::string_view::npos) text.remove_prefix(line + 1);
    if (const std::size_t stop = text.rfind(". "); stop != std::string_view::npos) text.remove_prefix(stop + 2);
    if (text.size() > kMaxWhole_bytes) return std::nullopt;
    while (take_word(text, {"therefore", "thus", "hence", "so", "finally", "the", "correct", "option", "choice",
                            "answer", ",", "*", " "})) {
    }
    const bool bracket = text.starts_with('(');
    if (bracket) text.remove_prefix(1);
    if (text.size() < 2 || text[0] < 'A' || text[0] > 'J') return std::nullopt;
    const std::string label(1, text[0]);
    text.remove_prefix(1);
    if (bracket && !text.starts_with(')')) return std::nullopt;
    skip(text, ")* ");
    if (!take_word(text, {"is the correct", "is the right", "is correct", "is right"})) return std::nullopt;
    while (take_word(text, {"answer", "option", "choice", "one", "*", " ", "."})) {
    }
    return trimmed(text).empty() ? std::optional(candidates(label)) : std::nullopt;
  }

  // ---- no mark

  /// All of a short response that is a formula or a few words.
  std::optional<std::vector<Candidate>> whole() {
    std::string_view text = bare(text_);
    if (text.starts_with("## ") || text.starts_with("### ")) text = bare(text.substr(text.find(' ')));  // a headline
    if (text.empty() || text.size() > kMaxWhole_bytes) return std::nullopt;
    const bool mixed = text.find('$') != std::string_view::npos && text.find("\\$") == std::string_view::npos;
    const bool digits = std::any_of(text.begin(), text.end(), is_digit);
    constexpr std::ptrdiff_t kMaxWords = 5;
    const bool words = !digits && std::count(text.begin(), text.end(), ' ') < kMaxWords && !mixed;
    const bool table = text.find('\n') != std::string_view::npos && text.find(": ") < text.find('\n');
    const bool number = is_digit(text[0]) && text.find('\n') == std::string_view::npos;
    const bool formula = !mixed && !table && (looks_like_formula(text, vocabulary_) || number);
    const std::size_t name = std::min(text.find(' '), text.size());  // June 20
    const bool date = name > 2 && text[0] <= 'Z' &&
                      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(name), is_letter) &&
                      digits && text.find_first_not_of("0123456789 ,", name) == std::string_view::npos;
    if (formula || words || date) return candidates(text);
    return std::nullopt;
  }

  /// Whether a place stands in an item of a list behind another one.
  bool is_item_of_several(std::size_t at) const noexcept {
    const std::size_t line = text_.substr(0, at).rfind('\n');
    if (line == std::string_view::npos || item_of(text_.substr(line + 1, 200)).empty()) return false;
    const std::string_view above = trimmed(text_.substr(line > 200 ? line - 200 : 0, std::min<std::size_t>(line, 200)));
    return !item_of(above.substr(above.rfind('\n') + 1)).empty();
  }

  /// The last number, or the last formula between delimiters where it stands behind that.
  std::vector<Candidate> last() {
    std::string_view formula;
    for (const auto& [open, close] :
         {std::pair<std::string_view, std::string_view>{"$", "$"}, {"\\(", "\\)"}, {"\\[", "\\]"}}) {
      std::size_t end = find_last(text_, close);
      while (open == "$" && end != std::string_view::npos && end > 0 && text_[end - 1] == '\\')
        end = find_last(text_.substr(0, end), close);
      std::size_t begin =
          end == std::string_view::npos || end == 0 ? std::string_view::npos : find_last(text_.substr(0, end), open);
      while (open == "$" && begin != std::string_view::npos && begin > 0 && text_[begin - 1] == '\\')
        begin = find_last(text_.substr(0, begin), open);
      if (begin == std::string_view::npos) continue;
      const std::string_view found = bare(text_.substr(begin + open.size(), end - begin - open.size()));
      if (!found.empty() && (formula.empty() || found.data() > formula.data())) formula = found;
    }
    // A \$ that is no money ends a formula: $\frac{1}{2} \$ = 3$.
    if (const std::size_t end = formula.rfind("\\$");
        end != std::string_view::npos && trimmed(formula.substr(end + 2)).starts_with('='))
      formula = trimmed(formula.substr(end + 2));
    std::size_t digit = text_.size();
    while (digit > 0 && !is_digit(text_[digit - 1])) --digit;
    const bool later = digit > 0 && (formula.empty() || text_.data() + digit > formula.data() + formula.size());
    std::vector<Candidate> all;
    if (!later && !formula.empty()) {
      const auto at = static_cast<std::size_t>(formula.data() - text_.data());
      std::string_view before = text_.substr(0, at);
      while (!before.empty() && std::string_view(" $\\([").find(before.back()) != std::string_view::npos)
        before.remove_suffix(1);
      const std::size_t stop = before.find_last_of(".?!\n:");
      if (stop != std::string_view::npos) before.remove_prefix(stop + 1);
      for (std::size_t k = 0; k < before.size();) {
        std::string word;
        for (; k < before.size() && is_letter(before[k]); ++k) word += base::lower(before[k]);
        if (vocabulary_.is(WordClass::turning, word)) return {};
        k += word.empty() ? 1 : 0;
      }
      const bool joined = before.ends_with(" or") || before.ends_with(" and") || before.ends_with(',') ||
                          before.ends_with('-') || before.ends_with('+') || before.ends_with("−") ||
                          before.ends_with("–") || before.ends_with("—") || before.ends_with("±");
      if (!joined && !is_item_of_several(at)) all.push_back({std::string(formula)});
      return all;
    }
    if (const auto number = last_number(text_, vocabulary_)) {
      all.push_back({*number});
      const std::size_t at = find_last(text_, *number);
      if (at != std::string_view::npos)
        if (const auto plain = exclaimed(text_, at, *number)) all.push_back({*plain, true});
    }
    return all;
  }

  std::string_view text_;
  const Vocabulary& vocabulary_;
  std::span<const Marker> markers_;
};

}  // namespace

std::span<const Marker> default_markers() noexcept { return kMarkers; }

std::vector<Candidate> extract(std::string_view response, P profile, const Vocabulary& vocabulary,
                               std::span<const Marker> markers) {
  if (response.size() > kMaxScanned_bytes)
    response = without_cut_groups(response.substr(response.size() - kMaxScanned_bytes));
  response = without_control_tokens(response);
  // What a model thinks is no answer; what it never stopped thinking is all there is.
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = find_last(response, kThought); end != std::string_view::npos) {
    const std::string_view said = trimmed(response.substr(end + kThought.size()));
    if (!said.empty()) response = said;
  }
  std::string digits;
  if (response.find("\xef\xbc") != std::string_view::npos) response = digits = with_ascii_digits(response);
  std::string calculated;
  if (response.find("<<") != std::string_view::npos) response = calculated = without_calculations(response);
  return Extraction(response, vocabulary, markers).run(profile);
}

std::string extract_gold(std::string_view ground_truth) {
  const auto first = [&](P profile) {
    const auto found = Extraction(ground_truth, default_vocabulary(), default_markers()).run(profile);
    return found.empty() ? std::string() : found[0].text;
  };
  if (ground_truth.find("\\boxed") != std::string_view::npos)
    if (std::string text = first(P::boxed); !text.empty()) return text;
  if (ground_truth.find("####") != std::string_view::npos)
    if (std::string text = first(P::gsm8k); !text.empty()) return text;
  std::string text = without_condition(bare(ground_truth));
  if (!looks_like_formula(text, default_vocabulary()) && text.find("nswer") != std::string::npos)
    if (std::string said = first(P::answer_is); !said.empty()) return said;
  return text;
}

}  // namespace qrl::reward::math
