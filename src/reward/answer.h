#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

namespace qrl::reward {

struct Box {
  std::size_t begin = 0, end = 0;  ///< byte range of the whole \boxed{…}
  std::string_view content;
};

/// Returns the last box whose opening brace directly follows one of `names` ("\\boxed"). The box must be closed. Takes
/// linear time.
std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept;

/// Limits the search to a response's last bytes (some 30,000 tokens).
inline constexpr std::size_t kMaxScanned_bytes = std::size_t{128} << 10;

struct ExtractedAnswer {
  std::string_view text;  ///< view into the response, without surrounding ASCII whitespace
  bool boxed = false;
};

/// Returns the content of the last complete \boxed{…} inside the last complete <answer>…</answer>. If the tags contain
/// no box, returns all of their content. Without tags, searches the response for the box. Takes linear time.
std::optional<ExtractedAnswer> extract_answer(std::string_view response) noexcept;

/// Returns the content of the last <answer> that has a </answer>.
std::optional<std::string_view> last_tagged(std::string_view text) noexcept;

}  // namespace qrl::reward
