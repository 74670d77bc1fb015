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
#include "config/words.h"

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
  config::ComputeDType dtype = config::ComputeDType::bf16;
  std::optional<std::uint64_t> init_seed;
};

struct DataRecipe {
  std::vector<std::string> train_files, val_files;
  std::vector<double> train_weights;                          ///< weights of train files; empty: each row once an epoch
  std::string prompt_key, ground_truth_key, data_source_key;  ///< "": the usual names
  std::vector<std::string> filter, val_filter;
  std::optional<std::int64_t> train_max_samples, val_max_samples;
  GeneratorRecipe train_generator, val_generator;
  std::int64_t train_batch_size = 64;
  std::optional<std::int64_t> gen_batch_size;
  std::int64_t max_prompt_length = 64, max_response_length = 64;  ///< tokens
  config::OverlongPrompt overlong_prompt = config::OverlongPrompt::error;
  bool shuffle = true, parse_special_tokens = false;
  std::optional<std::uint64_t> seed;
  std::string prompt_template = "{prompt}";
  std::string chat_template = config::kChatTemplateNames[0];  ///< one of config::kChatTemplateNames, or a file
  std::string system_prompt;                                  ///< "": the template's own, if any
  std::optional<bool> enable_thinking;                        ///< unset: the template's own choice
};

/// Limits how many tokens rollout.top_p and top_k keep at a position. Completions list the kept tokens of each sampled
/// token.
inline constexpr std::int64_t kMaxKeptTokens = 256;

struct RolloutRecipe {
  config::RolloutDevice device = config::RolloutDevice::automatic;
  std::int64_t n = 8;
  double temperature = 1.0, top_p = 1.0;
  std::int64_t top_k = -1;
  config::AutoValue<std::int64_t> max_num_seqs = config::AutoValue<std::int64_t>::automatic(256);
  std::int64_t max_num_batched_tokens = 2048, page_size = 16;  ///< tokens
  std::optional<std::int64_t> kv_pages;
  std::optional<double> gpu_memory_utilization;
  bool prefix_sharing = true, free_cache_engine = false, enforce_eager = false;
  config::AutoValue<bool> bitwise = config::AutoValue<bool>::automatic(false);
  std::vector<std::string> stop;
};

struct GainNoiseRecipe {
  double start = 0, end = 1e-4;  ///< start is 0: no noise
  std::int64_t stages = 10;
};

struct QuantRecipe {
  config::WeightFormat weights = config::WeightFormat::int8;
  config::ActivationFormat activations = config::ActivationFormat::automatic;
  config::Granularity granularity = config::Granularity::automatic;
  config::GroupSize group_size = config::GroupSize::automatic;
  config::WeightScales scales = config::WeightScales::automatic;
  config::RotationKind rotation = config::RotationKind::automatic;
  std::int64_t rotation_block = 64;
  std::vector<std::string> ignore;
  config::HeadFormat lm_head = config::HeadFormat::automatic;
  GainNoiseRecipe noise;
  std::string profile;  ///< "": none; "auto"; or a file
  config::AutoValue<config::KvCache> kv_cache = config::AutoValue<config::KvCache>::automatic(config::KvCache::bf16);
  config::QueryFormat queries = config::QueryFormat::automatic;
  config::AutoValue<config::LearnerForward> learner_forward =
      config::AutoValue<config::LearnerForward>::automatic(config::LearnerForward::bf16);
  config::LearnerBackward learner_backward = config::LearnerBackward::model_dtype;
  config::CalibrateKv kv_when = config::CalibrateKv::every_update;
  double kv_percentile = 99.9, kv_margin = 2;
  double uaq_scale = 1;
};

/// Configures the loss (algorithm). In an optional member, null means the loss's default (config::Option::defaults).
struct AlgorithmRecipe {
  config::Selected<learner::PolicyLoss> name;
  std::optional<double> clip_ratio_low, clip_ratio_high, clip_ratio_c;  ///< clip_ratio_c is 0: no dual clip
  std::optional<config::LossAggMode> loss_agg_mode;
  config::Selected<rollout::AdvantageEstimator> adv_estimator;
  std::optional<bool> norm_adv_by_std;
  bool positive_only = false;
  double reward_coef = 1;
  struct {
    std::string path;  ///< "": no teacher
    config::WeightFormat weights = config::WeightFormat::bf16;
    double coef = 1;
  } teacher;
  std::optional<double> off_policy_mask_threshold;
  double top_entropy_quantile = 1;
  struct {
    double ratio = 0, low = 1, high = 5;
  } clip_cov;
  double kl_loss_coef = 0, entropy_coef = 0;
  config::Selected<learner::KlEstimator> kl_loss_type;
  bool mask_truncated = false;
  config::RouterReplay router_replay = config::RouterReplay::none;
  bool bound_moved_only = false;
  struct {
    bool enable = false;
    std::string metric = "score";  ///< score, acc, or the name of one of the verifier's scores
    std::int64_t max_num_gen_batches = 10;
    config::OnExhausted on_exhausted = config::OnExhausted::error;
  } filter_groups;
};

struct CorrectionRecipe {
  config::Selected<learner::Correction> method;
  std::optional<double> threshold, threshold_low;  ///< null: the method's default (config::Option::defaults)
  config::RsLevel rs = config::RsLevel::none;
  config::RsStat rs_stat = config::RsStat::k1;
  std::optional<double> rs_threshold, rs_threshold_low, token_veto_threshold;
  bool batch_normalize = false, behaviour_in_ratio = false;
  std::optional<double> gap_limit;
  config::GapAction gap_action = config::GapAction::stop;
};

