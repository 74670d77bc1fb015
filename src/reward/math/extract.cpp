#include "reward/math/extract.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"
#include "reward/answer.h"
#include "reward/box.h"
#include "reward/math/clause.h"
#include "reward/math/options.h"
#include "reward/math/prose.h"
#include "reward/math/spelling.h"
#include "reward/math/texts.h"
#include "reward/math/tree.h"

namespace qrl::reward::math {

namespace {

using base::begins_with;
using base::is_digit;
using base::is_letter;
using base::is_space;
using base::trimmed;

constexpr std::size_t kMaxWhole_bytes = 300;
constexpr std::size_t kMaxWords = 5;
constexpr std::size_t kMaxBoxes = 64;
constexpr std::size_t kMaxNouns = 1000;          ///< the last ones that may mark an answer
constexpr std::size_t kMaxQuestion_bytes = 120;  ///< between "the answer to" and "is"

/// Without the control tokens that a decoder left behind the text: <|eot_id|>, <|im_start|>user.
std::string_view without_control_tokens(std::string_view text) noexcept {
  for (;;) {
    text = trimmed(text);
    std::string_view rest = text;
    if (rest.ends_with("<|im_start|>user")) rest.remove_suffix(4);
    if (rest.ends_with("</s>")) {
      text = rest.substr(0, rest.size() - 4);
      continue;
    }
    if (!rest.ends_with("|>")) return text;
    const std::size_t open = rest.substr(rest.size() > 48 ? rest.size() - 48 : 0).rfind("<|");
    if (open == std::string_view::npos) return text;
    text = rest.substr(0, (rest.size() > 48 ? rest.size() - 48 : 0) + open);
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

/// "f(x) = ax + b, where b is any integer" without its condition; one that is a formula is part of the answer: "x = 3,
/// y = 2" of "x = 3 where y = 2".
std::string without_condition(std::string_view text) {
  if (text.size() > kMaxAnswer_bytes) return std::string(text);
  for (const std::string_view word : {", where ", "\\text{ where", "\\text{where", " where "}) {
    const std::size_t at = text.find(word);
    if (at == std::string_view::npos || at == 0) continue;
    const std::string_view formula = bare(text.substr(0, at));
    if (!is_formula(formula)) continue;
    std::string_view condition = trimmed(text.substr(at + word.size()));
    if (condition.starts_with('}')) condition.remove_prefix(1);
    condition = bare(condition);
    const bool part = condition.find('=') != std::string_view::npos && is_formula(condition);
    return part ? std::string(formula) + ", " + std::string(condition) : std::string(formula);
  }
  return std::string(text);
}

// ---- boxes

std::optional<Box> last_box(std::string_view text) noexcept {
  return reward::last_box(text, {"\\boxed", "\\boxed ", "\\boxed  ", "\\fbox", "\\framebox"});
}

/// The length of "x =" or "y_1 =" when the text is nothing else apart from signs of layout; 0 otherwise.
std::size_t name_before_box(std::string_view text) noexcept {
  if (text.size() < 2 || !is_letter(text[0])) return 0;
  std::size_t end = 1;
  if (text[end] == '_') end += text.size() > end + 2 && text[end + 1] == '{' ? 4 : 2;
  while (end < text.size() && is_space(text[end])) ++end;
  return end < text.size() && text[end] == '=' ? end + 1 : 0;
}

/// Whether text between two boxes merely joins them: a comma, semicolon, "and" or "or", once at least.
bool joins(std::string_view between) noexcept {
  bool joined = false;
  constexpr std::string_view kSilent[] = {"\\text", "\\quad", "\\qquad", "\\[", "\\]", "\\(",      "\\)",     "\\ ",
                                          "\\,",    "\\;",    "$",       "{",   "}",   "\\mathrm", "\\textbf"};
  constexpr std::string_view kJoining[] = {",", ";", "and", "or", "&"};
  while (!between.empty()) {
    const auto starts = [between](std::string_view s) { return between.starts_with(s); };
    const auto* silent = std::find_if(std::begin(kSilent), std::end(kSilent), starts);
    const auto* joining = std::find_if(std::begin(kJoining), std::end(kJoining), starts);
    if (joining != std::end(kJoining)) {
      joined = true;
      between.remove_prefix(joining->size());
    } else if (silent != std::end(kSilent)) {
      between.remove_prefix(silent->size());
    } else if (is_space(between.front())) {
      between.remove_prefix(1);
    } else if (const std::size_t name = name_before_box(between); joined && name > 0) {
      between.remove_prefix(name);
    } else {
      return false;
    }
  }
  return joined;
}

std::optional<std::string> after_answer_is(std::string_view text);

/// What a box holds; behind "answer is" or "answer:" where it says so, perhaps within \text{…}.
std::string in_box(std::string_view content) {
  std::string answer = without_condition(bare(content));
  const bool marked = answer.size() <= kMaxAnswer_bytes && answer.find("nswer") != std::string::npos;
  const bool words = is_letter(answer.empty() ? '0' : answer[0]) || answer.starts_with("\\text");  // no −, no 2 ×
  if (!marked || !words || is_formula(answer)) return answer;
  std::string plain = answer;
  for (std::size_t at = plain.find("\\text{"); at != std::string::npos; at = plain.find("\\text{", at)) {
    plain.erase(at, 6);
    if (const std::size_t close = plain.find('}', at); close != std::string::npos) plain.erase(close, 1);
  }
  return after_answer_is(plain).value_or(answer);
}

/// "The answer is not", before a box.
bool is_denied(std::string_view before) noexcept {
  constexpr std::string_view kNot[] = {" not", "*not", "n't", "n’t", " not equal to", " cannot be", "\\ne", "\\neq"};
  for (std::size_t size = before.size() + 1; size != before.size();) {
    size = before.size();
    while (!before.empty() && std::string_view(" $*:").find(before.back()) != std::string_view::npos)
      before.remove_suffix(1);
    if (before.ends_with("\\(") || before.ends_with("\\[")) before.remove_suffix(2);
  }
  return std::any_of(std::begin(kNot), std::end(kNot), [before](auto word) { return before.ends_with(word); });
}

std::optional<std::string> boxed(std::string_view text) {
  const auto last = last_box(text);
  if (!last) return std::nullopt;
  std::string answer = in_box(last->content);
  std::size_t begin = last->begin;
  if (is_denied(text.substr(0, begin))) return "not " + answer;
  for (std::size_t n = 1; n < kMaxBoxes && answer.size() < kMaxAnswer_bytes; ++n) {
    const std::size_t from = begin > kMaxAnswer_bytes ? begin - kMaxAnswer_bytes : 0;
    const auto previous = last_box(text.substr(from, begin - from));
    if (!previous) break;
    const std::size_t end = from + previous->end;
    if (begin - end > 60 || !joins(text.substr(end, begin - end))) break;
    std::string joined(bare(previous->content));
    joined += ", ";
    answer.insert(0, joined);
    begin = from + previous->begin;
  }
  return answer;
}

// ---- the last number or formula
/// A box that is begun and never closed says what stands on its line, where that makes sense as a whole.
std::optional<std::string> in_open_box(std::string_view text) {
  const std::size_t at = find_last(text, "\\boxed");
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + 6);
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (text.starts_with('{')) text.remove_prefix(1);
  return std::string(bare(text.substr(0, text.find('\n'))));
}

/// "… is **72** clips": Markdown among words, not a product.
bool has_emphasis(std::string_view text) noexcept {
  constexpr std::string_view kMark = "**";
  const std::size_t open = text.find(kMark), close = text.find(kMark, open + kMark.size());
  if (open == 0 || close >= text.size() || text[open - 1] != ' ' || text[open + kMark.size()] == ' ') return false;
  return std::any_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(open), is_letter);
}

/// "$5** was spent": emphasis that began before the clause.
bool ends_emphasis(std::string_view text) noexcept {
  const std::size_t at = text.find("**");
  if (at == std::string_view::npos || at == 0 || at + 2 >= text.size() || text[at - 1] == ' ' || text[at + 2] != ' ')
    return false;
  return text.find("**", at + 2) == std::string_view::npos;
}

/// What a clause says, which may be a box.
std::string answer_in_clause(std::string_view clause) {
  clause = bare(clause);
  if (const auto box = boxed(clause)) return *box;
  if (const auto open = in_open_box(clause)) return *open;
  if (clause.size() > kMaxWhole_bytes || !(has_emphasis(clause) || ends_emphasis(clause)))
    return value_of_clause(clause);
  std::string plain(clause);
  for (std::size_t at = plain.find("**"); at != std::string::npos; at = plain.find("**", at)) plain.erase(at, 2);
  return value_of_clause(plain);
}

// ---- markers

std::optional<std::string> after_hashes(std::string_view text) {
  const std::size_t at = find_last(text, "####");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = trimmed(text.substr(at + 4));
  const std::size_t line_end = std::min(rest.find('\n'), rest.size());
  const bool word = rest.size() > 1 && is_letter(rest[0]) && is_letter(rest[1]);
  const bool headline = word && line_end < rest.size();  // "#### Step 4: the sum"
  rest = rest.substr(0, std::min(line_end, rest.find("</answer>")));
  if (auto said = after_answer_is(rest)) return said;
  if (headline) return std::nullopt;
  return answer_in_clause(rest);
}

/// Whether the full stop that follows a text ends no sentence: Mr. Benson, i.e. 42.
bool ends_with_short_form(std::string_view text) noexcept {
  constexpr std::string_view kForms[] = {"Mr", "Mrs", "Ms", "Dr", "St", "i.e", "e.g", "approx"};
  return std::any_of(std::begin(kForms), std::end(kForms), [text](std::string_view form) {
    return text.ends_with(form) && (text.size() == form.size() || !is_letter(text[text.size() - form.size() - 1]));
  });
}

/// The end of the sentence at the start of `text`: a full stop before white space, or a line break, outside brackets
/// of a displayed formula.
std::string_view sentence(std::string_view text) noexcept {
  const bool displayed = text.starts_with("\\[") || text.starts_with("$$");
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (displayed && i >= 2 && (text.substr(i).starts_with("\\]") || text.substr(i).starts_with("$$")))
      return text.substr(0, i + 2);
    if (displayed) continue;
    if (text[i] == '\n') return text.substr(0, i);
    const bool next = i + 2 < text.size() && text[i + 1] == ' ' && text[i + 2] >= 'A' && text[i + 2] <= 'Z';
    const bool pause = i > 0 && text[i - 1] == '.';  // 18... no, 20
    const bool stop = (text[i] == '.' && !pause && (i + 1 == text.size() || is_space(text[i + 1])) &&
                       !ends_with_short_form(text.substr(0, i))) ||
                      (text[i] == '!' && next);
    const bool label = i == 1 && labelled(text) && !is_letter(text[3]);  // B. 42
    if (stop && !label) return text.substr(0, i);
    if (text[i] == '<' && (text.substr(i).starts_with("</") || text.substr(i).starts_with("<|")))
      return text.substr(0, i);
  }
  return text;
}

/// Takes the first of `words` that `text` begins with and that ends there as a word; empty when there is none.
template <std::size_t N>
std::string_view take_word(std::string_view& text, const std::string_view (&words)[N]) noexcept {
  for (const std::string_view word : words) {
    if (!begins_with(text, word)) continue;
    if (text.size() > word.size() && is_letter(text[word.size()]) && is_letter(word.back())) continue;
    text.remove_prefix(word.size());
    return word;
  }
  return {};
}

void skip(std::string_view& text, std::string_view characters) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
}

