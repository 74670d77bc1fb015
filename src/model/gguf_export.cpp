#include "model/gguf_export.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "model/families.h"
#include "model/gguf_names.h"
#include "model/rope.h"

namespace qrl::model {

namespace {

using state::GgufKey;

constexpr GgufPrecision kPrecisions[] = {
    {"bf16", "BF16", "BF16", 32}, {"q8_0", "Q8_0", "Q8_0", 7}, {"q4_0", "Q4_0", "Q8_0", 2}};

const state::GgufType& type_of(const GgufPrecision& precision, const WeightSpec& spec) {
  const bool is_table = spec.name.starts_with("model.embed_tokens.") || spec.name.starts_with("lm_head.");
  const state::GgufType* type =
      state::find_gguf_type(std::string_view(is_table ? precision.tables : precision.matrices));
  if (spec.shape.rank() == 1) type = state::find_gguf_type(std::string_view("F32"));
  else if (spec.shape[1] % type->values != 0) type = state::find_gguf_type(std::string_view("BF16"));
  return *type;
}

std::vector<float> rope_factors(const ModelConfig& config) {
  ModelConfig plain = config;
  plain.rope_scaling = {};
  const std::vector<double> before = rope_frequencies(plain).inverse, after = rope_frequencies(config).inverse;
  std::vector<float> factors(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) factors[i] = static_cast<float>(before[i] / after[i]);
  return factors;
}

class Keys {
 public:
  explicit Keys(std::string architecture) : architecture_(std::move(architecture)) {}
  void add(const std::string& name, state::GgufField value) { keys_.push_back({name, std::move(value)}); }
  void own(const std::string& name, state::GgufField value) { add(architecture_ + "." + name, std::move(value)); }
  void size(const std::string& name, std::int64_t value) { own(name, static_cast<std::uint32_t>(value)); }
  std::vector<GgufKey> take() { return std::move(keys_); }

 private:
  std::string architecture_;
  std::vector<GgufKey> keys_;
};

void add_rope(const ModelConfig& config, Keys& keys) {
  keys.size("rope.dimension_count", config.head_dim);
  keys.own("rope.freq_base", static_cast<float>(config.rope_theta));
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type != RopeType::linear && scaling.type != RopeType::yarn) return;
  keys.own("rope.scaling.type", std::string(scaling.type == RopeType::yarn ? "yarn" : "linear"));
  keys.own("rope.scaling.factor", static_cast<float>(scaling.factor));
  if (scaling.type == RopeType::yarn)
    keys.size("rope.scaling.original_context_length", scaling.original_max_position_embeddings);
}

/// Adds the ids that the tokenizer's keys leave open.
void add_ids(const ModelConfig& config, std::vector<GgufKey>& keys) {
  const std::int64_t end = config.eos_token_ids.empty() ? -1 : config.eos_token_ids.front();
  for (const auto& [name, id] : {std::pair{"tokenizer.ggml.bos_token_id", config.bos_token_id},
                                 {"tokenizer.ggml.eos_token_id", end},
                                 {"tokenizer.ggml.padding_token_id", config.pad_token_id}}) {
    const bool is_known = std::ranges::find(keys, name, &GgufKey::name) != keys.end();
    if (!is_known && id >= 0) keys.push_back({name, static_cast<std::uint32_t>(id)});
  }
}

std::vector<GgufKey> keys_of(const GgufExport& out, const ModelConfig& config) {
  const FamilySpec& family = spec_of(config.family);
  Keys keys(family.gguf);
  keys.add("general.architecture", std::string(family.gguf));
  keys.add("general.type", std::string("model"));
  keys.add("general.name", out.file.stem().string());
  keys.add("general.file_type", out.precision.file_type);
  if (std::string_view(out.precision.matrices).starts_with('Q'))
    keys.add("general.quantization_version", std::uint32_t{2});
  keys.size("vocab_size", config.vocab_size);
  keys.size("block_count", config.num_hidden_layers);
  keys.size("context_length", config.max_position_embeddings);
  keys.size("embedding_length", config.hidden_size);
  keys.size("feed_forward_length", config.intermediate_size);
  keys.size("attention.head_count", config.num_attention_heads);
  keys.size("attention.head_count_kv", config.num_key_value_heads);
  keys.size("attention.key_length", config.head_dim);
  keys.size("attention.value_length", config.head_dim);
  keys.own("attention.layer_norm_rms_epsilon", config.rms_norm_eps);
  for (const NumberKey& number : family.numbers)
    if (number.gguf != nullptr) keys.own(number.gguf, config.*number.member);
  if (!config.sliding_layers.empty()) keys.size("attention.sliding_window", config.sliding_window);
  add_rope(config, keys);
  std::vector<GgufKey> all = keys.take();
  std::ranges::copy(out.tokenizer_keys, std::back_inserter(all));
  add_ids(config, all);
  return all;
}

}  // namespace

