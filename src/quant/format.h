#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bf16.h"

namespace qrl::quant {

/// f32           Weights and activations are fp32. Products are added in fp32 in input order.
/// bf16          Weights and activations are rounded to bf16 (nearest even). Products are exact, sums fp32.
/// int8          W8A8 (QuRL). Weights: symmetric, one scale per output channel. Activations: one dynamic scale per
///               token. The s8·s8 sums are exact in int32. Then y = sum · (scale_row · scale_channel), with products in
///               fp32.
/// fp8_*         W8A8 in e4m3 (FP8-RL, FlashRL). Weight scales: fp8_tensor has one per tensor (vLLM's default).
///               fp8_channel has one per output channel. fp8_block128 has one per block of 128 outputs × 128 inputs
///               (DeepSeek-V3); blocks restart with each tensor, whose last blocks may be smaller. Activation scales:
///               one per token; for block128, one per token and 128 inputs. Tokens never share a scale, so that a row's
///               bits do not depend on its batch. Products are exact. Sums are fp32; block128 scales each block's sum.
/// int4*         W4A16 (QaRL). Weights: symmetric, one scale per output channel and group of inputs, rounded to bf16.
///               A group has 128 inputs, or 64 (_g64) or 32 (_g32); the last group may be smaller. Activations: bf16.
///               Products are exact. Sums are fp32, and each group's sum is scaled.
/// int4_int8*, int4_fp8*   W4A8 (QaRL). Weights as in int4; activations as in int8 and fp8_channel, respectively.
///
/// int8 values are round-half-even(x / scale) in −127…127, with scale = amax/127. int4 values are in −7…7, with scale =
/// amax/7; with ScaleRule::least_squares also in −8…7, with a scale of ±amax/8. e4m3 values are x / scale, rounded to
/// nearest even, with scale = amax/448. The divisor is the stored scale, and quotients are clamped. A zero amax, or a
/// scale that underflows to zero, gives scale 0 and quantized values 0. A NaN or infinity in weights is an error at
/// publish. In an activation row, it makes the scale NaN, so that the output shows it.
///
/// Implementations: round_weights (format.cpp, the reference), RowQuantizer (ops/dispatch/packed_linear.cpp, CPU) and
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
  int4_g64,
  int4_int8_g64,
  int4_fp8_g64,
  int4_g32,
  int4_int8_g32,
  int4_fp8_g32,
};
inline constexpr int kNumFormats = 15;

enum class Element : std::uint8_t { f32, bf16, int8, fp8_e4m3, int4 };

enum class ScaleScope : std::uint8_t { none, tensor, channel, group, block128 };

struct FormatSpec {
  std::string_view name;
  Element weights, activations;
  int weight_bits;
  ScaleScope scope;
  std::int64_t scale_inputs;             ///< consecutive inputs per weight scale, within one output; 0: all inputs
  std::int64_t activation_scale_inputs;  ///< consecutive inputs per activation scale, within one token; 0: all
  bool has_weight_scales() const { return scope != ScaleScope::none; }
  bool has_activation_scales() const { return activations == Element::int8 || activations == Element::fp8_e4m3; }
};
const FormatSpec& spec(Format format);

inline std::string_view name(Format format) { return spec(format).name; }
inline bool is_int4(Format format) { return spec(format).weights == Element::int4; }
/// Returns the int4 format with these activations (bf16, int8 or fp8_e4m3) and `group` inputs per scale (128, 64 or
/// 32).
Format int4_format(Element activations, std::int64_t group);

/// Returns the largest magnitude of a quantized value: 127, 7 or 448.
float max_magnitude(Element element);

/// Returns the stored scale for values whose largest magnitude is `amax`.
float scale_of(Element element, float amax);

/// Chooses the scale of a group of int4 weights: that of the largest magnitude, or the candidate (int4_scale.h) with
/// the least square error. Other formats ignore it.
enum class ScaleRule : std::uint8_t { largest, least_squares };

/// Quantizes W [rows, inputs] (row-major, finite) and writes the dequantized values to `rounded`. Writes `scales`
/// [rows, ⌈inputs / scale_inputs⌉] unless empty.
void round_weights(Format format, std::span<const float> weights, std::int64_t inputs, std::span<float> rounded,
                   std::span<float> scales = {}, ScaleRule rule = ScaleRule::largest);
/// Quantizes one token's activations and writes the dequantized values to `rounded`.
void round_activations(Format format, std::span<const float> row, std::span<float> rounded);

/// Quantizes one row or channel to int8. Returns the scale, NaN if a value is not finite.
float quantize_int8(std::span<const float> values, std::span<std::int8_t> quantized);
void dequantize_int8(std::span<const std::int8_t> quantized, float scale, std::span<float> values);

/// Error of dequantized values, summed in fp64.
struct FormatError {
  double max_abs = 0;
  double rms = 0;
  double snr_db = 0;  ///< 10·log10(Σ original² / Σ difference²); +inf without differences
  double cosine = 1;  ///< cosine of the two vectors; 1 when both are zero
};
FormatError format_error(std::span<const float> original, std::span<const float> dequantized);

/// Accumulates format_error over a tensor's pieces, in order. The result equals one call for the whole tensor bitwise.
class FormatErrorSums {
 public:
  void add(std::span<const float> original, std::span<const float> dequantized);
  FormatError error() const;

 private:
  double max_abs_ = 0, signal_ = 0, noise_ = 0, power_ = 0, product_ = 0;
  std::size_t count_ = 0;
};

}  // namespace qrl::quant
