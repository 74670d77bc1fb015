// Owns the last number of a text in prose, as it is written there. Knows nothing of what the words around it say.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qrl::reward::math {

struct LastNumber {
  std::size_t at = 0;  ///< of its last digit in the text
  std::string value;   ///< "-1{,}234", "12\frac{1}{2}", "3:4"; empty: digits with a sign or a part that is not read
  /// Some hundred bytes on either side, spelled in ASCII, without signs of money, brackets and the number's own sign.
  std::string before, behind;
};

/// The last digits of a text with all that makes one number of them: a sign, also before money ("-$12") and, behind a
/// verb or "=", apart from them ("is - 12"); thousands, a fraction, an exponent, "!", a percent sign, a magnitude.
/// `value` is empty where something else touches them or they are a part of something: operands, 12K, 1'234, ($12),
/// 1 in 12, 11 or 12, 11 to 12 where they are no ratio, between 11 and 12, (11, 12), 12-gon. Nothing where there are no
/// digits. Looks at a bounded part of the text.
std::optional<LastNumber> last_number(std::string_view text);

/// The length of a word of magnitude right behind a number, with the space before it; 0 where there is none.
std::size_t magnitude_behind(std::string_view text);

/// Whether a minus, a plus or ± touches what stands behind the text, perhaps before a sign of money.
bool ends_with_sign(std::string_view text);

}  // namespace qrl::reward::math
