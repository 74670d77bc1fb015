#include "model/module_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string_view>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"

namespace qrl::model {

namespace {

constexpr std::size_t kLongest_bytes = 1000;
constexpr std::uint32_t kMostSteps = 100'000;

bool is_read_alike(std::string_view pattern) {
  if (pattern.size() > kLongest_bytes) return false;
  const auto is_one_of = [&](std::string_view characters, std::size_t at) {
    return at < pattern.size() && characters.find(pattern[at]) != std::string_view::npos;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (!base::is_letter(c) && !base::is_digit(c) && !is_one_of("_-.,*+?|()[]{}\\^$", i)) return false;
    if (c == '\\' && !is_one_of(".dwb_-", i + 1)) return false;
    if (c == '{' && !is_one_of("0123456789", i + 1))
      return false;  // {,3} is a count in Python, but text in older PCRE2
    if (c != '(' || !is_one_of("?*", i + 1)) continue;
    if (!is_one_of("?", i + 1) || !is_one_of(":!=", i + 2)) return false;
    i += 2;
  }
  return true;
}

}  // namespace

ModulePattern::ModulePattern(const std::string& pattern, const std::string& where) : pattern_(pattern), where_(where) {
  int error = 0;
  PCRE2_SIZE error_at = 0;
  pcre2_code* code = !is_read_alike(pattern)
                         ? nullptr
                         : pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &error_at, nullptr);
  QRL_REQUIRE(code != nullptr, where,
              R"(a regular expression of letters, digits, \d, \w, \b, (?: (?! (?= and . * + ? | ( ) [ ] { })",
              base::quoted(pattern), "write a list of modules");
  code_ = {code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); }};
}

bool ModulePattern::fits(const std::string& module) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> found(pcre2_match_data_create(1, nullptr),
                                                                                  pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(limits.get(), kMostSteps);
  const int result =
      pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(module.data()),
                  module.size(), 0, 0, found.get(), limits.get());
  QRL_REQUIRE(result >= 0 || result == PCRE2_ERROR_NOMATCH, where_, "a regular expression of fewer steps",
              base::quoted(pattern_), "write a list of modules");
  return result >= 0;
}

}  // namespace qrl::model
