#pragma once

#include "ops/kernels/linear.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

// Dequantization: a stored word (weights of kInputs inputs) gives kSteps words for the dot product. A call of
// `dequantize` returns kAtOnce of these words, from word `step` on.

struct Fp8Values {
  static constexpr int kInputs = 4, kSteps = 2, kAtOnce = 2;
  static void dequantize(VecI word, int, VecI (&to)[2]) { bf16_of_fp8(word, to); }
};

struct Int4AsBf16Values {
  static constexpr int kInputs = 8, kSteps = 4, kAtOnce = 1;
  static void dequantize(VecI word, int step, VecI (&to)[1]) {
#if defined(QRL_ISA_AVX512)
    // The table repeats its 16 entries, because the permute uses five index bits. The fifth belongs to the next nibble.
    alignas(64) static constexpr std::uint16_t kNumbers[32] = {
        0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0,
        0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0,
        0x40c0, 0x40e0, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80};
    to[0] = (VecI)_mm512_permutexvar_epi16((__m512i)((VecU16)word >> (4 * step)), _mm512_load_si512(kNumbers));
#else
    const auto number = [](VecU shifted) { return bits_of(__builtin_convertvector((VecI)shifted >> 28, VecF)); };
    const VecI even = number((VecU)word << (28 - 4 * step)), odd = number((VecU)word << (12 - 4 * step));
    to[0] = (VecI)((VecU)even >> 16) | (odd & (VecI)(VecU{} + 0xffff0000U));
#endif
  }
};

struct Int4AsInt8Values {
  static constexpr int kInputs = 8, kSteps = 2, kAtOnce = 1;
  static void dequantize(VecI word, int step, VecI (&to)[1]) {
    using Bytes = std::int8_t __attribute__((vector_size(4 * kLanes)));
    const VecI nibbles = (VecI)((VecU)word >> (4 * step)) & 0x0f0f0f0f;
    to[0] = (VecI)(((Bytes)nibbles ^ 8) - 8);
  }
};

/// Gives bf16 numbers as fp32 words, each pair's odd number first (Bf16ByFmaDot).
template <class Pairs>
struct Apart {
  static constexpr int kInputs = Pairs::kInputs, kSteps = 2 * Pairs::kSteps, kAtOnce = 2 * Pairs::kAtOnce;
  static void dequantize(VecI word, int step, VecI (&to)[kAtOnce]) {
    VecI pairs[Pairs::kAtOnce];
    Pairs::dequantize(word, step / 2, pairs);
    for (int i = 0; i < Pairs::kAtOnce; ++i) {
      to[2 * i] = odd_of_pairs(pairs[i]);
      to[2 * i + 1] = even_of_pairs(pairs[i]);
    }
  }
};

struct StoredBf16 {
  static constexpr int kInputs = 2, kSteps = 1, kAtOnce = 1;
  static void dequantize(VecI word, int, VecI (&to)[1]) { to[0] = word; }
};

// Weight formats. Each names its quantized values, its dot product, and whether each group of inputs has its own scale.

enum class InputScale { row, chunk };

