#include "reward/answer.h"

#include <string>

#include "reward/box.h"
#include "reward/verdict.h"

namespace qrl::reward {

namespace {

constexpr std::string_view kOpen = "<answer>";
constexpr std::string_view kClose = "</answer>";

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

std::optional<std::string_view> last_tagged(std::string_view text) noexcept {
  const std::size_t last_close = text.rfind(kClose);
  if (last_close == std::string_view::npos) return std::nullopt;
  const std::size_t open = text.rfind(kOpen, last_close);
  if (open == std::string_view::npos) return std::nullopt;
  const std::size_t begin = open + kOpen.size();
  return text.substr(begin, text.find(kClose, begin) - begin);
}

std::string shown(std::string_view answer) {
  if (answer.size() > kMaxExtracted_bytes) {
    answer = answer.substr(0, kMaxExtracted_bytes);
    while (!answer.empty() && (static_cast<unsigned char>(answer.back()) & 0xc0) == 0x80) answer.remove_suffix(1);
    if (!answer.empty() && static_cast<unsigned char>(answer.back()) >= 0xc0) answer.remove_suffix(1);
  }
  return std::string(answer);
}

std::optional<ExtractedAnswer> extract_answer(std::string_view response) noexcept {
  if (response.size() > kMaxScanned_bytes) response.remove_prefix(response.size() - kMaxScanned_bytes);
  const auto tagged = last_tagged(response);
  if (const auto box = last_box(tagged.value_or(response), {"\\boxed"})) {
    return ExtractedAnswer{trim(box->content), true};
  }
  if (tagged) return ExtractedAnswer{trim(*tagged), false};
  return std::nullopt;
}

}  // namespace qrl::reward
