#include "reward/math/options.h"

#include <iterator>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

bool is_label(char c) noexcept { return c >= 'A' && c <= 'J'; }

/// Whether a second label stands within: "42 or (C) 43".
bool has_label(std::string_view text) noexcept {
  for (std::size_t k = 1; k + 1 < text.size(); ++k) {
    const bool apart = text[k - 1] == ' ' || text[k - 1] == '(' || text[k - 1] == '{';
    if (is_label(text[k]) && apart && (text[k + 1] == ')' || text[k + 1] == '.')) return true;
  }
  return false;
}

/// Without white space, LaTeX's spaces and its commands around text at the front.
std::string_view without_layout(std::string_view text) noexcept {
  constexpr std::string_view kLayout[] = {" ",      "\n",       "\t",       "~",        "\\ ",      "\\,",   "\\;",
                                          "\\:",    "\\quad",   "\\qquad",  "**",       "$",        "\\(",   "\\)",
                                          "\\left", "\\textbf", "\\mathbf", "\\textrm", "\\mathrm", "\\text"};
  constexpr int kMost = 50;  // nobody writes as many before a label
  bool again = true;
  for (int k = 0; again && k < kMost; ++k) {
    again = false;
    for (const std::string_view layout : kLayout) {
      if (!text.starts_with(layout)) continue;
      text.remove_prefix(layout.size());
      again = true;
    }
  }
  return text;
}

struct Label {
  char label = 0;
  bool marked = false;    ///< in brackets or followed by a sign
  std::string_view rest;  ///< behind it and its brackets
};

Label read_label(std::string_view text) noexcept {
  text = without_layout(text);
  const bool braced = text.starts_with('{');
  if (braced) text = without_layout(text.substr(1));
  for (const std::string_view word : {"Option ", "option ", "Choice ", "choice "}) {
    if (text.starts_with(word)) text.remove_prefix(word.size());
  }
  const bool bracket = text.starts_with('(');
  if (bracket) text.remove_prefix(1);
  if (text.empty() || !is_label(text[0])) return {};
  Label read{text[0], bracket, text.substr(1)};
  const auto take = [&read](char c) {
    if (!read.rest.starts_with(c)) return false;
    read.rest.remove_prefix(1);
    return true;
  };
  if (read.rest.starts_with("\\right")) read.rest.remove_prefix(6);
  if (bracket && !take(')')) return {};
  if (!bracket) read.marked = take(')') || take('.') || take(':');
  std::string_view behind = read.rest;
  while (!behind.empty() && behind.front() == ' ') behind.remove_prefix(1);
  if (braced && behind.starts_with('}')) read.rest = behind.substr(1);
  else if (braced && behind.ends_with('}')) read.rest.remove_suffix(1);  // \text{(B) 42}
  else if (braced) return {};
  return read;
}

}  // namespace

std::optional<Option> labelled(std::string_view text) noexcept {
  const Label read = read_label(text);
  if (read.label == 0 || !read.marked) return std::nullopt;
  // "(A)x" and "A.5" are mathematics: a label has a space behind it, or its brace.
  const bool apart = !read.rest.empty() && (read.rest.data()[-1] == '}' || read.rest[0] == ' ' || read.rest[0] == '~' ||
                                            read.rest[0] == '\n' || read.rest.starts_with("\\ ") ||
                                            read.rest.starts_with("\\,") || read.rest.starts_with("\\;") ||
                                            read.rest.starts_with("\\quad") || read.rest.starts_with("\\text"));
  const std::string_view rest = without_layout(read.rest);
  if (!apart || rest.empty() || has_label(rest)) return std::nullopt;
  return Option{read.label, read.rest};
}

char lone_label(std::string_view text) noexcept {
  const Label read = read_label(text);
  const std::string_view rest = without_layout(read.rest);
  return read.label != 0 && (rest.empty() || rest == ".") ? read.label : '\0';
}

char affirmed_label(std::string_view sentence) noexcept {
  constexpr std::string_view kBefore[] = {"therefore", "thus",   "hence",  "so",     "finally", "the",
                                          "correct",   "option", "choice", "answer", ",",       "*"};
  constexpr std::string_view kBehind[] = {"is",     "the",    "correct", "right", "answer",
                                          "option", "choice", "one",     "*",     "."};
  // Takes all words that there are of a list; says whether "is" and "correct" or "right" are among them.
  const auto take_all = [](std::string_view& text, const auto& words) {
    bool verb = false, affirmed = false;
    for (const auto* word = std::begin(words); word != std::end(words);) {
      while (text.starts_with(' ')) text.remove_prefix(1);
      const bool sign = !base::is_letter(word->front());
      const bool whole = text.size() <= word->size() || sign || !base::is_letter(text[word->size()]);
      if (!base::begins_with(text, *word) || !whole) {
        ++word;
        continue;
      }
      text.remove_prefix(word->size());
      verb = verb || *word == "is";
      affirmed = affirmed || *word == "correct" || *word == "right";
      word = std::begin(words);
    }
    return verb && affirmed;
  };
  take_all(sentence, kBefore);
  const bool bracket = sentence.starts_with('(');
  if (bracket) sentence.remove_prefix(1);
  if (sentence.empty() || !is_label(sentence[0])) return 0;
  const char label = sentence[0];
  sentence.remove_prefix(1);
  if (bracket && !sentence.starts_with(')')) return 0;
  if (sentence.starts_with(')')) sentence.remove_prefix(1);
  if (!sentence.starts_with(' ') && !sentence.starts_with('*')) return 0;
  return take_all(sentence, kBehind) && base::trimmed(sentence).empty() ? label : '\0';
}

bool is_explained_label(std::string_view text) noexcept {
  if (text.size() < 3 || !is_label(text[0])) return false;
  std::string_view rest = text.substr(1);
  if (rest.starts_with(',')) rest.remove_prefix(1);
  return rest.starts_with(" because ") || rest.starts_with(" since ") || rest.starts_with(" as ");
}

}  // namespace qrl::reward::math
