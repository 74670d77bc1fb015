#include "reward/box.h"

#include <algorithm>

namespace qrl::reward {

std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept {
  std::size_t unpaired_closes = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == '}') ++unpaired_closes;
    if (text[i] != '{') continue;
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
      if (text[end] == '{') ++depth;
      if (text[end] == '}') --depth;
    }
    return Box{i - name->size(), end + 1, text.substr(i + 1, end - i - 1)};
  }
  return std::nullopt;
}

}  // namespace qrl::reward