/// Takes what joins "answer" to the answer: a verb, a sign, or both. False when neither stands there.
bool take_joint(std::string_view& rest, std::string_view noun) noexcept {
  constexpr std::string_view kAbout[] = {"to", "for", "of"};
  constexpr std::string_view kVerbs[] = {"is",      "are",       "was",    "would be", "must be", "should be",
                                         "will be", "has to be", "equals", "becomes",  "是",      "为"};
  constexpr std::string_view kSigns[] = {":", "=", "："};
  constexpr std::string_view kDashes[] = {"- ", "– ", "— "};
  skip(rest, " *_");
  if (rest.starts_with("\":")) rest.remove_prefix(1);
  bool joined = noun == "ans" && rest.starts_with('.');
  if (joined) rest.remove_prefix(1);
  std::string_view about = rest;
  if (!take_word(about, kAbout).empty()) {  // the answer to the question is
    const std::size_t verb = about.substr(0, kMaxQuestion_bytes).find(" is ");
    if (verb != std::string_view::npos && about.substr(0, verb).find_first_of(".:?!\n") == std::string_view::npos)
      rest = about.substr(verb + 1);
  }
  const bool verb = !take_word(rest, kVerbs).empty();
  joined = verb || joined;
  // "isn't 42" says what "not 42" says
  if (joined && (rest.starts_with("n't") || rest.starts_with("n’t"))) return true;
  skip(rest, " *_");
  if (rest.size() > 1 && rest[0] == '-' && is_digit(rest[1]) && rest.data()[-1] == ' ') return true;  // Answer -42
  if (!verb && !take_word(rest, kDashes).empty()) return true;  // "is - 42" says −42
  return !take_word(rest, kSigns).empty() || joined;
}

