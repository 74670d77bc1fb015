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

constexpr std::string_view kDenials[] = {"not",   "n't",   "never",     "cannot", "neither", "nor",
                                         "doubt", "wrong", "incorrect", "false",  "untrue"};
constexpr std::string_view kMinus[] = {"negative ", "minus "};
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
      words.push_back(take_letters(text, k));
    } else if (c == '.' || c == ',' || c == ';' || c == ':' || c == '\n') {
      return words;
    } else {
      ++k;
    }
  }
  return words;
}

}  // namespace

std::string take_letters(std::string_view text, std::size_t& at) {
  std::string word;
  for (; at < text.size() && is_letter(text[at]); ++at) word += lower(text[at]);
  return word;
}

bool has_phrase(std::string_view text, std::span<const std::string_view> phrases) {
  std::string spaced = " ";  // its words, each with a space behind it
  for (std::size_t k = 0; k < text.size();) {
    if (!is_letter(text[k])) {
      ++k;
      continue;
    }
    std::string word = take_letters(text, k);
    const std::string_view rest = text.substr(k);
    const bool denied = word.ends_with('n') && (begins_with(rest, "'t") || begins_with(rest, "’t"));
    if (denied) {  // is n't
      word.back() = ' ';
      word += "n't";
      k += rest.find_first_of("tT") + 1;
    }
    spaced += word + ' ';
  }
  return std::any_of(phrases.begin(), phrases.end(), [&spaced](std::string_view phrase) {
    return spaced.find(' ' + std::string(phrase) + ' ') != std::string::npos;
  });
}

bool turns(std::string_view words) {
  constexpr std::string_view kTurning[] = {"not",      "n't",        "never",      "false",
                                           "wrong",    "incorrect",  "reciprocal", "reciprocals",
                                           "opposite", "extraneous", "rejected"};
  return has_phrase(words, kTurning);
}

std::set<std::string> saying_words(std::string_view words) {
  constexpr std::string_view kSaying[] = {
      "if",           "unless",     "when",      "wins",       "loses",   "converges", "diverges",  "profit",
      "loss",         "gain",       "above",     "below",      "maximum", "minimum",   "odd",       "even",
      "increasing",   "decreasing", "increase",  "decrease",   "prime",   "composite", "true",      "false",
      "rational",     "irrational", "positive",  "negative",   "north",   "south",     "east",      "west",
      "left",         "right",      "up",        "down",       "before",  "after",     "ago",       "later",
      "earlier",      "convergent", "divergent", "continuous", "more",    "fewer",     "gained",    "lost",
      "older",        "younger",    "ahead",     "behind",     "higher",  "lower",     "clockwise", "counterclockwise",
      "discontinuous"};
  std::set<std::string> found;
  for (std::size_t k = 0; k < words.size();) {
    std::string word = take_letters(words, k);
    if (word.empty()) ++k;
    else if (is_one_of(kSaying, word)) found.insert(std::move(word));
  }
  return found;
}

