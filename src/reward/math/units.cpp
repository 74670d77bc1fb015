#include "reward/math/units.h"

#include <algorithm>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

long double magnitude(std::string_view words) noexcept {
  struct Magnitude {
    std::string_view word;
    long double value;
  };
  constexpr Magnitude kMagnitudes[] = {{"dozen", 12},     {"hundred", 100},  {"thousand", 1e3L},
                                       {"million", 1e6L}, {"billion", 1e9L}, {"trillion", 1e12L}};
  const auto is_letter = [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; };
  long double product = 1;
  for (std::size_t k = 0; k < words.size();) {
    const std::size_t begin = k;
    while (k < words.size() && is_letter(words[k])) ++k;
    const std::string_view word = words.substr(begin, k - begin);
    for (const Magnitude& magnitude : kMagnitudes) {
      const bool same =
          word.size() == magnitude.word.size() &&
          std::equal(word.begin(), word.end(), magnitude.word.begin(), [](char a, char b) { return (a | 32) == b; });
      if (same) product *= magnitude.value;
    }
    if (k == begin) ++k;
  }
  return product;
}

Measure measure(std::string_view words) {
  Measure m{"", 1, true};
  bool below = false;
  long double last = 1;  // the factor of the last unit
  bool square = false, cube = false;
  for (std::size_t k = 0; k < words.size() && m.known;) {
    const char c = words[k];
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
    if (!letter) {
      below = below || c == '/';
      const bool power = (c == '2' || c == '3') && !m.dimensions.empty();
      for (int n = power ? c - '1' : 0; n > 0; --n) {
        m.dimensions += m.dimensions.back();
        m.factor *= last;
      }
      ++k;
      continue;
    }
    std::string word;
    for (; k < words.size() && ((words[k] | 32) >= 'a' && (words[k] | 32) <= 'z'); ++k) {
      word += static_cast<char>(words[k] | 32);
    }
    if (word == "per") below = true;
    else if (word == "square" || word == "sq") square = true;
    else if (word == "cubic") cube = true;
    else {
      const Unit unit = unit_of(word);
      if (unit.dimension == 0 || unit.dimension == 'u') return {};
      const std::size_t times = cube ? 3 : square ? 2 : 1;
      m.dimensions.append(times, below ? static_cast<char>(unit.dimension ^ 32) : unit.dimension);
      last = below ? 1 / unit.factor : unit.factor;
      for (std::size_t j = 0; j < times; ++j) m.factor *= last;
      square = cube = false;
    }
  }
  m.known = m.known && !m.dimensions.empty();
  std::sort(m.dimensions.begin(), m.dimensions.end());
  return m;
}

}  // namespace qrl::reward::math
