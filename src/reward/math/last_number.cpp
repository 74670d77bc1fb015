#include "reward/math/last_number.h"

#include <algorithm>
#include <vector>

#include "base/ascii.h"
#include "reward/math/spelling.h"
#include "reward/math/vocabulary.h"
#include "reward/math/written_number.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::is_space;
using base::trimmed;

constexpr std::size_t kReach_bytes = 200;  // on either side of the last digit: more than the words that count

struct Span {
  std::size_t begin = 0, end = 0;
};

bool digit_at(std::string_view text, std::size_t k) noexcept { return k < text.size() && is_digit(text[k]); }

template <std::size_t N>
bool take_one_of(std::string_view& text, const std::string_view (&endings)[N]) noexcept {
  const auto* ending =
      std::find_if(std::begin(endings), std::end(endings), [text](std::string_view e) { return text.ends_with(e); });
  if (ending != std::end(endings)) text.remove_suffix(ending->size());
  return ending != std::end(endings);
}

/// The text around `at` in ASCII. LaTeX's spaces and those that do not break are spaces where they are not in a number.
std::string spelled_around(std::string_view text, std::size_t at) {
  std::size_t begin = at > kReach_bytes ? at - kReach_bytes : 0;
  while (begin < at && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) ++begin;  // no part of a character
  std::string out = spelled_in_ascii(text.substr(begin, at + kReach_bytes - begin));
  for (std::size_t k = 0; k + 1 < out.size(); ++k) {
    if (out[k] != '\\' || std::string_view(",;:! ").find(out[k + 1]) == std::string_view::npos) continue;
    if (k == 0 || !is_digit(out[k - 1]) || !digit_at(out, k + 2)) out[k] = out[k + 1] = ' ';
  }
  return out;
}

// ---- numbers; each function gives the end of what it reads at `at`, which is `at` where it does not stand there

std::size_t end_of_digits(std::string_view text, std::size_t at) noexcept {
  while (digit_at(text, at)) ++at;
  return at;
}

/// {12}, or one digit.
std::size_t end_of_argument(std::string_view text, std::size_t at, bool sign) noexcept {
  if (digit_at(text, at)) return at + 1;
  if (!text.substr(at).starts_with('{')) return at;
  const std::size_t begin = at + 1 + (sign && text.substr(at + 1).starts_with('-') ? 1 : 0);
  const std::size_t end = end_of_digits(text, begin);
  return end > begin && text.substr(end).starts_with('}') ? end + 1 : at;
}

std::size_t end_of_fraction(std::string_view text, std::size_t at) noexcept {
  for (const std::string_view command : {"\\frac", "\\dfrac", "\\tfrac"}) {
    if (!text.substr(at).starts_with(command)) continue;
    const std::size_t above = end_of_argument(text, at + command.size(), false);
    const std::size_t below = end_of_argument(text, above, false);
    if (above > at + command.size() && below > above) return below;
  }
  return at;
}

/// ^2, ^{-5}.
std::size_t end_of_exponent(std::string_view text, std::size_t at) noexcept {
  if (!text.substr(at).starts_with('^')) return at;
  const std::size_t end = end_of_argument(text, at + 1, true);
  return end > at + 1 ? std::max(end, end_of_digits(text, at + 1)) : at;
}

/// The power of ten of "1.2 \times 10^4".
std::size_t end_of_scale(std::string_view text, std::size_t at) noexcept {
  std::string_view rest = trimmed(text.substr(at));
  for (const std::string_view sign : {"\\times", "\\cdot", "*", "x"}) {
    if (!rest.starts_with(sign)) continue;
    rest = trimmed(rest.substr(sign.size()));
    const auto ten = static_cast<std::size_t>(rest.data() - text.data());
    if (!rest.starts_with("10^")) return at;
    const std::size_t end = end_of_exponent(text, ten + 2);
    return end > ten + 2 ? end : at;
  }
  return at;
}

/// `scratch` begins as a copy of the text.
std::size_t end_of_number(std::string_view text, std::size_t at, std::vector<char>& scratch) {
  const auto scanned = [&scratch](std::size_t begin) { return scan_number(scratch, begin, Comma::thousands).end; };
  std::size_t end = scanned(at);
  while (end < text.size() && std::string_view(".,/:").find(text[end]) != std::string_view::npos &&
         digit_at(text, end + 1))
    end = scanned(end + 1);
  const std::size_t behind = text.substr(end).starts_with(' ') ? end + 1 : end;
  if (const std::size_t fraction = end_of_fraction(text, behind); fraction > behind) return fraction;
  if (const std::size_t exponent = end_of_exponent(text, end); exponent > end) return exponent;
  return end_of_scale(text, end);
}

