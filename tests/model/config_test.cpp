#include "model/config.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/catch.h"
#include "support/files.h"

using namespace qrl;
using namespace qrl::model;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// Returns a small valid config, from which every refusal below starts.
Json base_config(const std::string& family = "qwen3") {
  const std::string architecture = family == "qwen3"   ? "Qwen3ForCausalLM"
                                   : family == "qwen2" ? "Qwen2ForCausalLM"
                                                       : "LlamaForCausalLM";
  return {{"architectures", {architecture}},
          {"model_type", family},
          {"vocab_size", 512},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1e6},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"}};
}

/// Returns the message of the refusal, or "" if the text is accepted.
std::string refusal(const std::string& text) {
  try {
    parse_config(text, "config.json");
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::input);
    return error.what();
  }
  return {};
}

const fs::path kConfigs = qrl::test::shipped_data() / "golden" / "hf_configs";

}  // namespace

TEST_CASE("config.json: malformed files behave as their manifest declares") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("shared data not found (QRL_TEST_DATA)");
  std::ifstream manifest(*shared / "malformed" / "manifest.jsonl");
  int seen = 0;
  for (std::string line; std::getline(manifest, line);) {
    const Json row = Json::parse(line);
    if (row["kind"] != "config") continue;
    ++seen;
    const std::string file = row["file"];
    INFO(file);
    const bool accepted = refusal(qrl::test::read_file(*shared / "malformed" / file)).empty();
    if (row["expect"] == "accept") CHECK(accepted);
    if (row["expect"] == "reject") CHECK(!accepted);
  }
  CHECK(seen >= 2);
}

TEST_CASE("config.json: published ones are read as transformers reads them") {
  // hub: as published; transformers4, transformers5: rewritten by these versions (scripts/golden/hf_configs.py).
  const Json expected = Json::parse(qrl::test::read_file(kConfigs / "expected.json"));
  for (const std::string model :
       {"qwen3_0.6b", "qwen3_0.6b_yarn", "qwen3_30b_a3b", "qwen2.5_0.5b_instruct", "llama3_8b_instruct", "llama3.2_1b",
        "granite_3.3_8b_instruct", "mistral_7b_instruct_v0.3", "mistral_nemo_base_2407", "olmo2_1124_7b",
        "phi4_mini_instruct", "smollm3_3b_base"}) {
    for (const std::string writer : {"hub", "transformers4", "transformers5"}) {
      const std::string file = model + "." + writer + ".json";
      INFO(file);
      const std::string text = qrl::test::read_file(kConfigs / file);
      const ModelConfig config = parse_config(text, file);
      const Json& want = expected[model];
      CHECK(config.vocab_size == want["vocab_size"]);
      CHECK(config.hidden_size == want["hidden_size"]);
      CHECK(config.num_hidden_layers == want["num_hidden_layers"]);
      CHECK(config.num_attention_heads == want["num_attention_heads"]);
      CHECK(config.num_key_value_heads == want["num_key_value_heads"]);
      CHECK(config.head_dim == want["head_dim"]);
      CHECK(config.intermediate_size == want["intermediate_size"]);
      const bool is_long = config.rope_scaling.type == RopeType::longrope;  // only short texts are supported
      CHECK((is_long ? config.rope_scaling.longest : config.max_position_embeddings) ==
            want["max_position_embeddings"]);
      CHECK(config.rms_norm_eps == want["rms_norm_eps"].get<float>());
      CHECK(config.rope_theta == want["rope_theta"]);
      CHECK(config.tie_word_embeddings == want["tie_word_embeddings"]);
      CHECK(config.qkv_bias == want["qkv_bias"]);
      CHECK(config.bos_token_id == (want["bos_token_id"].is_null() ? -1 : want["bos_token_id"].get<std::int64_t>()));
      CHECK(config.embedding_multiplier == want.value("embedding_multiplier", 1.0F));
      CHECK(config.residual_multiplier == want.value("residual_multiplier", 1.0F));
      CHECK(config.attention_multiplier == want.value("attention_multiplier", 0.0F));
      CHECK(config.logits_scaling == want.value("logits_scaling", 1.0F));
      for (std::int64_t layer = 0; layer < config.num_hidden_layers && want.contains("no_rope_layers"); ++layer)
        CHECK((config.rope(layer) != RopeKind::none) == (want["no_rope_layers"][static_cast<std::size_t>(layer)] == 1));
      CHECK(config.eos_token_ids == (want["eos_token_id"].is_array()
                                         ? want["eos_token_id"].get<std::vector<types::TokenId>>()
                                         : std::vector<types::TokenId>{want["eos_token_id"]}));
      CHECK(want["dtype"] == "bfloat16");
      CHECK(config.dtype == base::DType::bf16);
      CHECK(num_parameters(config) == want["num_parameters"]);
      CHECK(unknown_config_keys(text, file).empty());
    }
  }
}

