// Owns a recipe's values, from which the program takes its settings. A member's initializer is its key's default.
// config/keys declares names, ranges and meanings. A Catalog (config/option.h) holds the options that words select.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/option.h"
#include "config/words.h"

namespace qrl::config {

/// Holds a given value, or one chosen when a run begins ("auto"). Until then `value` is the CPU's default.
template <class T>
struct AutoValue {
  T value;
  bool is_auto = false;

  AutoValue(T given) : value(given) {}  // NOLINT(google-explicit-constructor): a number is a value of the key
  static AutoValue automatic(T on_cpu) {
    AutoValue value(on_cpu);
    value.is_auto = true;
    return value;
  }
  operator T() const { return value; }  // NOLINT(google-explicit-constructor): it reads as a number
  /// A template, so that comparing with a number converts nothing.
  template <std::same_as<AutoValue> Same>
  friend bool operator==(const Same& one, const Same& other) {
    return one.value == other.value && one.is_auto == other.is_auto;
  }
};

/// Seeds held-out generators independently of trainer.seed, so that runs are comparable.
inline constexpr std::uint64_t kHeldOutSeed = 0;

/// Configures a task generator (data.train_generator, data.val_generator, sft.demonstrations).
struct GeneratorRecipe {
  Selected<tasks::Generator> task;    ///< empty: no generator
  std::int64_t size = 0;              ///< prompts; unused by demonstrations, which are endless
  std::optional<std::uint64_t> seed;  ///< default: trainer.seed for training, fixed for held-out data
  ParamValues own;                    ///< generators' params, by name in the section
  friend bool operator==(const GeneratorRecipe&, const GeneratorRecipe&) = default;
};

struct ModelRecipe {
  std::string path;                         ///< HF folder; or init
  ComputeDType dtype = ComputeDType::bf16;  ///< compute dtype of the learner's forward and backward
  std::string init_config;                  ///< config.json for a new model
  std::optional<std::uint64_t> init_seed;   ///< default trainer.seed
  friend bool operator==(const ModelRecipe&, const ModelRecipe&) = default;
};

struct DataRecipe {
  std::vector<std::string> train_files, val_files;            ///< JSONL or CSV, or DIR:SPLIT
  std::vector<double> train_weights;                          ///< per train file; empty: each row once an epoch
  std::string prompt_key, ground_truth_key, data_source_key;  ///< fields of a row; "": the usual names
  std::vector<std::string> filter, val_filter;                ///< conditions that each row of the files must satisfy
  GeneratorRecipe train_generator, val_generator;
  std::int64_t train_batch_size = 64;          ///< prompts per step
  std::optional<std::int64_t> gen_batch_size;  ///< prompts per draw of dynamic sampling; default train_batch_size
  std::int64_t max_prompt_length = 64;         ///< tokens
  std::int64_t max_response_length = 64;       ///< tokens
  OverlongPrompt overlong_prompt = OverlongPrompt::error;
  bool shuffle = true;
  std::optional<std::uint64_t> seed;  ///< default trainer.seed
  std::string prompt_template = "{prompt}";
  std::string chat_template = kChatTemplateNames[0];   ///< one of kChatTemplateNames, or a file
  std::string system_prompt;                           ///< "": the template's own, if any
  std::optional<bool> enable_thinking;                 ///< unset: the template's own choice
  bool parse_special_tokens = false;                   ///< in the text of prompts
  std::optional<std::int64_t> train_max_samples = {};  ///< prompts; default: all
  std::optional<std::int64_t> val_max_samples = {};    ///< rows per data source; default: all
  friend bool operator==(const DataRecipe&, const DataRecipe&) = default;
};

/// Limits the tokens that rollout.top_p and top_k leave, which a learner knows for each sampled token.
inline constexpr std::int64_t kMaxKeptTokens = 256;

struct RolloutRecipe {
  RolloutDevice device = RolloutDevice::automatic;
  std::int64_t n = 8;  ///< samples per prompt
  double temperature = 1.0, top_p = 1.0;
  std::int64_t top_k = -1;
  AutoValue<std::int64_t> max_num_seqs = AutoValue<std::int64_t>::automatic(256);
  std::int64_t max_num_batched_tokens = 2048;
  std::int64_t page_size = 16;                   ///< tokens
  std::optional<std::int64_t> kv_pages;          ///< default: max_num_seqs longest sequences; on a GPU what fits
  std::optional<double> gpu_memory_utilization;  ///< default 0.9 of a GPU, 0.5 if it is shared with the learner
  bool prefix_sharing = true;
  bool bitwise = false;                ///< the learner's log-probs equal the sampler's bit for bit
  bool free_cache_engine = false;      ///< free the KV memory while the learner works
  bool enforce_eager = false;          ///< on a GPU: no CUDA graphs
  std::vector<std::string> stop = {};  ///< stop strings
  friend bool operator==(const RolloutRecipe&, const RolloutRecipe&) = default;
};

/// quant.rollout.noise: noise on the gains of the sampler's norms.
struct GainNoiseRecipe {
  double start = 0;  ///< 0: none
  double end = 1e-4;
  std::int64_t stages = 10;
  friend bool operator==(const GainNoiseRecipe&, const GainNoiseRecipe&) = default;
};

struct QuantRecipe {
  WeightFormat weights = WeightFormat::int8;  ///< quant.rollout.weights
  ActivationFormat activations = ActivationFormat::automatic;
  Granularity granularity = Granularity::automatic;
  RotationKind rotation = RotationKind::automatic;  ///< quant.rollout.rotation
  std::int64_t rotation_block = 64;                 ///< inputs
  std::vector<std::string> ignore;                  ///< patterns of modules that stay bf16
  HeadFormat lm_head = HeadFormat::automatic;
  GainNoiseRecipe noise;  ///< quant.rollout.noise
  std::string profile;    ///< quant.rollout.profile: empty: none; "auto"; or a file
  KvCache kv_cache = KvCache::automatic;
  LearnerForward learner_forward = LearnerForward::bf16;            ///< quant.learner.forward
  LearnerBackward learner_backward = LearnerBackward::model_dtype;  ///< quant.learner.backward
  QueryFormat queries = QueryFormat::automatic;
  CalibrateKv kv_when = CalibrateKv::every_update;  ///< quant.kv_calibration.when
  double kv_percentile = 99.9;                      ///< quant.kv_calibration.percentile
  double uaq_scale = 1;
  double kv_margin = 2;  ///< quant.kv_calibration.margin
  friend bool operator==(const QuantRecipe&, const QuantRecipe&) = default;
};

/// algorithm.filter_groups: DAPO's dynamic sampling.
struct FilterGroupsRecipe {
  bool enable = false;
  std::string metric = "score";  ///< score, acc, or the name of one of the verifier's scores
  std::int64_t max_num_gen_batches = 10;
  OnExhausted on_exhausted = OnExhausted::error;
  friend bool operator==(const FilterGroupsRecipe&, const FilterGroupsRecipe&) = default;
};

/// algorithm.clip_cov: excludes the tokens whose advantage and log-prob covary most.
struct ClipCovRecipe {
  double ratio = 0;  ///< share of the mini-batch's tokens; 0: off
  double low = 1, high = 5;
  friend bool operator==(const ClipCovRecipe&, const ClipCovRecipe&) = default;
};

/// algorithm.teacher: on-policy distillation.
struct TeacherRecipe {
  std::string path;  ///< Hugging Face folder or checkpoint; empty: no teacher
  WeightFormat weights = WeightFormat::bf16;
  double coef = 1;
  friend bool operator==(const TeacherRecipe&, const TeacherRecipe&) = default;
};

/// The loss sets an optional member's default for null (Option::defaults).
struct AlgorithmRecipe {
  Selected<learner::PolicyLoss> name;
  std::optional<double> clip_ratio_low, clip_ratio_high;
  std::optional<double> clip_ratio_c;  ///< dual clip; 0: none
  std::optional<LossAggMode> loss_agg_mode;
  Selected<rollout::AdvantageEstimator> adv_estimator;
  std::optional<bool> norm_adv_by_std;
  bool positive_only = false;  ///< negative advantages are set to 0
  double reward_coef = 1;      ///< of the reward's advantage, with a teacher
  TeacherRecipe teacher;
  std::optional<double> off_policy_mask_threshold;
  double top_entropy_quantile = 1;  ///< share of tokens that enter the loss; 1: all
  ClipCovRecipe clip_cov;
  double kl_loss_coef = 0;
  Selected<learner::KlEstimator> kl_loss_type;
  double entropy_coef = 0;
  bool mask_truncated = false;
  RouterReplay router_replay = RouterReplay::none;
  FilterGroupsRecipe filter_groups;
  friend bool operator==(const AlgorithmRecipe&, const AlgorithmRecipe&) = default;
};

struct CorrectionRecipe {
  Selected<learner::Correction> method;
  std::optional<double> threshold, threshold_low;  ///< null: the method's default (Option::defaults)
  RsLevel rs = RsLevel::none;
  RsStat rs_stat = RsStat::k1;
  std::optional<double> rs_threshold, rs_threshold_low;  ///< rs_threshold_low: k1 only, default 1/rs_threshold
  std::optional<double> token_veto_threshold;
  bool batch_normalize = false;
  bool behaviour_in_ratio = false;
  std::optional<double> gap_limit;  ///< gap_limit.k3_kl
  GapAction gap_action = GapAction::stop;
  friend bool operator==(const CorrectionRecipe&, const CorrectionRecipe&) = default;
};

/// optim.muon
struct MuonRecipe {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  bool match_adamw_rms = true;
  friend bool operator==(const MuonRecipe&, const MuonRecipe&) = default;
};

struct OptimRecipe {
  OptimName name = OptimName::adamw;
  double lr = 1e-6;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::int64_t lr_warmup_steps = 10;           ///< optimizer updates
  std::optional<double> lr_warmup_ratio = {};  ///< of the run's updates, instead of lr_warmup_steps; not for sft
  LrScheduler lr_scheduler = LrScheduler::constant;
  double grad_clip = 1.0;  ///< 0: off
  MuonRecipe muon;
  friend bool operator==(const OptimRecipe&, const OptimRecipe&) = default;
};

struct SftRecipe {
  std::string from;               ///< finished cold start of another run; empty: this run makes its own
  std::int64_t steps = 0;         ///< optimizer updates; 0: no cold start
  std::int64_t batch_size = 256;  ///< demonstrations per update
  std::int64_t save_freq = 200;   ///< updates between checkpoints; the last is always saved
  OptimRecipe optim{.lr = 1e-5};  ///< sft.lr, sft.lr_warmup_steps, …: separate keys
  GeneratorRecipe demonstrations;
  std::vector<std::string> train_files = {}, val_files = {};  ///< conversations, instead of demonstrations
  std::int64_t epochs = 0;                                    ///< over train_files, instead of steps; 0: none
  std::optional<std::int64_t> max_length = {};                ///< tokens per row; default: a micro-batch's
  OverlongPrompt overlong = OverlongPrompt::error;            ///< for a row above max_length
  bool shuffle = true;
  LossOn loss_on = LossOn::assistant;
  friend bool operator==(const SftRecipe&, const SftRecipe&) = default;
};

/// reward.overlong_buffer: DAPO's overlong shaping.
struct OverlongBufferRecipe {
  bool enable = false;
  std::int64_t len = 0;  ///< tokens
  double penalty_factor = 1;
  friend bool operator==(const OverlongBufferRecipe&, const OverlongBufferRecipe&) = default;
};

/// Configures low-rank adapters on a frozen base.
struct LoraRecipe {
  std::int64_t rank = 0;  ///< 0: all weights are trained
  double alpha = 32;
  bool rslora = false;
  std::vector<std::string> target_modules;  ///< empty: all-linear
  bool train_norms = false;
  std::string path;  ///< PEFT folder to start from
  LoraSft sft = LoraSft::automatic;
  LoraPublish publish = LoraPublish::adapter;
  friend bool operator==(const LoraRecipe&, const LoraRecipe&) = default;
};

struct RewardRecipe {
  Selected<tasks::VerifierChoice> verifier;
  double correct = 1, wrong = 0, format = 0, partial = 0;
  double max_error_fraction = 0.05;
  OverlongBufferRecipe overlong_buffer;
  std::map<std::string, Selected<tasks::VerifierChoice>> by_source;  ///< by data source
  RewardAggregation aggregation = RewardAggregation::sum_then_normalize;
  std::vector<std::string> command;       ///< program and arguments
  std::string folder;                     ///< its working directory; absolute once a command was read
  std::vector<std::string> env;           ///< environment variables passed on, besides those that programs need
  Selected<tasks::VerifierChoice> after;  ///< empty: none
  std::int64_t workers = 0;               ///< processes per rank; 0: auto (half its threads, at least 1)
  double timeout_s = 10;                  ///< per row, from its arrival at the worker
  double start_timeout_s = 60;            ///< per worker, until `ready`
  std::optional<std::int64_t> memory_mb;  ///< address space per worker
  std::int64_t in_flight = 1;             ///< rows that a worker holds at once
  std::optional<RewardRows> rows;         ///< null: as the command requests
  std::map<std::string, double> weights;  ///< for the command's scores, instead of its own defaults
  double correct_at = 1;                  ///< a first score from here on is right, if an answer has no outcome
  OnVerifierError on_error = OnVerifierError::drop;
  friend bool operator==(const RewardRecipe&, const RewardRecipe&) = default;
};

struct ActorRecipe {
  std::int64_t mini_batch_size = 64;  ///< prompts per optimizer update
  AutoValue<std::int64_t> max_tokens_per_micro_batch = AutoValue<std::int64_t>::automatic(4096);
  std::int64_t ppo_epochs = 1;
  AutoValue<std::int64_t> logprob_chunk_tokens = AutoValue<std::int64_t>::automatic(1024);
  AutoValue<bool> activation_checkpointing = AutoValue<bool>::automatic(false);
  friend bool operator==(const ActorRecipe&, const ActorRecipe&) = default;
};

struct EvalRecipe {
  std::int64_t freq = 10;  ///< steps; 0: never
  bool before_train = true;
  std::int64_t n = 8;  ///< samples per prompt
  double temperature = 1.0, top_p = 1.0;
  std::int64_t top_k = -1;
  std::int64_t dump = 16;                             ///< prompts per held-out set whose responses are saved
  std::optional<std::vector<std::string>> stop = {};  ///< default: rollout.stop
  friend bool operator==(const EvalRecipe&, const EvalRecipe&) = default;
};

/// Selects the checkpoint that a run continues from.
struct ResumeFrom {
  ResumeMode mode = ResumeMode::automatic;
  std::string path = {};  ///< with ResumeMode::path
  friend bool operator==(const ResumeFrom&, const ResumeFrom&) = default;
};

struct TrainerRecipe {
  TrainDevice device = TrainDevice::automatic;
  std::int64_t threads = 0;  ///< 0: auto (processors / ranks on this machine)
  /// 1: shards masters and moments over the ranks, bit-identical to 0, our default. With 1 every rank writes into the
  /// run folder, so all hosts must share it.
  std::int64_t zero_stage = 0;
  std::int64_t total_training_steps = 100;
  std::int64_t total_epochs = 0;  ///< over the training prompts, instead of total_training_steps; 0: none
  std::int64_t save_freq = 20;    ///< steps; 0: only at the end
  std::int64_t max_ckpt_to_keep = 3;
  std::string keep_best = {};           ///< held-out score whose best checkpoint is kept; empty: none
  std::optional<double> max_time = {};  ///< seconds until a run stops as on a signal
  ResumeFrom resume_from;               ///< trainer.resume_mode
  std::string default_local_dir;        ///< default runs/<recipe>-seed<seed>
  bool rollout_dump = true;
  bool tensorboard = true;
  std::uint64_t seed = 0;
  /// Seconds that a rank waits for others before it ends the job; must exceed the lag of a step's slowest rank.
  std::int64_t collective_timeout_s = 1800;
  std::int64_t max_non_finite_steps = 3;  ///< consecutive skipped updates before the run stops (exit 3)
  friend bool operator==(const TrainerRecipe&, const TrainerRecipe&) = default;
};

class Keys;

struct Recipe {
  const Keys* keys = nullptr;  ///< the keys it was read with; must outlive it
  Selected<Option> mode;       ///< empty: none
  ModelRecipe model;
  DataRecipe data;
  RolloutRecipe rollout;
  QuantRecipe quant;
  AlgorithmRecipe algorithm;
  CorrectionRecipe rollout_correction;
  SftRecipe sft;
  LoraRecipe lora;
  RewardRecipe reward;
  ActorRecipe actor;
  OptimRecipe optim;
  EvalRecipe eval;
  TrainerRecipe trainer;
  ParamValues own;  ///< params of options
  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// Returns whether a run begins with a cold start; with sft.epochs its updates depend on the rows.
inline bool has_cold_start(const SftRecipe& sft) { return sft.steps > 0 || sft.epochs > 0; }
inline bool trains_adapters(const Recipe& recipe) { return recipe.lora.rank > 0; }
/// Returns whether the cold start trains adapters; if not, it trains all weights before adapters exist.
inline bool cold_start_trains_adapters(const Recipe& recipe) {
  const bool automatic = recipe.lora.sft == LoraSft::automatic && !recipe.model.path.empty();
  return trains_adapters(recipe) && (automatic || recipe.lora.sft == LoraSft::adapters);
}
inline bool learns_on_gpu(const Recipe& recipe) { return recipe.trainer.device == TrainDevice::cuda; }
inline bool samples_on_gpu(const Recipe& recipe) {
  const RolloutDevice device = recipe.rollout.device;
  return device == RolloutDevice::cuda || (device == RolloutDevice::automatic && learns_on_gpu(recipe));
}

}  // namespace qrl::config
