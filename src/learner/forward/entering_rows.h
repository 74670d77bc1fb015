#pragma once

#include "learner/forward/policy_weights.h"
#include "model/adapter.h"

namespace qrl::learner {

/// Computes a snapshot's linear layer for a thread's block of at most `most` rows, with low_bit: quantizes the input,
/// multiplies by the layer and its adapter. Bits equal the decoder's.
class EnteringRows {
 public:
  EnteringRows(const Linear& linear, std::int64_t most);

  void quantize(base::Team& alone, const float* x, std::int64_t rows);
  /// Quantizes silu(gate) · up of fp32 [rows, 2 in], gate first, as the input.
  void swiglu(base::Team& alone, const float* halves, std::int64_t rows);
  /// Computes y = x · Ŵᵀ (+ bias, + the adapter's output), fp32 [rows, out].
  void multiply(base::Team& alone, std::int64_t rows, float* y);
  void add_adapter(std::int64_t rows, float* y);
  /// Computes only the adapter's A·x.
  void multiply_by_a(std::int64_t rows);

  const ops::Activations& adapters() const { return plain_.max_rows() > 0 ? plain_ : quantized_; }
  const model::AdapterProducts& products() const { return products_; }

 private:
  const Linear& linear_;
  const model::MatrixAdapter* adapter_;  ///< null: none
  ops::Activations quantized_, plain_;   ///< plain_: the adapter's input if it cannot read quantized_
  model::AdapterProducts products_;
};

}  // namespace qrl::learner
