#include "reward/math/texts.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/ascii.h"
#include "reward/math/prose.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

constexpr char kNegation = '!';  // among the signs shown

using base::is_digit;
using base::is_letter;
using base::trimmed;

}  // namespace

std::string text_key(std::string_view text) {
  std::string key;
  for (std::size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == '\\') {
      const std::size_t begin = k + 1;
      while (k + 1 < text.size() && is_letter(text[k + 1])) ++k;
      const std::string_view name = text.substr(begin, k + 1 - begin);
      const auto meaning = command_meaning(name);
      const bool layout = wrapper_of(name) != Wrapper::none || (meaning && meaning->type == TokenType::end);
      if (!layout) key += name;  // the root of "odd" is not "odd"
      continue;
    }
    const bool before_digit = k + 1 < text.size() && is_digit(text[k + 1]);
    const bool behind_letter = k > 0 && is_letter(text[k - 1]);
    // Figure-3 is Figure 3; 3.5 is not 35, -3 not 3.
    if (before_digit && std::string_view(".-+/:^").find(c) != std::string_view::npos && !behind_letter) key += c;
    if (is_letter(c)) key += static_cast<char>(c | 32);
    else if (is_digit(c) || static_cast<unsigned char>(c) >= 0x80) key += c;
  }
  return key;
}

std::string signs_shown(std::string_view text) {
  constexpr std::string_view kNegations[] = {"\\lnot", "\\neg", "\\overline", "\\bar"};
  std::string signs;
  for (std::size_t k = 0; k < text.size(); ++k) {
    for (const std::string_view command : kNegations) {
      const std::string_view rest = text.substr(k);
      if (rest.starts_with(command) && (rest.size() == command.size() || !is_letter(rest[command.size()])))
        signs += kNegation;
    }
    const bool minus = k == 0 && text.size() > 1 && text[0] == '-' && is_letter(text[1]);
    if (minus || std::string_view("+/^=<>|").find(text[k]) != std::string_view::npos) signs += text[k];
  }
  return signs;
}

bool is_named_number(std::string_view text) noexcept {
  bool word = false, number = false;
  for (std::size_t k = 0; k < text.size();) {
    const std::size_t begin = k;
    if (is_letter(text[k])) {
      while (k < text.size() && is_letter(text[k])) ++k;
      word = word || k - begin >= 4;
    } else if (is_digit(text[k])) {
      while (k < text.size() && is_digit(text[k])) ++k;
      number = true;
      const bool apart = (begin == 0 || text[begin - 1] == ' ') && (k == text.size() || !is_letter(text[k]));
      if (!apart) return false;
    } else if (std::string_view(" ,.'-").find(text[k]) != std::string_view::npos) {
      ++k;
    } else {
      return false;
    }
  }
  return word && number;
}

bool names_reals(std::string_view key) noexcept {
  constexpr std::string_view kBegins[] = {"thesetofall", "setofall", "allofthe", "all", "any", "every", ""};
  constexpr std::string_view kNames[] = {"realnumbers",  "realnumber",  "realvalues", "realvalue",
                                         "realvaluesof", "realvalueof", "reals",      "real"};
  const auto* const begin =
      std::find_if(std::begin(kBegins), std::end(kBegins), [key](auto word) { return key.starts_with(word); });
  const std::string_view name = key.substr(begin->size());
  if (begin->empty() && name != "realnumbers") return false;  // "real" is no set
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool is_date(std::string_view text) {
  constexpr std::string_view kMonths[] = {"january", "february", "march",     "april",   "may",      "june",
                                          "july",    "august",   "september", "october", "november", "december"};
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string month = text_key(text.substr(0, end));
  const std::string_view rest = text.substr(end);
  return end > 0 && text[0] >= 'A' && text[0] <= 'Z' && std::any_of(rest.begin(), rest.end(), is_digit) &&
         std::find(std::begin(kMonths), std::end(kMonths), month) != std::end(kMonths) &&
         rest.find_first_not_of(" ,0123456789stndrh") == std::string_view::npos;
}

bool is_modulus(std::string_view content) noexcept {
  return content.starts_with("(mod ") && content.ends_with(')') && content.size() > 6;
}

bool is_numeric_tuple(std::string_view content) noexcept {
  if (content.size() < 5 || std::string_view("([").find(content.front()) == std::string_view::npos ||
      std::string_view(")]").find(content.back()) == std::string_view::npos)
    return false;
  const std::string_view inside = content.substr(1, content.size() - 2);
  return inside.find(',') != std::string_view::npos &&
         inside.find_first_not_of("0123456789.,+-/ ") == std::string_view::npos;
}

bool ends_with_spacing(std::string_view text) noexcept {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string_view::npos) return false;
  const bool apart = end + 1 < text.size();
  text = text.substr(0, end + 1);
  constexpr std::string_view kSpaces[] = {"\\,", "\\;", "\\:", "~", "\\quad", "\\qquad", "\\thinspace"};
  return (apart && text.ends_with('\\') && !text.ends_with("\\\\")) ||
         std::any_of(std::begin(kSpaces), std::end(kSpaces), [text](auto space) { return text.ends_with(space); });
}