struct Bf16 : Bf16Dot {
  using Values = StoredBf16;
  static constexpr bool kScaled = false, kScaledChunks = false;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF start(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF number(VecF sum) { return sum; }
};

struct Fp8 : Bf16Dot {
  using Values = Fp8Values;
  static constexpr bool kScaled = true, kScaledChunks = false;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask& task, std::int64_t segment, std::int64_t column) {
    return load(static_cast<const float*>(task.scales) + segment * task.scale_stride + column, All{});
  }
  static VecF start(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF number(VecF sum) { return sum; }
};

struct Fp8Block : Fp8 {
  static constexpr bool kScaledChunks = true;
  static constexpr InputScale kInputScale = InputScale::chunk;
};

struct Int4 : Bf16Dot {
  using Values = Int4AsBf16Values;
  static constexpr bool kScaled = true, kScaledChunks = true;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask& task, std::int64_t segment, std::int64_t column) {
    return load(static_cast<const std::uint16_t*>(task.scales) + segment * task.scale_stride + column, All{});
  }
  static VecF start(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF number(VecF sum) { return sum; }
};

struct Int4Int8 : Int8DotWideInput {
  using Values = Int4AsInt8Values;
  static constexpr bool kScaled = true, kScaledChunks = true;
  static constexpr InputScale kInputScale = InputScale::row;
  static VecF weight_scale(const LinearTask& task, std::int64_t segment, std::int64_t column) {
    return Int4::weight_scale(task, segment, column);
  }
  static VecI start(const LinearTask& task, std::int64_t segment, std::int64_t column) {
    return kBias == 0 ? VecI{} : (VecI)(-(VecU)load_words(task.column_sums + segment * task.scale_stride + column));
  }
  static VecF number(VecI sum) { return __builtin_convertvector(sum, VecF); }
};

/// Multiplies a format of bf16 numbers by fp32 FMAs. task.x holds fp32 numbers, each pair's odd one first.
template <class Pairs>
struct ByFma : Bf16ByFmaDot {
  using Values = Apart<typename Pairs::Values>;
  static constexpr bool kScaled = Pairs::kScaled, kScaledChunks = Pairs::kScaledChunks;
  static constexpr InputScale kInputScale = Pairs::kInputScale;
  static VecF weight_scale(const LinearTask& task, std::int64_t segment, std::int64_t column) {
    return Pairs::weight_scale(task, segment, column);
  }
  static VecF start(const LinearTask&, std::int64_t, std::int64_t) { return VecF{}; }
  static VecF number(VecF sum) { return sum; }
};

/// Returns the weight scale, multiplied by the segment's input scale if the format has an input scale per chunk.
template <class F>
inline VecF scale_of_segment(const LinearTask& task, std::int64_t row, std::int64_t segment, VecF weight_scale) {
  if constexpr (F::kInputScale == InputScale::chunk)
    return splat(task.x_scales[row * task.x_scale_stride + segment]) * weight_scale;
  else return weight_scale;
}

template <class F>
inline VecF scaled_by_row(const LinearTask& task, VecF value, std::int64_t row) {
  if (F::kInputScale == InputScale::row && task.x_scales != nullptr)
    value = value * splat(task.x_scales[row * task.x_scale_stride]);
  return value;
}

/// Describes inputs [begin, end), which share the scale `segment`. `first` and `last` say whether the chunk holds the
/// scale's first and last inputs.
struct Chunk {
  std::int64_t begin, end, segment;
  bool first, last;
};

/// Calls body for each chunk of [begin, end). With a scale per chunk, `begin` and `end` are multiples of
/// task.scale_inputs; `end` may also be task.in.
template <class F, class Body>
inline void for_chunks(const LinearTask& task, std::int64_t begin, std::int64_t end, const Body& body) {
  if constexpr (F::kScaledChunks) {
    const std::int64_t inputs = task.scale_inputs;
    for (std::int64_t segment = begin / inputs; begin < end; begin += inputs, ++segment)
      body({begin, begin + inputs < end ? begin + inputs : end, segment, true, true});
  } else {
    body(Chunk{begin, end, 0, begin == 0, end == task.in});
  }
}

inline constexpr std::int64_t words_of(std::int64_t inputs, int of_word) { return (inputs + of_word - 1) / of_word; }

template <class F>
inline const std::int32_t* panel_at(const LinearTask& task, std::int64_t column) {
  return static_cast<const std::int32_t*>(task.panels) +
         column / kPanel * kPanel * words_of(task.in, F::Values::kInputs);
}

template <class F>
inline void dequantize(const std::int32_t* stored, std::int64_t num_stored, std::int32_t* words) {
  for (std::int64_t word = 0; word < num_stored; ++word, stored += kPanel) {
    for (int v = 0; v < kPanel / kLanes; ++v) {
      const VecI together = load_words(stored + v * kLanes);
      for (int step = 0; step < F::Values::kSteps; step += F::Values::kAtOnce) {
        VecI dequantized[F::Values::kAtOnce];
        F::Values::dequantize(together, step, dequantized);
        for (int i = 0; i < F::Values::kAtOnce; ++i)
          __builtin_memcpy(words + (step + i) * kPanel + v * kLanes, &dequantized[i], sizeof dequantized[i]);
      }
    }
    words += F::Values::kSteps * kPanel;
  }
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