struct OptimRecipe {
  config::OptimName name = config::OptimName::adamw;
  double lr = 1e-6, eps = 1e-8, weight_decay = 0.1;
  std::vector<double> betas = {0.9, 0.999};
  std::int64_t lr_warmup_steps = 10;           ///< optimizer updates
  std::optional<double> lr_warmup_ratio = {};  ///< share of the run's updates, instead of lr_warmup_steps; not for sft
  config::LrScheduler lr_scheduler = config::LrScheduler::constant;
  double grad_clip = 1.0;  ///< 0: off
  struct {
    double momentum = 0.95;
    bool nesterov = true;
    std::int64_t ns_steps = 5;
    bool match_adamw_rms = true;
  } muon = {};
};

struct SftRecipe {
  std::string from;                    ///< "": this run makes its own cold start
  std::int64_t steps = 0, epochs = 0;  ///< optimizer updates, or passes over train_files; 0: none
  std::int64_t batch_size = 256, save_freq = 200;
  OptimRecipe optim{.lr = 1e-5};  ///< keys sft.lr, sft.lr_warmup_steps, …
  GeneratorRecipe demonstrations;
  std::vector<std::string> train_files, val_files;  ///< conversations, instead of demonstrations
  std::optional<std::int64_t> max_length;
  config::OverlongPrompt overlong = config::OverlongPrompt::error;
  bool shuffle = true;
  config::LossOn loss_on = config::LossOn::assistant;
};

struct LoraRecipe {
  std::int64_t rank = 0;  ///< 0: all weights are trained
  double alpha = 32;
  bool rslora = false, train_norms = false;
  std::vector<std::string> target_modules;  ///< empty: all-linear
  std::string path;
  config::LoraSft sft = config::LoraSft::automatic;
  config::LoraPublish publish = config::LoraPublish::adapter;
};

struct RewardRecipe {
  config::Selected<tasks::VerifierChoice> verifier;
  std::map<std::string, config::Selected<tasks::VerifierChoice>> by_source;
  double correct = 1, wrong = 0, format = 0, partial = 0;
  double max_error_fraction = 0.05;
  struct {
    bool enable = false;
    std::int64_t len = 0;  ///< tokens
    double penalty_factor = 1;
  } overlong_buffer;
  config::RewardAggregation aggregation = config::RewardAggregation::sum_then_normalize;
  std::vector<std::string> command, env;
  std::string folder;                             ///< absolute path; default: folder of the recipe that sets `command`
  config::Selected<tasks::VerifierChoice> after;  ///< empty: none
  std::int64_t workers = 0;                       ///< processes per rank; 0: auto
  double timeout_s = 10, start_timeout_s = 60;
  std::optional<std::int64_t> memory_mb;
  std::int64_t in_flight = 1;
  std::optional<config::RewardRows> rows;  ///< null: the command's own choice
  std::map<std::string, double> weights;   ///< weights of the command's scores; they replace its defaults
  double correct_at = 1;
  config::OnVerifierError on_error = config::OnVerifierError::drop;
};

struct EnvironmentRecipe {
  std::vector<std::string> command, env;  ///< command is empty: no environment
  std::string folder;                     ///< absolute path; default: folder of the recipe that sets `command`
  config::EnvironmentStyle style = config::EnvironmentStyle::chat;
  config::ObservationRole role = config::ObservationRole::tool;
  std::int64_t max_turns = 8;
  std::optional<std::int64_t> max_turn_tokens;
  std::int64_t max_observation_tokens = 512;
  config::Truncate truncate = config::Truncate::middle;
  double timeout_s = 60, setup_timeout_s = 300;
  std::int64_t workers = 0;  ///< processes per rank; 0: auto
  std::int64_t sessions = 16;
  std::optional<std::int64_t> memory_mb;
  config::JudgedText judge = config::JudgedText::last;
  config::OnVerifierError on_error = config::OnVerifierError::drop;
};

struct ActorRecipe {
  std::optional<std::int64_t> mini_batch_size;  ///< prompts per update; null: data.train_batch_size
  std::int64_t ppo_epochs = 1;
  config::AutoValue<std::int64_t> max_tokens_per_micro_batch = config::AutoValue<std::int64_t>::automatic(4096);
  config::AutoValue<std::int64_t> logprob_chunk_tokens = config::AutoValue<std::int64_t>::automatic(1024);
  config::AutoValue<bool> activation_checkpointing = config::AutoValue<bool>::automatic(false);
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
  config::ResumeMode mode = config::ResumeMode::automatic;
  std::string path = {};  ///< checkpoint for config::ResumeMode::path
  friend bool operator==(const ResumeFrom&, const ResumeFrom&) = default;
};

struct TrainerRecipe {
  config::TrainDevice device = config::TrainDevice::automatic;
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
  OptimRecipe optim;
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
inline bool has_environment(const Recipe& recipe) { return !recipe.environment.command.empty(); }
inline bool trains_adapters(const Recipe& recipe) { return recipe.lora.rank > 0; }
/// Returns whether the cold start trains adapters. If not, it trains all weights, before adapters exist.
inline bool cold_start_trains_adapters(const Recipe& recipe) {
  const bool automatic = recipe.lora.sft == config::LoraSft::automatic && !recipe.model.path.empty();
  return trains_adapters(recipe) && (automatic || recipe.lora.sft == config::LoraSft::adapters);
}
inline bool learns_on_gpu(const Recipe& recipe) { return recipe.trainer.device == config::TrainDevice::cuda; }
inline bool samples_on_gpu(const Recipe& recipe) {
  const config::RolloutDevice device = recipe.rollout.device;
  return device == config::RolloutDevice::cuda || (device == config::RolloutDevice::automatic && learns_on_gpu(recipe));
}

}  // namespace qrl::train