/// Without words that add nothing: "therefore", "simply", "option".
std::string_view without_fillers(std::string_view rest) noexcept {
  constexpr std::string_view kFillers[] = {
      "therefore",  "thus",      "then",       "hence",    "so",          "simply",      "just",   "indeed",
      "exactly",    "now",       "clearly",    "actually", "finally",     "also",        "still",  "definitely",
      "precisely",  "obviously", "equal to",   "given by", "found to be", "going to be", "option", "choice",
      "the number", "the value", "the option", "<answer>", "<b>",         "<strong>"};
  skip(rest, " *_\n\r\t,");
  while (!take_word(rest, kFillers).empty()) skip(rest, " *_\n\r\t,:");
  return rest;
}

/// The text of an item at the start of a line, behind "- ", "* ", "1. " or "2) "; empty where there is none.
std::string_view item_of(std::string_view line) noexcept {
  line = trimmed(line);
  if (line.starts_with("- ") || line.starts_with("* ")) return trimmed(line.substr(2));
  const bool numbered = line.size() > 3 && is_digit(line[0]) && (line[1] == '.' || line[1] == ')') && line[2] == ' ';
  return numbered ? trimmed(line.substr(3)) : std::string_view();
}

/// What follows a joint in lines of its own: the items of a list as one list, or what a fence holds. Nothing where it
/// is something else.
std::optional<std::string> in_lines_below(std::string_view rest) {
  constexpr std::size_t kMaxItems = 20;
  const std::size_t line_end = rest.find('\n');
  if (line_end == std::string_view::npos || rest.substr(0, line_end).find_first_not_of(" *_:\r") < line_end)
    return std::nullopt;
  rest = trimmed(rest.substr(line_end));
  if (rest.starts_with("```")) {
    const std::size_t begin = std::min(rest.find('\n'), rest.size());
    if (!std::all_of(rest.begin() + 3, rest.begin() + static_cast<std::ptrdiff_t>(begin), is_letter))
      return std::nullopt;
    const std::string_view held = rest.substr(begin, rest.find("```", begin) - begin);
    return std::string(trimmed(held));  // several lines are no answer
  }
  std::string all;
  for (std::size_t k = 0; k < kMaxItems && !rest.empty(); ++k) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const std::string_view item = item_of(line);
    if (item.empty()) break;
    if (!all.empty()) all += ", ";
    all += answer_in_clause(sentence(item));
    if (all.size() > kMaxAnswer_bytes) break;
    rest = trimmed(rest.substr(line.size()));
  }
  return all.empty() ? std::nullopt : std::optional(all);
}

