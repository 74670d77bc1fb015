#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "model/config.h"
#include "state/safetensors.h"

namespace qrl::model {

/// CPU tensors by Hugging Face name. weight_specs lists names and shapes.
using Weights = std::map<std::string, base::Buffer, std::less<>>;
using WeightViews = std::map<std::string, base::View, std::less<>>;

WeightViews views(const Weights& weights);

/// Returns a weight's view. Throws an internal error if it is missing, misshaped, not fp32 or (unless `anywhere`)
/// outside CPU memory.
const base::View& find_view(const WeightViews& weights, const WeightSpec& spec, bool anywhere = false);

/// Reads a model's weights, each directly to its final place. Only one thread may read at a time.
class WeightSource {
 public:
  using Read = std::function<void(const WeightSpec& spec, float* to)>;
  explicit WeightSource(Read read) : read_(std::move(read)) {}
  /// Reads from `weights`, which must outlive this object.
  WeightSource(const Weights& weights);  // NOLINT: implicit on purpose
  void read(const WeightSpec& spec, float* to) const { read_(spec, to); }

 private:
  Read read_;
};

Weights read_weights(const ModelConfig& config, const WeightSource& source);

/// Returns a new model's fp32 weights. Linears, embeddings and lm_head are normal(0, initializer_range). o_proj and
/// down_proj are also divided by √(2L), as in GPT-2. DeltaNet's are transformers' own. A value depends on (seed,
/// tensor's index, element's index) alone.
WeightSource new_weights(const ModelConfig& config, std::uint64_t seed);

struct HfModel {
  ModelConfig config;
  WeightSource weights;  ///< read as fp32 from any dtype
};

/// Reads DIR/config.json and opens DIR/model.safetensors, or model.safetensors.index.json's shards. Throws an input
/// error if both exist. Throws like require_tensors_of.
///
/// Reading refuses non-finite weights. End tokens of generation_config.json replace those of config.json; save_hf
/// writes generation_config.json back. Pickled weights (.bin, .pt) are never opened.
HfModel open_hf(const std::filesystem::path& dir);

/// Default size of a shard, as in transformers.
inline constexpr std::uint64_t kMaxShard_bytes = 5'000'000'000;

/// Creates DIR, and writes config.json, generation_config.json and model.safetensors. Tensors have `config.dtype` (f32,
/// or bf16 rounded to nearest even).
///
/// If the tensors exceed max_shard_bytes together, writes shards in order and model.safetensors.index.json instead. The
/// caller adds tokenizer files. If set, `staged` reads weights that are not in CPU memory.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights,
             std::uint64_t max_shard_bytes = kMaxShard_bytes, const state::StagedRead& staged = {});

/// Writes the same from a source, holding one fp32 tensor at a time.
void save_hf(const std::filesystem::path& dir, const ModelConfig& config, const WeightSource& weights,
             std::uint64_t max_shard_bytes = kMaxShard_bytes);

/// Writes save_hf's tensor files: one file, or shards of at most max_shard_bytes and their index. A larger tensor has
/// its own shard.
void write_shards(const std::filesystem::path& dir, const std::vector<state::NamedView>& tensors,
                  std::uint64_t max_shard_bytes, const state::StagedRead& staged);

/// Writes config.json and generation_config.json. `quantization_config`: a JSON object for config.json, or "".
void write_config(const std::filesystem::path& dir, const ModelConfig& config,
                  std::string_view quantization_config = {});

/// Write a folder jointly. Each process calls save_hf_shard, which writes its tensors in `config.dtype` to
/// model-<number>-of-<count>.safetensors, numbered from 1. A process without tensors writes no file. One process then
/// calls finish_hf_shards, which writes the index and other files. A tensor without a shard is an internal error.
void save_hf_shard(const std::filesystem::path& dir, const ModelConfig& config, const WeightViews& weights,
                   std::size_t number, std::size_t count, const state::StagedRead& staged = {});
void finish_hf_shards(const std::filesystem::path& dir, const ModelConfig& config);

/// Returns "stem-00002-of-00003.safetensors".
std::string shard_name(const std::string& stem, std::size_t number, std::size_t count);

std::string describe_index(const std::filesystem::path& file);

struct GainNoise {
  std::uint64_t seed = 0;
  double sigma = 0;  ///< standard deviation; 0: none
};

/// Adds σ·z to a norm's gains. z is a standard normal value (Box–Muller in fp64) that depends on (seed, version, norm,
/// channel) alone. `norm`: the norm's index in forward order.
void add_gain_noise(const GainNoise& noise, std::int64_t version, std::uint32_t norm, std::span<float> gains);

}  // namespace qrl::model
