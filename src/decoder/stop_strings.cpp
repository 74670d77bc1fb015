#include "decoder/stop_strings.h"

#include <algorithm>

namespace qrl::decoder {

bool completes_stop_string(std::span<const std::string> stop_strings, std::string_view bytes, std::string& tail) {
  tail += bytes;
  std::size_t longest = 1;
  for (const std::string& stop : stop_strings) {
    if (tail.find(stop) != std::string::npos) return true;
    longest = std::max(longest, stop.size());
  }
  // Keeps the bytes in which a stop string may have begun.
  if (tail.size() >= longest) tail.erase(0, tail.size() - (longest - 1));
  return false;
}

}  // namespace qrl::decoder
