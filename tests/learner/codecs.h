// Rounds values by the formats' reference codecs, and compares tensors, for the learner's tests.
#pragma once

#include <span>

#include "learner/tensors/torch.h"
#include "quant/format.h"

namespace qrl::test {

inline std::span<float> floats_of(const torch::Tensor& contiguous) {
  return {contiguous.data_ptr<float>(), static_cast<std::size_t>(contiguous.numel())};
}

/// Round weights [rows, inputs], or rows of activations, by the format's reference codec, which equals numpy's bit for
/// bit (tests/quant).
inline torch::Tensor codec_weights(const torch::Tensor& weights, quant::Format format) {
  const torch::Tensor rounded = torch::empty_like(weights);
  quant::round_weights(format, floats_of(weights), weights.size(1), floats_of(rounded));
  return rounded.to(torch::kFloat64);
}
inline torch::Tensor codec_rows(const torch::Tensor& rows, quant::Format format) {
  const torch::Tensor rounded = torch::empty_like(rows);
  for (std::int64_t t = 0; t < rows.size(0); ++t)
    quant::round_activations(format, floats_of(rows[t]), floats_of(rounded[t]));
  return rounded.to(torch::kFloat64);
}

/// Returns ‖got − want‖ / ‖want‖ in fp64.
inline double off_by(const torch::Tensor& got, const torch::Tensor& want) {
  return ((got.to(torch::kFloat64) - want).norm() / want.norm()).item<double>();
}

}  // namespace qrl::test
