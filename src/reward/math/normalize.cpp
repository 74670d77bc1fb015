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

/// The number that a Roman or circled digit shows; empty for any other character.
std::string shown_number(UChar32 c, int type) {
  const bool roman = c >= 0x2160 && c <= 0x2188, filled_circle = c >= 0x2776 && c <= 0x2793;
  const double value = type == U_DT_CIRCLE || roman || filled_circle ? u_getNumericValue(c) : -1;
  return value >= 0 ? std::to_string(static_cast<long>(value)) : std::string();
}

}  // namespace

std::string normalized(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  const Spelling* last = nullptr;  // of the character before: 10⁻⁵ has one exponent
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t at = 0; at < size;) {
    const std::int32_t begin = at;
    if (static_cast<unsigned char>(text[static_cast<std::size_t>(at)]) < 0x80) {
      out += text[static_cast<std::size_t>(at++)];
      last = nullptr;
      continue;
    }
    UChar32 c = 0;
    U8_NEXT(text.data(), at, size, c);
    const auto symbol = symbols().find(c);
    const int type = c < 0 ? 0 : u_getIntPropertyValue(c, UCHAR_DECOMPOSITION_TYPE);
    const auto* form =
        std::find_if(std::begin(kForms), std::end(kForms), [type](const Spelling& f) { return f.type == type; });
    const bool formed = symbol == symbols().end() && form != std::end(kForms);
    if (symbol != symbols().end()) {
      out += symbol->second;
    } else if (c < 0) {
      out += text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin));
    } else if (std::string number = shown_number(c, type); !number.empty()) {
      out += number;
    } else if (formed && form == last && form->type != U_DT_FRACTION) {
      out.insert(out.size() - 1, compatible(c));
    } else {
      if (formed) out += form->before;
      out += compatible(c);
      if (formed) out += form->behind;
    }
    last = formed ? form : nullptr;
  }
  return out;
}

}  // namespace qrl::reward::math
