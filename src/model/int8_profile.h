// Owns the fixed int8 profile (FlashRL): smoothing factors and weight scales, computed once on calibration prompts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/weights.h"
#include "ops/linear.h"

namespace qrl::model {

/// Holds the largest |input| per channel after a norm: fp32 [D]. Keys are names of norms
/// ("model.layers.0.input_layernorm.weight").
using ChannelRanges = Weights;

/// Holds scales that replace the scales computed at publish. Weights become round(w · smoothing / scale), clamped to
/// ±127. The norm's gain is divided by the smoothing. Activations still have one scale per token.
struct Int8Profile {
  Weights tensors;         ///< fp32 tensors of profile_specs
  std::string model_hash;  ///< weights_hash of the profiled model
  std::string settings_hash;
};

/// Return names of a profile's tensors. A smoothing tensor has one factor per channel of a norm. A scale tensor has one
/// scale per output of a matrix.
std::string smoothing_name(const std::string& norm);
std::string scale_name(const std::string& matrix);
/// Returns specs of a profile's tensors: smoothing of each block's two norms, and scales of its matrices.
std::vector<WeightSpec> profile_specs(const ModelConfig& config);

/// Computes smoothing_j = √max|x_j| / √max|W_:j|, or 1 if either maximum is 0. The maximum |W_:j| is taken over all
/// matrices that read the norm's output x. Computes scale_i = max|W_i: · smoothing| / 127. Source: SmoothQuant (Xiao et
/// al. 2023, eq. 4) with α = 0.5. The α is our choice, because FlashRL states none. Holds one weight in memory at a
/// time.
Int8Profile make_int8_profile(const ModelConfig& config, const WeightSource& weights, const ChannelRanges& ranges);

std::string weights_hash(const ModelConfig& config, const WeightSource& weights);

/// Returns the smoothing of a norm's channels. Returns null without a profile, and for other tensors.
const float* smoothing_of(const Int8Profile* profile, const std::string& norm);
/// Returns a matrix's fixed scales. They are null without a profile and for lm_head. A layer exempt from int8 has only
/// input factors.
ops::FixedScales fixed_scales(const ModelConfig& config, const Int8Profile* profile, const std::string& matrix,
                              quant::Format format);

/// Writes or replaces a safetensors file, whose metadata holds the hashes.
void save_int8_profile(const std::filesystem::path& file, const Int8Profile& profile);
/// Throws an input error unless the file is a profile of this config.
Int8Profile load_int8_profile(const std::filesystem::path& file, const ModelConfig& config);

}  // namespace qrl::model
