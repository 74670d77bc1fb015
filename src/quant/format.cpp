#include "quant/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "quant/fp8.h"
#include "quant/int4_scale.h"

namespace qrl::quant {

namespace {

constexpr std::array<FormatSpec, kNumFormats> kSpecs{{
    {"fp32", Element::f32, Element::f32, 32, ScaleScope::none, 0, 0},
    {"bf16", Element::bf16, Element::bf16, 16, ScaleScope::none, 0, 0},
    {"int8", Element::int8, Element::int8, 8, ScaleScope::channel, 0, 0},
    {"fp8_e4m3 tensor", Element::fp8_e4m3, Element::fp8_e4m3, 8, ScaleScope::tensor, 0, 0},
    {"fp8_e4m3 channel_token", Element::fp8_e4m3, Element::fp8_e4m3, 8, ScaleScope::channel, 0, 0},
    {"fp8_e4m3 block128", Element::fp8_e4m3, Element::fp8_e4m3, 8, ScaleScope::block128, 128, 128},
    {"int4", Element::int4, Element::bf16, 4, ScaleScope::group, 128, 0},
    {"int4 int8", Element::int4, Element::int8, 4, ScaleScope::group, 128, 0},
    {"int4 fp8_e4m3", Element::int4, Element::fp8_e4m3, 4, ScaleScope::group, 128, 0},
    {"int4 group64", Element::int4, Element::bf16, 4, ScaleScope::group, 64, 0},
    {"int4 group64 int8", Element::int4, Element::int8, 4, ScaleScope::group, 64, 0},
    {"int4 group64 fp8_e4m3", Element::int4, Element::fp8_e4m3, 4, ScaleScope::group, 64, 0},
    {"int4 group32", Element::int4, Element::bf16, 4, ScaleScope::group, 32, 0},
    {"int4 group32 int8", Element::int4, Element::int8, 4, ScaleScope::group, 32, 0},
    {"int4 group32 fp8_e4m3", Element::int4, Element::fp8_e4m3, 4, ScaleScope::group, 32, 0},
}};

void require_same_size(std::size_t expected, std::size_t got, const char* where) {
  QRL_INVARIANT(expected == got, where, std::to_string(expected) + " elements", std::to_string(got));
}

float round_value(Element element, float value) {
  return element == Element::bf16 ? to_float(base::to_bf16(value)) : value;
}

/// Returns the scale with the least square error of a group of int4 weights.
Int4Scale least_squares_scale(std::span<const float> group, float amax) {
  const Int4Scales scales(amax);
  Int4Sums sums;
  for (const float value : scales.is_searched() ? group : std::span<const float>()) {
    const auto fixed = static_cast<std::int32_t>(std::nearbyint(value * scales.grid()));
    for (std::size_t c = 0; c < sums.squares.size(); ++c) {
      const float level =
          std::nearbyint(std::clamp(value * scales.inverse()[c], lowest_level(static_cast<int>(c)), 7.0F));
      sums.squares[c] += static_cast<std::int32_t>(level * level);
      sums.products[c] += static_cast<std::int32_t>(level) * fixed;
    }
  }
  return scales.best(sums);
}

/// lowest: lowest level of integers.
float round_scaled(Element element, float value, float scale, float lowest) {
  if (scale == 0) return 0;
  const float ratio = value / scale;
  if (std::isnan(ratio)) return ratio;
  if (element == Element::fp8_e4m3) return dequantize_fp8(quantize_fp8(ratio)) * scale;
  return (std::clamp(std::nearbyint(ratio), lowest, max_magnitude(element)) + 0.0F) * scale;  // + 0 turns −0 into 0
}

}  // namespace

const FormatSpec& spec(Format format) {
  const auto idx = static_cast<std::size_t>(format);
  QRL_INVARIANT(idx < kSpecs.size(), "weight format", "a known format", std::to_string(idx));
  return kSpecs[idx];
}

Format int4_format(Element activations, std::int64_t group) {
  const auto found = std::ranges::find_if(kSpecs, [&](const FormatSpec& what) {
    return what.weights == Element::int4 && what.activations == activations && what.scale_inputs == group;
  });
  QRL_INVARIANT(found != kSpecs.end(), "int4 format", "bf16, int8 or fp8_e4m3 activations and groups of 128, 64 or 32",
                "groups of " + std::to_string(group));
  return static_cast<Format>(found - kSpecs.begin());
}

float max_magnitude(Element element) {
  return element == Element::fp8_e4m3 ? kFp8Max : element == Element::int4 ? 7.0F : 127.0F;
}

float scale_of(Element element, float amax) {
  const float scale = amax / max_magnitude(element);
  return element == Element::int4 ? to_float(base::to_bf16(scale)) : scale;
}

void round_weights(Format format, std::span<const float> weights, std::int64_t inputs, std::span<float> rounded,
                   std::span<float> scales, ScaleRule rule) {
  require_same_size(weights.size(), rounded.size(), "round_weights");
  const FormatSpec& what = spec(format);
  const auto width = static_cast<std::size_t>(inputs);
  const std::size_t rows = weights.size() / width;
  if (!what.has_weight_scales()) {
    for (std::size_t i = 0; i < weights.size(); ++i) rounded[i] = round_value(what.weights, weights[i]);
    return;
  }
  const std::size_t block = what.scale_inputs == 0 ? width : static_cast<std::size_t>(what.scale_inputs);
  const std::size_t num_blocks = (width + block - 1) / block;
  const std::size_t rows_of_scale = what.scope == ScaleScope::tensor     ? rows
                                    : what.scope == ScaleScope::block128 ? 128
                                                                         : 1;
  for (std::size_t first_row = 0; first_row < rows; first_row += rows_of_scale) {
    const std::size_t end_row = std::min(rows, first_row + rows_of_scale);
    for (std::size_t b = 0; b < num_blocks; ++b) {
      const std::size_t begin = b * block, count = std::min(width, begin + block) - begin;
      float amax = 0;
      for (std::size_t row = first_row; row < end_row; ++row) {
        for (const float value : weights.subspan(row * width + begin, count)) amax = std::max(amax, std::fabs(value));
      }
      const bool searches = what.weights == Element::int4 && rule == ScaleRule::least_squares;
      const auto [scale, lowest] = searches
                                       ? least_squares_scale(weights.subspan(first_row * width + begin, count), amax)
                                       : Int4Scale{scale_of(what.weights, amax), -max_magnitude(what.weights)};
      for (std::size_t row = first_row; row < end_row; ++row) {
        if (!scales.empty()) scales[row * num_blocks + b] = scale;
        for (std::size_t i = row * width + begin; i < row * width + begin + count; ++i) {
          rounded[i] = round_scaled(what.weights, weights[i], scale, lowest);
        }
      }
    }
  }
}

void round_activations(Format format, std::span<const float> row, std::span<float> rounded) {
  require_same_size(row.size(), rounded.size(), "round_activations");
  const FormatSpec& what = spec(format);
  if (!what.has_activation_scales()) {
    for (std::size_t i = 0; i < row.size(); ++i) rounded[i] = round_value(what.activations, row[i]);
    return;
  }
  const std::size_t block =
      what.activation_scale_inputs == 0 ? row.size() : static_cast<std::size_t>(what.activation_scale_inputs);
  for (std::size_t begin = 0; begin < row.size(); begin += block) {
    const std::size_t end = std::min(row.size(), begin + block);
    float amax = 0;
    bool finite = true;
    for (std::size_t i = begin; i < end; ++i) {
      amax = std::max(amax, std::fabs(row[i]));
      finite = finite && std::isfinite(row[i]);
    }
    const float scale = finite ? scale_of(what.activations, amax) : std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = begin; i < end; ++i)
      rounded[i] = round_scaled(what.activations, row[i], scale, -max_magnitude(what.activations));
  }
}

