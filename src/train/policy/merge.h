#pragma once

#include <optional>
#include <string>

#include "model/snapshot.h"
#include "train/policy/policy.h"

namespace qrl::train {

/// Holds how much of each linear layer's update is lost by rounding or quantization: ‖stored − trained‖ / ‖trained −
/// base‖. Skips layers without an update. Sums are fp64.
struct UpdateErrors {
  std::int64_t num_layers = 0;
  double sum = 0, worst = 0;
  std::string worst_layer;
  double mean() const { return num_layers > 0 ? sum / static_cast<double>(num_layers) : 0; }
};

/// Returns an fp32 source of the weights with which a sampler computes. Linear layers of `base` are quantized and
/// dequantized; other weights are unchanged. Quantization happens in this call, not when a weight is read.
model::WeightSource quantized_weights(const model::ModelConfig& config, const model::WeightSource& base,
                                      const model::SnapshotFormats& formats);

/// Returns how much of the merged model's update from its base is lost by quantization to `formats`. Quantizes the
/// whole model at once.
UpdateErrors errors_if_quantized(const Policy& policy, const std::optional<model::WeightSource>& onto,
                                 const model::SnapshotFormats& formats);

/// Returns a source that reads `trained` in fp32. Each read records in `errors` how much of the update from `base` is
/// lost by rounding to `dtype`. `errors` must outlive the source.
model::WeightSource with_errors(const model::WeightSource& trained, const model::WeightSource& base, base::DType dtype,
                                UpdateErrors& errors);

/// Returns an fp32 source of the adapters merged into `onto`, by default into their own base. Records `errors` like
/// with_errors, for policy.config.dtype.
model::WeightSource merged(const Policy& policy, const std::optional<model::WeightSource>& onto, UpdateErrors& errors);

}  // namespace qrl::train
