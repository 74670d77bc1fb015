// Owns a model's tensors by name, and Hugging Face folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "model/config.h"
#include "state/safetensors.h"

namespace qrl::model {

/// Tensors in CPU memory by Hugging Face name, with the names and shapes of weight_specs.
using Weights = std::map<std::string, base::Buffer, std::less<>>;
/// Same without ownership.
using WeightViews = std::map<std::string, base::View, std::less<>>;

WeightViews views(const Weights& weights);

/// Returns the view of a spec's tensor. Throws an internal error if it is missing, misshaped or not fp32, or if it is
/// not in CPU memory (allowed with `anywhere`).
const base::View& find_view(const WeightViews& weights, const WeightSpec& spec, bool anywhere = false);

/// A model's weights before they are in memory. Each tensor is written directly to its final place, without a second
/// copy of the model. Cheap to copy. One thread reads at a time.
class WeightSource {
 public:
  using Read = std::function<void(const WeightSpec& spec, float* to)>;
  explicit WeightSource(Read read) : read_(std::move(read)) {}
  /// Refers to weights in memory, which must outlive this.
  WeightSource(const Weights& weights);  // NOLINT: they are what it stands for
  /// Writes the tensor in fp32.
  void read(const WeightSpec& spec, float* to) const { read_(spec, to); }

 private:
  Read read_;
};

Weights read_weights(const ModelConfig& config, const WeightSource& source);

/// Returns initial weights of a new model, fp32. Linears, embeddings and lm_head are normal(0, initializer_range),
/// o_proj and down_proj divided by √(2L) as in GPT-2. Norms are 1, biases 0. Every element depends on (seed, tensor's
/// index, element) alone.
WeightSource new_weights(const ModelConfig& config, std::uint64_t seed);

struct HfModel {
  ModelConfig config;
  WeightSource weights;  ///< fp32 whatever the file's dtype
};

/// Reads DIR/config.json and opens DIR/model.safetensors, or the shards of model.safetensors.index.json. Throws an
/// input error for both at once, and for a missing, extra or misshaped tensor, which it names. Two extra tensors are
/// allowed: a tied model's lm_head.weight that equals the embedding, and RoPE's buffers (…rotary_emb.inv_freq), which
/// are not read.
///
/// Weights that are not finite are refused on reading. End tokens of a generation_config.json in the folder replace the
/// config's. save_hf writes the whole file back. Pickled weights (.bin, .pt) are never opened.
HfModel open_hf(const std::filesystem::path& dir);

/// transformers' default.
inline constexpr std::uint64_t kMaxShard_bytes = 5'000'000'000;

/// Writes DIR/config.json, DIR/generation_config.json and DIR/model.safetensors. Creates DIR. Tensors have
/// `config.dtype` (f32, or bf16 to nearest even). generation_config.json is the model's own, plus the config's special
/// tokens where they differ.
///
/// Above max_shard_bytes, tensors are sharded in order, with model.safetensors.index.json. The caller adds the
/// tokenizer's files. `staged`, if set, reads the weights from wherever they are.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights,
             std::uint64_t max_shard_bytes = kMaxShard_bytes, const state::StagedRead& staged = {});

/// Same, for weights that are not in memory: holds one fp32 tensor at a time.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightSource& weights,
             std::uint64_t max_shard_bytes = kMaxShard_bytes);

/// Writes the tensor files of save_hf: one, or shards of at most max_shard_bytes and their index. A tensor is never
/// divided.
void write_shards(const std::filesystem::path& dir, const std::vector<state::NamedView>& tensors,
                  std::uint64_t max_shard_bytes, const state::StagedRead& staged);

/// Writes the other files of save_hf. `quantization_config`: a JSON object for config.json; "": none.
void write_config(const std::filesystem::path& dir, const ModelConfig& config,
                  std::string_view quantization_config = {});

/// Write a folder jointly. Each process writes its tensors of weight_specs in `config.dtype` as shard
/// model-<number>-of-<count>.safetensors, from number 1; without tensors it writes no file. Then one process writes the
/// index and the other files of save_hf. A tensor without a shard is an internal error.
void save_hf_shard(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights,
                   std::size_t number, std::size_t count, const state::StagedRead& staged = {});
void finish_hf_shards(const std::filesystem::path& dir, const ModelConfig& config);

/// Returns "stem-00002-of-00003.safetensors".
std::string shard_name(const std::string& stem, std::size_t number, std::size_t count);

/// Reads a model.safetensors.index.json and returns the shard of each tensor. Throws an input error unless `weight_map`
/// is an object of plain .safetensors names in the same folder (links are allowed, as in Hugging Face's cache). Shards
/// must hold exactly the tensors that the map places there.
std::map<std::string, std::filesystem::path, std::less<>> read_index(const std::filesystem::path& file);

/// Returns one paragraph for `qrl-train check index`: tensors and shards.
std::string describe_index(const std::filesystem::path& file);

}  // namespace qrl::model
