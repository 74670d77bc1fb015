// Owns the enums of keys that accept fixed words, and the rules for names in a recipe. words_of lists an enum's words
// in the order of its values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace qrl::config {

enum class ComputeDType : std::uint8_t { bf16, f32 };
constexpr std::string_view words_of(ComputeDType) { return "bfloat16 | float32"; }
enum class WeightFormat : std::uint8_t { f32, bf16, int8, fp8_e4m3, int4 };
constexpr std::string_view words_of(WeightFormat) { return "fp32 | bf16 | int8 | fp8_e4m3 | int4"; }
/// automatic is the weights' format, or bf16 for int4 weights.
enum class ActivationFormat : std::uint8_t { automatic, bf16, int8, fp8_e4m3 };
constexpr std::string_view words_of(ActivationFormat) { return "auto | bf16 | int8 | fp8_e4m3"; }
enum class Granularity : std::uint8_t { automatic, tensor, channel_token, block128 };  ///< automatic: channel_token
constexpr std::string_view words_of(Granularity) { return "auto | tensor | channel_token | block128"; }
/// automatic is 128.
enum class GroupSize : std::uint8_t { automatic, inputs128, inputs64, inputs32 };
constexpr std::string_view words_of(GroupSize) { return "auto | 128 | 64 | 32"; }
enum class WeightScales : std::uint8_t { automatic, largest, least_squares };  ///< automatic: largest
constexpr std::string_view words_of(WeightScales) { return "auto | largest | least_squares"; }
enum class GapAction : std::uint8_t { stop, warn };
constexpr std::string_view words_of(GapAction) { return "stop | warn"; }
/// automatic is bf16, or fp32 for fp32 weights. int8 applies to the sampler only.
enum class HeadFormat : std::uint8_t { automatic, f32, int8 };
constexpr std::string_view words_of(HeadFormat) { return "auto | fp32 | int8"; }
enum class RotationKind : std::uint8_t { automatic, none, hadamard };  ///< automatic: hadamard where it helps and fits
constexpr std::string_view words_of(RotationKind) { return "auto | none | hadamard"; }
enum class LearnerForward : std::uint8_t { bf16, fake_quant, low_bit };
constexpr std::string_view words_of(LearnerForward) { return "bf16 | fake_quant | low_bit"; }
enum class LearnerBackward : std::uint8_t { model_dtype, int8, fp8_e4m3 };
constexpr std::string_view words_of(LearnerBackward) { return "model_dtype | int8 | fp8_e4m3"; }
enum class KvCache : std::uint8_t { f32, bf16, int8, fp8_e4m3 };
constexpr std::string_view words_of(KvCache) { return "fp32 | bf16 | int8 | fp8_e4m3"; }
enum class CalibrateKv : std::uint8_t { every_update, once };
constexpr std::string_view words_of(CalibrateKv) { return "every_update | once"; }
enum class OverlongPrompt : std::uint8_t { error, filter, truncate };
constexpr std::string_view words_of(OverlongPrompt) { return "error | filter | truncate"; }
enum class LossOn : std::uint8_t { assistant, last, all };
constexpr std::string_view words_of(LossOn) { return "assistant | last | all"; }
enum class LossAggMode : std::uint8_t {
  token_mean,
  token_sum,
  seq_mean_token_sum,
  seq_mean_token_mean,
  seq_mean_token_sum_norm,
};
constexpr std::string_view words_of(LossAggMode) {
  return "token-mean | token-sum | seq-mean-token-sum | seq-mean-token-mean | seq-mean-token-sum-norm";
}
enum class QueryFormat : std::uint8_t { automatic, fp8_e4m3 };
constexpr std::string_view words_of(QueryFormat) { return "auto | fp8_e4m3"; }
enum class LoraSft : std::uint8_t { automatic, full, adapters };  ///< automatic: full for a new model, else adapters
constexpr std::string_view words_of(LoraSft) { return "auto | full | adapters"; }
enum class LoraPublish : std::uint8_t { adapter, merge };
constexpr std::string_view words_of(LoraPublish) { return "adapter | merge"; }
enum class OnExhausted : std::uint8_t { error, train_partial };
constexpr std::string_view words_of(OnExhausted) { return "error | train_partial"; }
enum class RouterReplay : std::uint8_t { none, rollout, old };
constexpr std::string_view words_of(RouterReplay) { return "none | rollout | old"; }
enum class RsLevel : std::uint8_t { none, token, seq_sum, seq_mean, seq_max };
constexpr std::string_view words_of(RsLevel) { return "none | token | seq_sum | seq_mean | seq_max"; }
enum class RsStat : std::uint8_t { k1, k2, k3 };
constexpr std::string_view words_of(RsStat) { return "k1 | k2 | k3"; }
enum class RewardRows : std::uint8_t { sample, group };
constexpr std::string_view words_of(RewardRows) { return "sample | group"; }
enum class RewardAggregation : std::uint8_t { sum_then_normalize, normalize_then_sum };
constexpr std::string_view words_of(RewardAggregation) { return "sum_then_normalize | normalize_then_sum"; }
enum class OnVerifierError : std::uint8_t { drop, wrong };
constexpr std::string_view words_of(OnVerifierError) { return "drop | wrong"; }
/// Says which part of a text is left out.
enum class Truncate : std::uint8_t { middle, left, right };
constexpr std::string_view words_of(Truncate) { return "middle | left | right"; }
enum class EnvironmentStyle : std::uint8_t { chat, continues };
constexpr std::string_view words_of(EnvironmentStyle) { return "chat | continue"; }
enum class ObservationRole : std::uint8_t { tool, user };
constexpr std::string_view words_of(ObservationRole) { return "tool | user"; }
enum class JudgedText : std::uint8_t { last, transcript };
constexpr std::string_view words_of(JudgedText) { return "last | transcript"; }
enum class OptimName : std::uint8_t { adamw, muon };
constexpr std::string_view words_of(OptimName) { return "adamw | muon"; }
enum class LrScheduler : std::uint8_t { constant, linear, cosine };
constexpr std::string_view words_of(LrScheduler) { return "constant | linear | cosine"; }
enum class ResumeMode : std::uint8_t { automatic, never, path };
enum class TrainDevice : std::uint8_t { automatic, cpu, cuda };  ///< automatic: cpu
constexpr std::string_view words_of(TrainDevice) { return "auto | cpu | cuda"; }
enum class RolloutDevice : std::uint8_t { automatic, cpu, cuda };  ///< automatic: the learner's device
constexpr std::string_view words_of(RolloutDevice) { return "auto | cpu | cuda"; }

/// Lists data.chat_template's words: auto, plain, then the embedded files of data/templates.
inline constexpr std::array<const char*, 7> kChatTemplateNames = {"auto",  "plain",  "chatml",  "qwen2.5",
                                                                  "qwen3", "llama3", "llama3.1"};

std::vector<std::string_view> split(std::string_view text, std::string_view separator);

/// Accepts 1 to 64 letters, digits and . _ - @ +.
bool is_score_name(std::string_view name);
/// Accepts nonempty text without control characters.
bool is_source_name(std::string_view name);

}  // namespace qrl::config
