#include "model/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "model/block.h"
#include "model/config_reader.h"
#include "model/families.h"
#include "model/gguf_names.h"
#include "model/rope.h"
#include "state/json.h"

namespace qrl::model {

namespace {

using Json = nlohmann::json;
using state::GgufFile;

/// Reads a file's metadata of one architecture.
class GgufMetadata {
 public:
  explicit GgufMetadata(const GgufFile& file) : file_(file), where_(state::shown(file.path())) {
    const std::string* architecture = file.text("general.architecture");
    QRL_REQUIRE(architecture != nullptr, at("general.architecture"), "an architecture", "no such key");
    architecture_ = *architecture;
    family_ = find_gguf_family(architecture_);
    QRL_REQUIRE(family_ != nullptr, at("general.architecture"),
                "an architecture that is read from GGUF (docs/reference/models.md)", base::quoted(architecture_),
                "take the Hugging Face folder of this model, if its family is supported");
  }

  const FamilySpec& family() const { return *family_; }
  const std::string& where() const { return where_; }
  std::string at(const std::string& key) const { return where_ + ": " + base::quoted(key); }
  std::string own(const std::string& key) const { return architecture_ + "." + key; }

  std::int64_t required(const std::string& key) const {
    const std::int64_t* value = file_.integer(own(key));
    QRL_REQUIRE(value != nullptr, at(own(key)), "an integer", "no such key", "the file lacks a size of its model");
    return *value;
  }
  std::int64_t integer_or(const std::string& key, std::int64_t missing) const {
    const std::int64_t* value = file_.integer(own(key));
    return value == nullptr ? missing : *value;
  }
  std::optional<double> number(const std::string& key) const { return file_.number(own(key)); }
  void require_only(const std::string& key, std::int64_t only) const {
    QRL_REQUIRE(integer_or(key, only) == only, at(own(key)), std::to_string(only) + " (no other value is supported)",
                std::to_string(integer_or(key, only)));
  }

