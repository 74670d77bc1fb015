#include "reward/math/prose.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

using base::begins_with;
using base::is_digit;
using base::is_letter;
using base::lower;

constexpr std::size_t kMaxWords = 5;  ///< beside a number, that may change it

template <std::size_t N>
bool is_one_of(const std::string_view (&words)[N], std::string_view word) noexcept {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// The first words in lower case; a number or a formula is one word, "0". A sign of punctuation ends them.
std::vector<std::string> first_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t k = 0; k < text.size() && words.size() < kMaxWords;) {
    const char c = text[k];
    if (is_digit(c) || c == '$') {
      words.emplace_back("0");
      return words;
    }
    if (c == '\\') {  // a command shows nothing of its name
      for (++k; k < text.size() && is_letter(text[k]);) ++k;
    } else if (is_letter(c)) {
      words.emplace_back();
      for (; k < text.size() && is_letter(text[k]); ++k) words.back() += lower(text[k]);
    } else if (c == '.' || c == ',' || c == ';' || c == ':' || c == '\n') {
      return words;
    } else {
      ++k;
    }
  }
  return words;
}

}  // namespace

bool begins_turned_around(std::string_view text) noexcept {
  for (const std::string_view text_of : {"$", "\\text{", "\\textbf{", "\\mathrm{"}) {
    if (text.starts_with(text_of)) text.remove_prefix(text_of.size());
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  constexpr std::string_view kWords[] = {
      "not ",    "n't ",    "less than ",    "more than ", "fewer than ", "greater than ",
      "one of ", "either ", "in the range ", "almost ",    "nearly ",     "over ",
      "under ",  "above ",  "below ",        ">",          "<",           "≥",
      "≤",       "≠",       "at least ",     "at most ",   "half of ",    "the square root of ",
      "twice ",  "between "};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [text](std::string_view word) { return text.size() > word.size() && begins_with(text, word); });
}

std::string_view behind_minus(std::string_view text) noexcept {
  for (const std::string_view word : {"negative ", "minus "}) {
    if (begins_with(text, word)) return text.substr(word.size());
  }
  return {};
}

bool ends_with_minus(std::string_view text) noexcept {
  constexpr std::string_view kWords[] = {"negative ", "minus "};
  return std::any_of(std::begin(kWords), std::end(kWords), [text](std::string_view word) {
    if (text.size() < word.size() || (text.size() > word.size() && is_letter(text[text.size() - word.size() - 1])))
      return false;
    return std::equal(word.begin(), word.end(), text.end() - static_cast<std::ptrdiff_t>(word.size()),
                      [](char w, char c) { return w == lower(c); });
  });
}

bool denies(std::string_view before) {
  constexpr std::string_view kDenials[] = {"not", "t", "never", "cannot", "neither", "nor", "doubt", "wrong"};
  std::size_t num_words = 0;
  for (std::size_t end = before.size(); end > 0 && num_words < kMaxWords;) {
    const char c = before[end - 1];
    if (is_letter(c)) {
      std::size_t begin = end;
      std::string word;
      while (begin > 0 && is_letter(before[begin - 1])) --begin;
      for (std::size_t k = begin; k < end; ++k) word += lower(before[k]);
      if (is_one_of(kDenials, word) || (num_words == 0 && word == "than")) return true;
      ++num_words;
      end = begin;
    } else if (c == ' ' || c == '*' || c == '$' || c == '\'' || c == '{' || c == '}' ||
               static_cast<unsigned char>(c) >= 0x80) {
      --end;  // an apostrophe of any kind: isn't
    } else {
      return false;
    }
  }
  return false;
}

bool changes(std::string_view behind) {
  if (behind.starts_with('?') || behind.starts_with("..")) return true;
  constexpr std::string_view kOperations[] = {
      "squared", "cubed",      "factorial",   "minus",  "plus",   "divided", "multiplied", "or",        "half",
      "tenths",  "hundredths", "thousandths", "thirds", "fifths", "sixths",  "eighths",    "incorrect", "wrong"};
  constexpr std::string_view kParts[] = {"half", "third", "quarter", "fourth", "fifth", "halves", "thirds", "quarters"};
  constexpr std::string_view kCompared[] = {"more", "less", "fewer", "greater"};
  constexpr std::string_view kDenied[] = {"not", "wrong", "incorrect", "false", "never"};
  std::vector<std::string> words = first_words(behind);
  if (words.empty()) return false;
  if (words[0] == "out" && words.size() > 1) words.erase(words.begin());  // 5 out of 6
  if (words[0] == "of" || words[0] == "th") return words.size() > 1 && (words[1] == "0" || words[1] == "root");
  if (is_one_of(kOperations, words[0])) return true;
  if (words[0] == "to" || words[0] == "percent") return words.size() > 1 && (words[1] == "0" || words[1] == "of");
  if (words[0] == "in" || words[0] == "base")
    return words.size() > 1 && (words[0] == "base" ? words[1] == "0" : words[1] == "base");
  if (words[0] == "times") return words.size() > 1 && (words[1] == "0" || words[1].size() == 1);
  for (std::size_t k = 0; k + 1 < words.size(); ++k) {
    const std::string& word = words[k];
    const std::string& next = words[k + 1];
    if (next == "than" && is_one_of(kCompared, word)) return true;
    if (word == "or" && is_one_of(kCompared, next)) return true;
    if ((word == "is" || word == "was") && is_one_of(kDenied, next)) return true;
    if ((word == "isn" || word == "wasn" || word == "can" || word == "cannot") && (next == "t" || next == "be"))
      return true;
  }
  const bool part = words[0] == "and" && words.size() > 1;
  return part && std::any_of(words.begin() + 1, words.end(), [&](const auto& word) { return is_one_of(kParts, word); });
}

}  // namespace qrl::reward::math