TEST_CASE("config.json: written as transformers 4 and 5 were seen to read it, and reads back equal") {
  // hf_configs.py --check loads the committed text with both versions and compares it with the hub's form.
  for (const std::string model :
       {"qwen3_0.6b", "qwen3_0.6b_yarn", "qwen3_30b_a3b", "qwen2.5_0.5b_instruct", "llama3_8b_instruct", "llama3.2_1b",
        "granite_3.3_8b_instruct", "mistral_7b_instruct_v0.3", "mistral_nemo_base_2407", "olmo2_1124_7b",
        "phi4_mini_instruct", "smollm3_3b_base"}) {
    INFO(model);
    const ModelConfig config = read_config(kConfigs / (model + ".hub.json"));
    CHECK(config_json(config) == qrl::test::read_file(kConfigs / (model + ".exported.json")));
    CHECK(parse_config(config_json(config), model) == config);
    CHECK(unknown_config_keys(config_json(config), model).empty());
  }
}

TEST_CASE("RoPE scaling: read as transformers 4 and 5 write it, with their defaults") {
  const auto with = [](const Json& scaling) {
    Json config = base_config("llama");
    config["rope_scaling"] = scaling;
    return parse_config(config.dump(), "x").rope_scaling;
  };
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  CHECK(with(llama3) == RopeScaling{RopeType::llama3, 8, 8192, 1, 4});
  CHECK(with({{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}}) ==
        RopeScaling{RopeType::yarn, 4, 32768});
  // Without the key, the config's positions apply, as in transformers.
  const std::int64_t positions = parse_config(base_config("llama").dump(), "x").max_position_embeddings;
  CHECK(with({{"rope_type", "yarn"}, {"factor", 4}}).original_max_position_embeddings == positions);
  Json both = base_config("llama");
  both["rope_scaling"] = llama3;
  both["rope_parameters"] = llama3;
  CHECK(parse_config(both.dump(), "x").rope_scaling == with(llama3));
  both["rope_parameters"]["factor"] = 4.0;
  CHECK(refusal(both.dump()).find("rope_scaling") != std::string::npos);
}

TEST_CASE("config.json: every field survives writing and reading") {
  ModelConfig config = parse_config(base_config("llama").dump(), "x");
  config.eos_token_ids = {5, 7};
  config.bos_token_id = 1;
  config.pad_token_id = 0;
  config.rms_norm_eps = 1.2345678e-5F;
  config.rope_theta = 12345.678901234567;
  config.rope_scaling = {RopeType::llama3, 32, 8192, 1.5, 4.25};
  config.tie_word_embeddings = false;
  config.dtype = base::DType::f32;
  CHECK(parse_config(config_json(config), "x") == config);
  config.rope_scaling = {RopeType::linear, 2.5};
  CHECK(parse_config(config_json(config), "x") == config);
  config.rope_scaling = {RopeType::yarn, 4, 32768, 1, 4, 30, 2, 1.25, 0.5, 0.75, false};
  CHECK(parse_config(config_json(config), "x") == config);
  config.eos_token_ids.clear();
  config.bos_token_id = -1;
  CHECK(parse_config(config_json(config), "x") == config);
}

