#include "reward/math/units.h"

#include <algorithm>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

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
