#include "decoder/device/device_masters.h"

#include <string>

#include "base/error.h"
#include "model/adapter.h"
#include "model/block.h"

namespace qrl::decoder {

DeviceMasters::DeviceMasters(const model::ModelConfig& config) {
  const std::int64_t vocab_size = config.vocab_size, width = config.hidden_size;
  const std::string embedding = "model.embed_tokens.weight";
  add(embedding, {cuda::kEmbedding}, 0, vocab_size);
  add(config.tie_word_embeddings ? embedding : "lm_head.weight", {cuda::kLmHead}, 0, vocab_size);
  add("model.norm.weight", {cuda::kFinalNorm}, 0, width);
  add_tensor("", {cuda::kEmbedding}, vocab_size, width);
  add_tensor("", {cuda::kLmHead}, vocab_size, width);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = model::layer_prefix(i);
    model::visit_block(
        config, i,
        [&](const model::BlockGain& gain, const auto&) {
          add(layer + gain.tensor(), {gain.name, i}, 0, gain.shape().numel());
        },
        [&](const model::BlockMatrix& matrix, const auto&) {
          std::int64_t first = 0;
          std::size_t number = 0;
          for (const model::BlockModule& module : matrix.modules) {
            const std::string name = layer + std::string(module.name);
            adapters_[model::lora_a_name(name)] = {.matrix = {matrix.name, i}, .module = number};
            adapters_[model::lora_b_name(name)] = {.matrix = {matrix.name, i}, .module = number++, .is_b = true};
            add(name + ".weight", {matrix.name, i}, first, module.rows);
            if (matrix.has_bias) add(name + ".bias", {matrix.name, i, true}, first, module.rows);
            first += module.rows;
          }
          add_tensor(model::snapshot_layer_prefix(i), {matrix.name, i}, matrix.out(), matrix.in);
        });
  }
}

void DeviceMasters::add(const std::string& weight, const cuda::WeightId& id, std::int64_t first, std::int64_t count) {
  places_.emplace(weight, cuda::Master{nullptr, id, first, count, nullptr, nullptr});
}

void DeviceMasters::add_tensor(const std::string& prefix, const cuda::WeightId& id, std::int64_t out, std::int64_t in) {
  matrices_.emplace(prefix + std::string(id.name), Matrix{id, {out, in}});
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

const cuda::AdapterMaster* DeviceMasters::adapter(const std::string& weight) const {
  const auto found = adapters_.find(weight);
  return found == adapters_.end() ? nullptr : &found->second;
}

std::vector<cuda::DequantizedMatrix> DeviceMasters::of(std::span<const model::DequantizedTensor> wanted) const {
  std::vector<cuda::DequantizedMatrix> all;
  for (const model::DequantizedTensor& one : wanted) {
    const auto found = matrices_.find(one.tensor);
    QRL_INVARIANT(found != matrices_.end() && found->second.shape == one.to.shape, "dequantize, " + one.tensor,
                  "a matrix of the model", one.to.shape.to_string());
    const bool is_f32 = one.to.dtype == base::DType::f32;
    QRL_INVARIANT(is_f32 || one.to.dtype == base::DType::bf16, "dequantize, " + one.tensor, "F32 or BF16",
                  std::string(base::name(one.to.dtype)));
    all.push_back({found->second.id, one.to.data, is_f32});
  }
  return all;
}

cuda::WeightId DeviceMasters::matrix(const std::string& tensor) const {
  const auto found = matrices_.find(tensor);
  QRL_INVARIANT(found != matrices_.end(), "device weights", "a matrix of the model", tensor);
  return found->second.id;
}

}  // namespace qrl::decoder
