#include "reward/math/vocabulary.h"

#include <algorithm>

#include "base/ascii.h"

namespace qrl::reward::math {

namespace {

constexpr char kMagnitude = '*';  // dimension of a word that multiplies

}  // namespace

std::string lower_word(std::string_view text, std::size_t& at) {
  std::string word;
  for (; at < text.size() && base::is_letter(text[at]); ++at) word += base::lower(text[at]);
  return word;
}

bool take_word(std::string_view& text, std::string_view word) noexcept {
  if (!base::begins_with(text, word) ||
      (text.size() > word.size() && base::is_letter(text[word.size()]) && base::is_letter(word.back())))
    return false;
  text.remove_prefix(word.size());
  return true;
}

Vocabulary::Vocabulary(const Rows& rows)
    : classes_(static_cast<std::size_t>(WordClass::count_)), phrases_(static_cast<std::size_t>(Phrase::count_)) {
  for (const PhraseRow& row : rows.phrases)
    for_each_name(
        row.phrases, [&](std::string_view phrase) { phrases_[static_cast<std::size_t>(row.of)].push_back(phrase); },
        '\t');
  for (const NameRow& row : rows.names) {
    for_each_name(row.names, [&](std::string_view name) {
      const Meaning meaning{row.type, row.code, row.text.empty() ? name : row.text};
      if (row.where == 's') signs_.emplace(name, meaning);
      if (row.where == 'c' || row.where == 'b') commands_.emplace(name, meaning);
      if (row.where == 'w' || row.where == 'b') words_.emplace(name, meaning);
    });
  }
  for (const UnitRow& row : rows.units)
    for_each_name(row.names, [&](std::string_view name) { units_.emplace(name, Unit{row.dimension, row.factor}); });
  for (const NumberRow& row : rows.numbers) {
    std::int64_t value = row.first;
    for_each_name(row.names, [&](std::string_view name) {
      numbers_.emplace(name, NumberWord{row.kind, value});
      value += row.step;
    });
  }
  for (const WordRow& row : rows.words) {
    for_each_name(row.words, [&](std::string_view name) {
      std::string word(name);
      std::replace(word.begin(), word.end(), '_', ' ');
      classes_[static_cast<std::size_t>(row.of)].insert(std::move(word));
    });
  }
}

Unit Vocabulary::unit(std::string_view word) const noexcept {
  auto at = units_.find(word);
  if (at == units_.end() && word.size() > 2 && word.back() == 's') at = units_.find(word.substr(0, word.size() - 1));
  return at == units_.end() || at->second.dimension == kMagnitude ? Unit{} : at->second;
}

long double Vocabulary::magnitude(std::string_view word) const noexcept {
  const auto at = units_.find(word);
  return at != units_.end() && at->second.dimension == kMagnitude ? at->second.factor : 1;
}

NumberWord Vocabulary::number_word(std::string_view word) const noexcept {
  auto at = numbers_.find(word);
  const bool plural = at == numbers_.end() && word.ends_with('s');  // of parts alone
  if (plural) at = numbers_.find(word.substr(0, word.size() - 1));
  return at == numbers_.end() || (plural && at->second.kind != '/') ? NumberWord{} : at->second;
}

bool Vocabulary::is(WordClass of, std::string_view word) const noexcept {
  return classes_[static_cast<std::size_t>(of)].contains(std::string(word));
}

bool Vocabulary::any(WordClass of, std::string_view text) const {
  bool found = false;
  for_each_word(text, [&](const std::string& word) { found = found || is(of, word); });
  return found;
}

bool Vocabulary::take(Phrase of, std::string_view& text) const noexcept {
  return std::ranges::any_of(phrases_[static_cast<std::size_t>(of)],
                             [&text](std::string_view phrase) { return take_word(text, phrase); });
}

bool Vocabulary::ends(Phrase of, std::string_view text) const noexcept {
  return std::ranges::any_of(phrases_[static_cast<std::size_t>(of)],
                             [text](std::string_view phrase) { return text.ends_with(phrase); });
}

bool Vocabulary::is_word(std::string_view letters) const noexcept {
  const bool capitals = std::all_of(letters.begin(), letters.end(), [](char c) { return c <= 'Z'; });
  if (letters.size() >= (capitals ? 5u : 4u)) return true;
  std::string lower(letters);
  for (char& c : lower) c = static_cast<char>(c | 32);
  return letters.size() > 1 && is(WordClass::shown, lower);
}

const Vocabulary& default_vocabulary() {
  static const Vocabulary vocabulary(default_rows());
  return vocabulary;
}

}  // namespace qrl::reward::math
