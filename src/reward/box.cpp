#include "reward/box.h"

#include <algorithm>

namespace qrl::reward {

namespace {

/// Returns whether the brace at `at` groups: \{ and \} do not, but a brace after a line break (\\) does.
bool groups(std::string_view text, std::size_t at) noexcept {
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] == '\\') --begin;
  return (at - begin) % 2 == 0;
}

}  // namespace

std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept {
  const std::size_t first = text.find('\\');  // of a command name
  if (first == std::string_view::npos) return std::nullopt;
  std::size_t unpaired_closes = 0;
  for (std::size_t i = text.size(); i-- > first;) {
    if (text[i] == '}' && groups(text, i)) ++unpaired_closes;
    if (text[i] != '{' || unpaired_closes == 0 || !groups(text, i)) continue;
    --unpaired_closes;
    const std::string_view head = text.substr(0, i);
    const auto* name = std::find_if(names.begin(), names.end(), [head](std::string_view n) {
      return head.ends_with(n.back()) && head.ends_with(n);
    });
    if (name == names.end()) continue;
    std::size_t depth = 1;
    std::size_t end = i;
    while (depth > 0) {
      ++end;
      if (text[end] == '{' && groups(text, end)) ++depth;
      if (text[end] == '}' && groups(text, end)) --depth;
    }
    return Box{i - name->size(), end + 1, text.substr(i + 1, end - i - 1)};
  }
  return std::nullopt;
}

}  // namespace qrl::reward
