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

/// The loss of `accumulate`. policy: the policy-gradient loss of algorithms.md; sft: the mean over response tokens of
/// −log p.
enum class LossKind : std::uint8_t { policy, sft };

struct PolicyLoss;
struct Correction;
struct KlEstimator;

/// Thresholds that select tokens, from statistics of the whole mini-batch (objective/selection.h).
struct TokenSelection {
  bool is_set = false;
  bool by_entropy = false;
  double entropy_floor = 0;  ///< tokens with a lower entropy do not count
  bool by_covariance = false;
  double mean_advantage = 0, mean_log_prob = 0, cov_low = 0, cov_high = 0;
  std::uint64_t cov_draw_limit = 0;     ///< candidates with a smaller draw do not count
  std::int64_t cov_last_position = -1;  ///< nor do candidates with this draw, up to this position on this rank
};

/// rollout_correction.rs and its keys, with defaults filled in.
struct RejectionSettings {
  config::RsLevel level = config::RsLevel::none;
  config::RsStat stat = config::RsStat::k1;
  double threshold = 0, threshold_low = 0;  ///< bounds of exp(statistic) for k1; k2 and k3 have only the upper one
  double veto = 0;                          ///< rejects a sequence with a ρ_t below it; 0: none
};

/// Excludes the tokens whose advantage and log-prob covary most.
struct ClipCovOptions {
  double ratio = 0;  ///< share of the mini-batch's tokens; 0: off
  double low = 0, high = 0;
};

/// algorithm.* of a loss, with the loss's defaults filled in.
struct AlgorithmOptions {
  double clip_ratio_low = 0, clip_ratio_high = 0;
  double clip_ratio_c = 0;  ///< dual clip; 0: none
  config::LossAggMode loss_agg_mode = config::LossAggMode::token_mean;
  std::optional<double> off_policy_mask_threshold;
  double top_entropy_quantile = 1;  ///< share of tokens that enter the loss
  ClipCovOptions clip_cov;
  double kl_loss_coef = 0, entropy_coef = 0;
  bool has_teacher = false;
};

/// rollout_correction.* of a method, with the method's defaults filled in.
struct CorrectionOptions {
  double threshold = 0, threshold_low = 0;
  RejectionSettings rejection;
  bool batch_normalize = false;
  bool behaviour_in_ratio = false;
};

struct LossOptions {
  LossKind kind = LossKind::policy;
  const PolicyLoss* loss = nullptr;    ///< of kind policy: algorithm.name
  const Correction* method = nullptr;  ///< likewise, rollout_correction.method
  const KlEstimator* kl = nullptr;     ///< likewise; needed with algorithm.kl_loss_coef
  AlgorithmOptions algorithm = {};
  CorrectionOptions correction = {};
  config::ParamValues own = {};          ///< keys that choices declare
  std::int64_t max_response_length = 0;  ///< for seq-mean-token-sum-norm
  double blend = 0;                      ///< set by prepare_mini_batch
  double weight_scale = 1;        ///< on every weight of the correction (batch_normalize); set by prepare_mini_batch
  TokenSelection selection = {};  ///< set by prepare_mini_batch
  /// Whether the weights are those that sampled; a bitwise learner then checks every token's bits.
  bool at_sampling_weights = false;
};

/// Bytes of host memory through which a device's masters and moments are written to a checkpoint.
inline constexpr std::size_t kStagingBytes = std::size_t{256} << 20;

/// Dtypes and formats of both passes.
struct Numerics {
  config::ComputeDType compute = config::ComputeDType::bf16;
  /// fake_quant and low_bit read the last published snapshot, so publish after each update and restore.
  config::LearnerForward forward = config::LearnerForward::bf16;
  /// With low_bit: the format whose layers multiply quantized values in the backward pass (quantized.h). int8 is not
  /// available on cuda.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
  /// With low_bit: the forward pass uses the decoder's ops, with keys and values in `kv_format` (not fp8_e4m3). At the
  /// sampling weights, log-probs equal the sampler's bitwise. On a device the decoder runs the forward pass, without
  /// top-k and top-p, and must sum each row alone. The backward pass recomputes each layer.
  bool bitwise = false;
  quant::KvFormat kv_format = quant::KvFormat::int8;  ///< the sampler's; f32 makes low_bit's attention fp32
  /// Whether logits come from fp32 hidden states and lm_head's masters, instead of the compute dtype.
  bool f32_lm_head = false;
  /// Whether only the sampler uses the snapshot's lm_head; low_bit and fake_quant then use the learner's.
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
  std::int64_t lr_warmup_steps = 0;       ///< updates
  std::optional<double> lr_warmup_ratio;  ///< share of all updates, instead of lr_warmup_steps
  config::LrScheduler lr_scheduler = config::LrScheduler::constant;
  double grad_clip = 0;  ///< 0: off
  MuonOptions muon;
};

struct LearnerOptions {
  /// cuda: masters, gradients, moments and activations are on the GPU with this rank's number on its machine,
  /// round-robin. LibTorch computes there; with low_bit, the decoder's matmuls do. Throws an input error without such a
  /// GPU.
  base::Device device = base::Device::cpu;
  Numerics numerics;
  bool trainable = true;  ///< false: `score` only; no gradients and moments
  /// ZeRO stage 1: each rank keeps the masters and moments of its own tensors. Requires a trainable learner.
  bool shard_optimizer = false;
  /// With a rank above 0, trains only low-rank adapters (model/adapter.h), with AdamW, unsharded.
  model::LoraConfig lora = {};
  std::uint64_t lora_seed = 0;                           ///< of new adapters (model::new_adapters)
  std::optional<model::WeightSource> lora_initial = {};  ///< adapters to continue, instead of new adapters
  bool activation_checkpointing = false;
  std::int64_t logprob_chunk_tokens = 1024;
  OptimizerOptions optim;
  std::int64_t total_updates = 0;  ///< horizon of the linear and cosine schedules (down to 0)
  int num_threads = 0;             ///< of the CPU and LibTorch; 0: the caller's (base/threads.h); changes no bit
};

/// Limit on tokens that backward fp8_e4m3 quantizes at once on a device, to bound their fp32 memory.
inline constexpr std::int64_t kFp8GradientTokens = 4096;

/// An update's named statistics over all ranks ("actor/pg_loss", …), equal on every rank. Names are those of
/// metrics.jsonl.
using Metrics = std::map<std::string, double>;

struct UpdateReport {
  bool finite = true;      ///< false: no rank was updated
  std::string non_finite;  ///< the first non-finite tensor, or "loss"
  Metrics metrics;
};

/// Per-token log-probs (and entropy), N entries; 0 where masked.
struct TokenScores {
  std::vector<float> logprobs;
  std::vector<float> entropy;
  types::Routes routes = {};  ///< of all rows, as the pass used them; no entries from a dense model
};

}  // namespace qrl::learner
