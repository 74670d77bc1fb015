// Owns units of measure behind a number. Knows nothing of the number.
#pragma once

#include <string>
#include <string_view>

namespace qrl::reward::math {

/// The product of the units in "km/h", "square meters", "cm^2": its dimensions as a sorted text, and its factor.
struct Measure {
  std::string dimensions;
  long double factor = 1;
  bool known = false;
};
/// The product of the magnitudes among the words: 1e6 of "million dollars", 1 where there is none.
long double magnitude(std::string_view words);
/// Not known when any word is not, or when all there is is "units".
Measure measure(std::string_view words);
/// Whether one of the words is a unit, known or not what it measures: "units^2", "J/(kg K)".
bool names_unit(std::string_view words);
/// Whether it is made of nothing but units and symbols of the SI, their exponents and the signs between them: "m/s^2",
/// "kJ/mol", "N\cdot m".
bool is_unit_product(std::string_view text) noexcept;

}  // namespace qrl::reward::math
