#include "reward/math/clause.h"

#include <algorithm>
#include <cstring>

#include "base/ascii.h"
#include "reward/math/last_number.h"
#include "reward/math/options.h"
#include "reward/math/prose.h"
#include "reward/math/texts.h"
#include "reward/math/tree.h"
#include "reward/math/units.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::trimmed;

constexpr std::size_t kMaxFormula_bytes = 1000;

}  // namespace

std::size_t find_last(std::string_view text, std::string_view needle) noexcept {
  constexpr int kMaxMisses = 1000;  // a call for each costs more than a look at every byte
  for (int misses = 0; text.size() >= needle.size(); ++misses) {
    const std::string_view starts = text.substr(0, text.size() - needle.size() + 1);
    const void* at = starts.empty() ? nullptr : memrchr(starts.data(), needle.front(), starts.size());
    if (at == nullptr) return std::string_view::npos;
    auto found = static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
    if (text.substr(found).starts_with(needle)) return found;
    if (misses == kMaxMisses) {
      const char second = needle.size() > 1 ? needle[1] : '\0';  // tells most of them apart
      const auto is_at = [&](std::size_t k) {
        return text[k] == needle[0] && (second == '\0' || text[k + 1] == second) && text.substr(k).starts_with(needle);
      };
      while (found > 0 && !is_at(found - 1)) --found;
      return found > 0 ? found - 1 : std::string_view::npos;
    }
    text = text.substr(0, found + needle.size() - 1);
  }
  return std::string_view::npos;
}

namespace {

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

/// 0.333..., whose dots say that it goes on.
bool ends_with_dotted_decimal(std::string_view text) noexcept {
  if (!text.ends_with("...")) return false;
  text.remove_suffix(3);
  std::size_t places = 0;
  while (!text.empty() && is_digit(text.back())) text.remove_suffix(1), ++places;
  return places > 0 && text.ends_with('.');
}

}  // namespace

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
    unwrap("```", "```");
    unwrap("_", "_");
    unwrap("\"", "\"");
    if (text.ends_with("**") && text.find("**") + 2 == text.size()) text.remove_suffix(2);  // begun further before
    if (text.ends_with('_') && text.find('_') + 1 == text.size()) text.remove_suffix(1);
    while ((text.ends_with('.') && !ends_with_dotted_decimal(text)) || text.ends_with(',') || text.ends_with(';'))
      text.remove_suffix(1);
    if (text.starts_with(':')) text.remove_prefix(1);
  }
  return text;
}

namespace {

/// A list of words and of what is none is prose, "5 hours and that is it", and so is "the loss is -5".
bool is_prose(const Tree& tree) noexcept {
  const Node& root = tree.at(tree.root);
  if (root.kind == Kind::sum) return tree.child_at(root, 0).kind == Kind::words;
  if (root.kind != Kind::list) return false;
  std::int32_t num_words = 0;
  for (std::int32_t k = 0; k < root.count; ++k) num_words += tree.child_at(root, k).kind == Kind::words ? 1 : 0;
  return num_words > 0 && num_words < root.count;
}

}  // namespace

bool is_formula(std::string_view text) {
  if (text.empty() || text.size() > kMaxFormula_bytes) return false;
  for (const Comma comma : {Comma::thousands, Comma::separator}) {
    const Tree tree = parse(text, comma);
    if (tree.root >= 0) return tree.at(tree.root).kind != Kind::words && !is_prose(tree);
    if (!tree.tokens.ambiguous_comma) break;
  }
  return false;
}

