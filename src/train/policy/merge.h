#pragma once

#include <optional>
#include <string>

#include "model/snapshot.h"
#include "train/policy/policy.h"

namespace qrl::train {

/// Holds the relative loss of an update by rounding to the dtype, ‖rounded − trained‖ / ‖trained − base‖ over a linear
/// layer's weights. Skips layers without an update. Sums are fp64.
struct UpdateErrors {
  std::int64_t num_layers = 0;
  double sum = 0, worst = 0;
  std::string worst_layer;
  double mean() const { return num_layers > 0 ? sum / static_cast<double>(num_layers) : 0; }
};

/// Returns a sampler's weights in fp32: linear layers of `base` quantized and dequantized, others unchanged. Quantizes
/// the whole model at the call.
model::WeightSource quantized_weights(const model::ModelConfig& config, const model::WeightSource& base,
                                      const model::SnapshotFormats& formats);

/// Returns the errors that quantizing the merged model to `formats` adds to its update from the base. Quantizes the
/// whole model at once; sums are fp64.
UpdateErrors errors_if_quantized(const Policy& policy, const std::optional<model::WeightSource>& onto,
                                 const model::SnapshotFormats& formats);

/// Reads `trained`, one tensor at a time in fp32, and records in `errors` what rounding to `dtype` loses of the update
/// from `base`. `errors` must outlive the source.
model::WeightSource with_errors(const model::WeightSource& trained, const model::WeightSource& base, base::DType dtype,
                                UpdateErrors& errors);

/// Reads the policy's merged weights in fp32, onto its base or `onto`. `errors` as in with_errors, for
/// policy.config.dtype.
model::WeightSource merged(const Policy& policy, const std::optional<model::WeightSource>& onto, UpdateErrors& errors);

}  // namespace qrl::train
