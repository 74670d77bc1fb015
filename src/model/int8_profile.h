// Owns the fixed int8 profile (FlashRL): smoothing factors and weight scales, computed once from activations on
// calibration prompts, and kept while the weights change.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/weights.h"

namespace qrl::model {

/// Largest |input| of each channel after a norm, over some tokens: fp32 [D], by the norm's name
/// ("model.layers.0.input_layernorm.weight").
using ChannelRanges = Weights;

/// Scales that a snapshot quantizes with instead of its own. Values are as in quant::Format::int8: round(w · smoothing
/// / scale), clamped to −127…127. The norm's gain is divided by the smoothing, which leaves the product unchanged.
/// Activations keep their own scale per token.
struct Int8Profile {
  Weights tensors;            ///< fp32, named and shaped as in profile_specs
  std::string model_hash;     ///< weights_hash of the weights it was computed from
  std::string settings_hash;  ///< hash of the settings it was made with, chosen by the maker
};

/// Return the names of a profile's tensors: a factor for each input of a norm's layers, a scale for each output of a
/// matrix.
std::string smoothing_name(const std::string& norm);
std::string scale_name(const std::string& matrix);
/// Returns all of them: the two norms of each block, and its matrices q, k, v, o, gate, up, down.
std::vector<WeightSpec> profile_specs(const ModelConfig& config);

/// Computes smoothing_j = √max|x_j| / √max|W_:j| over the matrices that read the norm, 1 if either is 0. Then scale =
/// max|W_i: · smoothing| / 127. Source: SmoothQuant (Xiao et al. 2023, eq. 4) with α = 0.5, our choice, since FlashRL
/// states no value. Holds one weight at a time.
Int8Profile make_int8_profile(const ModelConfig& config, const WeightSource& weights, const ChannelRanges& ranges);

/// Hashes names and values.
std::string weights_hash(const ModelConfig& config, const WeightSource& weights);

/// Writes a safetensors file with the hashes in its metadata. Replaces an existing file.
void save_int8_profile(const std::filesystem::path& file, const Int8Profile& profile);
/// Throws an input error for a file that is not a profile of a model of this config.
Int8Profile load_int8_profile(const std::filesystem::path& file, const ModelConfig& config);

}  // namespace qrl::model