namespace {

/// What a clause says in signs before its words begin: "2 + 7 = 9" of "2 + 7 = 9 as shown", "2\\sqrt{3}" of
/// "2\\sqrt{3}, as required". A bracket behind a space explains.
std::string_view signs_of(std::string_view clause) {
  constexpr std::string_view kWords[] = {"a", "A", "I"};  // of one letter, which are no variables here
  std::size_t end = 0;
  int depth = 0;
  for (std::size_t k = 0; k < clause.size() && end < kMaxFormula_bytes;) {
    std::size_t stop = k;
    for (; stop < clause.size() && (clause[stop] != ' ' || depth > 0); ++stop)
      depth += clause[stop] == '{' ? 1 : clause[stop] == '}' ? -1 : 0;
    const std::string_view word = clause.substr(k, stop - k);
    std::size_t letters = 0;
    while (letters < word.size() && is_letter(word[letters])) ++letters;
    const std::string_view name = word.substr(0, letters);
    const bool one = std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
    const bool short_form = letters == 1 && word.size() > 2 && word[1] == '.' && is_letter(word[2]);  // e.g.
    const bool explains = k > 0 && !word.empty() && std::string_view("([\"&").find(word[0]) != std::string_view::npos;
    if (one || short_form || explains || (letters > 1 && !word_meaning(name))) break;
    end = stop;
    k = stop + 1;
  }
  std::string_view signs = clause.substr(0, end);
  const std::string_view rest = trimmed(clause.substr(end));
  if (signs.ends_with('!') && !rest.empty() && rest[0] >= 'A' && rest[0] <= 'Z') signs.remove_suffix(1);  // well done!
  for (std::size_t before = signs.size() + 1; before != signs.size();) {
    before = signs.size();
    signs = trimmed(signs);
    for (const std::string_view joint : {",", ";", ":", " -", " –", " —", " and", " or"}) {
      if (signs.ends_with(joint)) signs.remove_suffix(joint.size());
    }
  }
  return signs;
}

/// The number that a clause begins with, with its magnitude; empty when it begins otherwise, with several numbers, or
/// when the words behind it make another one of it.
std::string_view first_number(std::string_view clause) {
  std::size_t end = clause.starts_with('-') ? 1 : 0;
  if (end >= clause.size() || !is_digit(clause[end])) return {};
  const auto digit_at = [clause](std::size_t k) { return k < clause.size() && is_digit(clause[k]); };
  for (; end < clause.size(); ++end) {
    const char c = clause[end];
    const bool inside = is_digit(c) || ((c == '.' || c == ',' || c == '/' || c == ' ') && digit_at(end + 1));
    if (!inside) break;
  }
  end += magnitude_behind(clause.substr(end));
  const std::string_view number = clause.substr(0, end);
  if (changes(clause.substr(end), number.find('/') != std::string_view::npos)) return {};
  // 11 6/6 makes no sense as a whole; 42 43 are two numbers.
  return is_formula(number) || number.find('/') != std::string_view::npos ? number : std::string_view();
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

/// The last formula of a text, and the one that "or" joins to it: $x = 3$ or $x = -1$.
std::string with_alternative(std::string_view text, std::string_view formula) {
  std::string_view before = text.substr(0, static_cast<std::size_t>(formula.data() - text.data()));
  while (before.ends_with('$') || before.ends_with(' ')) before.remove_suffix(1);
  if (!before.ends_with("$ or")) return std::string(formula);
  before.remove_suffix(3);
  const std::string_view other = bare(last_delimited(before, "$", "$"));
  return is_formula(other) ? std::string(other) + ", " + std::string(formula) : std::string(formula);
}

/// What precedes a number or formula that comments on the one before it: "1/6, or" of "1/6, or approximately".
/// Nothing where it is not said.
std::optional<std::string_view> before_approximation(std::string_view before) noexcept {
  const auto take = [&before](const auto& endings) {
    while (before.ends_with(' ') || before.ends_with('$') || before.ends_with(',')) before.remove_suffix(1);
    const auto* const ending = std::find_if(std::begin(endings), std::end(endings), [&](std::string_view e) {
      return before.ends_with(e) && before.size() > e.size() && before[before.size() - e.size() - 1] == ' ';
    });
    if (ending == std::end(endings)) return false;
    before.remove_suffix(ending->size());
    return true;
  };
  if (!take(kHedges) || !take(kHedgeJoints)) return std::nullopt;
  while (before.ends_with(' ') || before.ends_with(',')) before.remove_suffix(1);
  return before;
}

/// A decimal behind the fraction or formula that it restates as equal: 1/6 = 0.1667.
std::string with_exact(std::string_view before, std::string value) {
  const auto exact = before_approximation(before);
  if (!exact || value.find('.') == std::string::npos) return value;
  if (exact->ends_with('$')) {
    const std::string_view formula = bare(last_delimited(*exact, "$", "$"));
    return is_formula(formula) ? std::string(formula) + " = " + value : value;
  }
  const auto number = last_number(*exact);
  const bool next_to = number && number->behind.empty() && number->value.find_first_of("/\\") != std::string::npos;
  return next_to ? number->value + " = " + value : value;
}

/// What ends a sentence behind a decimal that goes on, 0.333...; "18... no, 20" is taken back.
bool is_dots(std::string_view behind) noexcept {
  constexpr std::string_view kDots[] = {"...", "....", "\\dots", "\\dots.", "\\ldots", "\\ldots."};
  return std::find(std::begin(kDots), std::end(kDots), behind) != std::end(kDots);
}

/// "5** ✓" without what stands behind its emphasis, where that is signs alone.
std::string_view without_signs_behind_emphasis(std::string_view text) noexcept {
  for (const std::string_view mark : {"**", "__"}) {
    const std::size_t at = text.rfind(mark);
    if (at == std::string_view::npos || at == 0) continue;
    const std::string_view behind = text.substr(at + 2);
    const bool signs = std::all_of(behind.begin(), behind.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x80 || std::string_view(" !.:)").find(c) != std::string_view::npos;
    });
    if (signs) return text.substr(0, text.find(mark) == at ? at : at + 2);
  }
  return text;
}

}  // namespace

