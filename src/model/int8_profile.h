// Owns the fixed int8 profile (FlashRL): smoothing factors and weight scales made once, from a model and what its
// linear layers see on calibration prompts, and kept while the weights move. Knows neither how that was observed nor
// who quantizes with it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/weights.h"

namespace qrl::model {

/// Largest |input| of each channel behind a norm, over some tokens: fp32 [D], by the norm's name
/// ("model.layers.0.input_layernorm.weight").
using ChannelRanges = Weights;

/// What a snapshot quantizes with instead of scales of its own. Symmetric quantized values −127…127 as
/// quant::Format::int8 has them: round(w · smoothing / scale), clamped; the norm's gain is divided by the smoothing, so
/// that the product stays. Activations keep their own scale a token.
struct Int8Profile {
  Weights tensors;            ///< fp32, profile_specs' names and shapes
  std::string model_hash;     ///< weights_hash of the weights it was made from
  std::string settings_hash;  ///< of the settings it was made with (the maker's business)
};

/// Names of a profile's tensors: a factor for each input of a norm's layers, a scale for each output of a matrix.
std::string smoothing_name(const std::string& norm);
std::string scale_name(const std::string& matrix);
/// All of them. Norms: each block's two; matrices: q, k, v, o, gate, up, down of each block.
std::vector<WeightSpec> profile_specs(const ModelConfig& config);

/// smoothing_j = √max|x_j| / √max|W_:j| over the matrices behind the norm (SmoothQuant, Xiao et al. 2023, eq. 4 with
/// α = 0.5; FlashRL gives no value: our choice), 1 where either is 0; scale = max|W_i: · smoothing| / 127.
/// Holds one of the weights at a time.
Int8Profile make_int8_profile(const ModelConfig& config, const WeightSource& weights, const ChannelRanges& ranges);

/// A hash of names and values, the same for the same weights wherever they are.
std::string weights_hash(const ModelConfig& config, const WeightSource& weights);

/// A safetensors file; its metadata has the hashes. Replaces what is there.
void save_int8_profile(const std::filesystem::path& file, const Int8Profile& profile);
/// Throws an input error for a file that is not a profile of a model of this config.
Int8Profile load_int8_profile(const std::filesystem::path& file, const ModelConfig& config);

}  // namespace qrl::model
