#include "reward/math/normalize.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
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

const std::unordered_map<UChar32, std::string>& symbols() {
  static const auto table = [] {
    std::unordered_map<UChar32, std::string> all;
    for_each_name(characters(), [&all](std::string_view row) {
      const auto* behind = std::ranges::find_if(row, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      std::string ascii(behind, row.end());
      std::ranges::replace(ascii, '\n', ' ');
      UChar32 c = 0;
      for (std::int32_t at = 0, end = static_cast<std::int32_t>(behind - row.begin()); at < end; all.emplace(c, ascii))
        U8_NEXT(row.data(), at, end, c);
    });
    return all;
  }();
  return table;
}

/// NFKC of one character in UTF-8.
std::string compatible(UChar32 c) {
  UErrorCode error = U_ZERO_ERROR;
  static const UNormalizer2* const nfkc = unorm2_getNFKCInstance(&error);
  UChar source[2], made[32];
  std::int32_t size = 0;
  U16_APPEND_UNSAFE(source, size, c);
  const std::int32_t length = unorm2_normalize(nfkc, source, size, made, 32, &error);
  std::string out;
  for (std::int32_t k = 0; U_SUCCESS(error) && k < length;) {
    UChar32 next = 0;
    U16_NEXT(made, k, length, next);
    char bytes[4];
    std::int32_t count = 0;
    U8_APPEND_UNSAFE(bytes, count, next);
    if (next == kFractionSlash) out += "}{";
    else if (const auto symbol = symbols().find(next); symbol != symbols().end()) out += symbol->second;
    else out.append(bytes, static_cast<std::size_t>(count));
  }
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
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t at = 0; at < size;) {
    const std::int32_t begin = at;
    UChar32 c = 0;
    U8_NEXT(text.data(), at, size, c);
    const Spelling* form = nullptr;
    if (c < 0x80) {  // no UTF-8 where negative
      out += text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin));
    } else if (const auto symbol = symbols().find(c); symbol != symbols().end()) {
      out += symbol->second;
    } else {
      const int type = u_getIntPropertyValue(c, UCHAR_DECOMPOSITION_TYPE);
      form = std::ranges::find(kForms, type, [](const Spelling& f) { return static_cast<int>(f.type); });
      if (form == std::end(kForms)) form = nullptr;
      if (form != nullptr && form == last && type != U_DT_FRACTION) out.insert(out.size() - 1, shown(c, type));
      else if (form != nullptr) out.append(form->before).append(shown(c, type)).append(form->behind);
      else out += shown(c, type);
    }
    last = form;
  }
  return out;
}

}  // namespace qrl::reward::math
