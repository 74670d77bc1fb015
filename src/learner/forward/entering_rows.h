// Owns the input of a snapshot's layer with low_bit, a block of rows, and its product with layer and adapter.
#pragma once

#include "learner/forward/policy_weights.h"
#include "model/adapter.h"

namespace qrl::learner {

/// Holds rows [0, most) of one thread's block. Has the decoder's bits.
class EnteringRows {
 public:
  EnteringRows(const Linear& linear, std::int64_t most);

  /// Quantizes x, fp32 [rows, in].
  void quantize(base::Team& alone, const float* x, std::int64_t rows);
  /// Quantizes silu(gate) · up of fp32 [rows, 2 in], gate first.
  void swiglu(base::Team& alone, const float* halves, std::int64_t rows);
  /// Computes y = x · Ŵᵀ (+ bias, + the adapter's part), fp32 [rows, out].
  void multiply(base::Team& alone, std::int64_t rows, float* y);
  /// Adds the adapter's part alone to y.
  void add_adapter(std::int64_t rows, float* y);
  /// Computes the adapter's A·x alone.
  void multiply_by_a(std::int64_t rows);

  const ops::Activations& adapters() const { return plain_.max_rows() > 0 ? plain_ : quantized_; }
  /// A·x of the last call.
  const model::AdapterProducts& products() const { return products_; }

 private:
  const Linear& linear_;
  const model::MatrixAdapter* adapter_;  ///< null: none
  ops::Activations quantized_, plain_;   ///< plain_: for the adapter, if quantized_ lacks its values
  model::AdapterProducts products_;
};

}  // namespace qrl::learner
