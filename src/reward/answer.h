// Owns finding a marked answer in a response: <answer>…</answer> and \boxed{…}.
#pragma once

#include <optional>
#include <string_view>

namespace qrl::reward {

/// Limits the search to the end of a response (some 30,000 tokens), and its time to a few milliseconds.
inline constexpr std::size_t kMaxScanned_bytes = std::size_t{128} << 10;

struct ExtractedAnswer {
  std::string_view text;  ///< a view into the response, without ASCII white space at its ends
  bool boxed = false;     ///< the answer is in a \boxed{}
};

/// Returns the last complete <answer>…</answer> (unwrapping the last complete \boxed{} in it), else the last complete
/// \boxed{…}. Returns nothing if there is neither; an unclosed <answer> does not count. Takes linear time.
std::optional<ExtractedAnswer> extract_answer(std::string_view response) noexcept;

/// Returns the content of the last <answer> that a </answer> follows.
std::optional<std::string_view> last_tagged(std::string_view text) noexcept;

}  // namespace qrl::reward