bool begins_turned_around(std::string_view text) noexcept {
  for (const std::string_view text_of : {"$", "\\text{", "\\textbf{", "\\mathrm{"}) {
    if (text.starts_with(text_of)) text.remove_prefix(text_of.size());
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  constexpr std::string_view kWords[] = {"not ",        "n't ",
                                         "less than ",  "more than ",
                                         "fewer than ", "greater than ",
                                         "either ",     "in the range ",
                                         "almost ",     "nearly ",
                                         ">",           "<",
                                         "≥",           "≤",
                                         "≠",           "at least ",
                                         "at most ",    "unknown",
                                         "undefined",   "the square root of "};
  // Of a number that follows soon: "over 42", "half of 84", but "over four weeks she has walked 60 miles".
  constexpr std::string_view kOfNumber[] = {"one of ", "over ",    "under ", "above ",
                                            "below ",  "half of ", "twice ", "between "};
  const auto begins = [text](std::string_view word) { return text.size() > word.size() && begins_with(text, word); };
  if (std::any_of(std::begin(kWords), std::end(kWords), begins)) return true;
  const auto* const of_number = std::find_if(std::begin(kOfNumber), std::end(kOfNumber), begins);
  if (of_number == std::end(kOfNumber)) return false;
  const std::string_view rest = text.substr(of_number->size());
  const std::size_t sign = rest.find_first_of("0123456789$\\");
  constexpr std::ptrdiff_t kSoon = 3;  // words
  return sign == std::string_view::npos ||
         std::count(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(sign), ' ') < kSoon;
}

std::string_view behind_minus(std::string_view text) noexcept {
  for (const std::string_view word : kMinus) {
    if (begins_with(text, word)) return text.substr(word.size());
  }
  return {};
}

bool ends_with_minus(std::string_view text) noexcept {
  return std::any_of(std::begin(kMinus), std::end(kMinus), [text](std::string_view word) {
    if (text.size() < word.size() || (text.size() > word.size() && is_letter(text[text.size() - word.size() - 1])))
      return false;
    return std::equal(word.begin(), word.end(), text.end() - static_cast<std::ptrdiff_t>(word.size()),
                      [](char w, char c) { return w == lower(c); });
  });
}

namespace {

/// The last words in lower case, the last one first, back to a digit or a sign of punctuation; of "isn't" "n't" and
/// "isn".
std::vector<std::string> last_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t end = text.size(); end > 0 && words.size() < kMaxWords;) {
    const char c = text[end - 1];
    if (is_letter(c)) {
      std::size_t begin = end;
      while (begin > 0 && is_letter(text[begin - 1])) --begin;
      words.emplace_back();
      for (std::size_t k = begin; k < end; ++k) words.back() += lower(text[k]);
      const bool apostrophe =
          begin > 0 && (text[begin - 1] == '\'' || static_cast<unsigned char>(text[begin - 1]) >= 0x80);
      if (words.back() == "t" && apostrophe) words.back() = "n't";  // t alone is a variable
      end = begin;
    } else if (c == ' ' || c == '*' || c == '$' || c == '\'' || c == '{' || c == '}' ||
               static_cast<unsigned char>(c) >= 0x80) {
      --end;  // an apostrophe of any kind: isn't
    } else {
      break;
    }
  }
  return words;
}

/// Prepositions, and the words before them with which what follows is taken as an operand, a bound or an example: "the
/// square of", "divisible by", "up to", "such as".
bool is_taken_further(std::string_view word, std::string_view preposition) noexcept {
  constexpr std::string_view kOf[] = {"half",
                                      "halves",
                                      "third",
                                      "thirds",
                                      "quarter",
                                      "quarters",
                                      "fourth",
                                      "fifth",
                                      "sixth",
                                      "seventh",
                                      "eighth",
                                      "ninth",
                                      "tenth",
                                      "tenths",
                                      "hundredth",
                                      "hundredths",
                                      "double",
                                      "triple",
                                      "quadruple",
                                      "reciprocal",
                                      "opposite",
                                      "negative",
                                      "negation",
                                      "inverse",
                                      "square",
                                      "squares",
                                      "cube",
                                      "cubes",
                                      "root",
                                      "roots",
                                      "power",
                                      "powers",
                                      "logarithm",
                                      "log",
                                      "factorial",
                                      "conjugate",
                                      "sine",
                                      "cosine",
                                      "tangent",
                                      "multiple",
                                      "multiples",
                                      "divisor",
                                      "divisors",
                                      "factor",
                                      "factors",
                                      "fraction",
                                      "complement",
                                      "supplement",
                                      "successor",
                                      "predecessor",
                                      "digit",
                                      "digits",
                                      "excess",
                                      "short",
                                      "shy",
                                      "instead",
                                      "out",
                                      "modulus",
                                      "magnitude",
                                      "vicinity",
                                      "neighborhood",
                                      ("neighbo"
                                       "urhood"),
                                      "part",
                                      "percent",
                                      "percentage"};
  constexpr std::string_view kBy[] = {"divisible",  "multiplied", "divided",  "increased",  "decreased", "reduced",
                                      "off",        "multiply",   "divide",   "followed",   "preceded",  "bounded",
                                      "exceeded",   "replaced",   "greater",  "less",       "larger",    "smaller",
                                      "increasing", "decreasing", "dividing", "multiplying"};
  constexpr std::string_view kTo[] = {"up",    "close",    "closer",  "closest", "next",     "nearest",  "prior",
                                      "added", "adjacent", "coprime", "prime",   "opposite", "contrary", "compared"};
  constexpr std::string_view kAs[] = {"such", "much", "many", "large", "big", "high", "long", "small", "far"};
  constexpr std::string_view kBut[] = {"anything", "everything", "all", "any", "every", "number", "value", "integer"};
  constexpr std::string_view kFrom[] = {"different", "far", "away", "subtracted", "distinct", "up"};
  constexpr std::string_view kIn[] = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
  if (preposition == "of") return is_one_of(kOf, word);
  if (preposition == "by") return is_one_of(kBy, word);
  if (preposition == "to") return is_one_of(kTo, word);
  if (preposition == "as") return is_one_of(kAs, word);
  if (preposition == "but") return is_one_of(kBut, word);
  if (preposition == "in") return is_one_of(kIn, word);
  return preposition == "from" && is_one_of(kFrom, word);
}

