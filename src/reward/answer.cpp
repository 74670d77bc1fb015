#include "reward/answer.h"

#include <algorithm>
#include <string>

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

/// Returns whether the brace at `at` groups, unlike \{ and \}. A line break (\\) before a brace does not escape it.
bool groups(std::string_view text, std::size_t at) noexcept {
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] == '\\') --begin;
  return (at - begin) % 2 == 0;
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

std::optional<Box> last_box(std::string_view text, std::initializer_list<std::string_view> names) noexcept {
  const std::size_t first = text.find('\\');
  if (first == std::string_view::npos) return std::nullopt;
  std::size_t unpaired_closes = 0;
  for (std::size_t i = text.size(); i-- > first;) {
    if (text[i] == '}' && groups(text, i)) ++unpaired_closes;
    if (text[i] != '{' || unpaired_closes == 0 || !groups(text, i)) continue;
    --unpaired_closes;
    const std::string_view head = text.substr(0, i);
    const auto* name = std::ranges::find_if(
        names, [head](std::string_view n) { return head.ends_with(n.back()) && head.ends_with(n); });
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
