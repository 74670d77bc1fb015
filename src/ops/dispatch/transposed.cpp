#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ops/kernels/kernels.h"
#include "ops/linear.h"

namespace qrl::ops {

namespace {

constexpr std::int64_t kInputsPerWord = 4;  // in int8 and e4m3 layers
constexpr std::int64_t kBlock = 128;        // rows and columns of a scale block in fp8_block128

__m128i transposed_words(__m128i words) {
  const __m128i pairs = _mm_unpacklo_epi8(words, _mm_srli_si128(words, 8));
  return _mm_unpacklo_epi8(pairs, _mm_srli_si128(pairs, 8));
}

__m128i load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
void store(void* to, __m128i words) { _mm_storeu_si128(static_cast<__m128i*>(to), words); }

std::int32_t* panel_of(const PackedLinear& packed, std::int64_t panel) {
  return packed.panels.as<std::int32_t>() + panel * packed.panels.shape()[1] * kPanelColumns;
}

void sum_columns(const PackedLinear& packed, std::int64_t panel) {
  constexpr std::int64_t kColumns = 4;
  alignas(16) std::array<std::int32_t, kPanelColumns> sums{};
  const std::int32_t* words = panel_of(packed, panel);
  for (std::int64_t word = 0; word < packed.panels.shape()[1]; ++word, words += kPanelColumns) {
    for (std::int64_t column = 0; column < kPanelColumns; column += kColumns) {
      const __m128i four = load(words + column);
      const __m128i pairs = _mm_add_epi16(_mm_srai_epi16(_mm_slli_epi16(four, 8), 8), _mm_srai_epi16(four, 8));
      std::int32_t* const to = sums.data() + column;
      store(to, _mm_add_epi32(load(to), _mm_madd_epi16(pairs, _mm_set1_epi16(128))));
    }
  }
  std::copy(sums.begin(), sums.end(), packed.column_sums.as<std::int32_t>() + panel * kPanelColumns);
}

std::int64_t num_panels(const PackedLinear& packed) { return packed.panels.shape()[0]; }

void check_int8(quant::Format format) {
  QRL_INVARIANT(format == quant::Format::int8, "transpose_quantized", "int8", std::string(quant::name(format)));
}

void check_blocks(const PackedLinear& packed, const char* where) {
  QRL_INVARIANT(packed.format == quant::Format::fp8_block128, where, "fp8_e4m3 block128",
                std::string(quant::name(packed.format)));
}

std::int64_t round_up_to_blocks(std::int64_t count) { return (count + kBlock - 1) / kBlock * kBlock; }

/// Swaps words 1 and 2, to convert from or to e4m3's byte order (0, 2, 1, 3).
__m128i swapped_middle(__m128i words) { return _mm_shuffle_epi32(words, _MM_SHUFFLE(3, 1, 2, 0)); }

/// Calls body(first output, first input in the transposed layer, number of outputs) for each tensor.
template <class Body>
void for_tensors(const PackedLinear& weight, Body&& body) {
  if (weight.tensors.empty()) return body(std::int64_t{0}, std::int64_t{0}, weight.out);
  std::int64_t first = 0, input = 0;
  for (const std::int64_t outputs : weight.tensors) {
    body(first, input, outputs);
    first += outputs;
    input += round_up_to_blocks(outputs);
  }
  QRL_INVARIANT(first == weight.out, "tensors of a packed layer", std::to_string(weight.out) + " outputs",
                std::to_string(first));
}

/// Writes one tensor's outputs to panel `panel` of `to`. A word of `weight` holds four inputs, a word of `to` four
/// outputs.
void transpose_panel(const PackedLinear& weight, std::int64_t first_output, std::int64_t first_input,
                     std::int64_t num_outputs, PackedLinear& to, std::int64_t panel) {
  std::int32_t* const into = panel_of(to, panel);
  const std::int64_t first_group = panel * kPanelColumns / kInputsPerWord;
  const std::int64_t groups = std::min(kPanelColumns / kInputsPerWord, weight.panels.shape()[1] - first_group);
  for (std::int64_t o = 0; o < num_outputs; o += kInputsPerWord) {
    std::array<const std::int32_t*, kInputsPerWord> from{};
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::int64_t output = first_output + o + static_cast<std::int64_t>(i);
      if (output < first_output + num_outputs)
        from[i] = panel_of(weight, output / kPanelColumns) + first_group * kPanelColumns + output % kPanelColumns;
    }
    std::int32_t* const words = into + (first_input + o) / kInputsPerWord * kPanelColumns;
    for (std::int64_t group = 0; group < groups; ++group) {
      const auto word = [&](std::size_t i) { return from[i] != nullptr ? from[i][group * kPanelColumns] : 0; };
      const __m128i quantized = _mm_set_epi32(word(3), word(1), word(2), word(0));
      store(words + group * kInputsPerWord, swapped_middle(transposed_words(quantized)));
    }
  }
}

}  // namespace

PackedLinear make_unscaled(std::int64_t out, std::int64_t in) {
  PackedLinear packed = make_packed_linear(quant::Format::int8, out, in, false);
  std::fill_n(packed.scales.as<float>(), packed.scales.shape().numel(), 1.0F);
  return packed;
}

