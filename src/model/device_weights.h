// Owns the door to a snapshot's weights in a device's memory, where a decoder reads them: masters that lie there, too,
// become quantized values without a way through the host. Knows neither learner nor decoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/view.h"

namespace qrl::model {

class Snapshot;

/// A tensor of the model as training keeps it, and how the snapshot has it quantized.
struct DeviceMaster {
  std::string weight;  ///< its spec's name
  base::View values;   ///< fp32 in the device's memory, whole and written
  // In CPU memory, of an int8 profile; null: none.
  const float* factors = nullptr;     ///< of a matrix's inputs (ops/linear.h, FixedScales); of a norm: its divisors
  const float* row_scales = nullptr;  ///< FixedScales'
};

/// One of the snapshot's matrices, or its embedding, as numbers.
struct DequantizedTensor {
  std::string tensor;  ///< its name in Snapshot::tensors
  base::View to;       ///< fp32, or bf16 rounded from it, [out, in], in the device's memory
};

/// The embedding or lm_head where the decoder reads it: bf16 [V, D], a row every `stride` numbers.
struct DeviceTable {
  void* values = nullptr;
  std::int64_t stride = 0;
};

/// Memory that a product of so many rows wants from its caller, on the device.
struct MatmulWorkspace {
  std::size_t quantized_bytes = 0;  ///< 256-byte aligned
  std::int64_t y_columns = 0;       ///< outputs, padded
  base::DType y_dtype = base::DType::bf16;
};

/// Rows of x, quantized for one of the snapshot's linear layers.
struct MatmulInput {
  std::string matrix;  ///< its name in Snapshot::tensors, "layers.0.qkv"
  std::int64_t num_rows = 0;
  void* quantized = nullptr;  ///< MatmulWorkspace::quantized_bytes
};

/// A micro-batch's sequences, packed as types::MicroBatch has them.
struct PackedSequences {
  std::span<const std::int32_t> tokens_N, sequence_starts;  ///< the latter S+1
  std::span<const std::uint8_t> continues_prefix;           ///< S, or empty
};

/// Tokens whose log-probs are asked, each at a row of hidden states.
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

  /// Whether it has held weights of this snapshot, of any version, and with adapters on the base that the snapshot has:
  /// only then can it rewrite them.
  virtual bool holds(const Snapshot& snapshot) const = 0;
  /// Rewrites these weights in the snapshot's formats: the bits that it would have had from them. Blocks until it is
  /// done. The name of one that is not finite, or nothing.
  virtual std::string rewrite(std::span<const DeviceMaster> masters) = 0;
  /// All weights are those of `version` now.
  virtual void finish(std::int64_t version) = 0;

  // What a learner on this device computes with, once it has held the weights. `stream` is the caller's order of work
  // there, which outlives this (a cudaStream_t; null: the default), at whose end each puts its own without waiting; the
  // decoder's work and the caller's never overlap. From any thread, one at a time. cuda/engine has the contracts.

  /// Has the weights of the snapshot's version there: brings those from the host that are of another. The snapshot must
  /// be the one that the decoder reads.
  virtual void bring(const Snapshot& snapshot) = 0;
  /// Writes tensors out as the quantized values that are there stand for.
  virtual void dequantize(std::span<const DequantizedTensor> wanted, void* stream) = 0;
  /// "embed_tokens" or "lm_head", where it stays.
  virtual DeviceTable table(const std::string& tensor) = 0;
  virtual MatmulWorkspace matmul_workspace(const std::string& matrix, std::int64_t num_rows) = 0;
  /// The decoder's own product, without an adapter, x fp32 [num_rows, in] dense: its quantized values are written to
  /// input.quantized, y = x̂ · Ŵᵀ without a bias as it would be in a tick.
  virtual void multiply(const float* x, const MatmulInput& input, void* y, void* stream) = 0;
  /// x̂, fp32, or bf16 rounded from it: dense [num_rows, in].
  virtual void dequantize_input(const MatmulInput& input, const base::View& to, void* stream) = 0;

  // The decoder's own forward pass over whole sequences, which waits until it is done: the bits that it sampled with
  // where it sums each row alone.

  /// after_layer[i], fp32 [N, D] on the device: the residual stream after layer i; all may be one.
  virtual void forward(const PackedSequences& rows, std::span<float* const> after_layer, void* stream) = 0;
  /// Of targets at x, which the last layer left: one log-prob and one entropy each, in host memory.
  virtual void score(const float* x, const TargetTokens& targets, std::span<float> logprobs, std::span<float> entropies,
                     void* stream) = 0;
};

}  // namespace qrl::model
