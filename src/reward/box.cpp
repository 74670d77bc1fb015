#include "reward/box.h"

#include <algorithm>

namespace qrl::reward {

namespace {

/// A brace that groups: \{ and \} are shown, but not behind a line's end, \\.
bool is_brace(std::string_view text, std::size_t at, char brace) noexcept {
  if (text[at] != brace) return false;
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] == '\\') --begin;
  return (at - begin) % 2 == 0;
}

}  // namespace

std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept {
  std::size_t unpaired_closes = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (is_brace(text, i, '}')) ++unpaired_closes;
    if (!is_brace(text, i, '{')) continue;
    const bool closed = unpaired_closes > 0;
    if (closed) --unpaired_closes;
    const std::string_view head = text.substr(0, i);
    const auto* name =
        std::find_if(names.begin(), names.end(), [head](std::string_view n) { return head.ends_with(n); });
    if (!closed || name == names.end()) continue;
    std::size_t depth = 1;
    std::size_t end = i;
    while (depth > 0) {
      ++end;
      if (is_brace(text, end, '{')) ++depth;
      if (is_brace(text, end, '}')) --depth;
    }
    return Box{i - name->size(), end + 1, text.substr(i + 1, end - i - 1)};
  }
  return std::nullopt;
}

}  // namespace qrl::reward
