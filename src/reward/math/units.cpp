#include "reward/math/units.h"

#include <algorithm>
#include <cstdlib>

#include "base/ascii.h"
#include "reward/math/prose.h"
#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

using base::is_letter;

/// Behind a LaTeX command at `at`: \text{…} is in the words where several stand in a row.
std::size_t behind_command(std::string_view words, std::size_t at) noexcept {
  for (++at; at < words.size() && is_letter(words[at]); ++at) {
  }
  return at;
}

/// "mph" as its two units; any other word as it is.
std::string_view written_out(std::string_view word) noexcept {
  if (word == "mph") return "mi/h";
  return word == "kph" || word == "kmh" ? "km/h" : word;
}

}  // namespace

long double magnitude(std::string_view words) {
  long double product = 1;
  for (std::size_t at = 0; at < words.size();) {
    if (is_letter(words[at])) product *= magnitude_of(take_letters(words, at));
    else at = words[at] == '\\' ? behind_command(words, at) : at + 1;
  }
  return product;
}

namespace {

/// The exponent of a unit, 2 or ^3 or ^{-1}, which `at` is behind then; 1 where there is none.
int take_exponent(std::string_view words, std::size_t& at) noexcept {
  std::size_t k = std::min(words.find_first_not_of(" }$^{", at), words.size());
  const bool negative = words.substr(k).starts_with('-');
  if (negative) ++k;
  if (k == words.size() || words[k] < '1' || words[k] > '3') return 1;
  at = k + 1;
  return (negative ? -1 : 1) * (words[k] - '0');
}

}  // namespace

Measure measure(std::string_view words) {
  Measure m{"", 1, true};
  bool below = false, square = false, cube = false;
  for (std::size_t k = 0; k < words.size() && m.known;) {
    const char c = words[k];
    if (c == '\\') {
      k = behind_command(words, k);
      continue;
    }
    if (!is_letter(c)) {
      below = below || c == '/' || words.substr(k).starts_with("}{");  // \frac{\text{m}}{\text{s}}
      ++k;
      continue;
    }
    const std::string word = take_letters(words, k);
    if (const std::string_view all = written_out(word); all != word) {
      const Measure speed = measure(all);
      if (below || !m.dimensions.empty()) return {};
      m.dimensions = speed.dimensions;
      m.factor *= speed.factor;
      continue;
    }
    if (word == "per") below = true;
    else if (magnitude_of(word) != 1) continue;
    else if (word == "square" || word == "sq") square = true;
    else if (word == "cubic") cube = true;
    else {
      const Unit unit = unit_of(word);
      if (unit.dimension == 0 || unit.dimension == 'u') return {};
      const int exponent = take_exponent(words, k);
      const bool inverse = below != (exponent < 0);
      const int times = (cube ? 3 : square ? 2 : 1) * std::abs(exponent);
      m.dimensions.append(static_cast<std::size_t>(times),
                          inverse ? static_cast<char>(unit.dimension ^ 32) : unit.dimension);
      for (int j = 0; j < times; ++j) m.factor *= inverse ? 1 / unit.factor : unit.factor;
      square = cube = false;
    }
  }
  m.known = m.known && !m.dimensions.empty();
  // Degrees Celsius are no angle.
  const bool temperature = m.dimensions.find_first_of("kf") != std::string::npos;
  if (temperature) m.dimensions.erase(std::remove(m.dimensions.begin(), m.dimensions.end(), 'a'), m.dimensions.end());
  std::sort(m.dimensions.begin(), m.dimensions.end());
  return m;
}

bool is_unit_product(std::string_view text) noexcept {
  if (text.empty() || !is_letter(text.front())) return false;
  bool exponent = false;  // digits may follow
  for (std::size_t k = 0; k < text.size();) {
    const char c = text[k];
    if (is_letter(c)) {
      const std::size_t begin = k;
      while (k < text.size() && is_letter(text[k])) ++k;
      const std::string_view word = text.substr(begin, k - begin);
      if (unit_of(word).dimension == 0 && !is_unit_symbol(word)) return false;
      exponent = false;
    } else if (c == '\\') {
      const std::size_t end = behind_command(text, k);
      const std::string_view name = text.substr(k + 1, end - k - 1);
      if (!name.empty() && name != "cdot" && name != "times") return false;
      k = name.empty() ? end + 1 : end;  // \, is no letter
    } else {
      exponent = exponent || c == '^';
      const bool digit = c >= '0' && c <= '9';
      if (digit ? !exponent : std::string_view("/^{}()-*~ .").find(c) == std::string_view::npos) return false;
      ++k;
    }
  }
  return true;
}

bool names_unit(std::string_view words) {
  for (std::size_t k = 0; k < words.size();) {
    if (words[k] == '\\') k = behind_command(words, k);
    else if (!is_letter(words[k])) ++k;
    else if (unit_of(take_letters(words, k)).dimension != 0) return true;
  }
  return false;
}

}  // namespace qrl::reward::math
