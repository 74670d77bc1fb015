#include "reward/math/normalize.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <unordered_map>

#include "reward/math/vocabulary.h"

namespace qrl::reward::math {

namespace {

/// How characters of a kind of compatibility decomposition are written.
struct Spelling {
  UDecompositionType type;
  std::string_view before, behind;
};
constexpr Spelling kForms[] = {{U_DT_SUPER, "^{", "}"}, {U_DT_SUB, "_{", "}"}, {U_DT_FRACTION, "\\frac{", "}"}};
constexpr UChar kFractionSlash = 0x2044;

/// Calls `take` with each character and its bytes; with a negative one where they are no UTF-8.
template <class Take>
void for_each_character(std::string_view text, const Take& take) {
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t begin = 0, end = 0; end < size; begin = end) {
    UChar32 c = 0;
    U8_NEXT(text.data(), end, size, c);
    take(c, text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
}

const std::unordered_map<UChar32, std::string>& symbols() {
  static const auto table = [] {
    std::unordered_map<UChar32, std::string> all;
    for_each_name(characters(), [&all](std::string_view row) {
      std::string ascii;
      for_each_character(row, [&](UChar32 c, auto) {
        if (c < 0x80) ascii += c == '\n' ? ' ' : static_cast<char>(c);
      });
      for_each_character(row, [&](UChar32 c, auto) {
        if (c >= 0x80) all.emplace(c, ascii);
      });
    });
    return all;
  }();
  return table;
}

/// NFKC of one character in UTF-8.
std::string compatible(UChar32 c) {
  UErrorCode error = U_ZERO_ERROR;
  std::string made, out;
  icu::Normalizer2::getNFKCInstance(error)->normalize(icu::UnicodeString(c), error).toUTF8String(made);
  for_each_character(made, [&out](UChar32 next, std::string_view bytes) {
    const auto symbol = symbols().find(next);
    out += next == kFractionSlash ? "}{" : symbol != symbols().end() ? symbol->second : bytes;
  });
  return out;
}

/// What a character shows: a number of a Roman or circled digit, else NFKC.
std::string shown(UChar32 c, int type) {
  const bool roman = c >= 0x2160 && c <= 0x2188, filled_circle = c >= 0x2776 && c <= 0x2793;
  const double number = type == U_DT_CIRCLE || roman || filled_circle ? u_getNumericValue(c) : -1;
  return number >= 0 ? std::to_string(static_cast<long>(number)) : compatible(c);
}

}  // namespace

std::string normalized(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  const Spelling* last = nullptr;  // of the character before: 10⁻⁵ has one exponent
  for_each_character(text, [&](UChar32 c, std::string_view bytes) {
    const Spelling* form = nullptr;
    if (c < 0x80) {
      out += bytes;
    } else if (const auto symbol = symbols().find(c); symbol != symbols().end()) {
      out += symbol->second;
    } else {
      const int type = u_getIntPropertyValue(c, UCHAR_DECOMPOSITION_TYPE);
      const auto* found = std::ranges::find(kForms, type, [](const Spelling& f) { return static_cast<int>(f.type); });
      if (found != std::end(kForms)) form = found;
      if (form == nullptr) out += shown(c, type);
      else if (form == last && type != U_DT_FRACTION) out.insert(out.size() - 1, shown(c, type));
      else out.append(form->before).append(shown(c, type)).append(form->behind);
    }
    last = form;
  });
  return out;
}

}  // namespace qrl::reward::math
