// Owns the weight formats as specifications. Knows nothing of layers, packing or speed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bf16.h"

namespace qrl::quant {

/// How a linear layer's weights, and the activations that meet them, are stored and multiplied.
///
/// f32           weights and activations fp32; products accumulated in fp32 in order of the input index.
/// bf16          both rounded to bf16 (nearest even); exact products, fp32 accumulation.
/// int8          W8A8 (QuRL). Weights symmetric per output channel; activations per token, made anew each time. Exact
///               s8·s8 sums in int32, then y = sum · (scale_row · scale_channel), products in fp32.
/// fp8_*         W8A8 in e4m3 (FP8-RL, FlashRL). Weight scales: fp8_tensor one a tensor (vLLM's and FlashRL's default;
///               the coarsest), fp8_channel one an output channel, fp8_block128 one a block of 128 outputs × 128 inputs
///               (DeepSeek-V3; a tensor's own blocks, the last ones ragged). Activation scales: one a token, with
///               block128 one a token and 128 inputs. Never one a batch: a row's bits must not depend on the others
///               (our choice; fp8_tensor elsewhere often means that). Exact products (two significands of four bits),
///               fp32 sums, scaled after each block.
/// int4          W4A16 (QaRL): weights symmetric per output channel and group of 128 inputs (our choice of group; the
///               last one ragged), scales rounded to bf16; activations bf16. Exact products (bf16 has eight bits of
///               significand), fp32 sums, scaled after each group.
/// int4_int8, int4_fp8   W4A8 (QaRL): int4's weights; activations as int8's or fp8_channel's.
///
/// Quantized values: int8 −127…127, int4 −7…7, round-half-even(w/scale) with scale = amax/127 or amax/7; the lowest
/// value is never written, because it has no positive partner (not asymmetric: zero points cost a correction per row
/// and gain nothing on weights centred on 0). e4m3: scale = amax/448, nearest even. Division is by the scale as stored;
/// what rounds beyond the range is clamped to it. Zero amax (or a scale that underflows to zero): scale 0, quantized
/// values 0. A NaN or infinity in the weights is an error at publish; in an activation row it makes the scale NaN, so
/// that it shows in the output instead of vanishing.
///
/// Quantized by round_weights (format.cpp, the reference), RowQuantizer (ops/packed_linear.cpp, on the CPU) and
/// cuda/quantize/quantize_weights.cu.
enum class Format : std::uint8_t {
  f32,
  bf16,
  int8,
  fp8_tensor,
  fp8_channel,
  fp8_block128,
  int4,
  int4_int8,
  int4_fp8,
};
inline constexpr int kNumFormats = 9;

/// What one number is stored as.
enum class Element : std::uint8_t { f32, bf16, int8, fp8_e4m3, int4 };

/// Which weights share a scale.
enum class ScaleScope : std::uint8_t { none, tensor, channel, group128, block128 };

/// A format in numbers.
struct FormatSpec {
  std::string_view name;
  Element weights, activations;
  int weight_bits;
  ScaleScope scope;
  std::int64_t scale_inputs;             ///< inputs of one output under one weight scale; 0: all of them
  std::int64_t activation_scale_inputs;  ///< inputs of one token under one scale; 0: all of them
  bool has_weight_scales() const { return scope != ScaleScope::none; }
  bool has_activation_scales() const { return activations == Element::int8 || activations == Element::fp8_e4m3; }
};
const FormatSpec& spec(Format format);

inline std::string_view name(Format format) { return spec(format).name; }

/// Largest magnitude of a quantized value: 127, 7 or 448.
float max_magnitude(Element element);

/// The scale, as stored, of quantized values whose largest magnitude is `amax`.
float scale_of(Element element, float amax);

/// Reference of the weights' rounding, in plain steps: the values that `format` stores for W [rows, inputs] (row-major,
/// finite), dequantized. `scales` gets [rows, ⌈inputs / scale_inputs⌉] unless null.
void round_weights(Format format, std::span<const float> weights, std::int64_t inputs, std::span<float> rounded,
                   std::span<float> scales = {});
/// The same for one token's activations.
void round_activations(Format format, std::span<const float> row, std::span<float> rounded);

/// Reference of int8: quantizes `values` (one row or channel) to `quantized`, returns the scale.
float quantize_int8(std::span<const float> values, std::span<std::int8_t> quantized);
/// quantized · scale.
void dequantize_int8(std::span<const std::int8_t> quantized, float scale, std::span<float> values);

/// Format error of `dequantized` against `original`: all in fp64.
struct FormatError {
  double max_abs = 0;  ///< largest |difference|
  double rms = 0;      ///< root mean square difference
  double snr_db = 0;   ///< 10·log10(Σ original² / Σ difference²); +inf when equal
  double cosine = 1;   ///< between the two as vectors; 1 when both are zero
};
FormatError format_error(std::span<const float> original, std::span<const float> dequantized);

}  // namespace qrl::quant
