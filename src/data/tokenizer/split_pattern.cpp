#include "data/tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/newer_characters.h"

namespace qrl::data {

namespace {

constexpr std::size_t kMaxPattern_bytes = 10'000;
/// White space as in Oniguruma's \s, without U+180E, which PCRE2's \s adds.
constexpr std::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";
/// Categories on which both engines agree, except for newer characters. Excludes C and Cn, in which older tables have
/// newer characters.
constexpr std::array<std::string_view, 35> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"};

std::string code_point(std::uint32_t code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string digits;
  for (; code > 0; code >>= 4) digits.insert(digits.begin(), kHex[code & 15U]);
  return "\\x{" + digits + "}";
}

/// Returns a character class's content: PCRE2's category, plus characters that PCRE2 may not know.
std::string category_class(std::string_view category) {
  std::string inside = "\\p{" + std::string(category) + "}";
  for (const NewerCharacters& newer : kNewerCharacters) {
    if (!newer.category.starts_with(category)) continue;
    inside += code_point(newer.first);
    if (newer.last > newer.first) inside += "-" + code_point(newer.last);
  }
  return inside;
}

/// Translates a pattern to PCRE2's syntax in one pass. Refuses unknown syntax.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string translate() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') escape();
      else if (c == '[') character_class();
      else if (c == '(') group();
      else if (c == '*' || c == '+' || c == '?') repeat();
      else if (c == '{') interval();
      else if (c == '.' || c == '^' || c == '$') refuse(std::string(1, c));
      else out_ += pattern_[at_++];  // '#' and spaces are literals: extended syntax is off
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    base::fail_input(where_, "a split pattern in supported syntax",
                     base::quoted(what) + " in " + base::quoted(pattern_, 200),
                     R"(use only literals, classes, \s, \d, \p{category}, groups, look-around and repeats)");
  }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  std::string_view category() {
    const std::size_t close = pattern_.find('}', at_);
    const bool braced = pattern_.substr(at_ + 2).starts_with('{') && close != std::string_view::npos;
    const std::string_view whole = pattern_.substr(at_, braced ? close + 1 - at_ : 3);
    const std::string_view name = braced ? whole.substr(3, whole.size() - 4) : std::string_view();
    const bool known = std::ranges::find(kCategories, name) != kCategories.end();
    if (!known) refuse(whole);
    at_ += whole.size();
    return name;
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("\\");
    const char c = pattern_[at_ + 1];
    if (c == 'p') out_ += "[" + category_class(category()) + "]";
    else if (c == 'P') out_ += "[^" + category_class(category()) + "]";
    else {
      at_ += 2;
      if (c == 's') out_ += "[" + std::string(kSpaces) + "]";
      else if (c == 'S') out_ += "[^" + std::string(kSpaces) + "]";
      else if (c == 'd') out_ += "[" + category_class("Nd") + "]";
      else if (c == 'D') out_ += "[^" + category_class("Nd") + "]";
      else literal_escape(c);
    }
  }
  void literal_escape(char c) {
    const bool known = c == 'r' || c == 'n' || c == 't' || (!base::is_alphanumeric(c) && c >= ' ' && c < '\x7f');
    if (!known) refuse(std::string("\\") + c);
    out_ += {'\\', c};
  }

  void character_class() {
    out_ += pattern_[at_++];
    if (next_is("^")) out_ += pattern_[at_++];
    if (next_is("]")) refuse("[]");
    while (!next_is("]")) {
      if (at_ == pattern_.size()) refuse("[ without ]");
      const char c = pattern_[at_];
      if (c == '[') refuse("[ in a class");
      if (next_is("&&")) refuse("&&");
      if (c != '\\') {
        out_ += pattern_[at_++];
        continue;
      }
      if (at_ + 1 == pattern_.size()) refuse("\\");
      const char escaped = pattern_[at_ + 1];
      if (escaped == 'p') {
        out_ += category_class(category());
        continue;
      }
      at_ += 2;
      if (escaped == 's') out_ += kSpaces;
      else if (escaped == 'd') out_ += category_class("Nd");
      else literal_escape(escaped);
      // "\s-x" is a range in one engine, and three characters in the other.
      if ((escaped == 's' || escaped == 'd') && next_is("-") && !next_is("-]")) refuse("a range from a class");
    }
    out_ += pattern_[at_++];
  }

  void group() {
    if (!next_is("(?")) {
      out_ += "(?:";  // nothing references groups, and non-capturing groups are cheaper
      ++at_;
      return;
    }
    for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (!next_is(opening)) continue;
      out_ += opening;
      at_ += opening.size();
      return;
    }
    refuse(pattern_.substr(at_, 4));
  }

  void repeat() {
    out_ += pattern_[at_++];
    if (next_is("?") || next_is("+")) out_ += pattern_[at_++];
    if (next_is("*") || next_is("+") || next_is("?") || next_is("{")) refuse("a repeat of a repeat");
  }

  void interval() {
    const std::size_t close = pattern_.find('}', at_);
    const std::string_view body = pattern_.substr(at_ + 1, close == std::string_view::npos ? 0 : close - at_ - 1);
    const std::size_t comma = body.find(',');
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() <= 4 && std::ranges::all_of(text, base::is_digit);
    };
    const bool known =
        is_number(body.substr(0, comma)) &&
        (comma == std::string_view::npos || comma + 1 == body.size() || is_number(body.substr(comma + 1)));
    if (!known) refuse("{ that is not {n}, {n,} or {n,m}");
    out_ += pattern_.substr(at_, close + 1 - at_);
    at_ = close + 1;
    // {n,m}+ is possessive in PCRE2, and a nested repeat in Oniguruma. {n}? is lazy in PCRE2, and optional in
    // Oniguruma.
    if (next_is("+") || next_is("*") || next_is("?") || next_is("{")) refuse("a repeat of {…}");
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string out_;
};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

SplitPattern::SplitPattern(const std::string& pattern, const std::string& where) : where_(where) {
  QRL_REQUIRE(pattern.size() <= kMaxPattern_bytes, where, "a split pattern of at most 10,000 bytes",
              "a longer pattern");
  const std::string translated = Translator(pattern, where).translate();
  int error = 0;
  PCRE2_SIZE error_at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &error_at, nullptr);
  QRL_REQUIRE(code != nullptr, where, "a valid split pattern",
              base::quoted(pattern, 200) + ": " + (code == nullptr ? pcre2_message(error) : ""));
  code_ = {code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); }};
  // If the machine forbids JIT, matching is slower.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

SplitPattern::Scratch::Scratch()
    : match_data_(pcre2_match_data_create(1, nullptr),
                  [](void* p) { pcre2_match_data_free(static_cast<pcre2_match_data*>(p)); }) {}

bool SplitPattern::find(std::string_view text, std::size_t from, Scratch& scratch, std::size_t& begin,
                        std::size_t& end) const {
  auto* match_data = static_cast<pcre2_match_data*>(scratch.match_data_.get());
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, match_data, nullptr);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match_data, nullptr);
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  QRL_REQUIRE(result >= 0, where_, "a split pattern that can be matched against the text",
              pcre2_message(result) + " in a text of " + std::to_string(text.size()) + " bytes");
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match_data);
  begin = bounds[0];
  end = bounds[1];
  return true;
}

std::string escaped_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (c > ' ' && c < '\x7f' && !base::is_alphanumeric(c)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace qrl::data
