// Does not include LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/view.h"
#include "config/option.h"
#include "config/words.h"
#include "model/adapter.h"
#include "model/weights.h"
#include "quant/kv_format.h"
#include "types/routes.h"

namespace qrl::learner {

/// Selects the loss of Learner::accumulate. policy: the policy-gradient loss of algorithms.md. sft: the mean of −log p
/// over response tokens.
enum class LossKind : std::uint8_t { policy, sft };

struct PolicyLoss;
struct Correction;
struct KlEstimator;

/// Holds thresholds for omitting tokens, computed from the whole mini-batch's statistics (objective/selection.h).
struct TokenSelection {
  bool is_set = false;
  bool by_entropy = false;
  double entropy_floor = 0;  ///< tokens with a lower entropy are omitted
  bool by_covariance = false;
  double mean_advantage = 0, mean_log_prob = 0, cov_low = 0, cov_high = 0;
  std::uint64_t cov_draw_limit = 0;     ///< Clip-Cov omits candidates with a smaller draw (a hash)
  std::int64_t cov_last_position = -1;  ///< position of this rank's last omitted candidate with draw = limit
};

/// Holds the keys of rejection sampling (rollout_correction.rs…), with defaults filled in.
struct RejectionSettings {
  config::RsLevel level = config::RsLevel::none;
  config::RsStat stat = config::RsStat::k1;
  double threshold = 0, threshold_low = 0;  ///< k1: bounds of exp(statistic); k2, k3: `threshold` bounds the statistic
  double veto = 0;                          ///< sequences with any ρ_t below this are rejected; 0: off
};

/// Holds the keys algorithm.clip_cov.*. Clip-Cov omits a random share of the tokens whose term of the covariance of
/// advantage and log-prob is within (low, high).
struct ClipCovOptions {
  double ratio = 0;  ///< share of the mini-batch's tokens to omit; 0: off
  double low = 0, high = 0;
};

/// Holds the keys algorithm.*, with the loss's defaults filled in.
struct AlgorithmOptions {
  double clip_ratio_low = 0, clip_ratio_high = 0;
  double clip_ratio_c = 0;  ///< c of the dual clip; 0: off
  config::LossAggMode loss_agg_mode = config::LossAggMode::token_mean;
  std::optional<double> off_policy_mask_threshold;
  double top_entropy_quantile = 1;  ///< share of tokens in the policy term, chosen by highest entropy
  ClipCovOptions clip_cov;
  double kl_loss_coef = 0, entropy_coef = 0;
  bool has_teacher = false;
  bool bound_moved_only = false;  ///< whether a bound around the sampler binds only tokens that updates moved
};

struct CorrectionOptions {
  double threshold = 0, threshold_low = 0;
  RejectionSettings rejection;
  bool batch_normalize = false;
  bool behaviour_in_ratio = false;
};

struct LossOptions {
  LossKind kind = LossKind::policy;
  const PolicyLoss* loss = nullptr;    ///< algorithm.name, for kind policy
  const Correction* method = nullptr;  ///< rollout_correction.method, for kind policy
  const KlEstimator* kl = nullptr;     ///< algorithm.kl_loss_type; required if kl_loss_coef is not 0
  AlgorithmOptions algorithm = {};
  CorrectionOptions correction = {};
  config::ParamValues own = {};          ///< values of the keys that `loss` and `method` declare
  std::int64_t max_response_length = 0;  ///< divisor of seq-mean-token-sum-norm
  double blend = 0;                      ///< AIS's α; set by prepare_mini_batch
  double weight_scale = 1;               ///< factor on the correction's weights; set by prepare_mini_batch
  TokenSelection selection = {};         ///< set by prepare_mini_batch
  /// Whether the current weights sampled the batch. If so, a bitwise learner throws an internal error unless its
  /// log-probs equal the sampler's bitwise.
  bool at_sampling_weights = false;
};

/// Bytes of the host buffer for writing a device's masters and moments to a checkpoint.
inline constexpr std::size_t kStagingBytes = std::size_t{256} << 20;

struct Numerics {
  config::ComputeDType compute = config::ComputeDType::bf16;
  /// fake_quant and low_bit read the last published snapshot, so publish after each update and restore.
  config::LearnerForward forward = config::LearnerForward::bf16;
  /// With low_bit, the backward pass of layers in this format multiplies quantized values (quantized.h). int8 requires
  /// the CPU.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
  /// With low_bit, the forward pass uses the decoder's ops and rounds keys and values to `kv_format` (not fp8_e4m3).
  /// Under the sampling weights, log-probs equal the sampler's bitwise. On a GPU, the decoder itself runs the forward
  /// pass, and the backward pass recomputes each layer. This requires row_only_sums (DecoderOptions), and sampling
  /// without top-k and top-p.
  bool bitwise = false;
  /// The sampler's format. With f32, attention is fp32 in fake_quant and low_bit.
  quant::KvFormat kv_format = quant::KvFormat::int8;
  /// Whether logits come from fp32 hidden states and lm_head's fp32 masters.
  bool f32_lm_head = false;
  /// Whether fake_quant and low_bit use lm_head's master. If so, only the sampler uses the snapshot's lm_head.
  bool own_lm_head = false;
};

struct MuonOptions {
  double momentum = 0;
  bool nesterov = false;
  std::int64_t ns_steps = 0;
  bool match_adamw_rms = false;
};

struct OptimizerOptions {
  config::OptimName name = config::OptimName::adamw;
  double lr = 0;
  std::array<double, 2> betas = {};
  double eps = 0, weight_decay = 0;
  std::int64_t lr_warmup_steps = 0;
  std::optional<double> lr_warmup_ratio;  ///< share of total_updates, instead of lr_warmup_steps
  config::LrScheduler lr_scheduler = config::LrScheduler::constant;
  double grad_clip = 0;  ///< 0: off
  MuonOptions muon;
};

struct LearnerOptions {
  /// With cuda, masters, gradients, moments and activations are on GPU (local rank mod number of GPUs). LibTorch runs
  /// the operations, except that low_bit uses the decoder's matmuls. Without a GPU, the constructor throws an input
  /// error.
  base::Device device = base::Device::cpu;
  Numerics numerics;
  bool trainable = true;  ///< false: the learner has no gradients and moments, and only scores
  /// ZeRO stage 1: each rank keeps the masters and moments of its own tensors only. No effect unless `trainable`.
  bool shard_optimizer = false;
  /// If lora.rank is above 0, trains only low-rank adapters (model/adapter.h). Requires AdamW without sharding.
  model::LoraConfig lora = {};
  std::uint64_t lora_seed = 0;                           ///< seed of model::new_adapters
  std::optional<model::WeightSource> lora_initial = {};  ///< adapters whose training continues; none: new adapters
  bool activation_checkpointing = false;
  std::int64_t logprob_chunk_tokens = 1024;
  OptimizerOptions optim;
  std::int64_t total_updates = 0;  ///< number of updates until linear and cosine schedules reach 0
  int num_threads = 0;  ///< number of CPU threads, without effect on results; 0: the caller's number (base/threads.h)
};

/// Largest number of tokens that an fp8_e4m3 backward pass quantizes at once on a device.
inline constexpr std::int64_t kFp8GradientTokens = 4096;

/// An update's statistics over all ranks, equal on every rank. Keys are names in metrics.jsonl ("actor/pg_loss").
using Metrics = std::map<std::string, double>;

struct UpdateReport {
  bool finite = true;      ///< false: no rank was updated
  std::string non_finite;  ///< first tensor with a non-finite gradient, or "loss"
  Metrics metrics;
};

/// Holds per-token log-probs and entropies, N each; 0 where masked.
struct TokenScores {
  std::vector<float> logprobs;
  std::vector<float> entropy;
  types::Routes routes = {};  ///< routes that the pass used, for all rows; empty for a dense model
};

}  // namespace qrl::learner