/// "the amount she didn't use is", "those who did not fall ill is": words[denial], the last words before a number with
/// the last one first, says something of what is counted, not of the number.
bool is_of_noun(const std::vector<std::string>& words, std::size_t denial) {
  constexpr std::string_view kCopulas[] = {"is", "are", "was", "were"};
  constexpr std::string_view kAuxiliaries[] = {"did", "didn", "do",  "don",  "does", "doesn", "have", "haven",
                                               "has", "hasn", "are", "aren", "were", "weren", "was",  "wasn"};
  constexpr std::string_view kOpinions[] = {"think", "believe", "say",  "mean",   "suppose", "know",
                                            "agree", "claim",   "that", "follow", "imply",   "show"};
  constexpr std::string_view kSubjects[] = {"it",    "this",   "that", "there", "answer", "result",
                                            "value", "number", "x",    "y",     "n"};
  if (words[denial] != "not" && words[denial] != "n't") return false;
  if (denial < 2 || !is_one_of(kCopulas, words[0]) || denial + 1 >= words.size()) return false;
  const bool said = std::any_of(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(denial),
                                [&](const auto& word) { return is_one_of(kOpinions, word); });
  return !said && !is_one_of(kSubjects, words[1]) && is_one_of(kAuxiliaries, words[denial + 1]);
}

}  // namespace