void transpose_quantized(base::Team& team, const PackedLinear& weight, PackedLinear& to) {
  check_int8(weight.format);
  QRL_INVARIANT(to.out == weight.in && to.in == weight.out, "transpose_quantized", "a transposed shape",
                "a different shape");
  const base::Range mine = team.slice(num_panels(to));
  const std::int64_t num_words = to.panels.shape()[1], words_of_weight = weight.panels.shape()[1];
  for (std::int64_t panel = mine.begin; panel < mine.end; ++panel) {
    std::int32_t* into = panel_of(to, panel);
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

void transpose_quantized(base::Team& team, const Activations& x, PackedLinear& to) {
  check_int8(x.format);
  const std::int64_t num_rows = x.max_rows();
  QRL_INVARIANT(to.out == x.width && to.in == num_rows, "transpose_quantized", "a transposed shape",
                "a different shape");
  const base::Range mine = team.slice(num_panels(to));
  constexpr std::int64_t kColumns = 16;
  const std::array<std::int8_t, kPanelColumns> nothing{};
  for (std::int64_t panel = mine.begin; panel < mine.end; ++panel) {
    const std::int64_t first = panel * kPanelColumns, count = std::min(kPanelColumns, x.width - first);
    for (std::int64_t word = 0; word < to.panels.shape()[1]; ++word) {
      std::array<std::array<std::int8_t, kPanelColumns>, kInputsPerWord> rows{};
      for (std::int64_t r = 0; r < kInputsPerWord; ++r) {
        const std::int64_t row = word * kInputsPerWord + r;
        const auto* quantized = row < num_rows ? static_cast<const std::int8_t*>(x.row(row)) + first : nothing.data();
        std::memcpy(rows[static_cast<std::size_t>(r)].data(), quantized, static_cast<std::size_t>(count));
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

std::int64_t transposed_inputs(const PackedLinear& weight) {
  std::int64_t inputs = 0;
  for_tensors(weight, [&](std::int64_t, std::int64_t input, std::int64_t outputs) {
    inputs = input + outputs;  // the last tensor is not padded
  });
  return inputs;
}

void spread_outputs(const PackedLinear& weight, const float* row, float* inputs) {
  for_tensors(weight, [&, end = std::int64_t{0}](std::int64_t first, std::int64_t input, std::int64_t outputs) mutable {
    std::fill(inputs + end, inputs + input, 0.0F);
    std::copy_n(row + first, outputs, inputs + input);
    end = input + outputs;
  });
}

void transpose_blocks(base::Team& team, const PackedLinear& weight, PackedLinear& to) {
  check_blocks(weight, "transpose_blocks");
  check_blocks(to, "transpose_blocks");
  QRL_INVARIANT(to.out == weight.in && to.in == transposed_inputs(weight), "transpose_blocks", "a transposed shape",
                "a different shape");
  const base::Range mine = team.slice(num_panels(to));
  const std::int64_t scale_stride = to.scales.shape()[1], weight_stride = weight.scales.shape()[1];
  for_tensors(weight, [&](std::int64_t first, std::int64_t input, std::int64_t outputs) {
    for (std::int64_t panel = mine.begin; panel < mine.end; ++panel)
      transpose_panel(weight, first, input, outputs, to, panel);
    for (std::int64_t block = 0; block < outputs; block += kBlock) {
      float* scales = to.scales.as<float>() + (input + block) / kBlock * scale_stride;
      const std::int64_t end = std::min(to.out, mine.end * kPanelColumns);
      for (std::int64_t i = mine.begin * kPanelColumns; i < end; ++i)
        scales[i] = weight.scales.as<float>()[i / kBlock * weight_stride + first + block];
    }
  });
}

void quantize_columns(const float* x, std::int64_t first_row, std::int64_t num_rows, PackedLinear& to) {
  check_blocks(to, "quantize_columns");
  QRL_INVARIANT(first_row % kBlock == 0 && num_rows == std::min(kBlock, to.in - first_row), "quantize_columns",
                "a block of rows", std::to_string(num_rows) + " from " + std::to_string(first_row));
  const std::int64_t num_words = (num_rows + kInputsPerWord - 1) / kInputsPerWord;
  float* const scales = to.scales.as<float>() + first_row / kBlock * to.scales.shape()[1];
  constexpr std::int64_t kAtOnce = 16;
  std::array<std::array<float, kBlock>, kAtOnce> columns{};  // zero past num_rows, so padding quantizes to zero
  std::array<std::uint8_t, kBlock> quantized{};
  for (std::int64_t first = 0; first < to.out; first += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, to.out - first);
    for (std::int64_t r = 0; r < num_rows; ++r) {
      for (std::int64_t i = 0; i < count; ++i)
        columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(r)] = x[r * to.out + first + i];
    }
    for (std::int64_t c = first; c < first + count; ++c) {
      const std::array<float, kBlock>& column = columns[static_cast<std::size_t>(c - first)];
      const float amax = kernels().max_abs(column.data(), num_rows);
      const float scale = std::isfinite(amax) ? quant::scale_of(quant::Element::fp8_e4m3, amax)
                                              : std::numeric_limits<float>::quiet_NaN();
      scales[c] = scale;
      if (scale > 0) kernels().quantize_fp8(column.data(), kBlock, scale, quantized.data());
      else quantized.fill(0);  // with scale 0 or NaN, quantized values have no effect
      std::int32_t* words =
          panel_of(to, c / kPanelColumns) + first_row / kInputsPerWord * kPanelColumns + c % kPanelColumns;
      for (std::int64_t w = 0; w < num_words; ++w) {
        const std::uint8_t* four = quantized.data() + w * kInputsPerWord;
        const std::array<std::uint8_t, kInputsPerWord> in_order{four[0], four[2], four[1], four[3]};
        std::memcpy(words + w * kPanelColumns, in_order.data(), sizeof in_order);
      }
    }
  }
}

}  // namespace qrl::ops
