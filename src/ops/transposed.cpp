#include "ops/transposed.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace qrl::ops {

namespace {

constexpr std::int64_t kInputsPerWord = 4;  // of int8

/// Four words of four codes each, as the four words that hold their first, second, third and fourth codes.
__m128i transposed_words(__m128i words) {
  const __m128i pairs = _mm_unpacklo_epi8(words, _mm_srli_si128(words, 8));
  return _mm_unpacklo_epi8(pairs, _mm_srli_si128(pairs, 8));
}

__m128i load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
void store(void* to, __m128i words) { _mm_storeu_si128(static_cast<__m128i*>(to), words); }

std::int32_t* panel_of(const PackedLinear& packed, std::int64_t panel) {
  return packed.panels.as<std::int32_t>() + panel * packed.panels.shape()[1] * kPanelColumns;
}

/// 128 · Σ codes of each column of a panel, from its words.
void sum_columns(const PackedLinear& packed, std::int64_t panel) {
  std::array<std::int32_t, kPanelColumns> sums{};
  const auto* codes = reinterpret_cast<const std::int8_t*>(panel_of(packed, panel));
  for (std::int64_t word = 0; word < packed.panels.shape()[1]; ++word, codes += kPanelColumns * kInputsPerWord) {
    for (std::size_t column = 0; column < sums.size(); ++column) {
      const std::int8_t* four = codes + column * kInputsPerWord;
      sums[column] += four[0] + four[1] + four[2] + four[3];
    }
  }
  auto* to = packed.column_sums.as<std::int32_t>() + panel * kPanelColumns;
  for (std::size_t column = 0; column < sums.size(); ++column) to[column] = 128 * sums[column];
}

std::int64_t num_panels(const PackedLinear& packed) { return packed.panels.shape()[0]; }

void check_int8(quant::Format format) {
  QRL_INVARIANT(format == quant::Format::int8, "transpose_codes", "int8", std::string(quant::name(format)));
}

}  // namespace

PackedLinear make_unscaled(std::int64_t out, std::int64_t in) {
  PackedLinear packed = make_packed_linear(quant::Format::int8, out, in, false);
  std::fill_n(packed.scales.as<float>(), packed.scales.shape().numel(), 1.0F);
  return packed;
}

void transpose_codes(base::Team& team, const PackedLinear& weight, PackedLinear& to) {
  check_int8(weight.format);
  QRL_INVARIANT(to.out == weight.in && to.in == weight.out, "transpose_codes", "a transposed shape", "another");
  const base::Range mine = team.slice(num_panels(to));
  const std::int64_t num_words = to.panels.shape()[1], words_of_weight = weight.panels.shape()[1];
  for (std::int64_t panel = mine.begin; panel < mine.end; ++panel) {
    std::int32_t* into = panel_of(to, panel);
    // Groups of four of this panel's columns are words of the weight; the last ones may be beyond its width.
    const std::int64_t first_group = panel * kPanelColumns / kInputsPerWord;
    const std::int64_t groups = std::min(kPanelColumns / kInputsPerWord, words_of_weight - first_group);
    for (std::int64_t word = 0; word < num_words; ++word) {
      const std::int64_t output = word * kInputsPerWord;
      const std::int32_t* from = panel_of(weight, output / kPanelColumns) + output % kPanelColumns;
      for (std::int64_t group = 0; group < groups; ++group) {
        store(into + word * kPanelColumns + group * kInputsPerWord,
              transposed_words(load(from + (first_group + group) * kPanelColumns)));
      }
    }
    sum_columns(to, panel);
  }
}

void transpose_codes(base::Team& team, const Activations& x, PackedLinear& to) {
  check_int8(x.format);
  const std::int64_t num_rows = x.max_rows();
  QRL_INVARIANT(to.out == x.width && to.in == num_rows, "transpose_codes", "a transposed shape", "another");
  const base::Range mine = team.slice(num_panels(to));
  constexpr std::int64_t kColumns = 16;  // of a vector of bytes
  const std::array<std::int8_t, kPanelColumns> nothing{};
  for (std::int64_t panel = mine.begin; panel < mine.end; ++panel) {
    const std::int64_t first = panel * kPanelColumns, count = std::min(kPanelColumns, x.width - first);
    for (std::int64_t word = 0; word < to.panels.shape()[1]; ++word) {
      std::array<std::array<std::int8_t, kPanelColumns>, kInputsPerWord> rows{};
      for (std::int64_t r = 0; r < kInputsPerWord; ++r) {
        const std::int64_t row = word * kInputsPerWord + r;
        const auto* codes = row < num_rows ? static_cast<const std::int8_t*>(x.row(row)) + first : nothing.data();
        std::memcpy(rows[static_cast<std::size_t>(r)].data(), codes, static_cast<std::size_t>(count));
      }
      std::int32_t* into = panel_of(to, panel) + word * kPanelColumns;
      for (std::int64_t column = 0; column < kPanelColumns; column += kColumns) {
        const auto at = [&](std::size_t row) { return load(rows[row].data() + column); };
        const __m128i low01 = _mm_unpacklo_epi8(at(0), at(1)), high01 = _mm_unpackhi_epi8(at(0), at(1));
        const __m128i low23 = _mm_unpacklo_epi8(at(2), at(3)), high23 = _mm_unpackhi_epi8(at(2), at(3));
        store(into + column, _mm_unpacklo_epi16(low01, low23));
        store(into + column + 4, _mm_unpackhi_epi16(low01, low23));
        store(into + column + 8, _mm_unpacklo_epi16(high01, high23));
        store(into + column + 12, _mm_unpackhi_epi16(high01, high23));
      }
    }
    sum_columns(to, panel);
  }
}

}  // namespace qrl::ops