float quantize_int8(std::span<const float> values, std::span<std::int8_t> quantized) {
  require_same_size(values.size(), quantized.size(), "quantize_int8");
  float amax = 0;
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    amax = std::max(amax, std::fabs(value));
  }
  std::fill(quantized.begin(), quantized.end(), std::int8_t{0});
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  const float scale = amax / 127.0F;
  if (scale == 0.0F) return 0.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Clamps, because a subnormal scale is rounded so coarsely that quotients may exceed 127.
    const float value = std::clamp(std::nearbyint(values[i] / scale), -127.0F, 127.0F);
    quantized[i] = static_cast<std::int8_t>(value);
  }
  return scale;
}

void dequantize_int8(std::span<const std::int8_t> quantized, float scale, std::span<float> values) {
  require_same_size(quantized.size(), values.size(), "dequantize_int8");
  for (std::size_t i = 0; i < quantized.size(); ++i) values[i] = static_cast<float>(quantized[i]) * scale;
}

void FormatErrorSums::add(std::span<const float> original, std::span<const float> dequantized) {
  QRL_INVARIANT(original.size() == dequantized.size(), "format_error", std::to_string(original.size()) + " elements",
                std::to_string(dequantized.size()));
  for (std::size_t i = 0; i < original.size(); ++i) {
    const double a = original[i], b = dequantized[i], difference = b - a;
    // A NaN difference replaces the maximum and stays.
    if (!(std::fabs(difference) <= max_abs_) && !std::isnan(max_abs_)) max_abs_ = std::fabs(difference);
    signal_ += a * a;
    noise_ += difference * difference;
    power_ += b * b;
    product_ += a * b;
  }
  count_ += original.size();
}

FormatError FormatErrorSums::error() const {
  FormatError error;
  error.max_abs = max_abs_;
  if (count_ > 0) error.rms = std::sqrt(noise_ / static_cast<double>(count_));
  error.snr_db = noise_ == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal_ / noise_);
  if (signal_ == 0 && power_ == 0) {
    error.cosine = 1;
  } else if (signal_ == 0 || power_ == 0) {
    error.cosine = 0;
  } else {
    error.cosine = product_ / (std::sqrt(signal_) * std::sqrt(power_));
  }
  return error;
}

FormatError format_error(std::span<const float> original, std::span<const float> dequantized) {
  FormatErrorSums sums;
  sums.add(original, dequantized);
  return sums.error();
}

}  // namespace qrl::quant