bool denies(std::string_view before) {
  // Right before the number: what is done with it, or that it is thrown away.
  constexpr std::string_view kOperators[] = {
      "than",      "double",  "triple",  "twice", "thrice", "quadruple", "half",    "near",  "nearly", "almost",
      "beyond",    "above",   "below",   "under", "over",   "exceeding", "exceeds", "like",  "unlike", "except",
      "excluding", "without", "besides", "until", "till",   "choose",    "plus",    "times", "before", "after"};
  constexpr std::string_view kRejected[] = {"rejected",   "rejecting", "reject",   "discarded",
                                            "discarding", "discard",   "excluded", "eliminated",
                                            "extraneous", "ignored",   "ignoring", "invalid"};
  constexpr std::string_view kNeutral[] = {"the",    "number", "value",     "integer", "root",   "solution",
                                           "answer", "only",   "candidate", "option",  "exactly"};
  // A number behind these is a name: "by Theorem 4".
  constexpr std::string_view kNamed[] = {
      "step",   "theorem",  "lemma",   "corollary", "proposition", "definition", "equation", "equations", "eq",
      "figure", "fig",      "section", "chapter",   "exercise",    "problem",    "question", "example",   "identity",
      "axiom",  "footnote", "method",  "approach",  "attempt",     "page",       "room",     "january",   "february",
      "march",  "april",    "june",    "july",      "august",      "september",  "october",  "november",  "december"};
  while (before.ends_with(' ') || before.ends_with('*')) before.remove_suffix(1);
  const bool label = before.ends_with(':');
  if (label) before.remove_suffix(1);
  const std::vector<std::string> words = last_words(before);
  if (label) return !words.empty() && is_one_of(kRejected, words[0]);
  if (!words.empty() && is_one_of(kNamed, words[0])) return true;
  const auto denial =
      std::find_if(words.begin(), words.end(), [&](const auto& word) { return is_one_of(kDenials, word); });
  if (denial != words.end() && !is_of_noun(words, static_cast<std::size_t>(denial - words.begin()))) return true;
  const auto first =
      std::find_if_not(words.begin(), words.end(), [&](const auto& word) { return is_one_of(kNeutral, word); });
  if (first == words.end()) return false;
  if (is_one_of(kRejected, *first) || (first == words.begin() && is_one_of(kOperators, *first))) return true;
  if (first + 1 == words.end()) return false;
  const bool absolute = *first == "of" && words.end() - first > 2 && first[1] == "value" && first[2] == "absolute";
  return absolute || is_taken_further(first[1], *first);
}

bool denies_what_follows(std::string_view before) {
  constexpr std::string_view kArticles[] = {"the", "my", "our", "your", "this", "final", "correct", "right", "an"};
  constexpr std::string_view kJoints[] = {"that", "think", "believe", "say", "claim", "mean", "suppose", "if"};
  const std::vector<std::string> words = last_words(before);
  const auto joint =
      std::find_if_not(words.begin(), words.end(), [&](const auto& word) { return is_one_of(kArticles, word); });
  if (joint == words.end() || !is_one_of(kJoints, *joint)) return false;
  return std::any_of(joint, words.end(),
                     [&](const auto& word) { return is_one_of(kDenials, word) || word == "impossible"; });
}

