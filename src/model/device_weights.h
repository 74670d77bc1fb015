// Owns the interface to a snapshot's weights in a device's memory, where a decoder reads them. Masters in the same
// memory are quantized without a copy through the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/view.h"

namespace qrl::model {

class Snapshot;

/// A master tensor on the device, and how the snapshot quantizes it.
struct DeviceMaster {
  std::string weight;  ///< name of its spec
  base::View values;   ///< fp32 in the device's memory, whole and written
  // From an int8 profile, in CPU memory; null: none.
  const float* factors = nullptr;  ///< for a matrix: input factors (FixedScales in ops/linear.h); for a norm: divisors
  const float* row_scales = nullptr;  ///< as in FixedScales
};

/// Destination of one dequantized matrix, or of the embedding.
struct DequantizedTensor {
  std::string tensor;  ///< name in Snapshot::tensors
  base::View to;       ///< [out, in] in the device's memory: fp32, or bf16 rounded from it
};

/// The embedding or a bf16 lm_head where the decoder reads it: [V, D], rows `stride` elements apart.
struct DeviceTable {
  void* values = nullptr;
  std::int64_t stride = 0;
};

/// Device memory that a product's caller provides.
struct MatmulWorkspace {
  std::size_t quantized_bytes = 0;  ///< 256-byte aligned
  std::int64_t y_columns = 0;       ///< outputs, padded
  base::DType y_dtype = base::DType::bf16;
};

/// Quantized rows of x for one linear layer.
struct MatmulInput {
  std::string matrix;  ///< name in Snapshot::tensors: "layers.0.qkv"
  std::int64_t num_rows = 0;
  void* quantized = nullptr;  ///< of MatmulWorkspace::quantized_bytes
};

/// The sequences of a micro-batch, packed as in types::MicroBatch.
struct PackedSequences {
  std::span<const std::int32_t> tokens_N, sequence_starts;  ///< sequence_starts: S+1
  std::span<const std::uint8_t> continues_prefix;           ///< S, or empty
};

/// Tokens to score, each at a row of hidden states.
struct TargetTokens {
  std::span<const std::int32_t> rows, tokens;
  float temperature = 1;
};

class DeviceWeights {
 public:
  DeviceWeights() = default;
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;
  virtual ~DeviceWeights() = default;

  /// Returns whether it has held weights of this snapshot, of any version. With adapters, their base must also be the
  /// snapshot's current one. Only then can weights be rewritten.
  virtual bool holds(const Snapshot& snapshot) const = 0;
  /// Quantizes these weights on the device, with the bits of a publish through the host. Blocks. Returns the name of a
  /// weight that is not finite, or "".
  virtual std::string rewrite(std::span<const DeviceMaster> masters) = 0;
  /// Marks all weights as those of `version`.
  virtual void finish(std::int64_t version) = 0;

  // The rest serves a learner on this device, after it has held the weights. `stream` is a cudaStream_t that must
  // outlive this object; null: the default stream. Work is enqueued at its end without waiting, unless stated
  // otherwise. The decoder must be idle meanwhile. Any thread may call, one at a time. cuda/engine has the contracts.

  /// Uploads weights whose device copy has another version than the snapshot, which must be the one the decoder reads.
  virtual void bring(const Snapshot& snapshot) = 0;
  virtual void dequantize(std::span<const DequantizedTensor> wanted, void* stream) = 0;
  /// Returns "embed_tokens" or "lm_head" in place.
  virtual DeviceTable table(const std::string& tensor) = 0;
  virtual MatmulWorkspace matmul_workspace(const std::string& matrix, std::int64_t num_rows) = 0;
  /// The decoder's own product, without an adapter, x fp32 [num_rows, in] dense: its quantized values are written to
  /// input.quantized, y = x̂ · Ŵᵀ without a bias as it would be in a tick. y null: the quantized values alone.
  virtual void multiply(const float* x, const MatmulInput& input, void* y, void* stream) = 0;
  /// Writes x̂, dense [num_rows, in]: fp32, or bf16 rounded from it.
  virtual void dequantize_input(const MatmulInput& input, const base::View& to, void* stream) = 0;

  // The decoder's own forward pass over whole sequences. Blocks. With row-only sums, it has the bits of sampling.

  /// Runs all layers. after_layer[i], fp32 [N, D] on the device, gets the residual stream after layer i; all may be one
  /// buffer.
  virtual void forward(const PackedSequences& rows, std::span<float* const> after_layer, void* stream) = 0;
  /// Computes one log-prob and one entropy per target, in host memory. x: output of the last layer.
  virtual void score(const float* x, const TargetTokens& targets, std::span<float> logprobs, std::span<float> entropies,
                     void* stream) = 0;
};

}  // namespace qrl::model
