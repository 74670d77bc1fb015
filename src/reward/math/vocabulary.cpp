#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

bool Words::next() {
  for (begin = end; begin < text.size(); begin = std::max(end, begin + 1)) {
    end = begin + letters_of(text.substr(begin)).size();
    if (end == begin || (begin > 0 && text[begin - 1] == '\\')) continue;
    word = in_lower_case(text.substr(begin, end - begin));
    return true;
  }
  return false;
}

Vocabulary::Vocabulary(std::span<const Row> rows) : classes_(static_cast<std::size_t>(WordClass::count)) {
  for (const Row& row : rows) {
    Meaning meaning{row.type, row.code, {}, row.value};
    const char between = row.names.find('\t') == std::string_view::npos ? ' ' : '\t';
    for (std::size_t at = 0, end = 0; at < row.names.size(); at = end + 1) {
      end = std::min(row.names.find(between, at), row.names.size());
      const std::string_view name = row.names.substr(at, end - at);
      if (name.size() > 1 && name[0] == '@') {
        meaning.code = name[1];
        meaning.text = name.substr(std::min<std::size_t>(name.size(), 3));
        continue;
      }
      const bool both = row.of == WordClass::name;
      for (const WordClass of : {both ? WordClass::command : row.of, both ? WordClass::plain : row.of})
        classes_[static_cast<std::size_t>(of)].emplace(name, meaning);
      meaning.value += row.step;
    }
  }
}

const Meaning* Vocabulary::find(WordClass of, std::string_view name) const noexcept {
  const auto& names = classes_[static_cast<std::size_t>(of)];
  const auto at = names.find(name);
  return at == names.end() ? nullptr : &at->second;
}

Meaning Vocabulary::unit(std::string_view word) const noexcept {
  const Meaning* unit = find(WordClass::unit, word);
  if (unit == nullptr && word.size() > 2 && word.ends_with('s'))
    unit = find(WordClass::unit, word.substr(0, word.size() - 1));
  return unit == nullptr ? Meaning{} : *unit;
}

bool Vocabulary::take(WordClass of, std::string_view& text) const noexcept {
  std::size_t longest = 0;
  for_each(of, [&](std::string_view name) {
    const bool cut = text.size() > name.size() && base::is_letter(text[name.size()]) && base::is_letter(name.back());
    if (!cut && base::begins_with(text, name)) longest = std::max(longest, name.size());
  });
  text.remove_prefix(longest);
  return longest > 0;
}

const Vocabulary& default_vocabulary() {
  static const Vocabulary vocabulary(default_rows());
  return vocabulary;
}

}  // namespace qrl::reward::math
