#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/view.h"

namespace qrl::model {

class Snapshot;

/// Describes a master weight, and how it is quantized.
struct DeviceMaster {
  std::string weight;  ///< name of its WeightSpec
  base::View values;   ///< whole fp32 tensor on the device, written before the call
  // The pointers below refer to an int8 profile in CPU memory. They are null without a profile.
  const float* factors = nullptr;     ///< a matrix's input factors (FixedScales in ops/linear.h), or a norm's divisors
  const float* row_scales = nullptr;  ///< weight scales, as in FixedScales
};

/// Names a matrix or embedding to dequantize, and its destination.
struct DequantizedTensor {
  std::string tensor;  ///< name in Snapshot::tensors
  base::View to;       ///< [out, in] on the device, fp32 or rounded to bf16
};

/// Describes the decoder's embedding or bf16 lm_head: [V, D], with `stride` elements between rows.
struct DeviceTable {
  void* values = nullptr;
  std::int64_t stride = 0;
};

/// Describes the device buffers that a matmul's caller must provide.
struct MatmulWorkspace {
  std::size_t quantized_bytes = 0;  ///< size of MatmulInput::quantized, whose address must be 256-byte aligned
  std::int64_t y_columns = 0;       ///< columns of y: number of outputs, padded
  base::DType y_dtype = base::DType::bf16;
};

/// Describes a layer's input, quantized row by row.
struct MatmulInput {
  std::string matrix;  ///< name in Snapshot::tensors: "layers.0.qkv"
  std::int64_t num_rows = 0;
  void* quantized = nullptr;  ///< buffer of MatmulWorkspace::quantized_bytes bytes
};

/// Holds a micro-batch's sequences, packed as in types::MicroBatch.
struct PackedSequences {
  std::span<const std::int32_t> tokens_N, sequence_starts;  ///< sequence_starts has S + 1 elements
  std::span<const std::uint8_t> continues_prefix;           ///< [S], or empty
};

/// Holds tokens to score, each with its row of hidden states.
struct TargetTokens {
  std::span<const std::int32_t> rows, tokens;
  float temperature = 1;
  std::span<const std::span<const std::int32_t>> kept = {};  ///< as TargetRows::kept
};

class DeviceWeights {
 public:
  DeviceWeights() = default;
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;
  virtual ~DeviceWeights() = default;

  /// Returns whether the device holds a version of this snapshot's weights. With adapters, it must also hold the
  /// snapshot's current base. `rewrite` requires that this is true.
  virtual bool holds(const Snapshot& snapshot) const = 0;
  /// Quantizes these weights on the device, and waits for the result. Results are bitwise equal to a publish on the
  /// host. Returns the name of a non-finite weight, or "".
  virtual std::string rewrite(std::span<const DeviceMaster> masters) = 0;
  /// Marks all weights as those of `version`.
  virtual void finish(std::int64_t version) = 0;

  // The functions below serve a learner on the device that holds the weights. `stream` is a cudaStream_t that must
  // outlive this object; null: the default stream. Work is enqueued without waiting, unless stated otherwise. The
  // decoder must be idle. Any thread may call, but only one at a time.

  /// Uploads the snapshot's weights unless the device has this version. The decoder must have loaded this snapshot.
  virtual void upload(const Snapshot& snapshot) = 0;
  /// Dequantizes tensors; rotated matrices are rotated back in fp32.
  virtual void dequantize(std::span<const DequantizedTensor> wanted, void* stream) = 0;
  /// Returns a table without copying it. `tensor`: "embed_tokens" or "lm_head".
  virtual DeviceTable table(const std::string& tensor) = 0;
  virtual MatmulWorkspace matmul_workspace(const std::string& matrix, std::int64_t num_rows) = 0;
  /// Quantizes x, dense fp32 [num_rows, in], into input.quantized. Then computes y = x̂ · Ŵᵀ as in a decoder's tick,
  /// without adapter and bias. If y is null, only quantizes.
  virtual void multiply(const float* x, const MatmulInput& input, void* y, void* stream) = 0;
  /// Writes x̂, dense [num_rows, in], rotated back in fp32 if the matrix is rotated, as fp32 or rounded to bf16.
  virtual void dequantize_input(const MatmulInput& input, const base::View& to, void* stream) = 0;

  // The functions below run the decoder's own forward pass over whole sequences, and wait for it. With row_only_sums,
  // results are bitwise equal to those of sampling.

  /// Runs all layers. Writes the residual stream after layer i to after_layer[i], fp32 [N, D] on the device. All
  /// entries may be one buffer.
  virtual void forward(const PackedSequences& rows, std::span<float* const> after_layer, void* stream) = 0;
  /// Writes a log-prob and an entropy per target to host memory. x: the last layer's output.
  virtual void score(const float* x, const TargetTokens& targets, std::span<float> logprobs, std::span<float> entropies,
                     void* stream) = 0;
};

}  // namespace qrl::model
