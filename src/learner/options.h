// Does not include LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "config/auto_value.h"
#include "config/option.h"
#include "model/adapter.h"
#include "model/weights.h"
#include "quant/kv_format.h"
#include "types/routes.h"

namespace qrl::learner {

/// Selects the loss of Learner::accumulate. policy: the policy-gradient loss of algorithms.md. sft: the mean of −log p
/// over response tokens.
enum class LossKind : std::uint8_t { policy, sft };

enum class ComputeDType : std::uint8_t { bf16, f32 };
constexpr std::string_view words_of(ComputeDType) { return "bfloat16 | float32"; }
enum class LearnerForward : std::uint8_t { bf16, fake_quant, low_bit };
constexpr std::string_view words_of(LearnerForward) { return "bf16 | fake_quant | low_bit"; }
enum class LearnerBackward : std::uint8_t { model_dtype, int8, fp8_e4m3 };
constexpr std::string_view words_of(LearnerBackward) { return "model_dtype | int8 | fp8_e4m3"; }
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
enum class RsLevel : std::uint8_t { none, token, seq_sum, seq_mean, seq_max };
constexpr std::string_view words_of(RsLevel) { return "none | token | seq_sum | seq_mean | seq_max"; }
enum class RsStat : std::uint8_t { k1, k2, k3 };
constexpr std::string_view words_of(RsStat) { return "k1 | k2 | k3"; }

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

/// Holds the keys algorithm.*, which learner/keys.h declares. In an optional member, null means the loss's default
/// (config::Option::defaults), which a recipe that was read has instead.
struct AlgorithmOptions {
  std::optional<double> clip_ratio_low, clip_ratio_high;
  std::optional<double> clip_ratio_c;  ///< c of the dual clip; 0: off
  std::optional<LossAggMode> loss_agg_mode;
  std::optional<double> off_policy_mask_threshold;
  double top_entropy_quantile = 1;  ///< share of tokens in the policy term, chosen by highest entropy
  /// Clip-Cov omits a random share of the tokens whose term of the covariance of advantage and log-prob is within
  /// (low, high).
  struct ClipCov {
    double ratio = 0;  ///< share of the mini-batch's tokens to omit; 0: off
    double low = 1, high = 5;
  } clip_cov;
  double kl_loss_coef = 0, entropy_coef = 0;
  bool bound_moved_only = false;  ///< whether a bound around the sampler binds only tokens that updates moved
};

/// Holds the keys rollout_correction.*, which learner/keys.h declares.
struct CorrectionOptions {
  std::optional<double> threshold, threshold_low;  ///< null: the method's default (config::Option::defaults)
  RsLevel rs = RsLevel::none;
  RsStat rs_stat = RsStat::k1;
  std::optional<double> rs_threshold, rs_threshold_low, token_veto_threshold;
  bool batch_normalize = false;
  bool behaviour_in_ratio = false;
};

struct LossOptions {
  LossKind kind = LossKind::policy;
  const PolicyLoss* loss = nullptr;    ///< algorithm.name, for kind policy
  const Correction* method = nullptr;  ///< rollout_correction.method, for kind policy
  const KlEstimator* kl = nullptr;     ///< algorithm.kl_loss_type; required if kl_loss_coef is not 0
  AlgorithmOptions algorithm = {};
  bool has_teacher = false;
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

/// Holds how the learner computes. learner/keys.h declares `forward` and `backward`; a run chooses the others.
struct Numerics {
  ComputeDType compute = ComputeDType::bf16;
  /// fake_quant and low_bit read the last published snapshot, so publish after each update and restore.
  config::AutoValue<LearnerForward> forward = config::AutoValue<LearnerForward>::automatic(LearnerForward::bf16);
  /// With low_bit, the backward pass of layers in this format multiplies quantized values (quantized.h). int8 requires
  /// the CPU.
  LearnerBackward backward = LearnerBackward::model_dtype;
  /// With low_bit, the forward pass uses the decoder's ops and rounds keys and values to `kv_format` (not fp8_e4m3).
  /// Under the sampling weights, log-probs equal the sampler's bitwise. On a GPU, the decoder itself runs the forward
  /// pass, and the backward pass recomputes each layer. This requires row_only_sums (DecoderOptions).
  bool bitwise = false;
  /// The sampler's format. With f32, attention is fp32 in fake_quant and low_bit.
  quant::KvFormat kv_format = quant::KvFormat::int8;
  /// Whether logits come from fp32 hidden states and lm_head's fp32 masters.
  bool f32_lm_head = false;
  /// Whether fake_quant and low_bit use lm_head's master: the snapshot's is int8. With `bitwise`, log-probs come from
  /// the int8 lm_head, and its master gets their gradient. On a GPU, that gradient is computed with the master.
  bool own_lm_head = false;
};

enum class OptimName : std::uint8_t { adamw, muon };
constexpr std::string_view words_of(OptimName) { return "adamw | muon"; }
enum class LrScheduler : std::uint8_t { constant, linear, cosine };
constexpr std::string_view words_of(LrScheduler) { return "constant | linear | cosine"; }

/// Holds the keys optim.*, which learner/keys.h declares.
struct OptimizerOptions {
  OptimName name = OptimName::adamw;
  double lr = 1e-6;
  std::vector<double> betas = {0.9, 0.999};  ///< two
  double eps = 1e-8, weight_decay = 0.1;
  std::int64_t lr_warmup_steps = 10;           ///< optimizer updates
  std::optional<double> lr_warmup_ratio = {};  ///< share of total_updates, instead of lr_warmup_steps
  LrScheduler lr_scheduler = LrScheduler::constant;
  double grad_clip = 1;  ///< 0: off
  struct Muon {
    double momentum = 0.95;
    bool nesterov = true;
    std::int64_t ns_steps = 5;
    bool match_adamw_rms = true;
  } muon = {};
};

/// Holds the keys of the tensors that a pass keeps in memory, which learner/keys.h declares.
struct MemoryOptions {
  config::AutoValue<std::int64_t> logprob_chunk_tokens = config::AutoValue<std::int64_t>::automatic(1024);
  config::AutoValue<bool> activation_checkpointing = config::AutoValue<bool>::automatic(false);
};

struct LearnerOptions : MemoryOptions {
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