bool is_list_of_letters(std::string_view content) noexcept {
  bool several = false;
  if (std::none_of(content.begin(), content.end(), is_letter)) return false;
  for (std::size_t k = 0; k < content.size(); ++k) {
    const char c = content[k];
    if (c >= 'A' && c <= 'Z' && (k + 1 == content.size() || !is_letter(content[k + 1]))) continue;
    const bool joined = content.substr(k).starts_with(" and ") || content.substr(k).starts_with(" or ");
    if (!joined && c != ' ' && c != ',') return false;
    several = several || joined || c == ',';
    if (joined) k += content[k + 1] == 'a' ? 4 : 3;
  }
  return several;
}

bool is_equation_of_letters(std::string_view content) noexcept {
  std::size_t run = 0;
  for (const char c : content) {
    run = is_letter(c) ? run + 1 : 0;
    if (run > 1 || c == '\\' || c == '$') return false;
  }
  return content.find('=') != std::string_view::npos;
}

bool says_is(std::string_view words) {
  constexpr std::string_view kVerbs[] = {"is", "are", "equals", "is:", "are:"};
  constexpr std::string_view kOthers[] = {
      "no",     "none",     "unless",    "if",       "but",           "all",          "any",
      "than",   "plus",     "minus",     "times",    "twice",         "half",         "double",
      "triple", "third",    "quarter",   "unlikely", "impossible",    "unknown",      "guess",
      "bound",  "possible", "logarithm", "without",  "of the answer", "of the value", "of the number",
      "of it",  "except",   "factorial"};
  const std::size_t space = words.rfind(' ');
  const auto* const verb = std::find(std::begin(kVerbs), std::end(kVerbs), words.substr(space + 1));
  if (verb == std::end(kVerbs)) return false;
  words.remove_suffix(words.size() - (space == std::string_view::npos ? 0 : space));
  return words.find_first_of("0123456789:;") == std::string_view::npos && !turns(words) && !has_phrase(words, kOthers);
}

bool is_hedge(std::string_view words) noexcept {
  for (const std::string_view joint : kHedgeJoints) {
    if (!words.starts_with(joint)) continue;
    const std::string_view hedge = trimmed(words.substr(joint.size()));
    return std::find(std::begin(kHedges), std::end(kHedges), hedge) != std::end(kHedges);
  }
  return false;
}

bool begins_value(std::string_view text) noexcept {
  text = trimmed(text);
  if (text.starts_with("\\left")) text = trimmed(text.substr(5));
  while (!text.empty() && std::string_view("${-([").find(text.front()) != std::string_view::npos)
    text = trimmed(text.substr(1));
  constexpr std::string_view kCommands[] = {"\\frac", "\\dfrac", "\\tfrac", "\\sqrt", "\\pi", "\\$"};
  return (!text.empty() && is_digit(text.front())) ||
         std::any_of(std::begin(kCommands), std::end(kCommands), [text](auto c) { return text.starts_with(c); });
}

namespace {

struct WordList {
  std::vector<std::string> keys;  ///< of its items, sorted; empty: it is no list
  bool alternatives = false;      ///< "or" joins two of them
};

/// Without the commands and braces of text, and dollars.
std::string without_wrappers(std::string_view text) {
  constexpr std::string_view kWrappers[] = {"\\textbf{", "\\text{", "\\mathrm{", "\\{", "\\}", "{", "}", "$"};
  std::string out;
  for (std::size_t k = 0; k < text.size();) {
    const auto* const wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                             [rest = text.substr(k)](auto w) { return rest.starts_with(w); });
    if (wrapper == std::end(kWrappers)) out += text[k++];
    else k += wrapper->size();
  }
  return out;
}