std::span<const GgufPrecision> gguf_precisions() { return kPrecisions; }

namespace {

/// Throws an input error unless windows, the base of sliding layers' rope and the factor of the scores are those that
/// llama.cpp sets without a key.
void require_llama_cpps_windows(const ModelConfig& config, const FamilySpec& family) {
  const std::string advice = "export a Hugging Face folder (--out)";
  std::vector<std::int64_t> sliding;
  for (std::int64_t layer = 0; family.window_pattern > 0 && layer < config.num_hidden_layers; ++layer)
    if ((layer + 1) % family.window_pattern != 0) sliding.push_back(layer);
  QRL_REQUIRE(config.sliding_layers == sliding, "--gguf",
              family.window_pattern == 0 ? "a model without sliding windows"
                                         : "a full layer after each " + std::to_string(family.window_pattern - 1) +
                                               " sliding ones, as llama.cpp has it",
              "other windows", advice);
  constexpr double kLocalTheta = 10000;
  QRL_REQUIRE(config.sliding_rope_theta == 0 || config.sliding_rope_theta == kLocalTheta, "--gguf",
              std::string(family.sliding_theta) + " 10000, as llama.cpp has it",
              std::to_string(config.sliding_rope_theta), advice);
  const std::int64_t scalar =
      gguf_score_scalar(config.num_hidden_layers, config.hidden_size / config.num_attention_heads, config.head_dim);
  QRL_REQUIRE(config.query_pre_attn_scalar == 0 || config.query_pre_attn_scalar == static_cast<float>(scalar), "--gguf",
              std::string(kScoreScalarKey) + " " + std::to_string(scalar) + ", as llama.cpp has it",
              std::to_string(config.query_pre_attn_scalar), advice);
}

}  // namespace

void require_gguf_export(const ModelConfig& config) {
  const FamilySpec& family = spec_of(config.family);
  QRL_REQUIRE(family.gguf != nullptr, "--gguf", "a family with an architecture in GGUF (docs/reference/models.md)",
              family.model_type, "export a Hugging Face folder (--out) and convert it with llama.cpp");
  const RopeScaling& scaling = config.rope_scaling;
  const bool is_plain_yarn = !scaling.attention_factor && !scaling.mscale && !scaling.mscale_all_dim &&
                             scaling.beta_fast == 32 && scaling.beta_slow == 1 && scaling.truncate;
  QRL_REQUIRE(scaling.type != RopeType::longrope && (scaling.type != RopeType::yarn || is_plain_yarn), "--gguf",
              "rope_scaling none, linear, llama3, or yarn with its usual constants", "another one",
              "export a Hugging Face folder (--out) and convert it with llama.cpp");
  require_llama_cpps_windows(config, family);
  std::vector<std::int64_t> without_rope;
  for (std::int64_t layer = 3; family.layers_without_rope && layer < config.num_hidden_layers; layer += 4)
    without_rope.push_back(layer);
  QRL_REQUIRE(config.no_rope_layers == without_rope, "--gguf",
              "no rotary positions in each fourth layer, as llama.cpp has it", "other layers of no_rope_layers",
              "export a Hugging Face folder (--out)");
}

std::map<std::string, std::int64_t> save_gguf(const GgufExport& out, const ModelConfig& config,
                                              const WeightSource& weights) {
  require_gguf_export(config);
  std::map<std::string, WeightSpec> by_name;
  std::vector<state::GgufOutput> tensors;
  std::map<std::string, std::int64_t> types;
  const auto add = [&](const std::string& name, const state::GgufType& type, const base::Shape& shape) {
    tensors.push_back({name, &type, shape});
    ++types[type.name];
  };
  for (const WeightSpec& spec : weight_specs(config)) {
    by_name.emplace(gguf_name(config, spec.name), spec);
    add(gguf_name(config, spec.name), type_of(out.precision, spec), spec.shape);
  }
  if (config.rope_scaling.type == RopeType::llama3)
    add(kGgufRopeFactors, *state::find_gguf_type(std::string_view("F32")), {config.head_dim / 2});
  state::write_gguf(out.file, keys_of(out, config), tensors, [&](const state::GgufOutput& tensor, std::span<float> to) {
    const auto spec = by_name.find(tensor.name);
    if (spec == by_name.end()) {
      std::ranges::copy(rope_factors(config), to.begin());
      return;
    }
    weights.read(spec->second, to.data());
    if (spec->second.kind == WeightKind::norm && config.norm_offset != 0)
      std::ranges::transform(to, to.begin(), [&](float value) { return value + config.norm_offset; });
    reorder_rows(config, spec->second, RowOrder::llama_cpp, to.data());
  });
  return types;
}

}  // namespace qrl::model