/// "## Final Answer" or "**Answer**", with nothing else on the line; `at`: where the noun is, `rest`: what is behind
/// it.
bool is_headline(std::string_view text, std::size_t at, std::string_view rest) noexcept {
  constexpr std::size_t kMaxHeadline_bytes = 24;
  std::string_view before = text.substr(0, at);
  if (before.size() > kMaxHeadline_bytes) before.remove_prefix(before.size() - kMaxHeadline_bytes);
  if (const std::size_t line_break = before.rfind('\n'); line_break != std::string_view::npos)
    before.remove_prefix(line_break + 1);
  const bool marked = before.starts_with('#') || before.starts_with("**");
  skip(before, "#* ");
  if (begins_with(before, "final")) before.remove_prefix(5);
  skip(before, "* ");
  skip(rest, "* ");
  return marked && before.empty() && rest.starts_with('\n');
}

/// What follows the last "answer is", "answer:", "Ans:" or "correct option is".
std::optional<std::string> after_answer_is(std::string_view text) {
  constexpr std::string_view kNouns[] = {"answers", "answer choice",  "answer option",  "answer",
                                         "ans",     "correct option", "correct choice", "答案"};
  std::size_t num_nouns = 0;
  for (std::size_t i = text.size(); i-- > 0 && num_nouns < kMaxNouns;) {
    const char first = text[i];
    const char second = i + 1 < text.size() ? static_cast<char>(text[i + 1] | 32) : '\0';
    const bool begins = ((first | 32) == 'a' && second == 'n') || ((first | 32) == 'c' && second == 'o');
    if (!begins && static_cast<unsigned char>(first) < 0xe0) continue;
    if (i > 0 && is_letter(first) && is_letter(text[i - 1])) continue;
    std::string_view rest = text.substr(i);
    const std::string_view noun = take_word(rest, kNouns);
    if (noun.empty()) continue;
    ++num_nouns;
    const bool json = rest.starts_with("\":");  // {"answer": 42}
    if (!take_joint(rest, noun) && !is_headline(text, i, rest)) continue;
    if (auto below = in_lines_below(rest)) {
      return denies_what_follows(text.substr(0, i)) ? "not " + *below : *below;
    }
    std::string_view clause = sentence(without_fillers(rest));
    if (json && !clause.starts_with('"')) clause = clause.substr(0, clause.find_first_of(",}"));
    if (trimmed(clause).empty()) continue;
    if (denies_what_follows(text.substr(0, i))) return "not " + std::string(trimmed(clause));
    return answer_in_clause(clause);
  }
  return std::nullopt;
}

