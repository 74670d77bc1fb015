#include "reward/math/extract.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "reward/box.h"
#include "reward/math/tree.h"
#include "reward/verifier.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxWhole_bytes = 300;
constexpr std::size_t kMaxWords = 5;
constexpr std::size_t kMaxBoxes = 64;
constexpr std::size_t kMaxFormula_bytes = 1000;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Where the last `needle` begins; npos if there is none. As std::string_view::rfind, but at the speed of memory.
std::size_t find_last(std::string_view text, std::string_view needle) noexcept {
  while (text.size() >= needle.size()) {
    const std::string_view starts = text.substr(0, text.size() - needle.size() + 1);
    const void* at = starts.empty() ? nullptr : memrchr(starts.data(), needle.front(), starts.size());
    if (at == nullptr) return std::string_view::npos;
    const auto found = static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
    if (text.substr(found).starts_with(needle)) return found;
    text = text.substr(0, found + needle.size() - 1);
  }
  return std::string_view::npos;
}

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

/// Without LaTeX's spaces at either end: \, \; \: \! and a backslash before a space that is gone already.
std::string_view without_latex_space(std::string_view text) noexcept {
  constexpr std::string_view kSpaces[] = {"\\,", "\\;", "\\:", "\\!", "\\ "};
  const auto is_broken = [](std::string_view t) {
    return t.size() > 2 && t[t.size() - 3] == '\\';
  };  // \\, is a line's end
  for (bool again = true; again;) {
    again = false;
    text = trimmed(text);
    for (const std::string_view space : kSpaces) {
      if (text.starts_with(space)) text.remove_prefix(space.size()), again = true;
      if (text.ends_with(space) && !is_broken(text)) text.remove_suffix(space.size()), again = true;
    }
    if (text.ends_with('\\') && !text.ends_with("\\\\")) text.remove_suffix(1), again = true;
  }
  return text;
}

/// Without what surrounds a formula: $…$, \(…\), \[…\], **…**, LaTeX's spaces, and the full stop behind it.
std::string_view bare(std::string_view text) noexcept {
  for (std::size_t before = text.size() + 1; before != text.size();) {
    before = text.size();
    text = without_latex_space(text);
    const auto unwrap = [&text](std::string_view open, std::string_view close) {
      if (text.size() < open.size() + close.size() || !text.starts_with(open) || !text.ends_with(close)) return;
      if (text.substr(open.size(), text.size() - open.size() - close.size()).find(close) != std::string_view::npos)
        return;
      text = trimmed(text.substr(open.size(), text.size() - open.size() - close.size()));
    };
    unwrap("$$", "$$");
    unwrap("$", "$");
    unwrap("\\(", "\\)");
    unwrap("\\[", "\\]");
    unwrap("**", "**");
    unwrap("`", "`");
    unwrap("\"", "\"");
    while (text.ends_with('.') || text.ends_with(',') || text.ends_with(';')) text.remove_suffix(1);
    if (text.starts_with(':')) text.remove_prefix(1);
  }
  return text;
}

bool is_formula(std::string_view text) {
  if (text.empty() || text.size() > kMaxFormula_bytes) return false;
  for (const Comma comma : {Comma::thousands, Comma::separator}) {
    const Tree tree = parse(text, comma);
    if (tree.root >= 0) return tree.at(tree.root).kind != Kind::words;
    if (!tree.tokens.ambiguous_comma) break;
  }
  return false;
}

/// "f(x) = ax + b, where b is any integer" without its condition.
std::string_view without_condition(std::string_view text) {
  for (const std::string_view word : {", where ", "\\text{ where", "\\text{where", " where "}) {
    const std::size_t at = text.find(word);
    if (at == std::string_view::npos || at == 0) continue;
    const std::string_view formula = bare(text.substr(0, at));
    if (is_formula(formula)) return formula;
  }
  return text;
}

// ---- boxes

std::optional<Box> last_box(std::string_view text) noexcept {
  return reward::last_box(text, {"\\boxed", "\\boxed ", "\\fbox"});
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
    } else {
      return false;
    }
  }
  return joined;
}