std::optional<std::string> last_value(std::string_view text) {
  std::string_view formula;
  for (const auto& [open, close] : {std::pair{"$", "$"}, std::pair{"\\(", "\\)"}, std::pair{"\\[", "\\]"}}) {
    const std::string_view found = bare(last_delimited(text, open, close));
    if (!found.empty() && (formula.empty() || found.data() > formula.data())) formula = found;
  }
  // A \$ that is no money ends a formula: $\frac{1}{2} \$ = 3$.
  if (const std::size_t end = formula.rfind("\\$"); end != std::string_view::npos) {
    const std::string_view behind = trimmed(formula.substr(end + 2));
    if (behind.starts_with('=')) formula = behind;
  }
  const auto number = last_number(text);
  const bool later = number && (formula.empty() || text.data() + number->at > formula.data() + formula.size());
  if (!later && is_formula(formula)) {
    const auto at = static_cast<std::size_t>(formula.data() - text.data());
    const std::string_view before = text.substr(0, at);
    if (ends_with_sign(before) || denies(before) || changes(text.substr(at + formula.size()), true))
      return std::nullopt;
    return with_exact(before, with_alternative(text, formula));
  }
  if (!number || number->value.empty()) return std::nullopt;
  const bool fraction = number->value.find('/') != std::string::npos;
  const bool dotted = number->value.find('.') != std::string::npos && is_dots(trimmed(number->behind));
  if (denies(number->before) || (!dotted && changes(number->behind, fraction))) return std::nullopt;
  const std::string_view minus = ends_with_minus(number->before) && is_digit(number->value.front()) ? "-" : "";
  return with_exact(number->before, std::string(minus) + number->value + (dotted ? "..." : ""));
}

std::string_view last_sentence(std::string_view text) noexcept {
  text = trimmed(text);
  if (text.ends_with('.')) text.remove_suffix(1);
  if (const std::size_t line = text.rfind('\n'); line != std::string_view::npos) text.remove_prefix(line + 1);
  if (const std::size_t stop = text.rfind(". "); stop != std::string_view::npos) text.remove_prefix(stop + 2);
  return text;
}