namespace {

/// "…, but it could be 43", "(or maybe 43)": another number that is as good, before the sentence ends.
bool offers_another(std::string_view behind) {
  constexpr std::size_t kFar = 12;  // words
  constexpr std::string_view kMay[] = {"could", "might", "may"};
  constexpr std::string_view kPerhaps[] = {"maybe", "perhaps", "possibly"};
  constexpr std::string_view kOught[] = {"should", "must"};
  bool but = false;
  std::string before, last;  // the words before a number, which may have "be" or "also" last
  std::size_t num_words = 0;
  for (std::size_t k = 0; k < behind.size() && num_words < kFar;) {
    const char c = behind[k];
    if (is_digit(c))
      return is_one_of(kPerhaps, last) ||
             (last == "be" && (is_one_of(kMay, before) || (but && is_one_of(kOught, before))));
    if (c == '\n' || (c == '.' && (k + 1 == behind.size() || behind[k + 1] == ' '))) return false;
    if (!is_letter(c)) {
      ++k;
      continue;
    }
    std::string word = take_letters(behind, k);
    ++num_words;
    but = but || word == "but";
    if (word == "also" || word == "well" || word == "equally") continue;
    before = std::move(last);
    last = std::move(word);
  }
  return false;
}

/// "remainder 1", "with a remainder of 1", "to the power of 2", "with the opposite sign": words behind a number that
/// say what it is only a part of.
bool is_operand_of_words(const std::vector<std::string>& words) {
  constexpr std::string_view kBinary[] = {"choose", "mod", "modulo", "over", "permute", "remainder", "rem", "r"};
  const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  if (words.size() < 2) return false;
  if (is_one_of(kBinary, words[0]) && words[1] == "0") return true;
  if (words[0] == "off" && words[1] == "by") return true;
  if (words[0] == "and" && words[1] == "itself") return true;
  if (words[0] == "times" && words[1] == "as") return true;
  if (words[0] == "to" && words[1] == "the") return has("power") || (words.size() > 2 && words[2] == "0");
  if ((words[0] == "with" || words[0] == "and") && has("remainder")) return true;
  if (words[0] == "with" && has("sign")) return has("opposite") || has("negative") || has("minus") || has("reversed");
  // 42 is a guess, an upper bound
  constexpr std::string_view kNone[] = {"guess",  "bound",     "multiple", "divisor",
                                        "factor", "candidate", "mistake",  "error"};
  const bool is_one =
      (words[0] == "is" || words[0] == "was") && (words[1] == "a" || words[1] == "an" || words[1] == "just");
  return is_one &&
         std::any_of(words.begin() + 2, words.end(), [&](const auto& word) { return is_one_of(kNone, word); });
}

/// "than 12", "than twice as many", "than the sum of": what a number was compared with is one itself. Not so "15 more
/// than Tommy".
bool compares_with_number(const std::vector<std::string>& words, std::size_t than) {
  constexpr std::string_view kNumbers[] = {"0",       "sum",    "difference", "product", "quotient", "ratio", "square",
                                           "cube",    "twice",  "thrice",     "double",  "triple",   "half",  "third",
                                           "quarter", "number", "value",      "answer",  "result",   "total", "that",
                                           "this",    "it",     "correct",    "original"};
  return than + 1 == words.size() || words[than + 1].size() == 1 ||
         std::any_of(words.begin() + static_cast<std::ptrdiff_t>(than) + 1, words.end(),
                     [&](const auto& word) { return is_one_of(kNumbers, word); });
}

/// "is not", "isn't", "can't be", "can be 43" at words[at]: not so where they say what is done with the things counted,
/// "10 meters are not used", "240 students can be seated".
bool is_denied_at(const std::vector<std::string>& words, std::size_t at) {
  constexpr std::string_view kVerbs[] = {"is", "was"};
  constexpr std::string_view kShort[] = {"isn", "wasn", "can", "cannot"};
  constexpr std::string_view kSaid[] = {"right", "correct", "valid", "possible", "true",   "it",
                                        "what",  "the",     "a",     "an",       "enough", "0"};
  const std::string& word = words[at];
  const std::string& next = words[at + 1];
  const bool near = at == 0;  // "42 is not", of whatever
  const bool said = near || (at + 2 < words.size() && is_one_of(kSaid, words[at + 2]));
  if (is_one_of(kVerbs, word)) return is_one_of(kDenials, next) && said;
  if (word == "can" && next == "be") return at + 2 < words.size() && words[at + 2] == "0";
  return is_one_of(kShort, word) && (next == "t" || next == "be");
}

/// The letters of an ordinal number right behind its digits.
bool begins_ordinal(std::string_view behind) noexcept {
  constexpr std::string_view kEndings[] = {"st", "nd", "rd", "th"};
  return std::any_of(std::begin(kEndings), std::end(kEndings), [behind](std::string_view ending) {
    return begins_with(behind, ending) && (behind.size() == 2 || !is_letter(behind[2]));
  });
}

}  // namespace

namespace {

/// ", no, 15", "... wait, 15": what was said is taken back.
bool takes_back(std::string_view behind) {
  constexpr std::size_t kFar_bytes = 60;
  constexpr std::string_view kWords[] = {"no", "wait", "oops", "sorry", "correction", "rather", "scratch", "hmm"};
  std::size_t begin = behind.find_first_not_of(" .,;!%-");
  if (begin == 0 || begin == std::string_view::npos || !is_letter(behind[begin])) return false;
  behind = behind.substr(begin, kFar_bytes);
  begin = 0;
  return is_one_of(kWords, take_letters(behind, begin)) && std::any_of(behind.begin(), behind.end(), is_digit);
}

}  // namespace