TEST_CASE("config.json: a family's own keys are read, and missing ones have transformers' values") {
  const auto of = [](const char* family, const char* architecture, const Json& keys) {
    Json config = base_config("llama");
    config["model_type"] = family;
    config["architectures"] = {architecture};
    if (!keys.is_null()) config.update(keys);
    return config.dump();
  };
  const auto read = [&](const char* family, const char* architecture, const Json& keys) {
    const ModelConfig config = parse_config(of(family, architecture, keys), "x");
    CHECK(parse_config(config_json(config), "x") == config);
    return config;
  };
  const ModelConfig granite = read("granite", "GraniteForCausalLM", {{"residual_multiplier", 0.22}});
  CHECK(granite.residual_multiplier == 0.22F);
  CHECK(granite.embedding_multiplier == 1);
  CHECK(granite.attention_multiplier == 1);  // not 1/√E
  CHECK(read("smollm3", "SmolLM3ForCausalLM", {{"num_hidden_layers", 9}}).no_rope_layers ==
        std::vector<std::int64_t>{3, 7});
  CHECK(read("smollm3", "SmolLM3ForCausalLM", {{"no_rope_layers", {1, 1}}}).no_rope_layers.empty());
  const ModelConfig olmo2 = read("olmo2", "Olmo2ForCausalLM", {{"attention_bias", false}});
  CHECK(olmo2.norms == NormPlace::after);
  CHECK((olmo2.qk_norm && olmo2.qk_norm_whole));
  const ModelConfig olmo3 = read("olmo3", "Olmo3ForCausalLM",
                                 {{"num_hidden_layers", 9},
                                  {"sliding_window", 16},
                                  {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8.0}, {"beta_fast", 32}}}});
  CHECK(olmo3.sliding_layers == std::vector<std::int64_t>{0, 1, 2, 4, 5, 6, 8});
  CHECK(olmo3.rope(0) == RopeKind::sliding);
  CHECK(olmo3.rope(3) == RopeKind::common);
  CHECK(olmo3.sliding_rope_theta == olmo3.rope_theta);
  CHECK(olmo3.rope_scaling.type == RopeType::yarn);
  CHECK(read("mistral", "MistralForCausalLM", {{"sliding_window", nullptr}, {"hidden_size", 66}}).head_dim == 16);
  CHECK(read("mistral", "MistralForCausalLM", {}).sliding_layers.empty());  // 4096 tokens, beside 512 positions
  CHECK(read("mistral", "MistralForCausalLM", {{"max_position_embeddings", 8192}}).window(1) == 4096);
  CHECK(read("mistral", "MistralForCausalLM", {{"sliding_window", 16}}).window(0) == 16);
  CHECK(read("phi3", "Phi3ForCausalLM", {{"sliding_window", 100}}).window(1) == 100);
  const Json longrope = {
      {"type", "longrope"}, {"short_factor", {1, 1.5, 2, 2, 3, 3}}, {"long_factor", {2, 3, 4, 5, 6, 7}}};
  const ModelConfig phi3 =
      read("phi3", "Phi3ForCausalLM",
           {{"partial_rotary_factor", 0.75}, {"original_max_position_embeddings", 128}, {"rope_scaling", longrope}});
  CHECK(phi3.fused_projections);
  CHECK(phi3.rotary_dim() == 12);
  CHECK(phi3.max_position_embeddings == 128);
  CHECK(phi3.rope_scaling.longest == 512);

  struct Refused {
    const char *family, *architecture;
    Json keys;
    const char* about;
  };
  const Refused refused[] = {
      {"mistral", "MistralForCausalLM", {}, ""},  // accepted
      {"mistral", "MistralForCausalLM", {{"sliding_window", 0}}, "sliding_window"},
      {"mistral", "MistralForCausalLM", {{"sliding_window", "16"}}, "sliding_window"},
      {"mistral", "MistralForCausalLM", {{"sliding_window", nullptr}, {"attention_bias", true}}, "attention_bias"},
      {"granite", "GraniteForCausalLM", {{"logits_scaling", 0}}, "logits_scaling"},
      {"granite", "GraniteForCausalLM", {{"residual_multiplier", "1"}}, "residual_multiplier"},
      {"granite", "GraniteForCausalLM", {{"mlp_bias", true}}, "mlp_bias"},
      {"llama", "LlamaForCausalLM", {{"residual_multiplier", 0.5}}, "residual_multiplier"},
      {"llama", "LlamaForCausalLM", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor"},
      {"smollm3", "SmolLM3ForCausalLM", {{"no_rope_layers", {1}}}, "no_rope_layers"},
      {"smollm3", "SmolLM3ForCausalLM", {{"no_rope_layers", {1, 2}}}, "no_rope_layers"},
      {"smollm3", "SmolLM3ForCausalLM", {{"use_sliding_window", true}, {"sliding_window", 8}}, "sliding_window"},
      {"olmo2", "Olmo2ForCausalLM", {{"attention_bias", true}}, "attention_bias"},
      {"phi3", "Phi3ForCausalLM", {{"partial_rotary_factor", 0.45}}, "partial_rotary_factor"},
      {"phi3", "Phi3ForCausalLM", {{"rope_scaling", longrope}}, "short_factor"},
      {"phi3", "Phi3ForCausalLM", {{"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}}, "rope_type"},
      {"phi3", "Phi3ForCausalLM", {{"lm_head_bias", true}}, "lm_head_bias"},
      {"gemma2", "Gemma2ForCausalLM", {}, "soft caps"},
      {"gpt_oss", "GptOssForCausalLM", {}, "attention sinks"},
      {"lfm2", "Lfm2ForCausalLM", {}, "convolution"},
      {"ministral3", "Ministral3ForCausalLM", {}, "llama_4_scaling_beta"},
  };
  for (const Refused& one : refused) {
    const std::string text = of(one.family, one.architecture, one.keys);
    INFO(text);
    if (&one == &refused[0]) CHECK(refusal(text).empty());
    else CHECK(refusal(text).find(one.about) != std::string::npos);
  }
}

TEST_CASE(
    "config.json: published ones of models with two rotary bases are read, with transformers' number of parameters") {
  struct Published {
    const char* model;
    std::int64_t num_parameters, window, first_full;
    float score_scale;
  };
  const Published all[] = {{"gemma3_1b_it", 999885952, 512, 5, 0},
                           {"gemma3_12b_it", 11766034176, 1024, 5, 0},
                           {"gemma3_27b_it", 27009346304, 1024, 5, static_cast<float>(1 / std::sqrt(168.0))},
                           {"olmo3_7b", 7298011136, 4096, 3, 0}};
  for (const Published& want : all) {
    INFO(want.model);
    const std::string text = qrl::test::read_file(kConfigs / (std::string(want.model) + ".published.json"));
    const ModelConfig config = parse_config(text, want.model);
    CHECK(num_parameters(config) == want.num_parameters);
    CHECK(config.window(0) == want.window);
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      const bool is_full = (layer + 1) % (want.first_full + 1) == 0;
      CHECK(config.slides(layer) != is_full);
      CHECK(config.rope(layer) == (is_full ? RopeKind::common : RopeKind::sliding));
    }
    CHECK(config.score_scale() == want.score_scale);
    CHECK(unknown_config_keys(text, want.model).empty());
    CHECK(parse_config(config_json(config), "x") == config);
  }
}

TEST_CASE("config.json: Gemma 3's windows, rope of each kind of layer and factors are read in all forms") {
  // As published with transformers 4: sizes alone, other values are transformers'.
  const Json published = {{"model_type", "gemma3_text"},
                          {"architectures", {"Gemma3ForCausalLM"}},
                          {"hidden_size", 1152},
                          {"num_attention_heads", 4},
                          {"num_key_value_heads", 1},
                          {"num_hidden_layers", 13},
                          {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                          {"sliding_window", 512},
                          {"attn_logit_softcapping", nullptr},
                          {"cache_implementation", "hybrid"},
                          {"torch_dtype", "bfloat16"}};
  const auto parse = [](const Json& config) { return parse_config(config.dump(), "x"); };
  const ModelConfig config = parse(published);
  CHECK(config.sliding_layers == std::vector<std::int64_t>{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12});
  CHECK(config.window(0) == 512);
  CHECK(config.window(5) == 0);
  CHECK(config.rope(0) == RopeKind::sliding);
  CHECK(config.rope(11) == RopeKind::common);
  CHECK(config.rope_theta == 1e6);
  CHECK(config.sliding_rope_theta == 1e4);
  CHECK(config.rope_scaling == RopeScaling{RopeType::linear, 8});
  CHECK(config.head_dim == 256);
  CHECK(config.score_scale() == 0);
  CHECK(config.embedding_multiplier == 34);  // √1152 = 33.94 in bf16
  CHECK(config.norm_offset == 1);
  CHECK(config.tie_word_embeddings);
  CHECK(config.eos_token_ids == std::vector<types::TokenId>{1});
  CHECK(unknown_config_keys(published.dump(), "x").empty());
  CHECK(parse_config(config_json(config), "x") == config);
  CHECK(unknown_config_keys(config_json(config), "x").empty());

  Json again = published;
  again.erase("rope_scaling");
  again["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  CHECK(parse(again) == config);
  again["torch_dtype"] = "float32";
  CHECK(parse(again).embedding_multiplier == std::sqrt(1152.0F));
  again["query_pre_attn_scalar"] = 168;
  CHECK(parse(again).score_scale() == static_cast<float>(1 / std::sqrt(168.0)));
  CHECK(Json::parse(config_json(parse(again)))["query_pre_attn_scalar"].is_number_integer());
  again["sliding_window_pattern"] = 2;
  CHECK(parse(again).sliding_layers == std::vector<std::int64_t>{0, 2, 4, 6, 8, 10, 12});
  CHECK(parse_config(config_json(parse(again)), "x") == parse(again));
  again["sliding_window"] = 131072;  // the layers keep their rope, though all of a text is inside the window
  CHECK(parse(again).rope(0) == RopeKind::sliding);
  CHECK(parse_config(config_json(parse(again)), "x") == parse(again));

  for (const auto& [key, value] : std::vector<std::pair<std::string, Json>>{
           {"attn_logit_softcapping", 50.0},
           {"final_logit_softcapping", 30.0},
           {"use_bidirectional_attention", true},
           {"hidden_activation", "gelu"},
           {"attention_bias", true},
           {"query_pre_attn_scalar", 0},
           {"rope_local_base_freq", -1},
           {"sliding_window_pattern", 0},
           {"layer_types", {"chunked_attention"}},
           {"torch_dtype", "float16"},
           {"rope_parameters",
            {{"full_attention", {{"rope_theta", 1e6}}},
             {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}}}}}}) {
    Json bad = published;
    bad.erase("rope_scaling");
    bad[key] = value;
    INFO(bad.dump());
    CHECK(refusal(bad.dump()).find(key == "torch_dtype" ? "dtype" : key) != std::string::npos);
  }
}

TEST_CASE("config.json: impossible values are refused by the name of their key") {
  const std::vector<std::string> sizes = {
      "vocab_size",          "hidden_size", "num_hidden_layers", "num_attention_heads",
      "num_key_value_heads", "head_dim",    "intermediate_size", "max_position_embeddings"};
  for (const std::string family : {"qwen3", "qwen2", "llama"}) {
    REQUIRE(refusal(base_config(family).dump()) == "");
    for (const std::string& key : sizes) {
      for (const char* value : {"0", "-1", "2.0", "2e0", "true", "\"2\"", "[2]", "9223372036854775807",
                                "18446744073709551616", "4294967297", "1e30"}) {
        INFO(family << " " << key << " " << value);
        Json config = base_config(family);
        config[key] = Json::parse(value);
        CHECK(refusal(config.dump()).find(key) != std::string::npos);
      }
      Json without = base_config(family);
      without.erase(key);
      Json null = base_config(family);
      null[key] = nullptr;
      const bool optional = key == "head_dim" && family != "qwen3";
      CHECK(refusal(without.dump()).empty() == optional);
      CHECK(refusal(null.dump()).empty() == optional);
    }
  }
  const std::vector<std::pair<std::string, std::vector<std::string>>> others = {
      {"rms_norm_eps", {"0", "-1e-6", "\"1e-6\"", "\"NaN\"", "true", "1e-60", "1", "[1e-6]", "null"}},
      {"rope_theta", {"0", "-1", "\"1e4\"", "true", "1e13", "null", "{}"}},
      {"tie_word_embeddings", {"0", "1", "\"true\"", "null"}},
      {"torch_dtype", {"\"auto\"", "\"float64\"", "\"int8\"", "\"torch.bfloat16\"", "2", "null"}},
      {"model_type", {"\"gpt2\"", "\"Qwen3\"", "\"qwen2_moe\"", "7", "null"}},
      {"architectures",
       {"[]", "\"Qwen3ForCausalLM\"", "[\"Qwen2ForCausalLM\"]", "[\"Qwen3ForSequenceClassification\"]",
        "[\"Qwen3ForCausalLM\",\"Qwen3ForCausalLM\"]"}},
      {"eos_token_id", {"512", "-1", "1.0", "true", "\"2\"", "[2,2]", "[2,512]", "[[2]]", "{}"}},
      {"bos_token_id", {"512", "-2", "1.5", "true", "[1]"}},
      {"pad_token_id", {"512", "4294967296"}},
      {"num_key_value_heads", {"3", "8"}},
      {"head_dim", {"15"}},
      {"hidden_act", {"\"gelu\"", "1"}},
      {"attention_bias", {"1", "\"true\""}},
      {"attention_dropout", {"0.1", "\"0\""}},
      {"mlp_bias", {"true"}},
      {"use_sliding_window", {"1"}},
      {"layer_types",
       {"[\"full_attention\"]", "[\"full_attention\",\"sliding_attention\"]", "\"full_attention\"", "[]"}},
      {"partial_rotary_factor", {"0.5", "\"1\""}},
      {"rope_interleaved", {"true"}},
      {"quantization_config", {"{\"quant_method\":\"awq\"}", "{}"}},
      {"rope_scaling",
       {"{\"type\":\"linear\"}", "{\"type\":\"longrope\",\"short_factor\":[],\"long_factor\":[]}",
        "{\"rope_type\":\"yarn\"}", "{\"rope_type\":\"dynamic\"}", "{\"factor\":2}", "\"linear\"", "[]",
        "{\"rope_type\":null}", "{\"type\":\"yarn\",\"factor\":0.5}", "{\"type\":\"yarn\",\"factor\":\"4\"}",
        "{\"type\":\"yarn\",\"factor\":4,\"low_freq_factor\":1}",
        "{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":1,\"beta_slow\":2}",
        "{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":0}",
        "{\"type\":\"yarn\",\"factor\":4,\"truncate\":1}",
        "{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":1}",
        "{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1}"}},
      {"rope_parameters",
       {"{\"rope_type\":\"default\",\"rope_theta\":1e5}", "{\"rope_type\":\"llama3\",\"rope_theta\":1e6}",
        "{\"full_attention\":{\"rope_theta\":1e6}}", "{\"rope_theta\":\"1e6\"}", "{\"partial_rotary_factor\":0.5}",
        "7"}},
      {"attn_logit_softcapping", {"30.0"}},
      {"num_experts", {"8"}},
      {"auto_map", {"{\"AutoModel\":\"x.py\"}"}},
  };
  for (const auto& [key, values] : others) {
    for (const std::string& value : values) {
      INFO(key << " = " << value);
      Json config = base_config();
      config[key] = Json::parse(value);
      // A theta that differs between its two keys is reported under the first.
      const std::string named = value.find("1e5") != std::string::npos ? "rope_theta" : key;
      CHECK(refusal(config.dump()).find(named) != std::string::npos);
    }
  }
  Json other = base_config();
  other["model_type"] = "gpt_neox";
  CHECK(refusal(other.dump()).ends_with("got \"gpt_neox\""));
  Json uneven = base_config("llama");
  uneven["hidden_size"] = 66;
  CHECK(refusal(uneven.dump()).find("hidden_size") != std::string::npos);
  Json twice = base_config();
  twice["dtype"] = "float32";
  CHECK(refusal(twice.dump()).find("dtype") != std::string::npos);
}