 private:
  const GgufFile& file_;
  std::string where_, architecture_;
  const FamilySpec* family_ = nullptr;
};

bool has_tensor(const GgufFile& file, const std::string& name) { return file.tensors().contains(name); }

/// Returns an fp32 metadata number as the decimal that was meant: 1e-05, not 9.99999974e-06.
double decimal(double value) { return shortest_decimal(static_cast<float>(value)); }

void add_rope(const GgufFile& file, const GgufMetadata& metadata, std::int64_t head_dim, Json& root) {
  root["rope_theta"] = decimal(metadata.number("rope.freq_base").value_or(10000));
  metadata.require_only("rope.dimension_count", head_dim);
  const std::string* type = file.text(metadata.own("rope.scaling.type"));
  if (type == nullptr || *type == "none") return;
  Json scaling = {{"rope_type", *type}, {"factor", metadata.number("rope.scaling.factor").value_or(1)}};
  if (const auto original = metadata.integer_or("rope.scaling.original_context_length", 0); original > 0)
    scaling["original_max_position_embeddings"] = original;
  root["rope_scaling"] = scaling;  // parse_config refuses types that it does not know
}

void add_ids(const GgufFile& file, Json& root) {
  for (const auto& [key, ids] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                 {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                 {"tokenizer.ggml.padding_token_id", "pad_token_id"}}) {
    if (const std::int64_t* id = file.integer(key); id != nullptr) root[ids] = *id;
  }
}

std::string config_text(const GgufFile& file, const GgufMetadata& metadata) {
  const auto table = file.tensors().find("token_embd.weight");
  QRL_REQUIRE(table != file.tensors().end() && table->second.shape.rank() == 2, metadata.where(),
              "a tensor \"token_embd.weight\" [V, D]", "no such tensor");
  const std::int64_t width = metadata.required("embedding_length"), heads = metadata.required("attention.head_count");
  QRL_REQUIRE(heads > 0, metadata.at(metadata.own("attention.head_count")), "1 or more", std::to_string(heads));
  const std::int64_t head_dim = metadata.integer_or("attention.key_length", width / heads);
  metadata.require_only("attention.value_length", head_dim);
  metadata.require_only("expert_count", 0);
  const FamilySpec& family = metadata.family();
  const auto eps = metadata.number("attention.layer_norm_rms_epsilon");
  QRL_REQUIRE(eps.has_value(), metadata.at(metadata.own("attention.layer_norm_rms_epsilon")), "a number",
              "no such key");
  Json root = {{"model_type", family.model_type},
               {"architectures", {family.architecture}},
               {"vocab_size", table->second.shape[0]},
               {"hidden_size", width},
               {"num_hidden_layers", metadata.required("block_count")},
               {"num_attention_heads", heads},
               {"num_key_value_heads", metadata.integer_or("attention.head_count_kv", heads)},
               {"head_dim", head_dim},
               {"intermediate_size", metadata.required("feed_forward_length")},
               {"max_position_embeddings", metadata.required("context_length")},
               {"rms_norm_eps", decimal(*eps)},
               {"tie_word_embeddings", !has_tensor(file, "output.weight")},
               {"torch_dtype", "bfloat16"}};
  if (family.bias == AttentionBias::by_key) root["attention_bias"] = has_tensor(file, "blk.0.attn_output.bias");
  for (const NumberKey& number : family.numbers) {
    const auto value = number.gguf == nullptr ? std::nullopt : metadata.number(number.gguf);
    if (value) root[number.key] = decimal(*value);
  }
  add_rope(file, metadata, head_dim, root);
  if (family.window == WindowRule::pattern) root["sliding_window"] = metadata.required("attention.sliding_window");
  if (family.has_key(kScoreScalarKey))
    root[kScoreScalarKey] = gguf_score_scalar(root["num_hidden_layers"], width / heads, head_dim);
  add_ids(file, root);
  return root.dump();
}

/// Finds the llama3 scaling whose divisors of frequencies are these. A GGUF file has no other trace of it.
RopeScaling llama3_scaling(const GgufFile& file, const ModelConfig& config, const std::string& where) {
  const state::GgufTensor& tensor = file.tensors().find(kGgufRopeFactors)->second;
  std::vector<float> factors(static_cast<std::size_t>(tensor.shape.numel()));
  file.read_f32(tensor, 0, factors);
  ModelConfig plain = config;
  plain.rope_scaling = {};
  const std::vector<double> frequencies = rope_frequencies(plain).inverse;
  for (const double factor : {8.0, 32.0, 4.0, 16.0}) {
    ModelConfig scaled = plain;
    scaled.rope_scaling = {RopeType::llama3, factor, 8192, 1, 4};
    const std::vector<double> turned = rope_frequencies(scaled).inverse;
    bool fits = factors.size() == turned.size();
    for (std::size_t i = 0; fits && i < turned.size(); ++i)
      fits = std::fabs(frequencies[i] / turned[i] - factors[i]) <= 1e-3 * std::fabs(factors[i]);
    if (fits) return scaled.rope_scaling;
  }
  base::fail_input(where + ": tensor " + base::quoted(kGgufRopeFactors),
                   "the factors of a rope scaling llama3 (factor 8 or 32, 8192 positions)", "other factors");
}

void require_gguf_tensors(const GgufFile& file, const ModelConfig& config, const std::string& where) {
  std::set<std::string> wanted = {kGgufRopeFactors};
  for (const WeightSpec& spec : weight_specs(config)) {
    const std::string name = gguf_name(config, spec.name);
    const auto found = file.tensors().find(name);
    QRL_REQUIRE(found != file.tensors().end(), where, "a tensor " + base::quoted(name), "no such tensor",
                "the tensors do not fit the file's metadata");
    QRL_REQUIRE(found->second.shape == spec.shape, where + ": tensor " + base::quoted(name),
                "shape " + spec.shape.to_string(), found->second.shape.to_string());
    wanted.insert(name);
  }
  for (const auto& [name, tensor] : file.tensors())
    QRL_REQUIRE(wanted.contains(name), where + ": tensor " + base::quoted(name), "only tensors of the architecture",
                "an extra tensor");
}

void read_gguf_tensor(const GgufFile& file, const ModelConfig& config, const WeightSpec& spec, float* to) {
  const std::string name = gguf_name(config, spec.name);
  const float offset = spec.kind == WeightKind::norm ? config.norm_offset : 0;
  const state::GgufTensor& tensor = file.tensors().find(name)->second;
  const std::int64_t width = tensor.shape[tensor.shape.rank() - 1], num_rows = tensor.shape.numel() / width;
  base::parallel_for(num_rows, std::max<std::int64_t>(1, 65536 / width), [&](base::Range rows) {
    const std::span<float> mine(to + rows.begin * width, static_cast<std::size_t>(rows.size() * width));
    file.read_f32(tensor, rows.begin * width, mine);
    for (float& value : mine) {
      value = base::to_float(base::to_bf16(value - offset));
      QRL_REQUIRE(std::isfinite(value), state::shown(file.path()) + ": tensor " + base::quoted(name), "finite weights",
                  std::to_string(value), "the file is broken");
    }
  });
  reorder_rows(config, spec, RowOrder::hugging_face, to);
}

}  // namespace

GgufModel open_gguf(const std::shared_ptr<const state::GgufFile>& file) {
  const GgufMetadata metadata(*file);
  ModelConfig config = parse_config(config_text(*file, metadata), metadata.where());
  if (has_tensor(*file, kGgufRopeFactors)) config.rope_scaling = llama3_scaling(*file, config, metadata.where());
  require_gguf_tensors(*file, config, metadata.where());
  std::map<std::string, std::int64_t> types;
  for (const auto& [name, tensor] : file->tensors()) ++types[tensor.type->name];
  return {config, WeightSource([file, config](const WeightSpec& spec, float* to) {
            read_gguf_tensor(*file, config, spec, to);
          }),
          types};
}

HfModel open_model(const std::filesystem::path& path) {
  if (!state::is_gguf(path)) return open_hf(path);
  GgufModel gguf = open_gguf(std::make_shared<const GgufFile>(path));
  return {std::move(gguf.config), std::move(gguf.weights)};
}

ModelConfig read_model_config(const std::filesystem::path& path) {
  return state::is_gguf(path) ? open_model(path).config : read_config(path / "config.json");
}

std::string describe_gguf(const std::filesystem::path& file) {
  const GgufFile opened(file);
  std::map<std::string, std::int64_t> types, values;
  for (const auto& [name, tensor] : opened.tensors()) {
    ++types[tensor.type->name];
    values[tensor.type->name] += tensor.shape.numel();
  }
  const auto most = std::ranges::max_element(values, {}, &std::pair<const std::string, std::int64_t>::second);
  const bool is_coarse = most != values.end() && most->first.starts_with('Q');
  return counts_text(types) + "; values in bf16" +
         (is_coarse ? ", most of them from " + most->first.substr(1, 1) + " bits" : "");
}

std::string counts_text(const std::map<std::string, std::int64_t>& types) {
  std::string text;
  for (const auto& [type, count] : types) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + type;
  return text;
}

}  // namespace qrl::model
