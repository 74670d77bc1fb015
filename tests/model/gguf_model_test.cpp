// Tests models in GGUF files against the Hugging Face folders that they were made from.
#include "model/gguf_model.h"

#include "base/bf16.h"
#include "base/error.h"
#include "model/gguf_export.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/refusal.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;

namespace {

const std::filesystem::path kFolders = qrl::test::shipped_data() / "golden";

/// Checks that all values are the wanted ones, rounded to bf16.
void check_rounded(const Weights& got, const Weights& want) {
  for (const auto& [tensor, buffer] : want) {
    INFO(tensor);
    std::int64_t differ = 0;
    for (std::int64_t i = 0; i < buffer.shape().numel(); ++i)
      differ += got.at(tensor).as<float>()[i] == base::to_float(base::to_bf16(buffer.as<float>()[i])) ? 0 : 1;
    CHECK(differ == 0);
  }
}

}  // namespace

TEST_CASE("gguf: a model has the config of its folder, and the folder's values in bf16 under their names") {
  for (const std::string name : {"llama", "qwen2", "qwen3", "gemma3_bf16"}) {
    INFO(name);
    const auto file = std::make_shared<const state::GgufFile>(kFolders / "gguf" / (name + ".gguf"));
    const GgufModel gguf = open_gguf(file);
    const qrl::test::LoadedModel want = qrl::test::load_hf(kFolders / ("hf_" + name));
    ModelConfig config = want.config;
    config.dtype = base::DType::bf16;
    config.eos_token_ids.resize(1);
    // A file without this id has transformers' value, 0, where the family has one.
    if (config.norm_offset != 0) config.pad_token_id = 0;
    config.generation_config = gguf.config.generation_config;
    config.initializer_range = gguf.config.initializer_range;
    CHECK(config_json(gguf.config) == config_json(config));
    CHECK(gguf.config == config);
    check_rounded(read_weights(gguf.config, gguf.weights), want.weights);
    CHECK(gguf.types == std::map<std::string, std::int64_t>{{"F32", std::ssize(file->tensors())}});
  }
}

TEST_CASE("gguf export: a model comes back with its config, and with its values in bf16") {
  for (const std::string name : {"llama", "qwen2", "qwen3"}) {
    INFO(name);
    const qrl::test::LoadedModel model = qrl::test::load_hf(kFolders / ("hf_" + name));
    const qrl::test::TempDir dir;
    const std::map<std::string, std::int64_t> types = save_gguf({dir / "x.gguf"}, model.config, model.weights);
    const GgufModel gguf = open_gguf(std::make_shared<const state::GgufFile>(dir / "x.gguf"));
    CHECK(gguf.types == types);
    ModelConfig config = model.config;
    config.dtype = base::DType::bf16;
    config.eos_token_ids.resize(std::min<std::size_t>(1, config.eos_token_ids.size()));
    config.generation_config = gguf.config.generation_config;
    config.initializer_range = gguf.config.initializer_range;
    CHECK(config_json(gguf.config) == config_json(config));
    check_rounded(read_weights(gguf.config, gguf.weights), model.weights);
  }
}

TEST_CASE("gguf export: with q4_0, the token table has eight bits, norms are fp32, and rows of odd lengths bf16") {
  ModelConfig config = qrl::test::load_hf(kFolders / "hf_qwen2").config;
  config.hidden_size = 64;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 32;
  config.intermediate_size = 48;
  const qrl::test::TempDir dir;
  save_gguf({dir / "x.gguf", gguf_precisions().back()}, config, new_weights(config, 1));
  const state::GgufFile file(dir / "x.gguf");
  const auto type = [&](const char* name) { return std::string(file.tensors().find(name)->second.type->name); };
  CHECK(type("token_embd.weight") == "Q8_0");
  CHECK(type("blk.0.attn_q.weight") == "Q4_0");
  CHECK(type("blk.0.ffn_down.weight") == "BF16");  // rows of 48
  CHECK(type("blk.0.attn_norm.weight") == "F32");
  CHECK(type("blk.0.attn_q.bias") == "F32");
}