std::optional<std::string> boxed(std::string_view text) {
  const auto last = last_box(text);
  if (!last) return std::nullopt;
  std::string answer(without_condition(bare(last->content)));
  std::size_t begin = last->begin;
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

/// [begin, end) of the last number: sign, digits with their separators, a fraction, a mixed number, a percent sign.
std::optional<std::string_view> last_number(std::string_view text) noexcept {
  std::size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  // A number that runs into a brace or a bracket of markup does not stand for itself: {90}, \frac{3}{4}, 296>.
  if (end == 0 || (end < text.size() && (text[end] == '}' || text[end] == '>'))) return std::nullopt;
  std::size_t begin = end;
  const std::size_t least = end > 200 ? end - 200 : 0;
  while (begin > least) {
    const char c = text[begin - 1];
    const bool next_is_digit = begin < text.size() && is_digit(text[begin]);
    const bool inside = is_digit(c) || c == '.' || c == ',' || (c == '/' && next_is_digit);
    const bool gap = c == ' ' && next_is_digit && begin >= 2 && is_digit(text[begin - 2]);
    if (!inside && !gap) break;
    --begin;
  }
  while (begin < end && !is_digit(text[begin]) && !(text[begin] == '.' && is_digit(text[begin + 1]))) ++begin;
  std::string_view number = text.substr(begin, end - begin);
  if (const std::size_t gap = number.find(' '); gap != std::string_view::npos && !is_formula(number)) {
    // "2 3" are two numbers; "4 0/0" is one that makes no sense.
    if (number.find('/') == std::string_view::npos) number.remove_prefix(number.rfind(' ') + 1);
  }
  begin = end - number.size();
  const bool sign = begin > 0 && (text[begin - 1] == '-' || text[begin - 1] == '+');
  if (sign && (begin < 2 || !(is_letter(text[begin - 2]) || is_digit(text[begin - 2]) || text[begin - 2] == ')')))
    --begin;
  if (end < text.size() && text[end] == '%') ++end;
  else if (text.substr(end).starts_with("\\%")) end += 2;
  return text.substr(begin, end - begin);
}

/// The number that a clause begins with; empty when it begins otherwise.
std::string_view first_number(std::string_view clause) {
  std::size_t end = clause.starts_with('-') ? 1 : 0;
  if (end >= clause.size() || !is_digit(clause[end])) return {};
  const auto digit_at = [clause](std::size_t k) { return k < clause.size() && is_digit(clause[k]); };
  for (; end < clause.size(); ++end) {
    const char c = clause[end];
    const bool inside = is_digit(c) || ((c == '.' || c == ',' || c == '/' || c == ' ') && digit_at(end + 1));
    if (!inside) break;
  }
  std::string_view number = clause.substr(0, end);
  if (is_formula(number) || number.find('/') != std::string_view::npos)
    return number;  // 11 6/6 makes no sense as a whole
  number = number.substr(0, number.find(' '));
  return is_formula(number) ? number : std::string_view();
}

/// The last formula between delimiters of its kind; empty when there is none.
std::string_view last_delimited(std::string_view text, std::string_view open, std::string_view close) noexcept {
  std::size_t end = find_last(text, close);
  while (open == "$" && end != std::string_view::npos && end > 0 && text[end - 1] == '\\')
    end = find_last(text.substr(0, end), close);
  if (end == std::string_view::npos || end == 0) return {};
  std::size_t begin = find_last(text.substr(0, end), open);
  while (open == "$" && begin != std::string_view::npos && begin > 0 && text[begin - 1] == '\\') {
    begin = find_last(text.substr(0, begin), open);
  }
  if (begin == std::string_view::npos) return {};
  return text.substr(begin + open.size(), end - begin - open.size());
}

std::optional<std::string> last_value(std::string_view text) {
  std::string_view formula;
  for (const auto& [open, close] : {std::pair{"$", "$"}, std::pair{"\\(", "\\)"}, std::pair{"\\[", "\\]"}}) {
    const std::string_view found = bare(last_delimited(text, open, close));
    if (!found.empty() && (formula.empty() || found.data() > formula.data())) formula = found;
  }
  const auto number = last_number(text);
  const bool later = number && (formula.empty() || number->data() > formula.data() + formula.size());
  if (!later && is_formula(formula)) return std::string(formula);
  return number ? std::optional(std::string(*number)) : std::nullopt;
}

/// A box that is begun and never closed says what stands on its line, where that makes sense as a whole.
std::optional<std::string> in_open_box(std::string_view text) {
  const std::size_t at = find_last(text, "\\boxed");
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + 6);
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (text.starts_with('{')) text.remove_prefix(1);
  return std::string(bare(text.substr(0, text.find('\n'))));
}

/// Whether a clause begins with words that make another answer of the number behind them.
bool is_turned_around(std::string_view clause) noexcept {
  constexpr std::string_view kWords[] = {
      "not ",      "less than ", "more than ", "fewer than ",         "greater than ",
      "at least ", "at most ",   "half of ",   "the square root of ", "twice "};
  return std::any_of(std::begin(kWords), std::end(kWords), [clause](std::string_view word) {
    return clause.size() > word.size() && std::equal(word.begin(), word.end(), clause.begin(), [](char w, char c) {
             return w == (is_letter(c) ? static_cast<char>(c | 32) : c);
           });
  });
}