std::optional<std::string> said_at_end(std::string_view text) {
  text = last_sentence(text);
  if (text.size() > kMaxSentence_bytes) return std::nullopt;
  std::size_t begin = std::string_view::npos;
  for (const std::string_view verb : {" is ", " are ", " equals "}) {
    if (const std::size_t at = text.rfind(verb); at != std::string_view::npos) begin = at + verb.size();
  }
  if (begin == std::string_view::npos) {  // So z = 3 + 4i
    const std::size_t sign = text.find(" = ");
    if (sign == std::string_view::npos || sign < 2 || text[sign - 2] != ' ' || !is_letter(text[sign - 1]))
      return std::nullopt;
    begin = sign + 3;
  }
  constexpr std::string_view kOthers[] = {"square of", "negative of", "inverse of"};
  const std::string_view before = text.substr(0, begin);
  if (turns(before) || has_phrase(before, kOthers) || denies(before)) return std::nullopt;
  std::string_view clause = bare(text.substr(begin));
  for (const std::string_view filler : {"therefore ", "thus ", "then ", "exactly ", "equal to "}) {
    if (clause.starts_with(filler)) clause = bare(clause.substr(filler.size()));
  }
  const std::string_view signs = signs_of(clause), rest = trimmed(clause.substr(signs.size()));
  // One formula of signs and its unit: other words, which join or change, leave it unsaid.
  const bool joins = signs.find(" or ") != std::string_view::npos || signs.find(" and ") != std::string_view::npos;
  if (joins || signs.find_first_of("0123456789") == std::string_view::npos || !is_formula(signs)) return std::nullopt;
  const bool unit = rest.empty() || (is_letter(rest[0]) && measure(rest).known) || rest == "units" ||
                    rest == "square units" || rest == "cubic units";
  return unit ? std::optional(std::string(signs)) : std::nullopt;
}

std::string value_of_clause(std::string_view clause) {
  clause = bare(without_signs_behind_emphasis(clause));
  if (const std::string_view number = first_number(clause); !number.empty()) {  // 42 (forty-two)
    const std::string_view behind = clause.substr(number.size());
    if (behind.size() > 4 && behind.starts_with(" (") && is_letter(behind[2]) && is_letter(behind[3]))
      return std::string(number);
    const std::size_t other = behind.find(" **");  // **2** and **3**
    const bool another = other < behind.size() && other + 3 < behind.size() && is_digit(behind[other + 3]);
    if (behind.starts_with("**") && another) return std::string(clause);
    if (behind.starts_with("**") && !changes(behind.substr(2))) return std::string(number);  // **12** apples
  }
  if (is_formula(clause) || begins_turned_around(clause) || labelled(clause)) return std::string(clause);
  if (is_explained_label(clause)) return std::string(clause.substr(0, 1));
  if (const std::string_view opposite = behind_minus(clause); !opposite.empty()) {
    const std::string_view number = first_number(opposite);
    return number.empty() || number.starts_with('-') ? std::string(clause) : "-" + std::string(number);
  }
  std::size_t begin = 0;
  if (clause.starts_with('$') && clause.size() > 1) {
    const std::size_t end = clause.find('$', clause[1] == '$' ? 2 : 1);
    const std::size_t size =
        end == std::string_view::npos ? 0 : std::min(clause.find_first_not_of('$', end), clause.size());
    const std::string_view formula = bare(clause.substr(0, size));
    if (is_formula(formula)) return std::string(changes(clause.substr(size), true) ? clause : formula);
    // A formula alone that cannot be read is the answer all the same, not the last number in it.
    if (size == clause.size() && formula.find('\\') != std::string_view::npos) return std::string(clause);
    begin = 1;
  }
  const std::string_view number = first_number(clause.substr(begin));
  if (const std::string_view signs = signs_of(clause.substr(begin)); signs.size() > number.size()) {
    const bool ended = signs.ends_with('.') && !signs.ends_with("..");  // what follows is another sentence
    const bool kept = begin + signs.size() < clause.size() && (ended || !changes(clause.substr(begin + signs.size())));
    if (kept && is_formula(signs)) return std::string(signs);
    if (!number.empty() && !is_digit(signs[number.size()])) return std::string(clause);
  }
  if (!number.empty()) return std::string(number);
  if (begin < clause.size() && is_digit(clause[begin])) return std::string(clause);
  const bool cut_off = clause.starts_with('(') && clause.find(')') == std::string_view::npos;
  const bool command = clause.size() > 1 && clause[0] == '\\' && (is_letter(clause[1]) || clause[1] == '{') &&
                       !clause.starts_with("\\text");
  if (cut_off || command || is_date(clause)) return std::string(clause);
  return last_value(clause).value_or(std::string(clause));
}

}  // namespace qrl::reward::math
