#include "reward/math/spelling.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "reward/math/written_number.h"

namespace qrl::reward::math {

namespace {

struct Spelling {
  std::string_view character, ascii;
};

constexpr Spelling kSpellings[] = {
    {"×", "\\times "},
    {"÷", "\\div "},
    {"·", "\\cdot "},
    {"⋅", "\\cdot "},
    {"∙", "\\cdot "},
    {"−", "-"},
    {"–", "-"},
    {"—", "-"},
    {"‒", "-"},
    {"‐", "-"},
    {"‑", "-"},
    {"﹣", "-"},
    {"≤", "\\le "},
    {"≥", "\\ge "},
    {"⩽", "\\le "},
    {"⩾", "\\ge "},
    {"≠", "\\ne "},
    {"≈", "\\approx "},
    {"≡", "\\equiv "},
    {"→", "\\to "},
    {"⇒", "\\implies "},
    {"∈", "\\in "},
    {"∪", "\\cup "},
    {"∩", "\\cap "},
    {"∖", "\\setminus "},
    {"∅", "\\emptyset "},
    {"∞", "\\infty "},
    {"π", "\\pi "},
    {"θ", "\\theta "},
    {"α", "\\alpha "},
    {"β", "\\beta "},
    {"γ", "\\gamma "},
    {"δ", "\\delta "},
    {"ε", "\\epsilon "},
    {"λ", "\\lambda "},
    {"μ", "\\mu "},
    {"µ", "\\mu "},
    {"ρ", "\\rho "},
    {"σ", "\\sigma "},
    {"τ", "\\tau "},
    {"φ", "\\phi "},
    {"ϕ", "\\phi "},
    {"ω", "\\omega "},
    {"Ω", "\\Omega "},
    {"Δ", "\\Delta "},
    {"Σ", "\\Sigma "},
    {"√", "\\sqrt "},
    {"∛", "\\cbrt "},
    {"±", "\\pm "},
    {"∓", "\\mp "},
    {"°", "\\degree "},
    {"º", "\\degree "},
    {"²", "^{2}"},
    {"³", "^{3}"},
    {"¹", "^{1}"},
    {"⁰", "^{0}"},
    {"⁴", "^{4}"},
    {"⁵", "^{5}"},
    {"⁶", "^{6}"},
    {"⁷", "^{7}"},
    {"⁸", "^{8}"},
    {"⁹", "^{9}"},
    {"ⁿ", "^{n}"},
    {"⁻", "^{-}"},
    {"₀", "_{0}"},
    {"₁", "_{1}"},
    {"₂", "_{2}"},
    {"₃", "_{3}"},
    {"₄", "_{4}"},
    {"₅", "_{5}"},
    {"₆", "_{6}"},
    {"₇", "_{7}"},
    {"₈", "_{8}"},
    {"₉", "_{9}"},
    {"ₙ", "_{n}"},
    {"½", "\\frac{1}{2}"},
    {"⅓", "\\frac{1}{3}"},
    {"⅔", "\\frac{2}{3}"},
    {"¼", "\\frac{1}{4}"},
    {"¾", "\\frac{3}{4}"},
    {"⅕", "\\frac{1}{5}"},
    {"⅖", "\\frac{2}{5}"},
    {"⅗", "\\frac{3}{5}"},
    {"⅘", "\\frac{4}{5}"},
    {"⅙", "\\frac{1}{6}"},
    {"⅚", "\\frac{5}{6}"},
    {"⅛", "\\frac{1}{8}"},
    {"⅜", "\\frac{3}{8}"},
    {"⅝", "\\frac{5}{8}"},
    {"⅞", "\\frac{7}{8}"},
    {"⁄", "/"},
    {"∕", "/"},
    {"∶", ":"},
    {"、", ","},
    {"。", "."},
    {"∣", "|"},
    {"′", "'"},
    {"’", "'"},
    {"‘", "'"},
    {"…", "\\dots "},
    {"⋯", "\\dots "},
    {"ℝ", "\\mathbb{R}"},
    {"ℤ", "\\mathbb{Z}"},
    {"ℕ", "\\mathbb{N}"},
    {"ℚ", "\\mathbb{Q}"},
    {"ℂ", "\\mathbb{C}"},
    {"⌊", "\\lfloor "},
    {"⌋", "\\rfloor "},
    {"⌈", "\\lceil "},
    {"⌉", "\\rceil "},
    {"⟨", "("},
    {"⟩", ")"},
    {"∧", ","},
    {"∨", ","},
    {"△", "\\triangle "},
    {"∠", "\\angle "},
    {"⊂", "\\subset "},
    {"⊆", "\\subseteq "},
    {"∑", "\\sum "},
    {"∏", "\\prod "},
    {"∫", "\\int "},
    {"€", "\\euro "},
    {"£", "\\pounds "},
    {"¥", "\\yen "},
    {"￥", "\\yen "},
    {"₹", "\\rupee "},
    {"¢", "\\text{ cents}"},
    {"\xe2\x80\x8b", ""},
    {"\xef\xbb\xbf", ""},
    {"\xe2\x80\x8e", ""},
    {"\xe2\x81\xa0", ""},
    {"‖", "\\Vert "},
    // Spaces that do not break are those inside numbers: kept apart from others as a thin space.
    {"\xc2\xa0", "\\,"},
    {"\xe2\x80\xaf", "\\,"},
    {"\xe2\x80\x89", "\\,"},
    {"\xe2\x80\x82", " "},
    {"\xe2\x80\x83", " "},
    {"\xe3\x80\x80", " "},
};

std::optional<std::string_view> ascii_spelling(std::string_view utf8) noexcept {
  const auto* at = std::find_if(std::begin(kSpellings), std::end(kSpellings),
                                [utf8](const Spelling& spelling) { return spelling.character == utf8; });
  return at == std::end(kSpellings) ? std::nullopt : std::optional(at->ascii);
}

/// ＂ to ｝ are ASCII's characters in full width. ！ beside them ends a sentence where it is written, and ～ is a
/// range.
constexpr unsigned kFirstFullWidth = 0xff02, kLastFullWidth = 0xff5d, kFullWidthDigits = 0xff10;

/// The code of a character of full width at a place; 0 where none stands there.
unsigned full_width_at(std::string_view text, std::size_t at) noexcept {
  if (text.size() - at < 3 || text[at] != '\xef') return 0;
  const auto bits = [&](std::size_t k) { return static_cast<unsigned char>(text[at + k]) & 0x3fU; };
  const unsigned code = 0xf000U | bits(1) << 6U | bits(2);
  return code >= kFirstFullWidth && code <= kLastFullWidth ? code : 0;
}

std::string in_half_width(std::string_view text, unsigned first, unsigned last) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const unsigned code = full_width_at(text, at);
    if (code >= first && code <= last) {
      out += static_cast<char>(code - kFirstFullWidth + '"');
      at += 3;
    } else {
      out += text[at++];
    }
  }
  return out;
}