/// What a clause says: it as a whole where it is a formula, else the formula or number that it begins with, else its
/// last one, else its words.
std::string value_of_clause(std::string_view clause) {
  clause = bare(clause);
  if (const auto box = boxed(clause)) return *box;
  if (const auto open = in_open_box(clause)) return *open;
  if (is_formula(clause) || is_turned_around(clause)) return std::string(clause);
  std::size_t begin = 0;
  if (clause.starts_with('$') && clause.size() > 1) {
    const std::size_t end = clause.find('$', clause[1] == '$' ? 2 : 1);
    const std::string_view formula = bare(clause.substr(0, end == std::string_view::npos ? 0 : end + 1));
    if (is_formula(formula)) return std::string(formula);
    begin = 1;
  }
  if (const std::string_view number = first_number(clause.substr(begin)); !number.empty()) return std::string(number);
  return last_value(clause).value_or(std::string(clause));
}

// ---- markers

std::optional<std::string> after_hashes(std::string_view text) {
  const std::size_t at = find_last(text, "####");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = trimmed(text.substr(at + 4));
  return value_of_clause(rest.substr(0, rest.find('\n')));
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
    if (text[i] == '.' && (i + 1 == text.size() || is_space(text[i + 1]))) return text.substr(0, i);
    if (text[i] == '<' && (text.substr(i).starts_with("</") || text.substr(i).starts_with("<|")))
      return text.substr(0, i);
  }
  return text;
}

std::optional<std::string> after_answer_is(std::string_view text) {
  constexpr std::string_view kWord = "answer";
  for (std::size_t i = text.size(); i-- > 0;) {
    if ((text[i] | 32) != 'a' || text.size() - i < kWord.size()) continue;
    const bool same = std::equal(kWord.begin(), kWord.end(), text.begin() + static_cast<std::ptrdiff_t>(i),
                                 [](char a, char b) { return a == (b | 32); });
    if (!same) continue;
    std::string_view rest = text.substr(i + kWord.size());
    if (rest.starts_with('s')) rest.remove_prefix(1);
    const auto skip = [&rest](std::string_view characters) {
      rest.remove_prefix(std::min(rest.find_first_not_of(characters), rest.size()));
    };
    skip(" *_");
    bool marker = false;
    if (rest.starts_with("is ") || rest.starts_with("is:") || rest.starts_with("is\n")) {
      rest.remove_prefix(2);
      marker = true;
    } else if (rest.starts_with("are ") || rest.starts_with("are:")) {
      rest.remove_prefix(3);
      marker = true;
    }
    skip(" *_");
    if (rest.starts_with(':') || rest.starts_with('=')) {
      rest.remove_prefix(1);
      marker = true;
    }
    if (!marker) continue;
    skip(" *_\n\r\t");
    const std::string_view clause = sentence(rest);
    if (trimmed(clause).empty()) continue;
    return value_of_clause(clause);
  }
  return std::nullopt;
}

std::optional<std::string> in_answer_tag(std::string_view text) {
  const auto tagged = last_tagged(text);
  return tagged ? std::optional(value_of_clause(*tagged)) : std::nullopt;
}

std::optional<std::string> whole(std::string_view text, bool any) {
  text = bare(text);
  if (any) return text.empty() ? std::nullopt : std::optional(std::string(text));
  if (text.empty() || text.size() > kMaxWhole_bytes) return std::nullopt;
  const bool mixed_text = text.find('$') != std::string_view::npos && text.find("\\$") == std::string_view::npos;
  if (mixed_text) return std::nullopt;  // words with formulas in them, or money
  if (is_formula(text)) return std::string(text);
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
  if (response.size() > kMaxScanned_bytes) response.remove_prefix(response.size() - kMaxScanned_bytes);
  response = without_control_tokens(response);
  // What a model thinks is no answer; what it never stopped thinking is all there is.
  constexpr std::string_view kThought = "</think>";
  if (const std::size_t end = find_last(response, kThought); end != std::string_view::npos) {
    const std::string_view said = trimmed(response.substr(end + kThought.size()));
    if (!said.empty()) response = said;
  }
  using P = config::MathProfile;
  switch (profile) {
    case P::boxed:
      return boxed(response);
    case P::gsm8k:
      return after_hashes(response);
    case P::answer_is:
      return after_answer_is(response);
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
  if (auto found = in_answer_tag(response)) return found;
  if (auto found = whole(response, false)) return found;
  return last_value(response);
}

std::string extract_gold(std::string_view ground_truth) {
  if (auto found = boxed(ground_truth)) return *found;
  if (auto found = after_hashes(ground_truth)) return *found;
  const std::string_view text = without_condition(bare(ground_truth));
  if (!is_formula(text)) {
    if (auto found = after_answer_is(text)) return *found;
  }
  return std::string(text);
}

}  // namespace qrl::reward::math
