#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/threads.h"
#include "learner/forward/policy_weights.h"
#include "model/adapter.h"

namespace qrl::learner {

constexpr std::int64_t kBlockRows = 48;

/// Splits rows into blocks and distributes the blocks over all threads. Each thread calls make_body() once. It then
/// calls the returned body(team of one, rows) for each of its blocks. The matmul results of kBlockRows rows fit into
/// L2.
template <class MakeBody>
void by_blocks(std::int64_t num_rows, const MakeBody& make_body, std::int64_t block_rows = kBlockRows) {
  std::atomic<std::int64_t> next{0};
  base::parallel(0, [&](base::Team&) {
    base::Team alone = base::Team::solo();
    auto body = make_body();
    for (std::int64_t first = next.fetch_add(block_rows); first < num_rows; first = next.fetch_add(block_rows))
      body(alone, base::Range{first, std::min(num_rows, first + block_rows)});
  });
}

/// Computes a snapshot's linear layer with low_bit on one thread, for at most `most` rows. Results equal the decoder's
/// bitwise, also with an adapter.
class EnteringRows {
 public:
  EnteringRows(const Linear& linear, std::int64_t most);

  void quantize(base::Team& alone, const float* x, std::int64_t rows);
  /// Quantizes activation(gate) · up as the layer's input. `halves`: fp32 [rows, 2 in], gate first.
  void swiglu(base::Team& alone, base::Gate activation, const float* halves, std::int64_t rows);
  /// Computes y = x · Ŵᵀ (+ bias, + the adapter's output), fp32 [rows, out].
  void multiply(base::Team& alone, std::int64_t rows, float* y);
  void add_adapter(std::int64_t rows, float* y);
  void multiply_by_a(std::int64_t rows);

  const ops::Activations& adapters() const { return plain_.max_rows() > 0 ? plain_ : quantized_; }
  const model::AdapterProducts& products() const { return products_; }

 private:
  const Linear& linear_;
  const model::MatrixAdapter* adapter_;  ///< null: no adapter
  ops::Activations quantized_, plain_;   ///< plain_: the adapter's input; empty if the adapter reads quantized_
  model::AdapterProducts products_;
};

}  // namespace qrl::learner