/// The choice that the last sentence says is right.
std::optional<std::string> affirmed(std::string_view text) {
  text = last_sentence(text);
  const char label = text.size() <= kMaxSentence_bytes ? affirmed_label(text) : '\0';
  return label != 0 ? std::optional(std::string(1, label)) : std::nullopt;
}

/// Whether no words but "and" and "or" stand in a list: "2 and 3, which add up to 5" says something else.
bool names_values_alone(std::string_view list) noexcept {
  for (std::size_t k = 0; k < list.size();) {
    const bool command = list[k] == '\\';
    const std::size_t begin = command ? k + 1 : k;
    std::size_t end = begin;
    while (end < list.size() && is_letter(list[end])) ++end;
    const std::string_view word = list.substr(begin, end - begin);
    if (!command && word.size() > 1 && word != "and" && word != "or" && word != "pi" && word != "sqrt") return false;
    k = std::max(end, begin + 1);
  }
  return true;
}

/// What the text ends with by saying that it is several: "the solutions are x = 2 and x = 3", also in lines below.
std::optional<std::string> listed_at_end(std::string_view text) {
  constexpr std::string_view kNouns[] = {"solutions", "roots", "zeros", "zeroes", "intercepts", "possible values"};
  constexpr std::string_view kOthers[] = {"of the", "candidate", "candidates"};
  constexpr std::string_view kVerb = " are";
  constexpr std::size_t kMaxList_bytes = 400;
  text = trimmed(text);
  if (text.size() > kMaxList_bytes) text.remove_prefix(text.size() - kMaxList_bytes);
  std::size_t noun_end = 0;
  for (const std::string_view noun : kNouns) {
    if (const std::size_t at = text.rfind(noun); at != std::string_view::npos)
      noun_end = std::max(noun_end, at + noun.size());
  }
  if (noun_end == 0) return std::nullopt;
  std::string_view rest = text.substr(noun_end);
  const std::size_t verb = rest.substr(0, kMaxQuestion_bytes).find(kVerb);
  if (verb == std::string_view::npos || rest.substr(0, verb).find_first_of(".:?!\n") != std::string_view::npos)
    return std::nullopt;
  rest.remove_prefix(verb + kVerb.size());
  if (denies_what_follows(text.substr(0, text.size() - rest.size()))) return std::nullopt;
  skip(rest, " *:");
  if (auto below = in_lines_below(rest)) return below;
  const std::string_view list = sentence(rest);
  if (begins_turned_around(list)) return std::string(list);
  const std::string_view before = last_sentence(text.substr(0, noun_end));
  if (turns(before) || has_phrase(before, kOthers)) return std::nullopt;
  const bool joined = list.find(',') != std::string_view::npos || list.find(" and ") != std::string_view::npos;
  const bool several = joined && names_values_alone(list);
  const bool ends = trimmed(rest.substr(list.size())).size() <= 1;
  return several && ends ? std::optional(answer_in_clause(list)) : std::nullopt;
}