/// Of several bytes.
bool begins_character(char c) noexcept { return static_cast<unsigned char>(c) >= 0xc0; }

}  // namespace

std::string with_ascii_digits(std::string_view text) {
  return in_half_width(text, kFullWidthDigits, kFullWidthDigits + 9);
}

std::string spelled_in_ascii(std::string_view text) {
  std::string half_width;
  if (text.find('\xef') != std::string_view::npos)
    text = half_width = in_half_width(text, kFirstFullWidth, kLastFullWidth);
  std::string out;
  out.reserve(text.size() + 16);
  char last_script = '\0';  // that the character before was spelled with: ^ or _
  for (std::size_t at = 0; at < text.size();) {
    const auto* const first =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), begins_character);
    if (const auto run = static_cast<std::size_t>(first - text.begin()) - at; run > 0) {
      out += text.substr(at, run);
      last_script = '\0';
      at += run;
      continue;
    }
    const auto c = static_cast<unsigned char>(text[at]);
    const std::size_t size = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    const std::string_view character = text.substr(at, size);
    const auto spelling = ascii_spelling(character);
    const bool script =
        spelling && spelling->size() > 2 && (spelling->starts_with("^{") || spelling->starts_with("_{"));
    if (script && spelling->front() == last_script) {  // 10⁻⁵ has one exponent
      out.pop_back();
      out += spelling->substr(2);
    } else {
      out += spelling.value_or(character);
    }
    last_script = script ? spelling->front() : '\0';
    at += character.size();
    if (character != "√" && character != "∛") continue;
    const std::size_t end = end_of_decimal(text, at);
    if (end == at) continue;
    out += '{';
    out += text.substr(at, end - at);
    out += '}';
    at = end;
  }
  return out;
}

}  // namespace qrl::reward::math
