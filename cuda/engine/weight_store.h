// The interface to a decoder's weights on the GPU. A learner reads them, or rewrites them from its fp32 weights
// (masters).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cuda/runtime/callers_stream.h"
#include "model/block.h"
#include "quant/format.h"
#include "quant/rotation.h"

namespace qrl::cuda {

/// Describes a linear layer in CPU memory, packed by ops/linear.h in panels of 64 columns.
struct HostMatrix {
  quant::Format format = quant::Format::bf16;
  std::int64_t out = 0, in = 0;
  const void* panels = nullptr;   ///< null: `upload` only allocates, and `rewrite` fills the memory
  const void* scales = nullptr;   ///< fp32, or bf16 for int4; null: none
  std::int64_t scale_stride = 0;  ///< number of scales per group of inputs
  const float* bias = nullptr;    ///< fp32 [out]; null: none
  quant::ScaleRule scale_rule = quant::ScaleRule::largest;  ///< of later rewrites
  quant::Rotation rotation = {};                            ///< of the panels, and of later rewrites
};

/// A block's weights in CPU memory: matrices and fp32 gains. A gain that the model lacks is null.
using HostLayer = model::Block<const float*, HostMatrix>;
/// A model's weights in CPU memory, read by WeightStore::upload only.
struct HostWeights {
  const std::uint16_t* embedding_VD = nullptr;  ///< bf16; null: as for HostMatrix::panels
  const float* final_norm_D = nullptr;          ///< fp32
  const float* rope_table = nullptr;            ///< fp32 [max_positions, rotary_dim]: cosines, then sines
  const float* sliding_rope_table = nullptr;    ///< that of model::RopeKind::sliding; null: none
  std::vector<HostLayer> layers;
  HostMatrix lm_head;  ///< bf16 or int8
};

inline constexpr std::string_view kEmbedding = "embed_tokens", kFinalNorm = "norm", kLmHead = "lm_head";

/// Names a matrix (fused as in model::Block), its bias, or a norm's gain.
struct WeightId {
  std::string_view name;   ///< a constant above, or a literal of model/block.h such as "qkv" (not copied)
  std::int64_t layer = 0;  ///< layer index, for a block's weight
  bool is_bias = false;
};

/// Describes a trained tensor: fp32, row-major, on the engine's device. WeightStore::rewrite stores it as rows of an
/// engine's matrix or as elements of a vector.
struct Master {
  const float* values = nullptr;
  WeightId weight;
  std::int64_t first = 0, count = 0;  ///< range of the matrix's rows, or of the vector's elements
  // Calibrated factors and scales (FixedScales in ops/linear.h), in CPU memory; null: none.
  const float* factors = nullptr;     ///< matrix: input factors [in]; norm gain: divisors [count]
  const float* row_scales = nullptr;  ///< weight scales [count], int8 only; null: computed
};

/// Describes one matrix of a module's adapter (model/adapter.h): A [rank, in] or B [module's outputs, rank], fp32,
/// row-major. The engine stores bf16.
struct AdapterMaster {
  const float* values = nullptr;  ///< on the engine's device or the host
  bool on_host = false;
  WeightId matrix;
  std::size_t module = 0;  ///< index in BlockMatrix::modules
  bool is_b = false;
  std::int64_t rank = 0;  ///< the same for all adapters of an engine
  float scale = 1;        ///< factor of every value, applied before rounding
};

/// Names an engine's matrix, or the embedding, and dense row-major memory on the engine's device for its dequantized
/// values.
struct DequantizedMatrix {
  WeightId matrix;
  void* to = nullptr;
  bool to_f32 = false;  ///< false: rounded to bf16
};

/// Points to the bf16 embedding or lm_head [V, D] on the device. Row v begins at values + v · stride. The address does
/// not change.
struct Table {
  const std::uint16_t* values = nullptr;
  std::int64_t stride = 0;
};

struct MatmulRoom {
  std::int64_t quantized_bytes = 0;  ///< bytes for quantized x and its scales, in 256-byte aligned memory
  std::int64_t y_columns = 0;        ///< number of outputs, with padding
  bool y_is_f32 = false;             ///< false: bf16
};

/// Describes rows of x for a block's matrix (not lm_head or the embedding).
struct MatmulInput {
  WeightId matrix;
  std::int64_t num_rows = 0;
  void* quantized = nullptr;  ///< memory of MatmulRoom::quantized_bytes bytes
};

/// Reads and writes an engine's weights. Only the engine's thread may call it, unless stated below.
class WeightStore {
 public:
  WeightStore() = default;
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;
  virtual ~WeightStore() = default;

  /// Replaces all weights. Later calls replace them in place. Blocks until the weights are on the device. Formats must
  /// not change.
  virtual void upload(const HostWeights& weights) = 0;
  /// Rewrites some weights in place from masters of whole tensors. The result is bitwise equal to quantizing on the CPU
  /// and uploading. Blocks until done. Weights must be uploaded first. Returns the index of the first master with NaN
  /// or infinity, or −1.
  virtual std::int64_t rewrite(std::span<const Master> masters) = 0;
  /// Rewrites adapters in place, like `rewrite`. Adapters never written are zero. The first call for a matrix allocates
  /// memory and drops graphs. Make this call before allocate_kv.
  virtual std::int64_t rewrite_adapters(std::span<const AdapterMaster> masters) = 0;

  // The functions below serve a learner on the same device, after an upload. A call waits for the engine's work in
  // flight, then enqueues on the caller's stream and returns. The engine's later work waits for that stream. Any thread
  // may call, one at a time.

  /// Dequantizes matrices: quantized value · scale in fp32. Rotated matrices are rotated back in fp32.
  virtual void dequantize(std::span<const DequantizedMatrix> wanted, CallersStream stream) = 0;
  virtual Table table(std::string_view name) const = 0;  ///< name: kEmbedding, or kLmHead if bf16
  virtual MatmulRoom matmul_room(const WeightId& matrix, std::int64_t num_rows) const = 0;
  /// Quantizes x, dense fp32 [num_rows, in], to input.quantized. Unless y is null, computes y = x̂ · Ŵᵀ with the GEMM
  /// that a tick of num_rows rows uses, but without bias and adapter.
  virtual void matmul(const float* x, const MatmulInput& input, void* y, CallersStream stream) = 0;
  /// Dequantizes rows that `matmul` quantized: value · scale in fp32, rotated back, rounded to bf16 unless to_f32. `to`
  /// is dense [num_rows, in].
  virtual void dequantize(const MatmulInput& input, void* to, bool to_f32, CallersStream stream) = 0;
};

}  // namespace qrl::cuda
