// Owns a recipe's values. A member's initializer is its key's default. The files *keys.cpp declare the names, ranges
// and meanings of keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/auto_value.h"
#include "config/option.h"
#include "data/bridge.h"
#include "data/chat_template.h"
#include "data/row.h"
#include "decoder/options.h"
#include "learner/options.h"
#include "model/adapter.h"
#include "rollout/conversations.h"
#include "rollout/rollout.h"
#include "tasks/environment/environment.h"
#include "tasks/verifier.h"

namespace qrl::learner {
struct PolicyLoss;
struct Correction;
struct KlEstimator;
}  // namespace qrl::learner
namespace qrl::rollout {
struct AdvantageEstimator;
}
namespace qrl::tasks {
struct Generator;
struct VerifierChoice;
}  // namespace qrl::tasks

namespace qrl::train {

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
enum class KvCache : std::uint8_t { f32, bf16, int8, fp8_e4m3 };
constexpr std::string_view words_of(KvCache) { return "fp32 | bf16 | int8 | fp8_e4m3"; }
enum class CalibrateKv : std::uint8_t { every_update, once };
constexpr std::string_view words_of(CalibrateKv) { return "every_update | once"; }
enum class OverlongPrompt : std::uint8_t { error, filter, truncate };
constexpr std::string_view words_of(OverlongPrompt) { return "error | filter | truncate"; }
enum class LossOn : std::uint8_t { assistant, last, all };
constexpr std::string_view words_of(LossOn) { return "assistant | last | all"; }
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
enum class RewardAggregation : std::uint8_t { sum_then_normalize, normalize_then_sum };
constexpr std::string_view words_of(RewardAggregation) { return "sum_then_normalize | normalize_then_sum"; }
enum class ResumeMode : std::uint8_t { automatic, never, path };
enum class TrainDevice : std::uint8_t { automatic, cpu, cuda };  ///< automatic: cpu
constexpr std::string_view words_of(TrainDevice) { return "auto | cpu | cuda"; }
enum class RolloutDevice : std::uint8_t { automatic, cpu, cuda };  ///< automatic: the learner's device
constexpr std::string_view words_of(RolloutDevice) { return "auto | cpu | cuda"; }

/// Seeds held-out generators independently of trainer.seed, so that runs are comparable.
inline constexpr std::uint64_t kHeldOutSeed = 0;

struct GeneratorRecipe {
  config::Selected<tasks::Generator> task;  ///< empty: no generator
  std::int64_t size = 0;                    ///< number of prompts; demonstrations are endless and do not use it
  std::optional<std::uint64_t> seed;
  config::ParamValues own;  ///< the generators' params, by name in the section
};

struct ModelRecipe {
  std::string path, init_config;  ///< set one of the two
  learner::ComputeDType dtype = learner::ComputeDType::bf16;
  std::optional<std::uint64_t> init_seed;
};

struct DataRecipe : data::FieldNames, data::TemplateOptions {
  std::vector<std::string> train_files, val_files;
  std::vector<double> train_weights;  ///< weights of train files; empty: each row once an epoch
  std::vector<std::string> filter, val_filter;
  std::optional<std::int64_t> train_max_samples, val_max_samples;
  GeneratorRecipe train_generator, val_generator;
  std::int64_t train_batch_size = 64;
  std::optional<std::int64_t> gen_batch_size;
  std::int64_t max_prompt_length = 64, max_response_length = 64;  ///< tokens
  OverlongPrompt overlong_prompt = OverlongPrompt::error;
  bool shuffle = true, parse_special_tokens = false;
  std::optional<std::uint64_t> seed;
  std::string prompt_template = "{prompt}";
};

/// Limits how many tokens rollout.top_p and top_k keep at a position. Completions list the kept tokens of each sampled
/// token.
inline constexpr std::int64_t kMaxKeptTokens = 256;

/// Configures sampling. The run sets those members of DecoderOptions that decoder/keys.h does not list.
struct RolloutRecipe : decoder::DecoderOptions {
  RolloutDevice device = RolloutDevice::automatic;
  std::int64_t n = 8;
  double temperature = 1.0, top_p = 1.0;
  std::int64_t top_k = -1;
  bool free_cache_engine = false;
  config::AutoValue<bool> bitwise = config::AutoValue<bool>::automatic(false);
  std::vector<std::string> stop;
};

struct GainNoiseRecipe {
  double start = 0, end = 1e-4;  ///< start is 0: no noise
  std::int64_t stages = 10;
};

struct QuantRecipe {
  WeightFormat weights = WeightFormat::int8;
  ActivationFormat activations = ActivationFormat::automatic;
  Granularity granularity = Granularity::automatic;
  GroupSize group_size = GroupSize::automatic;
  WeightScales scales = WeightScales::automatic;
  RotationKind rotation = RotationKind::automatic;
  std::int64_t rotation_block = 64;
  std::vector<std::string> ignore;
  HeadFormat lm_head = HeadFormat::automatic;
  GainNoiseRecipe noise;
  std::string profile;  ///< "": none; "auto"; or a file
  config::AutoValue<KvCache> kv_cache = config::AutoValue<KvCache>::automatic(KvCache::bf16);
  QueryFormat queries = QueryFormat::automatic;
  learner::Numerics learner;
  CalibrateKv kv_when = CalibrateKv::every_update;
  double kv_percentile = 99.9, kv_margin = 2;
  double uaq_scale = 1;
};

struct AlgorithmRecipe : learner::AlgorithmOptions {
  config::Selected<learner::PolicyLoss> name;
  config::Selected<rollout::AdvantageEstimator> adv_estimator;
  std::optional<bool> norm_adv_by_std;  ///< null: the loss's default (config::Option::defaults)
  bool positive_only = false;
  double reward_coef = 1;
  struct {
    std::string path;  ///< "": no teacher
    WeightFormat weights = WeightFormat::bf16;
    double coef = 1;
  } teacher;
  config::Selected<learner::KlEstimator> kl_loss_type;
  bool mask_truncated = false;
  RouterReplay router_replay = RouterReplay::none;
  struct {
    bool enable = false;
    std::string metric = "score";  ///< score, acc, or the name of one of the verifier's scores
    std::int64_t max_num_gen_batches = 10;
    OnExhausted on_exhausted = OnExhausted::error;
  } filter_groups;
};

struct CorrectionRecipe : learner::CorrectionOptions {
  config::Selected<learner::Correction> method;
  std::optional<double> gap_limit;
  GapAction gap_action = GapAction::stop;
};

struct SftRecipe {
  std::string from;                    ///< "": this run makes its own cold start
  std::int64_t steps = 0, epochs = 0;  ///< optimizer updates, or passes over train_files; 0: none
  std::int64_t batch_size = 256, save_freq = 200;
  learner::OptimizerOptions optim{.lr = 1e-5};  ///< keys sft.lr, sft.lr_warmup_steps, …; without a ratio
  GeneratorRecipe demonstrations;
  std::vector<std::string> train_files, val_files;  ///< conversations, instead of demonstrations
  std::optional<std::int64_t> max_length;
  OverlongPrompt overlong = OverlongPrompt::error;
  bool shuffle = true;
  LossOn loss_on = LossOn::assistant;
};

struct LoraRecipe : model::LoraConfig {
  std::string path;
  LoraSft sft = LoraSft::automatic;
  LoraPublish publish = LoraPublish::adapter;
};

struct RewardRecipe : tasks::RuleWeights, tasks::CommandOptions {
  config::Selected<tasks::VerifierChoice> verifier;
  std::map<std::string, config::Selected<tasks::VerifierChoice>> by_source;
  rollout::OverlongBuffer overlong_buffer;
  RewardAggregation aggregation = RewardAggregation::sum_then_normalize;
};

struct EnvironmentRecipe : tasks::EnvironmentOptions, data::ObservationLimit, rollout::TurnOptions {};

struct ActorRecipe : learner::MemoryOptions {
  std::optional<std::int64_t> mini_batch_size;  ///< prompts per update; null: data.train_batch_size
  std::int64_t ppo_epochs = 1;
  config::AutoValue<std::int64_t> max_tokens_per_micro_batch = config::AutoValue<std::int64_t>::automatic(4096);
};

struct EvalRecipe {
  std::int64_t freq = 10;  ///< steps; 0: never
  bool before_train = true;
  std::int64_t n = 8;
  double temperature = 1.0, top_p = 1.0;
  std::int64_t top_k = -1, dump = 16;
  std::optional<std::vector<std::string>> stop;  ///< default: rollout.stop
};

struct ResumeFrom {
  ResumeMode mode = ResumeMode::automatic;
  std::string path = {};  ///< checkpoint for ResumeMode::path
  friend bool operator==(const ResumeFrom&, const ResumeFrom&) = default;
};

struct TrainerRecipe {
  TrainDevice device = TrainDevice::automatic;
  std::int64_t threads = 0;     ///< 0: auto (processors / ranks on this machine)
  std::int64_t zero_stage = 0;  ///< 1: ranks shard master weights and moments, and share the run folder
  std::int64_t total_training_steps = 100, total_epochs = 0;  ///< total_epochs 0: total_training_steps applies
  std::int64_t save_freq = 20, max_ckpt_to_keep = 3;
  std::string keep_best;           ///< "": none
  std::optional<double> max_time;  ///< seconds
  ResumeFrom resume_from;
  std::string default_local_dir;
  bool rollout_dump = true, tensorboard = true, wandb = false;
  std::uint64_t seed = 0;
  std::int64_t collective_timeout_s = 1800;  ///< must exceed the lag of a step's slowest rank
  std::int64_t max_non_finite_steps = 3;
};

class Keys;

struct Recipe {
  const Keys* keys = nullptr;  ///< keys that the recipe was read with; must outlive it
  config::Selected<config::Option> mode;
  ModelRecipe model;
  DataRecipe data;
  RolloutRecipe rollout;
  QuantRecipe quant;
  AlgorithmRecipe algorithm;
  CorrectionRecipe rollout_correction;
  SftRecipe sft;
  LoraRecipe lora;
  RewardRecipe reward;
  EnvironmentRecipe environment;
  ActorRecipe actor;
  learner::OptimizerOptions optim;
  EvalRecipe eval;
  TrainerRecipe trainer;
  config::ParamValues own;
};

bool operator==(const Recipe& one, const Recipe& other);
/// Returns the canonical YAML of a key's value.
std::string printed_value(const Recipe& recipe, std::string_view key);

/// Returns actor.mini_batch_size, which is data.train_batch_size unless the recipe sets it.
inline std::int64_t prompts_per_update(const Recipe& recipe) {
  return recipe.actor.mini_batch_size.value_or(recipe.data.train_batch_size);
}
/// Returns whether a run begins with a cold start. With sft.epochs, its number of updates depends on the rows.
inline bool has_cold_start(const SftRecipe& sft) { return sft.steps > 0 || sft.epochs > 0; }
inline bool has_environment(const Recipe& recipe) { return !recipe.environment.argv.empty(); }
inline bool trains_adapters(const Recipe& recipe) { return recipe.lora.rank > 0; }
/// Returns whether the cold start trains adapters. If not, it trains all weights, before adapters exist.
inline bool cold_start_trains_adapters(const Recipe& recipe) {
  const bool automatic = recipe.lora.sft == LoraSft::automatic && !recipe.model.path.empty();
  return trains_adapters(recipe) && (automatic || recipe.lora.sft == LoraSft::adapters);
}
inline bool learns_on_gpu(const Recipe& recipe) { return recipe.trainer.device == TrainDevice::cuda; }
inline bool samples_on_gpu(const Recipe& recipe) {
  const RolloutDevice device = recipe.rollout.device;
  return device == RolloutDevice::cuda || (device == RolloutDevice::automatic && learns_on_gpu(recipe));
}

}  // namespace qrl::train
