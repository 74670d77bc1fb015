#include "data/tokenizer/unicode.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "base/error.h"

namespace qrl::data {

namespace {

const icu::Normalizer2& nfc() {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* instance = icu::Normalizer2::getNFCInstance(error);
  QRL_INVARIANT(U_SUCCESS(error) != 0, "ICU", "its data for normalization form C", u_errorName(error));
  return *instance;
}

/// Returns a normalizer to NFC that changes only characters of Unicode 9, like the tokenizers library.
const icu::Normalizer2& nfc_of_unicode_9() {
  static const icu::UnicodeSet known = [] {
    UErrorCode error = U_ZERO_ERROR;
    icu::UnicodeSet set(icu::UnicodeString(u"[:age=9.0:]"), error);
    QRL_INVARIANT(U_SUCCESS(error) != 0, "ICU", "its data for the age of characters", u_errorName(error));
    set.freeze();
    return set;
  }();
  static const icu::FilteredNormalizer2 instance(nfc(), known);
  return instance;
}

icu::StringPiece piece_of(std::string_view text) { return {text.data(), static_cast<int32_t>(text.size())}; }

constexpr std::size_t kMaxText_bytes = std::size_t{1} << 30;

/// Returns whether all characters are below U+0300, by their lead bytes. Such text is its own normal form.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xcc; });
}

bool is_word(UChar32 c) {
  constexpr std::uint32_t kWordCategories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(c) != 0 || (U_GET_GC_MASK(c) & kWordCategories) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

UChar32 next(std::string_view text, std::size_t& at) {
  const char* bytes = text.data() + at;
  int32_t moved = 0;
  UChar32 c = 0;
  U8_NEXT(bytes, moved, static_cast<int32_t>(std::min<std::size_t>(text.size() - at, 4)), c);
  at += static_cast<std::size_t>(moved);
  return c;
}

UChar32 previous(std::string_view text, std::size_t& at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U);
  std::size_t from = at;
  return next(text, from);
}

bool is_space(UChar32 c, Spaces spaces) {
  const bool is_separator = c >= 0x1c && c <= 0x1f;
  return u_isUWhiteSpace(c) != 0 || (spaces == Spaces::python && is_separator);
}

}  // namespace

bool is_nfc(std::string_view text) {
  if (is_plain(text)) return true;
  QRL_REQUIRE(text.size() <= kMaxText_bytes, "tokenizer", "texts up to 1 GiB", std::to_string(text.size()) + " bytes");
  UErrorCode error = U_ZERO_ERROR;
  const bool result = nfc().isNormalizedUTF8(piece_of(text), error) != 0;
  QRL_INVARIANT(U_SUCCESS(error) != 0, "ICU", "an answer about a text's normal form", u_errorName(error));
  return result;
}

std::string to_nfc(std::string_view text) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode error = U_ZERO_ERROR;
  nfc_of_unicode_9().normalizeUTF8(0, piece_of(text), sink, nullptr, error);
  QRL_INVARIANT(U_SUCCESS(error) != 0, "ICU", "a text's normal form", u_errorName(error));
  return result;
}

std::size_t leading_space_bytes(std::string_view text, Spaces spaces) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size(); end = at) {
    if (!is_space(next(text, at), spaces)) break;
  }
  return end;
}

std::size_t trailing_space_bytes(std::string_view text, Spaces spaces) {
  std::size_t begin = text.size();
  for (std::size_t at = begin; at > 0; begin = at) {
    if (!is_space(previous(text, at), spaces)) break;
  }
  return text.size() - begin;
}

std::string with_case_of(std::string_view text, bool is_upper) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    icu::UnicodeString character(next(text, at));
    if (is_upper) character.toUpper(icu::Locale::getRoot());
    else character.toLower(icu::Locale::getRoot());
    character.toUTF8String(result);
  }
  return result;
}

bool is_printable(std::string_view text) {
  constexpr std::uint32_t kOthers = U_GC_C_MASK | U_GC_Z_MASK;
  for (std::size_t at = 0; at < text.size();) {
    const UChar32 c = next(text, at);
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t' && (U_GET_GC_MASK(c) & kOthers) != 0) return false;
  }
  return true;
}

bool begins_with_word(std::string_view text) {
  std::size_t at = 0;
  return !text.empty() && is_word(next(text, at));
}

bool ends_with_word(std::string_view text) {
  std::size_t at = text.size();
  return !text.empty() && is_word(previous(text, at));
}

}  // namespace qrl::data
