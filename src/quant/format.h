// Owns the weight formats as specifications, and their reference codec. Knows nothing of layers, packing or speed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bf16.h"

namespace qrl::quant {

/// How a linear layer's weights (and the activations that meet them) are stored and multiplied.
///
/// f32   weights and activations fp32; products accumulated in fp32 in order of the input index.
/// bf16  weights and activations rounded to bf16 (nearest even); exact products, fp32 accumulation.
/// int8  weights: symmetric per output channel, scale = amax/127 (fp32), code = round-half-even(w/scale) in −127…127
///       (−128 is never written); activations: the same per token (row), made anew each time. Exact s8·s8 sums in
///       int32, then y = sum · (scale_row · scale_channel), products in fp32. A zero row or channel has scale 0 and
///       codes 0. A NaN or infinity in the weights is an error at publish; in an activation row it makes the row's
///       scale NaN, so that it shows in the output instead of vanishing. Not asymmetric: zero points cost a correction
///       per row and gain nothing on weights centred on 0. Not per tensor: one outlier channel would set everyone's
///       step. Not amax/128: −128 has no positive partner.
enum class Format : std::uint8_t { f32, bf16, int8 };

std::string_view name(Format format);            ///< "fp32" | "bf16" | "int8", the recipe's words
Format format_from_name(std::string_view name);  ///< throws an input error that lists the names

/// Reference codec of int8: quantises `values` (one row or channel) to `codes`, returns the scale.
float encode_int8(std::span<const float> values, std::span<std::int8_t> codes);
/// codes · scale.
void decode_int8(std::span<const std::int8_t> codes, float scale, std::span<float> values);

/// Format error of `decoded` against `original`: all in fp64.
struct FormatError {
  double max_abs = 0;  ///< largest |difference|
  double rms = 0;      ///< root mean square difference
  double snr_db = 0;   ///< 10·log10(Σ original² / Σ difference²); +inf when equal
  double cosine = 1;   ///< between the two as vectors; 1 when both are zero
};
FormatError format_error(std::span<const float> original, std::span<const float> decoded);

}  // namespace qrl::quant
