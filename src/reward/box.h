#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

namespace qrl::reward {

struct Box {
  std::size_t begin = 0, end = 0;  ///< of the whole \boxed{…}
  std::string_view content;
};

/// Returns the last box whose brace is closed and directly follows one of `names` ("\\boxed"). Takes linear time, even
/// with unclosed boxes.
std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept;

}  // namespace qrl::reward
