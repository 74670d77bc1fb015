#include "data/marked_text.h"

#include <algorithm>

namespace qrl::data {

Text units_of(std::string_view bytes, Unit source) {
  Text text(bytes.size(), 0);
  std::ranges::transform(bytes, text.begin(),
                         [source](char c) { return static_cast<unsigned char>(c) | source << kSourceShift; });
  return text;
}

std::string bytes_of(const Text& text) {
  std::string bytes(text.size(), 0);
  std::ranges::transform(text, bytes.begin(), [](Unit unit) { return static_cast<char>(unit & 0xffU); });
  return bytes;
}

}  // namespace qrl::data
