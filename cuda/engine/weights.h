// Owns a model's weights in device memory and their upload, from panels or from fp32 masters.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cuda/engine/decode_engine.h"
#include "cuda/engine/weight_store.h"
#include "cuda/runtime/operands.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Holds the adapters of a matrix's modules as two bf16 matrices. A is [modules · rank, in], the modules' rows
/// concatenated. B is [out, modules · rank], block-diagonal.
struct AdapterMemory {
  Memory a_values, b_values;
  DeviceMatrix a, b;
  bool empty() const { return a_values.empty(); }
};

/// Holds a matrix's quantized values, scales, scales in cuBLASLt's order (fp8_block128 alone), fp32 bias (empty: none)
/// and adapters.
struct MatrixMemory {
  Memory quantized, scales, block_scales, bias;
  DeviceMatrix view;
  quant::ScaleRule scale_rule = quant::ScaleRule::largest;
  AdapterMemory adapter;
};

/// A block's matrices and fp32 gains. Gains that the model lacks are empty.
using LayerMemory = model::Block<Memory, MatrixMemory>;

class Weights {
 public:
  explicit Weights(const EngineOptions& options) : options_(options) {}

  void upload(const HostWeights& host, const Stream& stream);

  std::int64_t rewrite(std::span<const Master> masters, const Stream& stream);

  std::int64_t rewrite_adapters(std::span<const AdapterMaster> masters, const Stream& stream);
  std::int64_t adapter_rank() const { return adapter_rank_; }  ///< 0: no matrix has adapters
  std::int64_t num_adapted() const { return num_adapted_; }

  void dequantize(std::span<const DequantizedMatrix> wanted, const Stream& stream) const;
  const DeviceMatrix& matrix(const WeightId& id) const;
  Table table(std::string_view name) const;

  bool uploaded() const { return !layers_.empty(); }
  const std::uint16_t* embedding_VD() const { return embedding_.as<std::uint16_t>(); }
  const float* final_norm_D() const { return final_norm_.as<float>(); }
  const float* rope_table(model::RopeKind kind) const {
    return (kind == model::RopeKind::sliding ? sliding_rope_table_ : rope_table_).as<float>();
  }
  const LayerMemory& layer(std::size_t idx) const { return layers_[idx]; }
  std::size_t num_layers() const { return layers_.size(); }
  const DeviceMatrix& lm_head() const { return lm_head_.view; }

 private:
  void upload_matrix(const HostMatrix& host, std::int64_t out, std::int64_t in, MatrixMemory& matrix,
                     const Stream& stream);
  const Memory& vector_at(const WeightId& id) const;  ///< a gain or a bias
  void require_layer(std::int64_t layer) const;
  const MatrixMemory* matrix_at(const WeightId& id) const;  ///< null: `id` is no matrix
  void rewrite_adapter(const AdapterMaster& master, std::uint32_t* not_finite, const Stream& stream);
  /// Clears `count` flags, one per master. A kernel sets a master's flag if it reads a non-finite value. first_broken
  /// returns the first set flag's index, or −1.
  std::uint32_t* clear_flags(std::size_t count, const Stream& stream);
  std::int64_t first_broken(std::size_t count, const Stream& stream) const;
  void rewrite_matrix(const Master& master, const MatrixMemory& matrix, std::uint32_t* not_finite,
                      const Stream& stream);
  const float* to_device(Memory& memory, const float* from, std::int64_t count, const Stream& stream);

  EngineOptions options_;
  Memory embedding_, final_norm_, rope_table_, sliding_rope_table_;
  std::vector<LayerMemory> layers_;
  MatrixMemory lm_head_;
  Memory staging_;                                                   // panels of one matrix
  std::vector<std::vector<float>> wide_scales_;                      // fp32 scales of an int4 upload, kept until copied
  Memory factors_, row_scales_, magnitudes_, not_finite_, rotated_;  // scratch of rewrites
  std::int64_t adapter_rank_ = 0, num_adapted_ = 0;
  Memory from_host_;  // copy of an adapter's host values
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