TEST_CASE("config.json: texts that are no config are refused") {
  std::string good = base_config().dump();
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), std::string("null"), "\xef\xbb\xbf" + good, good + "{}",
        good + std::string(1, '\0'), good.substr(0, good.size() - 1), good + ",", "// comment\n" + good,
        std::string(100, '[')}) {
    INFO(text.substr(0, 40));
    CHECK(refusal(text) != "");
  }
  for (const char* number : {"NaN", "Infinity", "-Infinity", "1e400", "0x10", "01", ".5", "+1"}) {
    std::string text = good;
    const std::string theta = "1000000.0";
    text.replace(text.find(theta), theta.size(), number);
    INFO(number);
    CHECK(refusal(text) != "");
  }
  good.insert(1, "\"vocab_size\":512,");
  CHECK(refusal(good).find("twice") != std::string::npos);
}

TEST_CASE("config.json: equivalent forms are read alike") {
  const ModelConfig plain = parse_config(base_config().dump(), "x");
  const auto same = [&](const std::function<void(Json&)>& change) {
    Json config = base_config();
    change(config);
    INFO(config.dump());
    CHECK(parse_config(config.dump(), "x") == plain);
  };
  same([](Json& c) { c["dtype"] = "bfloat16"; });
  same([](Json& c) { c["dtype"] = "bfloat16", c.erase("torch_dtype"); });
  same([](Json& c) { c["torch_dtype"] = "float16"; });  // read exactly, written as bf16
  same([](Json& c) { c["rope_theta"] = 1000000; });
  same([](Json& c) { c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}}; });
  same([](Json& c) { c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}}, c.erase("rope_theta"); });
  same([](Json& c) { c["rope_scaling"] = {{"type", "default"}}; });
  same([](Json& c) { c["rope_scaling"] = nullptr; });
  same([](Json& c) { c["attention_bias"] = false; });
  same([](Json& c) { c["attention_dropout"] = 0.0, c["hidden_act"] = "silu", c["partial_rotary_factor"] = 1.0; });
  same([](Json& c) { c["eos_token_id"] = nullptr, c["bos_token_id"] = nullptr, c["pad_token_id"] = -1; });
  same([](Json& c) { c["eos_token_id"] = Json::array(); });
  same([](Json& c) { c["quantization_config"] = nullptr, c["use_qk_norm"] = false; });
  same([](Json& c) { c.erase("architectures"); });
  same([](Json& c) { c["_name_or_path"] = "x", c["transformers_version"] = "4.51.0"; });
  CHECK(parse_config(Json(base_config()).dump(), "x").eos_token_ids.empty());
}

