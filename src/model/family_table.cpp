#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "model/config.h"
#include "model/families.h"

namespace qrl::model {

namespace {

constexpr NumberKey kMultipliers[] = {
    {"embedding_multiplier", &ModelConfig::embedding_multiplier, 1, "embedding_scale"},
    {"attention_multiplier", &ModelConfig::attention_multiplier, 1, "attention.scale"},
    {"residual_multiplier", &ModelConfig::residual_multiplier, 1, "residual_scale"},
    {"logits_scaling", &ModelConfig::logits_scaling, 1, "logit_scale"}};

constexpr std::string_view kExpertKeys[] = {
    "decoder_sparse_step", "mlp_only_layers",      "moe_intermediate_size", "n_shared_experts",
    "norm_topk_prob",      "num_experts",          "num_experts_per_tok",   "num_local_experts",
    "num_shared_experts",  "output_router_logits", "router_aux_loss_coef",  "shared_expert_intermediate_size"};
constexpr std::string_view kRopeLayerKeys[] = {"no_rope_layers", "no_rope_layer_interval"};
/// auto_map names code that transformers has too; it is never run.
constexpr std::string_view kPhi3Keys[] = {"auto_map", "original_max_position_embeddings"};

constexpr std::string_view kNoMlpBias[] = {"mlp_bias"};

constexpr NumberKey kScoreScalar[] = {
    {"query_pre_attn_scalar", &ModelConfig::query_pre_attn_scalar, 256, nullptr, /*whole=*/true}};
constexpr std::string_view kGemma3Keys[] = {"hidden_activation", "rope_local_base_freq", "sliding_window_pattern"};
constexpr const char* kGemma3Missing = R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
    "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": true, "sliding_window": 4096, "rope_theta": 1000000, "rope_local_base_freq": 10000,
    "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0})";

/// output_gate_type: of the norm in DeltaNet layers. mtp_…: of layers that predict several tokens, which are not read.
constexpr std::string_view kDeltaKeys[] = {
    "attn_output_gate",     "full_attention_interval", "linear_conv_kernel_dim", "linear_key_head_dim",
    "linear_num_key_heads", "linear_num_value_heads",  "linear_value_head_dim",  "mamba_ssm_dtype",
    "mlp_only_layers",      "mtp_num_hidden_layers",   "output_gate_type",       "mtp_use_dedicated_embeddings"};
constexpr const char* kDeltaMissing = R"({"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "rope_theta": 10000,
    "partial_rotary_factor": 0.25, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32})";

