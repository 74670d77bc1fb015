#include "reward/math/exclamation.h"

#include <algorithm>
#include <iterator>

#include "base/ascii.h"
#include "reward/answer.h"
#include "reward/math/clause.h"

namespace qrl::reward::math {

namespace {

using base::is_digit;
using base::is_letter;
using base::lower;

/// Emphasis, quotes, spaces and pictures: all that may stand between an exclamation and the end of its line.
bool is_ornament(char c) noexcept {
  return static_cast<unsigned char>(c) >= 0x80 || std::string_view(" *_\"!\r").find(c) != std::string_view::npos;
}

/// Whether words that count arrangements, or another factorial, stand in a line.
bool speaks_of_factorials(std::string_view line) {
  constexpr std::string_view kWords[] = {"factorial", "permut", "arrang", " ways", " order"};
  std::string small(line);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  if (std::any_of(std::begin(kWords), std::end(kWords),
                  [&small](std::string_view word) { return small.find(word) != std::string::npos; }))
    return true;
  for (std::size_t at = small.find('!'); at != std::string::npos; at = small.find('!', at + 1)) {
    const bool letter = at > 0 && is_letter(small[at - 1]) && (at == 1 || !is_letter(small[at - 2]));  // n!
    if (at > 0 && (letter || is_digit(small[at - 1]) || small[at - 1] == ')')) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> exclaimed_number(std::string_view response, std::string_view answer) {
  constexpr std::size_t kMaxLine_bytes = 300;  // that is looked at
  constexpr std::size_t kMaxNumber_bytes = 64;
  constexpr std::string_view kOperations[] = {"of", "by", "times", "plus", "minus", "over", "and", "or"};
  const std::size_t sign = answer.size() <= kMaxNumber_bytes ? answer.rfind('!') : std::string_view::npos;
  if (sign == std::string_view::npos) return std::nullopt;
  const std::string_view ornaments = answer.substr(sign);
  if (!std::all_of(ornaments.begin(), ornaments.end(), is_ornament)) return std::nullopt;
  answer = answer.substr(0, sign + 1);
  if (response.size() > kMaxScanned_bytes) response.remove_prefix(response.size() - kMaxScanned_bytes);
  const std::string_view number = answer.substr(0, answer.find('!'));
  const bool plain = number.find_first_not_of("0123456789.,/:-$ to") == std::string_view::npos;
  const std::size_t at = find_last(response, answer);
  if (!plain || number.empty() || at == std::string_view::npos) return std::nullopt;
  for (const char c : response.substr(at + answer.size())) {
    if (c == '\n') break;
    if (!is_ornament(c)) return std::nullopt;
  }
  std::string_view line = response.substr(0, at);
  if (line.size() > kMaxLine_bytes) line.remove_prefix(line.size() - kMaxLine_bytes);
  if (const std::size_t begin = line.rfind('\n'); begin != std::string_view::npos) line.remove_prefix(begin + 1);
  while (!line.empty() && (std::string_view(" *_$-").find(line.back()) != std::string_view::npos))
    line.remove_suffix(1);
  if (line.empty() || speaks_of_factorials(line)) return std::nullopt;
  std::size_t word = line.size();
  while (word > 0 && is_letter(line[word - 1])) --word;
  const std::string_view last = line.substr(word);
  const bool operation = std::find(std::begin(kOperations), std::end(kOperations), last) != std::end(kOperations);
  const bool said = last.empty() ? line.back() == ':' || line.back() == '#' : last.size() > 1 && !operation;
  return said ? std::optional(std::string(number)) : std::nullopt;
}

}  // namespace qrl::reward::math
