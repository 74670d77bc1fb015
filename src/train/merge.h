// Owns how adapters become a model without them, and what rounding leaves of an update. Knows no file.
#pragma once

#include <optional>
#include <string>

#include "model/snapshot.h"
#include "train/session.h"

namespace qrl::train {

/// Holds how much of the update is lost when a trained model is rounded to its dtype: ‖rounded − trained‖ / ‖trained −
/// base‖ over a linear layer's weights. Layers without an update are left out. Sums are fp64.
struct UpdateErrors {
  std::int64_t num_layers = 0;
  double sum = 0, worst = 0;
  std::string worst_layer;
  double mean() const { return num_layers > 0 ? sum / static_cast<double>(num_layers) : 0; }
};

/// Returns the weights that a sampler in such formats multiplies by: those of `base` quantized and dequantized, in
/// fp32. Weights of no linear layer are unchanged. Quantizes all of them once.
model::WeightSource quantized_weights(const model::ModelConfig& config, const model::WeightSource& base,
                                      const model::SnapshotFormats& formats);

/// Measures the same where the merged model is quantized to `formats` again, as a sampler does with the exported
/// folder. Quantizes all weights once; sums are fp64.
UpdateErrors errors_if_quantized(const Policy& policy, const std::optional<model::WeightSource>& onto,
                                 const model::SnapshotFormats& formats);

/// Reads `trained`, a tensor at a time in fp32. Notes in `errors` what rounding to `dtype` costs of its update from
/// `base`. `errors` outlives the source.
model::WeightSource with_errors(const model::WeightSource& trained, const model::WeightSource& base, base::DType dtype,
                                UpdateErrors& errors);

/// Reads the policy's merged weights in fp32, onto its own base or onto `onto`. `errors` as above, of
/// policy.config.dtype.
model::WeightSource merged(const Policy& policy, const std::optional<model::WeightSource>& onto, UpdateErrors& errors);

}  // namespace qrl::train
