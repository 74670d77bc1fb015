#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

namespace qrl::reward {

struct Box {
  std::size_t begin = 0, end = 0;  ///< of the whole \boxed{…}
  std::string_view content;
};

/// Returns the last box whose brace is closed and directly follows one of `names` ("\\boxed"). Takes linear time.
std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept;

/// Limits the search to a response's last bytes (some 30,000 tokens).
inline constexpr std::size_t kMaxScanned_bytes = std::size_t{128} << 10;

struct ExtractedAnswer {
  std::string_view text;  ///< within the response, without ASCII whitespace around
  bool boxed = false;
};

/// Returns the last complete <answer>…</answer> (unwrapping the last complete \boxed{} in it), else the last complete
/// \boxed{…}. Takes linear time.
std::optional<ExtractedAnswer> extract_answer(std::string_view response) noexcept;

/// Returns the last <answer>'s content that a </answer> follows.
std::optional<std::string_view> last_tagged(std::string_view text) noexcept;

}  // namespace qrl::reward