/// All numbers of a text from left to right, mixed ones as one: 1 3/4.
std::vector<Span> numbers_of(std::string_view text) {
  std::vector<Span> numbers;
  std::vector<char> scratch(text.begin(), text.end());
  for (std::size_t k = 0; k < text.size();) {
    const bool point = text[k] == '.' && digit_at(text, k + 1);
    const std::size_t end = is_digit(text[k]) || point ? end_of_number(text, k, scratch)
                            : text[k] == '\\'          ? end_of_fraction(text, k)
                                                       : k;
    if (end == k) {
      ++k;
      continue;
    }
    const bool fraction = text.substr(k, end - k).find('/') != std::string_view::npos;
    const bool mixed = fraction && !numbers.empty() && text.substr(numbers.back().end, k - numbers.back().end) == " ";
    if (mixed) numbers.back().end = end;
    else numbers.push_back({k, end});
    k = end;
  }
  return numbers;
}

// ---- what stands around them

/// Whether a number is the exponent or index of something else.
bool is_script(std::string_view text, Span number) noexcept {
  std::string_view before = text.substr(0, number.begin);
  if (before.ends_with('-')) before.remove_suffix(1);
  if (before.ends_with('{')) before.remove_suffix(1);
  return before.ends_with('^') || before.ends_with('_');
}

/// "m/s^{": units behind a number up to the exponent of the last one.
bool are_units(std::string_view text) {
  bool any = false;
  for (std::size_t k = 0; k < text.size();) {
    if (!is_letter(text[k])) {
      if (std::string_view(" /*^{}-\\23").find(text[k++]) == std::string_view::npos) return false;
      continue;
    }
    std::string word;
    for (; k < text.size() && is_letter(text[k]); ++k) word += base::lower(text[k]);
    if (word == "text" || word == "mathrm" || word == "cdot" || word == "per") continue;
    if (unit_of(word).dimension == 0) return false;
    any = true;
  }
  return any;
}

constexpr std::string_view kMoney[] = {"\\$", "$", "\\euro ", "\\pounds ", "\\yen ", "\\rupee "};

/// The sign that ends a text and what stands before it; nothing where it is not told whose it is.
struct Sign {
  std::string_view sign, before;
};
std::optional<Sign> sign_at_end(std::string_view text) noexcept {
  constexpr std::string_view kBoth[] = {"\\pm ", "\\pm", "\\mp ", "\\mp"};
  constexpr std::string_view kVerbs[] = {"is",      "are",   "was", "were", "be", "equals", "equal",
                                         "becomes", "gives", "get", "to",   "of", "by"};
  if (std::string_view before = text; take_one_of(before, kBoth)) return Sign{text.substr(before.size()), before};
  std::string_view before = text;
  while (before.ends_with(' ')) before.remove_suffix(1);
  if (!before.ends_with('-') && !before.ends_with('+')) return Sign{{}, text};
  const std::string_view sign = before.substr(before.size() - 1);
  const bool touches = before.size() == text.size();
  before.remove_suffix(1);
  const bool apart =
      before.empty() || std::string_view(" \n\t=:(,;[{<>*|\"'`").find(before.back()) != std::string_view::npos;
  while (before.ends_with(' ')) before.remove_suffix(1);
  const bool begins_line = before.empty() || before.ends_with('\n');
  if (begins_line) return Sign{touches ? sign : std::string_view(), before};  // "- 12" is an item of a list
  if (!apart || is_digit(before.back()) || std::string_view(")}%").find(before.back()) != std::string_view::npos)
    return std::nullopt;
  if (touches || before.ends_with('=') || before.ends_with(':')) return Sign{sign, before};
  std::size_t word = before.size();
  while (word > 0 && is_letter(before[word - 1])) --word;
  const bool verb = std::find(std::begin(kVerbs), std::end(kVerbs), before.substr(word)) != std::end(kVerbs);
  return verb ? std::optional(Sign{sign, before}) : std::nullopt;
}

/// Whether a text ends with < or >, as "x<" does; not with that of a tag, "<b>", or of an arrow.
bool is_relation_at_end(std::string_view text) noexcept {
  constexpr std::size_t kTag_bytes = 16;
  if (text.ends_with('<')) return true;
  if (!text.ends_with('>') || text.size() < 2) return false;
  const std::string_view before = text.substr(text.size() - std::min(kTag_bytes, text.size()));
  const char c = text[text.size() - 2];
  return before.find('<') == std::string_view::npos && (is_letter(c) || is_digit(c) || c == ')' || c == ' ');
}

