#include "decoder/device_masters.h"

#include <string>

#include "base/error.h"

namespace qrl::decoder {

using cuda::WeightPlace;

DeviceMasters::DeviceMasters(const model::ModelConfig& config) {
  const std::int64_t vocab_size = config.vocab_size, width = config.hidden_size, ffn = config.intermediate_size;
  const std::int64_t q_size = config.q_size(), kv_size = config.kv_size();
  add("model.embed_tokens.weight", WeightPlace::embedding, 0, 0, vocab_size);
  add(config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight", WeightPlace::lm_head, 0, 0,
      vocab_size);
  add("model.norm.weight", WeightPlace::final_norm, 0, 0, width);
  add_tensor("embed_tokens", WeightPlace::embedding, 0, vocab_size, width);
  add_tensor("lm_head", WeightPlace::lm_head, 0, vocab_size, width);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", attention = layer + "self_attn.";
    add(layer + "input_layernorm.weight", WeightPlace::input_norm, i, 0, width);
    add(layer + "post_attention_layernorm.weight", WeightPlace::post_norm, i, 0, width);
    if (config.qk_norm) {
      add(attention + "q_norm.weight", WeightPlace::q_norm, i, 0, config.head_dim);
      add(attention + "k_norm.weight", WeightPlace::k_norm, i, 0, config.head_dim);
    }
    const auto add_qkv = [&](const std::string& kind, WeightPlace place) {
      add(attention + "q_proj." + kind, place, i, 0, q_size);
      add(attention + "k_proj." + kind, place, i, q_size, kv_size);
      add(attention + "v_proj." + kind, place, i, q_size + kv_size, kv_size);
    };
    add_qkv("weight", WeightPlace::qkv);
    if (config.qkv_bias) add_qkv("bias", WeightPlace::qkv_bias);
    add(attention + "o_proj.weight", WeightPlace::o, i, 0, width);
    if (config.o_bias) add(attention + "o_proj.bias", WeightPlace::o_bias, i, 0, width);
    add(layer + "mlp.gate_proj.weight", WeightPlace::gate_up, i, 0, ffn);
    add(layer + "mlp.up_proj.weight", WeightPlace::gate_up, i, ffn, ffn);
    add(layer + "mlp.down_proj.weight", WeightPlace::down, i, 0, width);

    const std::string prefix = "layers." + std::to_string(i) + ".";
    add_tensor(prefix + "qkv", WeightPlace::qkv, i, q_size + 2 * kv_size, width);
    add_tensor(prefix + "o", WeightPlace::o, i, width, q_size);
    add_tensor(prefix + "gate_up", WeightPlace::gate_up, i, 2 * ffn, width);
    add_tensor(prefix + "down", WeightPlace::down, i, width, ffn);
  }
}

void DeviceMasters::add(const std::string& weight, WeightPlace place, std::int64_t layer, std::int64_t first,
                        std::int64_t count) {
  places_.emplace(weight, cuda::Master{nullptr, place, layer, first, count, nullptr, nullptr});
}

void DeviceMasters::add_tensor(const std::string& tensor, WeightPlace place, std::int64_t layer, std::int64_t out,
                               std::int64_t in) {
  matrices_.emplace(tensor, Matrix{{place, layer}, {out, in}});
}

std::vector<cuda::Master> DeviceMasters::of(std::span<const model::DeviceMaster> masters,
                                            std::vector<std::string>& names) const {
  std::vector<cuda::Master> all;
  names.clear();
  for (const model::DeviceMaster& master : masters) {
    const auto [begin, end] = places_.equal_range(master.weight);
    QRL_INVARIANT(begin != end, "publish", "a tensor of the model", master.weight);
    for (auto it = begin; it != end; ++it) {
      cuda::Master& placed = all.emplace_back(it->second);
      placed.values = static_cast<const float*>(master.values.data);
      placed.factors = master.factors;
      placed.row_scales = master.row_scales;
      names.push_back(master.weight);
    }
  }
  return all;
}

std::vector<cuda::DequantizedMatrix> DeviceMasters::of(std::span<const model::DequantizedTensor> wanted) const {
  std::vector<cuda::DequantizedMatrix> all;
  for (const model::DequantizedTensor& one : wanted) {
    const auto found = matrices_.find(one.tensor);
    QRL_INVARIANT(found != matrices_.end() && found->second.shape == one.to.shape, "decode, " + one.tensor,
                  "a matrix of the model", one.to.shape.to_string());
    const bool is_f32 = one.to.dtype == base::DType::f32;
    QRL_INVARIANT(is_f32 || one.to.dtype == base::DType::bf16, "decode, " + one.tensor, "F32 or BF16",
                  std::string(base::name(one.to.dtype)));
    all.push_back({found->second.id, one.to.data, is_f32});
  }
  return all;
}

cuda::MatrixId DeviceMasters::matrix(const std::string& tensor) const {
  const auto found = matrices_.find(tensor);
  QRL_INVARIANT(found != matrices_.end(), "device weights", "a matrix of the model", tensor);
  return found->second.id;
}

}  // namespace qrl::decoder
