// Owns a model's tensors by name in memory and their way from and to Hugging Face folders. Knows nothing of packing.
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

/// Tensors by Hugging Face name, CPU memory, in weight_specs' names and shapes.
using Weights = std::map<std::string, base::Buffer, std::less<>>;
/// The same without ownership (the learner's masters, say).
using WeightViews = std::map<std::string, base::View, std::less<>>;

WeightViews views(const Weights& weights);

/// The view of a spec's tensor; an internal error when it is missing, not fp32 in CPU memory (wherever it is, if
/// `anywhere`) or of another shape.
const base::View& find_view(const WeightViews& weights, const WeightSpec& spec, bool anywhere = false);

/// A model's weights before they are in memory. Whoever needs them has each tensor written to its final place, so that
/// a second copy of the model is never made. Cheap to copy; read by one thread at a time.
class WeightSource {
 public:
  using Read = std::function<void(const WeightSpec& spec, float* to)>;
  explicit WeightSource(Read read) : read_(std::move(read)) {}
  /// Weights that are in memory, and outlive this.
  WeightSource(const Weights& weights);  // NOLINT: they are what it stands for
  /// Writes the fp32 values of `spec`'s tensor, spec.shape.numel() of them, to `to`.
  void read(const WeightSpec& spec, float* to) const { read_(spec, to); }

 private:
  Read read_;
};

/// All of a source in memory at once: for what needs every tensor and holds no model besides.
Weights read_weights(const ModelConfig& config, const WeightSource& source);

/// A new model: linears, embeddings and lm_head normal(0, initializer_range) (o_proj and down_proj divided by √(2L), as
/// GPT-2), norms 1, biases 0; fp32; every element depends on (seed, tensor's index, element) alone.
WeightSource new_weights(const ModelConfig& config, std::uint64_t seed);

struct HfModel {
  ModelConfig config;
  WeightSource weights;  ///< fp32 whatever the file's dtype
};

/// Reads DIR/config.json and opens DIR/model.safetensors (or the shards of model.safetensors.index.json; both together
/// are refused). A missing, extra, or misshaped tensor is an input error that names it (a tied model may carry
/// lm_head.weight: it must equal the embedding; RoPE's buffers, …rotary_emb.inv_freq, are not read). Weights that are
/// not finite are refused as they are read. End tokens of a generation_config.json beside it replace the config's; all
/// of it is kept for save_hf. Pickled weights (.bin, .pt) are never opened.
HfModel open_hf(const std::filesystem::path& dir);

/// transformers' usual size of a shard.
inline constexpr std::uint64_t kMaxShard_bytes = 5'000'000'000;

/// Writes DIR/config.json, DIR/generation_config.json (what the model came with, and the config's special tokens that
/// it does not name or names otherwise) and DIR/model.safetensors with tensors in `config.dtype` (f32 or bf16, nearest
/// even); DIR is made when missing. Above max_shard_bytes of tensors: model-00001-of-0000N.safetensors … with tensors
/// in their order, and model.safetensors.index.json. The tokenizer's files are the caller's to add. `staged`, if there
/// is one, reads the weights, wherever they are.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights,
             std::uint64_t max_shard_bytes = kMaxShard_bytes, const state::StagedRead& staged = {});

/// The same of weights that are not in memory: each is read when it is written, so one in fp32 is there at a time.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightSource& weights,
             std::uint64_t max_shard_bytes = kMaxShard_bytes);

/// The tensor files that save_hf writes: one, or shards of at most max_shard_bytes (a tensor is not divided) and their
/// index.
void write_shards(const std::filesystem::path& dir, const std::vector<state::NamedView>& tensors,
                  std::uint64_t max_shard_bytes, const state::StagedRead& staged);

/// The files that save_hf writes beside the tensors. `quantization_config`: an object for config.json, as JSON; "":
/// none.
void write_config(const std::filesystem::path& dir, const ModelConfig& config,
                  std::string_view quantization_config = {});

/// A folder that several write: each its shard, model-<number>-of-<count>.safetensors (number from 1) with `weights` in
/// weight_specs' order, in `config.dtype`; a file only where there are any. Then one of them the files that save_hf
/// writes besides and the index of what lies there, an internal error where a tensor has no shard.
void save_hf_shard(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights,
                   std::size_t number, std::size_t count, const state::StagedRead& staged = {});
void finish_hf_shards(const std::filesystem::path& dir, const ModelConfig& config);

/// "stem-00002-of-00003.safetensors".
std::string shard_name(const std::string& stem, std::size_t number, std::size_t count);

/// Reads a model.safetensors.index.json: which shard holds which tensor. `weight_map` is an object of plain file names
/// (no folder, nothing hidden) that end in .safetensors and are regular files beside the index (or links to such, as in
/// Hugging Face's cache); every tensor is where the map says, and no shard holds one that the map does not place there.
std::map<std::string, std::filesystem::path, std::less<>> read_index(const std::filesystem::path& file);

/// One paragraph for `qrl-train check index`: tensors and shards.
std::string describe_index(const std::filesystem::path& file);

}  // namespace qrl::model
