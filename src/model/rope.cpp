#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/config.h"
#include "ops/transformer.h"

namespace qrl::model {

namespace {

double llama3_frequency(double plain, const RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / plain;
  if (wavelength < original / scaling.high_freq_factor) return plain;
  if (wavelength > original / scaling.low_freq_factor) return plain / scaling.factor;
  const double kept =
      (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * plain / scaling.factor + kept * plain;
}

double yarn_attention(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

/// Returns the fractional index of the dimension pair that makes `rotations` turns over the original positions.
double yarn_dimension(double rotations, const ModelConfig& config) {
  const auto original = static_cast<double>(config.rope_scaling.original_max_position_embeddings);
  return static_cast<double>(config.rotary_dim()) * std::log(original / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.rope_theta));
}

void scale_yarn(const ModelConfig& config, RopeFrequencies& rope) {
  const RopeScaling& scaling = config.rope_scaling;
  double low = yarn_dimension(scaling.beta_fast, config), high = yarn_dimension(scaling.beta_slow, config);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.rotary_dim() - 1));
  if (low == high) high += 0.001;  // avoids a division by zero, as in transformers
  for (std::size_t i = 0; i < rope.inverse.size(); ++i) {
    const double kept = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rope.inverse[i] = rope.inverse[i] / scaling.factor * (1 - kept) + rope.inverse[i] * kept;
  }
  if (scaling.attention_factor) {
    rope.attention_factor = *scaling.attention_factor;
  } else if (scaling.mscale && scaling.mscale_all_dim) {
    rope.attention_factor =
        yarn_attention(scaling.factor, *scaling.mscale) / yarn_attention(scaling.factor, *scaling.mscale_all_dim);
  } else {
    rope.attention_factor = yarn_attention(scaling.factor, 1);
  }
}

void scale_longrope(const ModelConfig& config, RopeFrequencies& rope) {
  const RopeScaling& scaling = config.rope_scaling;
  for (std::size_t i = 0; i < rope.inverse.size(); ++i) rope.inverse[i] /= scaling.short_factor.at(i);
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double ratio = static_cast<double>(scaling.longest) / original;
  const double by_ratio = ratio <= 1 ? 1 : std::sqrt(1 + std::log(ratio) / std::log(original));
  rope.attention_factor = scaling.attention_factor.value_or(by_ratio);
}

}  // namespace

RopeFrequencies rope_frequencies(const ModelConfig& config, RopeKind kind) {
  if (kind == RopeKind::sliding) {
    ModelConfig plain = config;
    plain.rope_theta = config.sliding_rope_theta;
    plain.rope_scaling = {};
    return rope_frequencies(plain);
  }
  RopeFrequencies rope;
  const RopeScaling& scaling = config.rope_scaling;
  const auto width = static_cast<double>(config.rotary_dim());
  for (std::int64_t i = 0; i < config.rotary_dim() / 2; ++i) {
    const double plain = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / width);
    rope.inverse.push_back(scaling.type == RopeType::llama3   ? llama3_frequency(plain, scaling)
                           : scaling.type == RopeType::linear ? plain / scaling.factor
                                                              : plain);
  }
  if (scaling.type == RopeType::yarn) scale_yarn(config, rope);
  if (scaling.type == RopeType::longrope) scale_longrope(config, rope);
  return rope;
}

RopeTables::RopeTables(const ModelConfig& config, std::int64_t max_positions) {
  for (const RopeKind kind : config.ropes()) {
    const RopeFrequencies rope = rope_frequencies(config, kind);
    tables_.push_back(ops::make_rope_table(max_positions, rope.inverse, rope.attention_factor));
  }
}

base::View RopeTables::of(RopeKind kind) const {
  base::View table = tables_[kind == RopeKind::sliding ? 1 : 0].view();
  if (kind == RopeKind::none) table.shape = {table.shape[0], 0};
  return table;
}

}  // namespace qrl::model