/// Whether a text ends with a letter by itself, which makes a name of what touches it: x18, B12.
bool is_name_at_end(std::string_view text) noexcept {
  if (text.empty() || !is_letter(text.back())) return false;
  const std::string_view before = text.substr(0, text.size() - 1);
  return before.empty() || (!is_letter(before.back()) && before.back() != '\\');
}

/// Whether a text ends with a left side that is more than a name: x^2 =, |x| =, 1/x =. Not others: 2x, |S| and s^2 may
/// be what was asked.
bool is_equation_at_end(std::string_view text) noexcept {
  constexpr std::string_view kUnknowns = "xyt";
  if (!text.ends_with('=')) return false;
  text = trimmed(text.substr(0, text.size() - 1));
  const std::size_t space = text.find_last_of(" \n$");
  const std::string_view side = space == std::string_view::npos ? text : text.substr(space + 1);
  const std::string_view before = trimmed(text.substr(0, text.size() - side.size()));
  if (!before.empty() && std::string_view("+-*/=<>").find(before.back()) != std::string_view::npos) return false;
  const auto unknown = [&](std::size_t k) { return kUnknowns.find(side[k]) != std::string_view::npos; };
  if (side.size() != 3) return false;
  return (side[1] == '^' && unknown(0)) || (side[0] == '|' && side[2] == '|' && unknown(1)) ||
         (side.starts_with("1/") && unknown(2));
}

/// Whether what stands before a number makes an operand, a bound or an argument of it.
bool is_taken(std::string_view before) noexcept {
  constexpr std::string_view kSigns[] = {"+",     "/",  "^",    "_",     "\\times", "\\cdot", "\\div", "\\sqrt", "\\ne",
                                         "\\neq", "!=", "\\le", "\\leq", "\\ge",    "\\geq",  " <",    " >",     ")("};
  constexpr std::string_view kFunctions[] = {"sin", "cos", "tan", "log", "ln", "exp"};
  const bool touches = !before.ends_with(' ');
  while (before.ends_with(' ')) before.remove_suffix(1);
  if (!touches && before.ends_with(" x")) {
    before = trimmed(before.substr(0, before.size() - 1));
    return !before.empty() && is_digit(before.back());
  }
  if (std::string_view rest = before; take_one_of(rest, kSigns)) return true;
  if (touches && is_name_at_end(before)) return true;
  if (is_relation_at_end(before)) return true;
  if (std::string_view rest = before; take_one_of(rest, kFunctions)) return rest.empty() || !is_letter(rest.back());
  if (before.ends_with("sqrt(") || is_equation_at_end(before)) return true;
  return before.ends_with('*') && !before.ends_with("**");
}

/// Whether what touches a number from behind makes another one of it: 7\pi, 7x, 12K, 12-gon, and 12m of money.
bool is_taken_behind(std::string_view behind, bool money) {
  if (behind.starts_with("\\pi") || behind.starts_with("\\sqrt") || behind.starts_with('^')) return true;
  if (behind.starts_with('}') || behind.starts_with('>')) return true;  // {90}, 296> are markup
  const bool hyphen = behind.size() > 1 && behind[0] == '-' && is_letter(behind[1]);
  std::string word;
  for (std::size_t k = hyphen ? 1 : 0; k < behind.size() && is_letter(behind[k]); ++k) word += base::lower(behind[k]);
  if (hyphen) return unit_of(word).dimension == 0;
  const std::string_view letters = money ? "xyznkiKMBTmb" : "xyznkiKMBT";
  return word.size() == 1 && letters.find(behind[0]) != std::string_view::npos;
}

/// Whether words between and behind two numbers make one amount of them: 3 hours and 30 minutes, 5 feet 10 inches.
bool joins_amounts(std::string_view joint, std::string_view behind) {
  joint = trimmed(joint);
  if (joint.ends_with(" and")) joint = trimmed(joint.substr(0, joint.size() - 4));
  behind = trimmed(behind);
  std::size_t end = 0;
  while (end < behind.size() && is_letter(behind[end])) ++end;
  const auto dimension = [](std::string_view word) { return unit_of(std::string(word)).dimension; };
  const bool word = !joint.empty() && std::all_of(joint.begin(), joint.end(), is_letter);
  return word && end > 0 && dimension(joint) != 0 && dimension(joint) == dimension(behind.substr(0, end));
}