TEST_CASE("sliding window: layers and length are those of transformers' configurations") {
  // 2 layers, 1024 positions; transformers' max_window_layers is 28 if the key is missing.
  struct Case {
    const char* what;
    Json window, use, first_layer, types;
    std::vector<std::int64_t> qwen;  ///< layers with a window; {-1}: refused
    bool llama_loads;
  };
  const Json full = {"full_attention", "full_attention"}, mixed = {"full_attention", "sliding_attention"};
  const Case cases[] = {
      {"as Qwen2.5 ships it", 131072, false, 28, {}, {}, true},
      {"off and short", 16, false, 0, {}, {}, true},
      {"not switched", 16, {}, 1, {}, {}, false},
      {"not switched, long", 1024, {}, {}, {}, {}, true},
      {"on in the second layer", 16, true, 1, {}, {1}, false},
      {"on from a layer that is not there", 16, true, 2, {}, {}, true},
      {"on from nowhere said", 16, true, {}, {}, {}, false},
      {"on, of no length", {}, true, 0, {}, {-1}, false},
      {"on, as long as all positions", 1024, true, 0, {}, {}, true},
      {"on, one short", 1023, true, 0, {}, {0, 1}, false},
      {"on, not a length", "long", true, 0, {}, {-1}, false},
      {"on, but all layers are full", 16, true, 0, full, {}, true},
      {"no layer slides", 16, {}, {}, full, {}, true},
      {"a layer slides", 16, true, {}, mixed, {1}, false},
      {"a layer slides, but not switched on", 16, {}, {}, mixed, {-1}, false},
      {"a layer slides over all positions", 4096, true, {}, mixed, {}, true},
  };
  for (const Case& one : cases) {
    for (const std::string family : {"qwen2", "qwen3", "llama"}) {
      INFO(one.what << ", " << family);
      Json config = base_config(family);
      config["max_position_embeddings"] = 1024;
      const std::string plain = config.dump();
      config["sliding_window"] = one.window;
      config["use_sliding_window"] = one.use;
      config["max_window_layers"] = one.first_layer;
      config["layer_types"] = one.types;
      const std::string error = refusal(config.dump());
      const bool loads = family == "llama" ? one.llama_loads : one.qwen != std::vector<std::int64_t>{-1};
      CHECK(error.empty() == loads);
      if (!error.empty()) {
        CHECK(error.find("sliding_window") != std::string::npos);
        continue;
      }
      const ModelConfig read = parse_config(config.dump(), "x");
      CHECK(unknown_config_keys(config.dump(), "x").empty());
      CHECK(parse_config(config_json(read), "x") == read);
      if (family == "llama" || one.qwen.empty()) {
        CHECK(read == parse_config(plain, "x"));
      } else {
        CHECK(read.sliding_layers == one.qwen);
        CHECK(read.sliding_window == one.window);
        CHECK(read.window(1) == read.sliding_window);
        CHECK(missing_on_gpu(read).empty());
      }
    }
  }
}

