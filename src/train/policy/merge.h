#pragma once

#include <optional>
#include <string>

#include "model/snapshot.h"
#include "train/policy/policy.h"

namespace qrl::train {

/// Holds how much of each linear layer's update is lost by rounding to the dtype: ‖rounded − trained‖ / ‖trained −
/// base‖. Skips layers without an update. Sums are fp64.
struct UpdateErrors {
  std::int64_t num_layers = 0;
  double sum = 0, worst = 0;
  std::string worst_layer;
  double mean() const { return num_layers > 0 ? sum / static_cast<double>(num_layers) : 0; }
};

/// Returns the fp32 values of weights in a sampler: linear layers of `base` quantized and dequantized, others
/// unchanged. Quantizes the whole model at the call.
model::WeightSource quantized_weights(const model::ModelConfig& config, const model::WeightSource& base,
                                      const model::SnapshotFormats& formats);

/// Returns how much of the merged model's update from its base is lost by quantizing it to `formats`. Quantizes the
/// whole model at once.
UpdateErrors errors_if_quantized(const Policy& policy, const std::optional<model::WeightSource>& onto,
                                 const model::SnapshotFormats& formats);

/// Returns a source that reads `trained` in fp32, and at each read records in `errors` how much of the update from
/// `base` is lost by rounding to `dtype`. `errors` must outlive the source.
model::WeightSource with_errors(const model::WeightSource& trained, const model::WeightSource& base, base::DType dtype,
                                UpdateErrors& errors);

/// Returns a source of the adapters merged into `onto`, by default into their own base, in fp32. Records `errors` like
/// with_errors, for policy.config.dtype.
model::WeightSource merged(const Policy& policy, const std::optional<model::WeightSource>& onto, UpdateErrors& errors);

}  // namespace qrl::train
