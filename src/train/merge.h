// Owns how adapters become a model without them, and what is lost on the way. Knows no file.
#pragma once

#include <optional>
#include <string>

#include "model/snapshot.h"
#include "train/session.h"

namespace qrl::train {

/// What rounding a merged model to its dtype leaves of its update, ‖rounded − base − scale·B·A‖ / ‖scale·B·A‖ over a
/// linear layer's weights; layers whose update is zero are left out.
struct MergeErrors {
  std::int64_t num_layers = 0;
  double sum = 0, worst = 0;
  std::string worst_layer;
  double mean() const { return num_layers > 0 ? sum / static_cast<double>(num_layers) : 0; }
};

/// The weights that a sampler in such formats multiplies by: those of `base` quantized and dequantized, in fp32; what
/// is no linear layer's as it is. Quantizes all of them once.
model::WeightSource quantized_weights(const model::ModelConfig& config, const model::WeightSource& base,
                                      const model::SnapshotFormats& formats);

/// Measures the same where the merged model is quantized to `formats` again, as a sampler does with the exported
/// folder. Quantizes all weights once; sums are fp64.
MergeErrors errors_if_quantized(const Policy& policy, const std::optional<model::WeightSource>& onto,
                                const model::SnapshotFormats& formats);

/// The policy's merged weights in fp32, a tensor at a time, onto its own base or onto `onto`. `errors` gets those of
/// rounding to policy.config.dtype, tensor by tensor as they are read, and outlives the source.
model::WeightSource merged(const Policy& policy, const std::optional<model::WeightSource>& onto, MergeErrors& errors);

}  // namespace qrl::train
