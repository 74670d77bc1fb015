#include "data/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace qrl::data {

namespace {

constexpr std::uint32_t kFirstShifted = 0x100;  // character of byte 0, the first that is not printable
constexpr std::size_t kNumShifted = 68;         // 0x00–0x20, 0x7F–0xA0 and 0xAD

bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<std::string, 256> spelling;
  std::array<unsigned char, kNumShifted> shifted;  // byte that U+0100 + index spells

  Alphabet() : spelling(), shifted() {
    std::size_t num_shifted = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::uint32_t code = byte;
      if (!is_printable(byte)) {
        code = kFirstShifted + static_cast<std::uint32_t>(num_shifted);
        shifted[num_shifted++] = static_cast<unsigned char>(byte);
      }
      if (code < 0x80) {
        spelling[byte] = static_cast<char>(code);
      } else {
        spelling[byte] = {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
      }
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

const std::string& byte_spelling(unsigned char byte) { return alphabet().spelling[byte]; }

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    const auto lead = static_cast<unsigned char>(spelling[i]);
    std::uint32_t code = lead;
    if (lead >= 0x80) {  // the alphabet's other characters have two bytes in UTF-8
      if (lead < 0xc2 || lead > 0xc5 || i + 1 == spelling.size()) return std::nullopt;
      code = ((lead & 0x1fU) << 6) | (static_cast<unsigned char>(spelling[++i]) & 0x3fU);
    }
    if (code >= kFirstShifted + kNumShifted || (code < kFirstShifted && !is_printable(code))) return std::nullopt;
    bytes += static_cast<char>(code < kFirstShifted ? code : alphabet().shifted[code - kFirstShifted]);
  }
  return bytes;
}

}  // namespace qrl::data