TEST_CASE("gguf export: the divisors of llama3's frequencies are found again") {
  qrl::test::LoadedModel model = qrl::test::load_hf(kFolders / "hf_llama");
  model.config.rope_scaling = {.type = RopeType::llama3, .factor = 8, .original_max_position_embeddings = 8192};
  const qrl::test::TempDir dir;
  save_gguf({dir / "x.gguf"}, model.config, model.weights);
  const GgufModel gguf = open_gguf(std::make_shared<const state::GgufFile>(dir / "x.gguf"));
  CHECK(gguf.config.rope_scaling == model.config.rope_scaling);
}

TEST_CASE("gguf export: norms of 1 + w are stored as their gains, and come back as w") {
  qrl::test::LoadedModel model = qrl::test::load_hf(kFolders / "hf_gemma3_bf16");
  model.config.num_hidden_layers = 1;
  model.config.sliding_layers = {0};
  model.config.eos_token_ids.resize(1);
  const qrl::test::TempDir dir;
  save_gguf({dir / "x.gguf"}, model.config, model.weights);
  const state::GgufFile file(dir / "x.gguf");
  for (const auto& [name, stored] : {std::pair("blk.0.post_attention_norm.weight", "post_attention_layernorm"),
                                     {"blk.0.ffn_norm.weight", "pre_feedforward_layernorm"},
                                     {"blk.0.post_ffw_norm.weight", "post_feedforward_layernorm"}}) {
    INFO(name);
    std::vector<float> gains(static_cast<std::size_t>(model.config.hidden_size));
    file.read_f32(file.tensors().find(name)->second, 0, gains);
    const auto* w = model.weights.at(std::string("model.layers.0.") + stored + ".weight").as<float>();
    for (std::size_t i = 0; i < gains.size(); ++i) CHECK(gains[i] == 1 + w[i]);
  }
  const GgufModel gguf = open_gguf(std::make_shared<const state::GgufFile>(dir / "x.gguf"));
  ModelConfig config = model.config;
  config.pad_token_id = 0;  // transformers' value
  config.generation_config = gguf.config.generation_config;
  CHECK(gguf.config == config);
  Weights kept;
  for (const WeightSpec& spec : weight_specs(config)) kept.emplace(spec.name, std::move(model.weights.at(spec.name)));
  check_rounded(read_weights(gguf.config, gguf.weights), kept);
}

TEST_CASE("gguf export: a Mistral without a window comes back as a Llama, and one with a window is refused") {
  const qrl::test::LoadedModel model = qrl::test::load_hf(kFolders / "hf_mistral");
  const qrl::test::TempDir dir;
  save_gguf({dir / "x.gguf"}, model.config, model.weights);
  const GgufModel gguf = open_gguf(std::make_shared<const state::GgufFile>(dir / "x.gguf"));
  CHECK(std::string(spec_of(gguf.config.family).model_type) == "llama");
  check_rounded(read_weights(gguf.config, gguf.weights), model.weights);
  const ModelConfig windowed = qrl::test::load_hf(kFolders / "hf_mistral_window").config;
  CHECK(qrl::test::says(qrl::test::refusal_of([&] { require_gguf_export(windowed); }), "without sliding windows"));
}

TEST_CASE("gguf export: what llama.cpp computes otherwise is refused") {
  ModelConfig config = qrl::test::load_hf(kFolders / "hf_llama").config;
  const auto refusal = [&] { return qrl::test::refusal_of([&] { require_gguf_export(config); }); };
  config.rope_scaling = {.type = RopeType::yarn, .factor = 4, .original_max_position_embeddings = 4096};
  CHECK_NOTHROW(require_gguf_export(config));
  config.rope_scaling.mscale = 0.7;
  CHECK(qrl::test::says(refusal(), "rope_scaling"));
  config.rope_scaling = {};
  config.family = Family::olmo2;
  CHECK(qrl::test::says(refusal(), "olmo2"));
  config = qrl::test::load_hf(kFolders / "hf_gemma3").config;
  CHECK(qrl::test::says(refusal(), "sliding"));  // each second layer is full
  config.sliding_layers = {0, 1, 2, 3};
  CHECK(qrl::test::says(refusal(), "rope_local_base_freq"));
  config.sliding_rope_theta = 10000;
  CHECK(qrl::test::says(refusal(), "query_pre_attn_scalar"));
  config.query_pre_attn_scalar = static_cast<float>(config.head_dim);
  CHECK_NOTHROW(require_gguf_export(config));
}
