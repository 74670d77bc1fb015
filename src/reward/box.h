// Owns finding the last box in a text. Knows nothing of what stands in it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

namespace qrl::reward {

struct Box {
  std::size_t begin = 0, end = 0;  ///< of \boxed{…} as a whole
  std::string_view content;
};

/// The last box whose brace is closed, where a box begins with one of `names` right before its brace ("\\boxed"). Work
/// is linear in the text: one walk from the end counts the closing braces still unpaired, so that boxes that are never
/// closed cost nothing more; a second one finds the end of the box taken.
std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept;

}  // namespace qrl::reward
