#include "weights.h"

#include <algorithm>
#include <string>

#include "base/bf16.h"
#include "base/error.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// Bytes of the host to memory that is made when it is not there yet.
void put(Memory& memory, const void* from, std::size_t num_bytes, const Stream& stream) {
  if (memory.empty()) memory = Memory(num_bytes);
  QRL_INVARIANT(memory.num_bytes() == num_bytes, "upload", std::to_string(memory.num_bytes()) + " bytes as before",
                std::to_string(num_bytes));
  copy_to_device(memory.data(), from, num_bytes, stream);
}

void put_floats(Memory& memory, const float* from, std::int64_t count, const Stream& stream) {
  if (from == nullptr) return;
  put(memory, from, static_cast<std::size_t>(count) * sizeof(float), stream);
}

}  // namespace

void Weights::upload_matrix(const HostMatrix& host, std::int64_t out, std::int64_t in, MatrixMemory& matrix,
                            const Stream& stream) {
  QRL_INVARIANT(host.out == out && host.in == in && host.panels != nullptr, "upload",
                "a matrix [" + std::to_string(out) + ", " + std::to_string(in) + "]",
                "[" + std::to_string(host.out) + ", " + std::to_string(host.in) + "]");
  QRL_REQUIRE(host.format != quant::Format::f32, "rollout.device: cuda", "weights of bf16 or fewer bits", "fp32",
              "set quant.rollout.weights to another format, and quant.rollout.lm_head to auto");
  const MatrixLayout at = matrix_layout(host.format, out, in);
  if (matrix.codes.empty()) {
    matrix.codes = Memory(static_cast<std::size_t>(at.num_bytes()));
    if (at.num_scales > 0) matrix.scales = Memory(static_cast<std::size_t>(at.num_scales * at.rows) * sizeof(float));
    matrix.view = {host.format, at, matrix.codes.as<std::uint8_t>(),
                   at.num_scales > 0 ? matrix.scales.as<float>() : nullptr};
  }
  QRL_INVARIANT(matrix.view.format == host.format, "upload", "the format of before", std::string(name(host.format)));
  const auto panel_bytes = static_cast<std::size_t>(at.rows * at.num_words) * sizeof(std::uint32_t);
  if (staging_.num_bytes() < panel_bytes) {
    stream.wait();  // the one before may still be read
    staging_ = Memory();
    staging_ = Memory(panel_bytes);
  }
  copy_to_device(staging_.data(), host.panels, panel_bytes, stream);
  repack({staging_.as<std::uint32_t>(), word_order(host.format), at, matrix.codes.as<std::uint8_t>()}, stream);
  if (at.num_scales == 0) return;
  QRL_INVARIANT(host.scales != nullptr && host.scale_stride == at.rows, "upload",
                "scales of " + std::to_string(at.rows) + " columns", std::to_string(host.scale_stride));
  const auto count = static_cast<std::size_t>(at.num_scales * at.rows);
  if (quant::spec(host.format).weights != quant::Code::int4) {
    copy_to_device(matrix.scales.data(), host.scales, count * sizeof(float), stream);
    return;
  }
  std::vector<float>& wide = wide_scales_.emplace_back(count);
  std::transform(static_cast<const base::bf16*>(host.scales), static_cast<const base::bf16*>(host.scales) + count,
                 wide.begin(), [](base::bf16 scale) { return to_float(scale); });
  copy_to_device(matrix.scales.data(), wide.data(), count * sizeof(float), stream);
}

void Weights::upload(const HostWeights& host, const Stream& stream) {
  const ModelShape& shape = options_.shape;
  const std::int64_t q_size = shape.num_heads * shape.head_dim, kv_size = shape.num_kv_heads * shape.head_dim;
  QRL_INVARIANT(static_cast<std::int64_t>(host.layers.size()) == shape.num_layers, "upload",
                std::to_string(shape.num_layers) + " layers", std::to_string(host.layers.size()));
  QRL_REQUIRE(host.lm_head.format == quant::Format::bf16 && host.embedding_VD != nullptr, "rollout.device: cuda",
              "embedding and lm_head of bf16", std::string(name(host.lm_head.format)),
              "set quant.rollout.weights to another format than fp32, and quant.rollout.lm_head to auto");
  put(embedding_, host.embedding_VD, static_cast<std::size_t>(shape.vocab_size * shape.width) * 2, stream);
  put_floats(final_norm_, host.final_norm_D, shape.width, stream);
  put_floats(rope_table_, host.rope_table, options_.max_positions * shape.head_dim, stream);
  layers_.resize(host.layers.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const HostLayer& from = host.layers[i];
    LayerMemory& to = layers_[i];
    put_floats(to.input_norm_D, from.input_norm_D, shape.width, stream);
    put_floats(to.post_norm_D, from.post_norm_D, shape.width, stream);
    put_floats(to.q_norm_E, from.q_norm_E, shape.head_dim, stream);
    put_floats(to.k_norm_E, from.k_norm_E, shape.head_dim, stream);
    put_floats(to.qkv_bias, from.qkv_bias, q_size + 2 * kv_size, stream);
    put_floats(to.o_bias_D, from.o_bias, shape.width, stream);
    upload_matrix(from.qkv, q_size + 2 * kv_size, shape.width, to.qkv, stream);
    upload_matrix(from.o, shape.width, q_size, to.o, stream);
    upload_matrix(from.gate_up, 2 * shape.ffn, shape.width, to.gate_up, stream);
    upload_matrix(from.down, shape.width, shape.ffn, to.down, stream);
  }
  upload_matrix(host.lm_head, shape.vocab_size, shape.width, lm_head_, stream);
  stream.wait();
  wide_scales_.clear();
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