WordList word_list(std::string_view content) {
  constexpr std::size_t kMaxItems = 20, kMaxSpaces = 2;  // an item of more words is a clause
  struct Joint {
    std::string_view text;
    bool alternative;
  };
  constexpr Joint kJoints[] = {{", and ", false}, {", or ", true}, {" and ", false}, {" or ", true}, {",", false}};
  WordList list;
  bool word = false;  // letters alone are choices or variables
  for (;;) {
    std::size_t end = content.size();
    for (const Joint& joint : kJoints) end = std::min(end, content.find(joint.text));
    const std::string_view item = trimmed(content.substr(0, end));
    const bool plain =
        std::all_of(item.begin(), item.end(), [](char c) { return is_letter(c) || c == ' ' || c == '-' || c == '\''; });
    const auto num_spaces = static_cast<std::size_t>(std::count(item.begin(), item.end(), ' '));
    if (!plain || item.empty() || num_spaces > kMaxSpaces || list.keys.size() == kMaxItems) return {};
    word = word || item.size() > 2;
    list.keys.push_back(text_key(item));
    if (end == content.size()) break;
    content.remove_prefix(end);
    const auto* const joint = std::find_if(std::begin(kJoints), std::end(kJoints),
                                           [content](const Joint& j) { return content.starts_with(j.text); });
    list.alternatives = list.alternatives || joint->alternative;
    content.remove_prefix(joint->text.size());
  }
  if (!word || list.keys.size() < 2) return {};
  std::sort(list.keys.begin(), list.keys.end());
  return list;
}

}  // namespace

std::optional<bool> same_word_lists(std::string_view a, std::string_view b) {
  constexpr std::size_t kLongest_bytes = 300;
  if (std::max(a.size(), b.size()) > kLongest_bytes || std::any_of(a.begin(), a.end(), is_digit)) return std::nullopt;
  const WordList first = word_list(without_wrappers(a));
  if (first.keys.empty()) return std::nullopt;
  const WordList second = word_list(without_wrappers(b));
  return first.keys == second.keys ? std::optional(first.alternatives == second.alternatives) : std::nullopt;
}

bool same_text(std::string_view a, std::string_view b) {
  const auto without_space = [](std::string_view text) {
    std::string out;
    std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return c != ' ' && c != '\n'; });
    return out;
  };
  const std::string x = without_space(a);
  // "1 2/3" and "12/3" differ by their space only.
  return !x.empty() && (a == b || (x == without_space(b) &&
                                   std::none_of(x.begin(), x.end(), [](char c) { return c >= '0' && c <= '9'; })));
}

bool begins_with_verdict(const std::string& gold_key, std::string_view answer) {
  constexpr std::string_view kOpposites[][2] = {{"yes", "no"}, {"no", "yes"}, {"true", "false"}, {"false", "true"}};
  const auto* const verdict = std::find_if(std::begin(kOpposites), std::end(kOpposites),
                                           [&](const std::string_view(&pair)[2]) { return pair[0] == gold_key; });
  if (verdict == std::end(kOpposites) || signs_shown(answer).find(kNegation) != std::string::npos) return false;
  std::size_t end = 0;
  for (; end < answer.size() && !is_letter(answer[end]); ++end) {
    if (is_digit(answer[end])) return false;
    if (answer[end] != '\\') continue;  // a command: \text{Yes, …}
    while (end + 1 < answer.size() && is_letter(answer[end + 1])) ++end;
  }
  const std::size_t begin = end;
  while (end < answer.size() && is_letter(answer[end])) ++end;
  const bool ends = end == answer.size() || answer[end] == ',' || answer[end] == '.' || answer[end] == ';';
  if (!ends || text_key(answer.substr(begin, end - begin)) != gold_key) return false;
  std::size_t last = answer.size();
  while (last > end && !is_letter(answer[last - 1])) --last;
  if (last == end && std::any_of(answer.begin() + static_cast<std::ptrdiff_t>(end), answer.end(), is_digit))
    return false;  // "no, 7" gives no reason
  std::size_t first = last;
  while (first > end && is_letter(answer[first - 1])) --first;
  return text_key(answer.substr(first, last - first)) != (*verdict)[1];
}

}  // namespace qrl::reward::math
