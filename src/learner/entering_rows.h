// Owns what enters a layer of a snapshot with low_bit, of a block of rows, and its product with the layer and the
// layer's adapter. Knows no gradients.
#pragma once

#include "learner/policy_weights.h"
#include "model/adapter.h"

namespace qrl::learner {

/// Holds one thread's rows [0, most) of a block. Uses the decoder's operations, with its bits.
class EnteringRows {
 public:
  EnteringRows(const Linear& linear, std::int64_t most);

  /// Rows of x, fp32 [rows, in].
  void quantize(base::Team& alone, const float* x, std::int64_t rows);
  /// silu(gate) · up of fp32 [rows, 2 in], gate first.
  void swiglu(base::Team& alone, const float* halves, std::int64_t rows);
  /// y = x · Ŵᵀ (+ bias, + the adapter's part), fp32 [rows, out].
  void multiply(base::Team& alone, std::int64_t rows, float* y);
  /// The adapter's part alone, added to y.
  void add_adapter(std::int64_t rows, float* y);
  /// A·x of the adapter alone.
  void multiply_by_a(std::int64_t rows);

  /// Returns x in the format that the adapter multiplies.
  const ops::Activations& adapters() const { return plain_.max_rows() > 0 ? plain_ : quantized_; }
  /// A·x of the last of those three.
  const model::AdapterProducts& products() const { return products_; }

 private:
  const Linear& linear_;
  const model::MatrixAdapter* adapter_;  ///< null: none
  ops::Activations quantized_, plain_;   ///< plain_: for the adapter, where the others have not its values
  model::AdapterProducts products_;
};

}  // namespace qrl::learner