/// The only place that names a family. A row lists what differs from a Llama with biases by attention_bias.
constexpr std::array kFamilies = {
    FamilySpec{.family = Family::qwen3,
               .model_type = "qwen3",
               .architecture = "Qwen3ForCausalLM",
               .window = WindowRule::switched,
               .windows = true,
               .needs_head_dim = true,
               .qk_norm = QkNorm::heads,
               .gguf = "qwen3"},
    FamilySpec{.family = Family::qwen2,
               .model_type = "qwen2",
               .architecture = "Qwen2ForCausalLM",
               .bias = AttentionBias::always,
               .window = WindowRule::switched,
               .windows = true,
               .gguf = "qwen2"},
    FamilySpec{.family = Family::llama,
               .model_type = "llama",
               .architecture = "LlamaForCausalLM",
               .splits_width = true,
               .gguf = "llama",
               .gguf_permutes = true,
               .false_keys = kNoMlpBias},
    FamilySpec{.family = Family::qwen3_moe,
               .model_type = "qwen3_moe",
               .architecture = "Qwen3MoeForCausalLM",
               .window = WindowRule::switched,
               .windows = true,
               .needs_head_dim = true,
               .qk_norm = QkNorm::heads,
               .experts = true,
               .keys = kExpertKeys},
    FamilySpec{.family = Family::mistral,
               .model_type = "mistral",
               .architecture = "MistralForCausalLM",
               .bias = AttentionBias::none,
               .window = WindowRule::assumed,
               .windows = true,
               .gguf = "llama",  // such files are read as models of the row above
               .gguf_permutes = true},
    FamilySpec{.family = Family::granite,
               .model_type = "granite",
               .architecture = "GraniteForCausalLM",
               .gguf = "granite",
               .gguf_permutes = true,
               .numbers = kMultipliers,
               .false_keys = kNoMlpBias},
    FamilySpec{.family = Family::smollm3,
               .model_type = "smollm3",
               .architecture = "SmolLM3ForCausalLM",
               .window = WindowRule::switched,
               .layers_without_rope = true,
               .ties_if_absent = true,
               .gguf = "smollm3",
               .gguf_permutes = true,
               .keys = kRopeLayerKeys,
               .false_keys = kNoMlpBias},
    FamilySpec{.family = Family::olmo2,
               .model_type = "olmo2",
               .architecture = "Olmo2ForCausalLM",
               .bias = AttentionBias::none,
               .qk_norm = QkNorm::whole,
               .norms = NormPlace::after},
    FamilySpec{.family = Family::phi3,
               .model_type = "phi3",
               .architecture = "Phi3ForCausalLM",
               .bias = AttentionBias::none,
               .windows = true,
               .fused_projections = true,
               .partial_rotary = true,
               .longrope = true,
               .keys = kPhi3Keys},
    FamilySpec{.family = Family::gemma3,
               .model_type = "gemma3_text",
               .architecture = "Gemma3ForCausalLM",
               .bias = AttentionBias::none,
               .window = WindowRule::pattern,
               .windows = true,
               .splits_width = true,
               .qk_norm = QkNorm::heads,
               .norms = NormPlace::both,
               .norm_offset = 1,
               .gate = base::Gate::gelu_tanh,
               .scales_embedding = true,
               .window_pattern = 6,
               .sliding_theta = "rope_local_base_freq",
               .wrapper = "gemma3",
               .gguf = "gemma3",
               .missing_keys = kGemma3Missing,
               .numbers = kScoreScalar,
               .keys = kGemma3Keys},
    FamilySpec{.family = Family::olmo3,
               .model_type = "olmo3",
               .architecture = "Olmo3ForCausalLM",
               .bias = AttentionBias::none,
               .window = WindowRule::pattern,
               .windows = true,
               .qk_norm = QkNorm::whole,
               .norms = NormPlace::after,
               .window_pattern = 4,
               .sliding_theta = "rope_theta",
               .missing_keys = R"({"sliding_window": 4096})"},
    FamilySpec{.family = Family::qwen3_5,
               .model_type = "qwen3_5_text",
               .architecture = "Qwen3_5ForCausalLM",
               .needs_head_dim = true,
               .qk_norm = QkNorm::heads,
               .norm_offset = 1,
               .partial_rotary = true,
               .delta_layers = true,
               .wrapper = "qwen3_5",
               .missing_keys = kDeltaMissing,
               .keys = kDeltaKeys},
};

static_assert(
    [] {
      for (std::size_t i = 0; i < kFamilies.size(); ++i) {
        if (static_cast<std::size_t>(kFamilies[i].family) != i) return false;
      }
      return true;
    }(),
    "rows in the order of the enumeration");

struct MissingPart {
  std::string_view model_type, what;
};
constexpr MissingPart kMissingParts[] = {
    {"gemma2", "soft caps of scores and logits, and windows of single layers"},
    {"gpt_oss", "attention sinks, windows of single layers, and experts with biases in MXFP4"},
    {"lfm2", "convolution layers"},
    {"ministral", "windows of single layers"},
    {"ministral3", "queries scaled by position (llama_4_scaling_beta)"},
    {"qwen3_5_moe", "experts with a shared expert"},
    {"qwen3_5_moe_text", "experts with a shared expert"},
    {"qwen3_next", "experts with a shared expert, and fused projections of its delta rule"},
};

}  // namespace

bool FamilySpec::has_key(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end() ||
         std::ranges::any_of(numbers, [&](const NumberKey& number) { return key == number.key; });
}

const FamilySpec& spec_of(Family family) { return kFamilies.at(static_cast<std::size_t>(family)); }

namespace {

const FamilySpec* find_by(const char* FamilySpec::*name, std::string_view word) {
  const auto* found = std::ranges::find_if(
      kFamilies, [&](const FamilySpec& spec) { return spec.*name != nullptr && word == spec.*name; });
  return found == kFamilies.end() ? nullptr : found;
}

}  // namespace

const FamilySpec* find_family(std::string_view model_type) { return find_by(&FamilySpec::model_type, model_type); }
const FamilySpec* find_wrapped_family(std::string_view model_type) { return find_by(&FamilySpec::wrapper, model_type); }
const FamilySpec* find_gguf_family(std::string_view architecture) { return find_by(&FamilySpec::gguf, architecture); }

std::string family_words() {
  std::string words;
  for (const FamilySpec& spec : kFamilies) {
    if (!words.empty()) words += &spec == &kFamilies.back() ? " or " : ", ";
    words += base::quoted(spec.model_type);
  }
  return words;
}

std::string_view missing_part(std::string_view model_type) {
  const auto* found = std::ranges::find(kMissingParts, model_type, &MissingPart::model_type);
  return found == std::end(kMissingParts) ? std::string_view() : found->what;
}

}  // namespace qrl::model