/// Without the calculations that GSM8K's solutions write before a result: 9*2 = <<9*2=18>>18.
std::string without_calculations(std::string_view text) {
  constexpr std::size_t kMaxCalculation_bytes = 100;
  std::string out;
  out.reserve(text.size());
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

std::optional<std::string> in_answer_tag(std::string_view text) {
  const auto tagged = last_tagged(text);
  return tagged ? std::optional(answer_in_clause(*tagged)) : std::nullopt;
}

/// "Red: 3\nBlue: 4": lines with labels, of which the last one counts, are no formula of several lines.
bool is_table(std::string_view text) noexcept {
  const std::size_t line = text.find('\n');
  const std::size_t colon = line < text.size() ? text.find(": ") : std::string_view::npos;
  return colon < text.size() && colon > 1 && is_letter(text[colon - 1]) && is_letter(text[colon - 2]);
}

std::optional<std::string> whole(std::string_view text, bool any) {
  text = bare(text);
  if (text.starts_with("## ") || text.starts_with("### ")) text = bare(text.substr(text.find(' ')));  // a headline
  if (any) return text.empty() ? std::nullopt : std::optional(std::string(text));
  if (text.empty() || text.size() > kMaxWhole_bytes) return std::nullopt;
  const bool mixed_text = text.find('$') != std::string_view::npos && text.find("\\$") == std::string_view::npos;
  if (mixed_text || has_emphasis(text)) return std::nullopt;  // words with formulas in them, or money
  if ((is_formula(text) && !is_table(text)) || is_date(text)) return std::string(text);
  const bool words = std::none_of(text.begin(), text.end(), is_digit) &&
                     std::count(text.begin(), text.end(), ' ') < static_cast<std::ptrdiff_t>(kMaxWords) &&
                     text.find('$') == std::string_view::npos;
  if (words) return std::string(text);
  // Numbers and signs alone that are no formula are one wrong answer, not several numbers to choose from.
  const bool signs =
      std::none_of(text.begin(), text.end(), [](char c) { return is_letter(c) || c == '$' || c == '\\'; });
  return signs ? std::optional(std::string(text)) : std::nullopt;
}

}  // namespace

std::optional<std::string> extract(std::string_view response, config::MathProfile profile) {
  if (response.size() > kMaxScanned_bytes)
    response = without_cut_groups(response.substr(response.size() - kMaxScanned_bytes));
  response = without_control_tokens(response);
  // What a model thinks is no answer; what it never stopped thinking is all there is.
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = find_last(response, kThought); end != std::string_view::npos) {
    const std::string_view said = trimmed(response.substr(end + kThought.size()));
    if (!said.empty()) response = said;
  }
  std::string calculated;
  if (response.find("<<") != std::string_view::npos) response = calculated = without_calculations(response);
  std::string digits;
  if (response.find("\xef\xbc") != std::string_view::npos) response = digits = with_ascii_digits(response);
  using P = config::MathProfile;
  switch (profile) {
    case P::boxed:
      return boxed(response);
    case P::gsm8k:
      return after_hashes(response);
    case P::answer_is:
      if (auto found = after_answer_is(response)) return found;
      return affirmed(response);
    case P::answer_tag:
      return in_answer_tag(response);
    case P::text:
      return whole(response, true);
    case P::last_number:
      return last_value(response);
    case P::automatic:
      break;
  }
  if (auto found = boxed(response)) return found;
  if (auto found = in_open_box(response)) return found;
  if (auto found = after_hashes(response)) return found;
  if (auto found = after_answer_is(response)) return found;
  if (auto found = affirmed(response)) return found;
  if (auto found = in_answer_tag(response)) return found;
  if (auto found = whole(response, false)) return found;
  if (auto found = listed_at_end(response)) return found;
  if (auto found = last_value(response)) return found;
  return said_at_end(response);
}

std::string extract_gold(std::string_view ground_truth) {
  if (auto found = boxed(ground_truth)) return *found;
  if (auto found = after_hashes(ground_truth)) return *found;
  std::string text = without_condition(bare(ground_truth));
  if (!is_formula(text)) {
    if (auto found = after_answer_is(text)) return *found;
  }
  return text;
}

}  // namespace qrl::reward::math
