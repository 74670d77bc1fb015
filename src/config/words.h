// Owns the words of keys that have a fixed list, as enums, and which texts may be names in a recipe. Holds no recipe,
// so that every part can include it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace qrl::config {

enum class ComputeDType : std::uint8_t { bf16, f32 };
enum class WeightFormat : std::uint8_t { f32, bf16, int8, fp8_e4m3, int4 };
enum class ActivationFormat : std::uint8_t { automatic, bf16, int8, fp8_e4m3 };        ///< automatic: as the weights
enum class Granularity : std::uint8_t { automatic, tensor, channel_token, block128 };  ///< automatic: as the weights
enum class GapAction : std::uint8_t { stop, warn };
/// automatic: bf16, or fp32 for fp32 weights; int8 is the sampler's alone.
enum class HeadFormat : std::uint8_t { automatic, f32, int8 };
enum class RotationKind : std::uint8_t { automatic, none, hadamard };  ///< automatic: where it helps and fits
enum class LearnerForward : std::uint8_t { bf16, fake_quant, low_bit };
enum class LearnerBackward : std::uint8_t { model_dtype, int8, fp8_e4m3 };
enum class KvCache : std::uint8_t { automatic, f32, bf16, int8, fp8_e4m3 };  ///< automatic: same as the weights
enum class CalibrateKv : std::uint8_t { every_update, once };
enum class OverlongPrompt : std::uint8_t { error, filter, truncate };
enum class LossOn : std::uint8_t { assistant, last, all };
enum class LossAggMode : std::uint8_t {
  token_mean,
  token_sum,
  seq_mean_token_sum,
  seq_mean_token_mean,
  seq_mean_token_sum_norm,
};
enum class QueryFormat : std::uint8_t { automatic, fp8_e4m3 };
enum class LoraSft : std::uint8_t { automatic, full, adapters };  ///< automatic: full for a new model
enum class LoraPublish : std::uint8_t { adapter, merge };
enum class OnExhausted : std::uint8_t { error, train_partial };
enum class RouterReplay : std::uint8_t { none, rollout, old };
enum class RsLevel : std::uint8_t { none, token, seq_sum, seq_mean, seq_max };
enum class RsStat : std::uint8_t { k1, k2, k3 };
enum class RewardRows : std::uint8_t { sample, group };
enum class RewardAggregation : std::uint8_t { sum_then_normalize, normalize_then_sum };
enum class OnVerifierError : std::uint8_t { drop, wrong };
enum class OptimName : std::uint8_t { adamw, muon };
enum class LrScheduler : std::uint8_t { constant, linear, cosine };
enum class ResumeMode : std::uint8_t { automatic, never, path };
enum class TrainDevice : std::uint8_t { automatic, cpu, cuda };    ///< automatic: cpu
enum class RolloutDevice : std::uint8_t { automatic, cpu, cuda };  ///< automatic: the learner's device

/// Lists data.chat_template's words: auto, plain, then the embedded files of data/templates.
inline constexpr std::array<const char*, 7> kChatTemplateNames = {"auto",  "plain",  "chatml",  "qwen2.5",
                                                                  "qwen3", "llama3", "llama3.1"};

/// Returns whether a score's name is valid: 1 to 64 letters, digits and . _ - @ +.
bool is_score_name(std::string_view name);
/// Returns whether a data source's name is valid: nonempty text without control characters ("openai/gsm8k").
bool is_source_name(std::string_view name);

}  // namespace qrl::config