/// Whether a number is no answer beside the one before it: 1 in 12, 11 or 12, between 11 and 12, 1'234,
/// 3 : 4, x = 2 or x = 3.
bool is_part_of_two(std::string_view text, Span previous, Span last) noexcept {
  const std::string_view joint = text.substr(previous.end, last.begin - previous.end);
  if (joint == " in " || joint == " of " || joint == " out of " || joint == " : " || joint == " or ") return true;
  const std::string_view name = joint.starts_with(" or ") ? joint.substr(4) : std::string_view();
  if (name.size() > 1 && is_letter(name[0]) && trimmed(name.substr(1)).starts_with('=')) {
    std::string_view first = trimmed(text.substr(0, previous.begin));
    if (first.ends_with('-')) first = trimmed(first.substr(0, first.size() - 1));
    if (first.ends_with('=') && trimmed(first.substr(0, first.size() - 1)).ends_with(name[0])) return true;
  }
  if (joins_amounts(joint, text.substr(last.end))) return true;
  if (joint == " to ") return !text.substr(0, previous.begin).ends_with("from ");  // the ratio is 2 to 3
  if (joint == " and ") {
    constexpr std::string_view kOfBoth[] = {"etween ", "sum of ", "product of ", "difference of ", "quotient of "};
    std::string_view before = text.substr(0, previous.begin);
    return take_one_of(before, kOfBoth);
  }
  return std::none_of(joint.begin(), joint.end(), [](char c) { return is_space(c) || is_letter(c) || c == '='; });
}

/// Whether a number is the last member of (11, 12).
bool ends_tuple(std::string_view before, std::string_view behind) noexcept {
  if (!behind.starts_with(')') && !behind.starts_with(']')) return false;
  const std::size_t open = before.find_last_not_of("0123456789., -");
  return open != std::string_view::npos && (before[open] == '(' || before[open] == '[') &&
         before.find(',', open) != std::string_view::npos;
}

/// A "!" that is no exclamation: no other sentence begins behind it.
bool has_factorial(std::string_view behind) noexcept {
  if (!behind.starts_with('!')) return false;
  const std::string_view rest = trimmed(behind.substr(1));
  return rest.empty() || rest[0] < 'A' || rest[0] > 'Z';
}

}  // namespace

std::size_t magnitude_behind(std::string_view text) {
  std::size_t end = text.starts_with(' ') || text.starts_with('-') ? 1 : 0;
  std::string word;
  for (; end < text.size() && is_letter(text[end]); ++end) word += base::lower(text[end]);
  return magnitude_of(word) > 1 ? end : 0;
}

bool ends_with_sign(std::string_view text) {
  constexpr std::size_t kSign_bytes = 8;
  const std::string end = spelled_in_ascii(text.substr(text.size() - std::min(kSign_bytes, text.size())));
  std::string_view before = end;
  take_one_of(before, kMoney);
  const auto sign = before.ends_with(' ') ? Sign{} : sign_at_end(before);
  return !sign || !sign->sign.empty();
}

std::optional<LastNumber> last_number(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0 && !is_digit(text[at - 1])) --at;
  if (at == 0) return std::nullopt;
  LastNumber found{at - 1, {}, {}, {}};
  const std::string around = spelled_around(text, at);
  const std::string_view all = around;
  std::vector<Span> numbers = numbers_of(all);
  if (numbers.empty()) return found;
  const std::size_t last_begin = numbers.back().begin;
  while (numbers.size() > 1 && is_script(all, numbers.back())) numbers.pop_back();
  Span last = numbers.back();
  if (last_begin != last.begin && !are_units(all.substr(last.end, last_begin - last.end))) return found;
  if (last.begin == 0 && at > kReach_bytes) return found;  // perhaps it began before
  if (numbers.size() > 1) {
    const Span previous = numbers[numbers.size() - 2];
    const bool ratio = all.substr(0, previous.begin).find("ratio") != std::string_view::npos;
    if (ratio && all.substr(previous.end, last.begin - previous.end) == " to ") last.begin = previous.begin;
    else if (is_part_of_two(all, previous, last)) return found;
  }

  std::string_view before = all.substr(0, last.begin), behind = all.substr(last.end);
  const bool money = take_one_of(before, kMoney);
  while (money && take_one_of(before, kMoney)) {
  }
  const auto sign = sign_at_end(before);
  if (!sign || ends_tuple(sign->before, behind) || (money && before.ends_with('(') && behind.starts_with(')')))
    return found;
  std::size_t size = has_factorial(behind) || behind.starts_with('%') ? 1 : behind.starts_with("\\%") ? 2 : 0;
  if (size == 0) size = magnitude_behind(behind);
  behind.remove_prefix(size);
  if (is_taken(sign->before) || (size == 0 && is_taken_behind(behind, money))) return found;
  found.value = std::string(sign->sign) + std::string(all.substr(last.begin, last.end + size - last.begin));
  found.before = std::string(sign->before);
  found.behind = std::string(behind);
  return found;
}

}  // namespace qrl::reward::math
