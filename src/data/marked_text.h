// Owns a text that knows who wrote each of its bytes. Knows nothing of templates and conversations.
#pragma once

#include <string>
#include <string_view>

namespace qrl::data {

/// Holds one byte of a text with its origin. Bits 0 to 7 are the byte; bit 8 is set where the template marks it as
/// generated. Higher bits are the source, a number that the caller assigns; 0 is the template.
using Unit = char32_t;
inline constexpr Unit kGenerated = 0x100;
inline constexpr int kSourceShift = 9;
constexpr char byte_of(Unit unit) noexcept { return static_cast<char>(unit & 0xffU); }
constexpr Unit source_of(Unit unit) noexcept { return unit >> kSourceShift; }

/// Compares units by their bytes.
struct ByteTraits : std::char_traits<Unit> {
  static constexpr bool eq(Unit a, Unit b) noexcept { return (a & 0xffU) == (b & 0xffU); }
  static constexpr bool lt(Unit a, Unit b) noexcept { return (a & 0xffU) < (b & 0xffU); }
  static constexpr int compare(const Unit* a, const Unit* b, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      if (!eq(a[i], b[i])) return lt(a[i], b[i]) ? -1 : 1;
    }
    return 0;
  }
  static constexpr const Unit* find(const Unit* at, std::size_t size, const Unit& unit) {
    for (; size > 0; ++at, --size) {
      if (eq(*at, unit)) return at;
    }
    return nullptr;
  }
};

/// Carries provenance through whatever is done with it: a unit that is copied keeps its origin.
using Text = std::basic_string<Unit, ByteTraits>;
Text units_of(std::string_view bytes, Unit source = 0);
std::string bytes_of(const Text& text);

}  // namespace qrl::data