bool changes(std::string_view behind, bool fraction) {
  constexpr std::size_t kReach_bytes = 1000;  // more than the words that count
  behind = behind.substr(0, kReach_bytes);
  if (behind.starts_with('?') || behind.starts_with("..")) return true;
  if (begins_ordinal(behind) && !fraction) return true;
  if (offers_another(behind) || takes_back(behind)) return true;
  constexpr std::string_view kOperations[] = {
      "squared", "cubed",   "factorial", "minus",      "plus",        "divided",  "multiplied",
      "or",      "half",    "tenths",    "hundredths", "thousandths", "thirds",   "fifths",
      "sixths",  "eighths", "doubled",   "tripled",    "halves",      "fourths",  "quadrupled",
      "halved",  "negated", "inverted",  "reversed",   "raised",      "rejected", "discarded"};
  constexpr std::string_view kOut[] = {"extraneous", "rejected", "excluded", "invalid", "impossible", "discarded"};
  constexpr std::string_view kFails[] = {"fails", "extraneous", "impossible", "invalid", "false", "not"};
  constexpr std::string_view kWrong[] = {"incorrect", "wrong"};
  constexpr std::string_view kReasons[] = {"because", "since", "as", "so", "but", "and"};
  constexpr std::string_view kSpans[] = {"second", "minute", "hour", "day", "week", "month", "year"};
  constexpr std::string_view kParts[] = {"half", "third", "quarter", "fourth", "fifth", "halves", "thirds", "quarters"};
  constexpr std::string_view kCompared[] = {"more", "less", "fewer", "greater"};
  std::vector<std::string> words = first_words(behind);
  if (words.empty()) return false;
  if (words[0] == "out" && words.size() > 1) words.erase(words.begin());  // 5 out of 6
  if (words[0] == "of" || words[0] == "th") return words.size() > 1 && (words[1] == "0" || words[1] == "root");
  if (is_one_of(kOperations, words[0]) || is_operand_of_words(words)) return true;
  if (is_one_of(kFails, words[0]) && words.size() == 1) return true;  // 12 invalid codes are 12
  if (words[0] == "does" && words.size() > 1 && (words[1] == "not" || words[1] == "n")) return true;
  if (words[0] == "doesn") return true;
  const auto rejected = [&](std::size_t k) { return words.size() > k && is_one_of(kOut, words[k]); };
  if ((words[0] == "is" || words[0] == "was") && (rejected(1) || rejected(2))) return true;  // is (an) extraneous
  if (is_one_of(kWrong, words[0]) && (words.size() == 1 || is_one_of(kReasons, words[1]))) return true;
  if (words[0] == "to" || words[0] == "percent") return words.size() > 1 && (words[1] == "0" || words[1] == "of");
  if (words[0] == "in" || words[0] == "base")
    return words.size() > 1 && (words[0] == "base" ? words[1] == "0" : words[1] == "base");
  if (words[0] == "times") {
    const bool often = words.size() > 2 && words[1] == "a" && is_one_of(kSpans, words[2]);  // 3 times a day
    return !often && words.size() > 1 && (words[1] == "0" || words[1].size() == 1);
  }
  for (std::size_t k = 0; k + 1 < words.size(); ++k) {
    const std::string& word = words[k];
    const std::string& next = words[k + 1];
    if (next == "than" && is_one_of(kCompared, word) && compares_with_number(words, k + 1)) return true;
    if (word == "or" && is_one_of(kCompared, next)) return true;
    if (is_denied_at(words, k) || (word == "below" && next == "zero")) return true;
  }
  const bool part = words[0] == "and" && words.size() > 1;
  return part && std::any_of(words.begin() + 1, words.end(), [&](const auto& word) { return is_one_of(kParts, word); });
}

}  // namespace qrl::reward::math