TEST_CASE("attention_bias: on q, k, v and o, but on q, k and v for Qwen2 in any case") {
  for (const std::string family : {"qwen3", "llama"}) {
    INFO(family);
    Json config = base_config(family);
    const ModelConfig plain = parse_config(config.dump(), "x");
    CHECK((!plain.qkv_bias && !plain.o_bias));
    config["attention_bias"] = true;
    const ModelConfig biased = parse_config(config.dump(), "x");
    CHECK((biased.qkv_bias && biased.o_bias));
    const std::int64_t outputs = biased.q_size() + 2 * biased.kv_size() + biased.hidden_size;
    CHECK(num_parameters(biased) == num_parameters(plain) + biased.num_hidden_layers * outputs);
    CHECK(parse_config(config_json(biased), "x") == biased);
  }
  Json qwen2 = base_config("qwen2");
  CHECK((parse_config(qwen2.dump(), "x").qkv_bias && !parse_config(qwen2.dump(), "x").o_bias));
  qwen2["attention_bias"] = false;
  CHECK(refusal(qwen2.dump()).find("attention_bias") != std::string::npos);
}

TEST_CASE("config.json: unknown keys are named, known and null keys are not") {
  Json config = base_config();
  config["a_new_key"] = 1;
  config["another"] = nullptr;
  config["_private"] = 1;
  config["use_cache"] = true;
  CHECK(refusal(config.dump()) == "");
  CHECK(unknown_config_keys(config.dump(), "x") == std::vector<std::string>{"a_new_key"});
  const qrl::test::TempDir dir;
  std::ofstream(dir / "config.json") << config.dump();
  CHECK(describe_config(dir / "config.json").find("\"a_new_key\"") != std::string::npos);
  CHECK(describe_config(dir / "config.json").find("bias") == std::string::npos);
  config["attention_bias"] = true;
  std::ofstream(dir / "config.json") << config.dump();
  CHECK(describe_config(dir / "config.json").find("biases on q, k, v and o") != std::string::npos);
}

TEST_CASE("generation_config.json: gives end tokens") {
  CHECK(parse_generation_eos(R"({"eos_token_id":3})", "g", 10) == std::vector<types::TokenId>{3});
  CHECK(parse_generation_eos(R"({"eos_token_id":[3,9],"top_p":0.8})", "g", 10) == std::vector<types::TokenId>{3, 9});
  CHECK(parse_generation_eos(R"({"eos_token_id":null})", "g", 10) == std::nullopt);
  CHECK(parse_generation_eos("{}", "g", 10) == std::nullopt);
  CHECK_THROWS_AS(parse_generation_eos(R"({"eos_token_id":10})", "g", 10), base::Error);
  CHECK_THROWS_AS(parse_generation_eos("[]", "g", 10), base::Error);
}
