// Owns the entry to a decoder's weights on the GPU: uploaded from the CPU or rewritten from a learner's masters, and
// used by a learner on the same device. Knows nothing of ticks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cuda/runtime/callers_stream.h"
#include "model/block.h"
#include "quant/format.h"

namespace qrl::cuda {

/// A linear layer in CPU memory, as ops/linear.h packs it: panels of 64 columns, scales with `scale_stride` columns.
struct HostMatrix {
  quant::Format format = quant::Format::bf16;
  std::int64_t out = 0, in = 0;
  const void* panels = nullptr;   ///< null: memory alone, which WeightStore::rewrite then fills
  const void* scales = nullptr;   ///< fp32, int4's bf16; null: none
  std::int64_t scale_stride = 0;  ///< from the scales of 128 inputs to those of the next
  const float* bias = nullptr;    ///< fp32 [out]; null: none
};

/// A block's weights in CPU memory: fp32 gains, null for those that the model lacks, and matrices.
using HostLayer = model::Block<const float*, HostMatrix>;
/// A model's weights in CPU memory, read during WeightStore::upload only.
struct HostWeights {
  const std::uint16_t* embedding_VD = nullptr;  ///< bf16; null: as HostMatrix::panels
  const float* final_norm_D = nullptr;          ///< fp32
  const float* rope_table = nullptr;            ///< fp32 [max_positions, E]: cosines, then sines
  std::vector<HostLayer> layers;
  HostMatrix lm_head;  ///< bf16 or int8
};

/// Names of the weights outside the blocks.
inline constexpr std::string_view kEmbedding = "embed_tokens", kFinalNorm = "norm", kLmHead = "lm_head";

/// One of the engine's weights: a matrix, fused as the model's block has it, its bias, or a norm's gain.
struct WeightId {
  std::string_view name;   ///< one of the three above, or as model/block.h names it: "qkv". A literal: it is kept.
  std::int64_t layer = 0;  ///< of a block's weight
  bool is_bias = false;    ///< the bias of that matrix
};

/// A tensor of the model as training keeps it: fp32, row-major, in the memory of the engine's device. Its place in the
/// engine is some rows of a matrix, or some elements of a vector.
struct Master {
  const float* values = nullptr;
  WeightId weight;
  std::int64_t first = 0, count = 0;  ///< rows, or elements
  // In CPU memory, null for none: a profile's figures in place of the weights' own (ops/linear.h, FixedScales).
  const float* factors = nullptr;     ///< of a matrix: factors of its inputs; of a norm: divisors
  const float* row_scales = nullptr;  ///< [count], of an int8 matrix
};

/// A or B of a module of a block's matrix, whose low-rank product the matrix's output gets (model/adapter.h): fp32,
/// row-major, [rank, in] or [the module's outputs, rank]. The engine keeps it in bf16.
struct AdapterMaster {
  const float* values = nullptr;  ///< in the memory of the engine's device, or in host memory
  bool on_host = false;
  WeightId matrix;
  std::size_t module = 0;  ///< of the matrix's, as model/block.h lists them
  bool is_b = false;
  std::int64_t rank = 0;  ///< one for all adapters of an engine
  float scale = 1;        ///< every value is multiplied by it first
};

/// A matrix of the engine, or the embedding, dequantized: dense, row-major, in the memory of the engine's device.
struct DequantizedMatrix {
  WeightId matrix;
  void* to = nullptr;   ///< room for all of it
  bool to_f32 = false;  ///< else rounded to bf16
};

/// The embedding or lm_head in bf16 where it lies, in the memory of the engine's device, which stays there: [V, D], a
/// row every `stride` numbers.
struct Table {
  const std::uint16_t* values = nullptr;
  std::int64_t stride = 0;
};

/// The memory on the engine's device that the caller of a matmul provides for some rows of x.
struct MatmulRoom {
  std::int64_t quantized_bytes = 0;  ///< for x quantized, with scales, 256-byte aligned
  std::int64_t y_columns = 0;        ///< in memory, of a row of y: outputs, padded
  bool y_is_f32 = false;             ///< else bf16
};

/// Rows of x as a matrix of a block (not lm_head, not the embedding) reads them.
struct MatmulInput {
  WeightId matrix;
  std::int64_t num_rows = 0;
  void* quantized = nullptr;  ///< matmul_room's
};

/// The weights of one engine. One thread calls it, as the engine, unless a function says otherwise.
class WeightStore {
 public:
  WeightStore() = default;
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;
  virtual ~WeightStore() = default;

  /// Replaces the weights, in place after the first time; blocks until they are on the device. Formats must stay.
  virtual void upload(const HostWeights& weights) = 0;
  /// Rewrites some of the weights in place from masters whose values are all written: the bits that an upload of the
  /// same, quantized on the CPU, would leave. Blocks until it is done. Index of a master that has a NaN or an infinity,
  /// −1 without. After an upload only.
  virtual std::int64_t rewrite(std::span<const Master> masters) = 0;
  /// Rewrites adapters the same way; matrices have them from then on. Adapters of a matrix that are not written are
  /// zero. The first call for a matrix allocates memory and drops recorded ticks: call it before allocate_kv.
  virtual std::int64_t rewrite_adapters(std::span<const AdapterMaster> masters) = 0;

  // For a learner on the same device, after an upload. Each returns at once, with its work at the end of the caller's
  // stream. The engine's own work is done before, and its later work waits for the caller's. From any thread, one at a
  // time.

  /// Dequantizes matrices: quantized value · scale in fp32.
  virtual void dequantize(std::span<const DequantizedMatrix> wanted, CallersStream stream) = 0;
  virtual Table table(std::string_view name) const = 0;  ///< kEmbedding, or a bf16 kLmHead
  virtual MatmulRoom matmul_room(const WeightId& matrix, std::int64_t num_rows) const = 0;
  /// The GEMM of a tick of so many rows, by the same kernels: input.quantized = quantize(x), x fp32 [num_rows, in]
  /// dense; y = x̂ · Ŵᵀ, without a bias and an adapter, of the precision that a tick rounds it to. y null: none.
  virtual void matmul(const float* x, const MatmulInput& input, void* y, CallersStream stream) = 0;
  /// Dequantizes those rows: value · scale in fp32, rounded to bf16 unless to_f32, dense [num_rows, in].
  virtual void dequantize(const MatmulInput& input, void* to, bool to_f32, CallersStream stream) = 0;
};

}  // namespace qrl::cuda
