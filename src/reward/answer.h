// Owns finding a marked answer in a response: <answer>…</answer> and \boxed{…}. Knows nothing of what the answer means.
#pragma once

#include <optional>
#include <string_view>

namespace qrl::reward {

/// Only the last kMaxScanned_bytes of a response are searched for its answer: some 30,000 tokens, and what keeps a
/// response of any size, made to be slow or not, at a few milliseconds.
inline constexpr std::size_t kMaxScanned_bytes = std::size_t{128} << 10;

struct ExtractedAnswer {
  std::string_view text;  ///< a view into the response, ASCII white space trimmed
  bool boxed = false;     ///< a \boxed{} was opened
};

/// The last complete <answer>…</answer> (the last complete \boxed{} inside is unwrapped), else the last complete
/// \boxed{…}; nothing when there is neither. An <answer> that is never closed counts as none. Linear in the bytes read.
std::optional<ExtractedAnswer> extract_answer(std::string_view response) noexcept;

/// The content of the last <answer> that is followed by a </answer>.
std::optional<std::string_view> last_tagged(std::string_view text) noexcept;

}  // namespace qrl::reward
