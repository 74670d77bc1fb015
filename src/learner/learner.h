// Owns training: fp32 master weights, the differentiable forward pass, losses, the optimizer, and publishing. This
// header is free of LibTorch, which only src/learner includes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "config/recipe.h"
#include "dist/collectives.h"
#include "learner/learner_state.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/snapshot.h"
#include "model/weights.h"
#include "ops/sample.h"
#include "quant/kv_format.h"
#include "types/batch.h"

namespace qrl::learner {

/// Selects the loss of `accumulate`. policy: the policy-gradient loss of algorithms.md; sft: the mean over response
/// tokens of −log p.
enum class LossKind : std::uint8_t { policy, sft };

struct PolicyLoss;
struct Correction;
struct KlEstimator;

/// Selects tokens by statistics of the whole mini-batch (objective/selection.h).
struct TokenSelection {
  bool is_set = false;
  bool by_entropy = false;
  double entropy_floor = 0;  ///< tokens below it do not count
  bool by_covariance = false;
  double mean_advantage = 0, mean_log_prob = 0, cov_low = 0, cov_high = 0;
  std::uint64_t cov_draw_limit = 0;     ///< candidates with a smaller draw do not count
  std::int64_t cov_last_position = -1;  ///< nor do those with this draw up to this position on this rank
};

struct LossOptions {
  LossKind kind = LossKind::policy;
  const PolicyLoss* loss = nullptr;    ///< of kind policy: policy_options resolves the recipe's word
  const Correction* method = nullptr;  ///< likewise, rollout_correction.method
  const KlEstimator* kl = nullptr;     ///< likewise; needed with algorithm.kl_loss_coef
  config::AlgorithmRecipe algorithm = {};
  config::CorrectionRecipe correction = {};
  config::OwnValues own = {};
  std::int64_t max_response_length = 0;  ///< data.max_response_length, for seq-mean-token-sum-norm
  double blend = 0;                      ///< of the mini-batch: prepare_mini_batch
  double weight_scale = 1;               ///< likewise, on every weight of the correction: batch_normalize
  TokenSelection selection = {};         ///< likewise
  /// The weights are those that sampled: a bitwise learner checks every token's bits.
  bool at_sampling_weights = false;
};

/// Host memory through which a device's masters and moments reach a checkpoint. A power of two: LibTorch rounds pinned
/// memory up to one.
inline constexpr std::size_t kStagingBytes = std::size_t{256} << 20;

/// Selects dtypes and formats of both passes.
struct Numerics {
  config::ComputeDType compute = config::ComputeDType::bf16;
  /// fake_quant and low_bit read the snapshot last published. It must hold the present masters: publish after each
  /// update and restore.
  config::LearnerForward forward = config::LearnerForward::bf16;
  /// With low_bit: layers in that format multiply quantized values backward (quantized.h). int8 is not for cuda.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
  /// With low_bit: the forward pass has the decoder's ops, with keys and values in `kv_format` (not fp8_e4m3).
  /// Log-probs are the sampler's bit for bit at the weights that sampled. On a device the decoder runs the forward
  /// pass, without top-k and top-p, and must sum each row alone. The backward pass recomputes each layer from its
  /// input.
  bool bitwise = false;
  quant::KvFormat kv_format = quant::KvFormat::int8;  ///< the sampler's; fp32 makes low_bit's attention fp32
  /// Computes logits from fp32 hidden states and lm_head's masters, else from the compute dtype's.
  bool f32_lm_head = false;
  /// The snapshot's lm_head is the sampler's alone: low_bit and fake_quant read their own.
  bool own_lm_head = false;
};

struct LearnerOptions {
  /// cuda: masters, gradients, moments and activations are on the GPU of this rank's number on its machine,
  /// round-robin. LibTorch's operations compute there (torch_ops.h), with low_bit the decoder's matmuls. Throws an
  /// input error without such a GPU.
  base::Device device = base::Device::cpu;
  Numerics numerics;
  bool trainable = true;  ///< false: for `score` alone, without gradients and moments
  /// ZeRO stage 1: each rank keeps the masters and moments of its own tensors, with the same bits. Requires a trainable
  /// learner; has no effect with one rank.
  bool shard_optimizer = false;
  /// If its rank is not 0, only low-rank adapters are trained (model/adapter.h), by AdamW, not sharded. Masters,
  /// moments and gradients are theirs alone.
  model::LoraConfig lora = {};
  std::uint64_t lora_seed = 0;                           ///< of new adapters (model::new_adapters)
  std::optional<model::WeightSource> lora_initial = {};  ///< initial tensors of adapter_specs instead
  bool activation_checkpointing = false;
  std::int64_t logprob_chunk_tokens = 1024;
  config::OptimRecipe optim;
  std::int64_t total_updates = 0;  ///< horizon of the linear and cosine schedules (down to 0)
  int num_threads = 0;             ///< of the CPU and LibTorch; 0: the caller's (base/thread_scope.h); changes no bit
};

/// Limits the tokens that backward fp8_e4m3 quantizes at once on a device, in segments of 128: their fp32
/// form stays small, and matmuls keep a GPU busy.
inline constexpr std::int64_t kFp8GradientTokens = 4096;

/// Holds named statistics of an update over all ranks ("actor/pg_loss", …), equal on every rank, named as in
/// metrics.jsonl.
using Metrics = std::map<std::string, double>;

struct UpdateReport {
  bool finite = true;      ///< false: nothing was updated on any rank
  std::string non_finite;  ///< the first tensor found not finite, or "loss"
  Metrics metrics;
};

/// Holds per-token log-probs (and entropy), N entries; 0 where masked.
struct TokenScores {
  std::vector<float> logprobs;
  std::vector<float> entropy;
};

class ForwardEngine;   // forward_engine.h
struct PolicyWeights;  // policy_weights.h

/// Trains a policy. Data parallel: ranks hold the same weights and moments, see their own micro-batches, and make the
/// same calls in order. One thread calls. Arguments and results are in host memory.
class Learner {
 public:
  /// Has `initial` written into the masters. With options.lora it is the base, read again for each snapshot that lacks
  /// it: its sources must outlive the learner. Temperature scales logits in every log-prob.
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world);
  /// Does the same with a given engine.
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world, std::unique_ptr<ForwardEngine> engine);
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Scores targets under the present weights, without gradients, over kept tokens after a cut.
  TokenScores score(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// With options.lora: sets score_reference's adapters, those that training began with. `start`: adapter_specs'
  /// tensors, which must stay readable; none: new adapters, which add nothing.
  void keep_reference(const std::optional<model::WeightSource>& start);
  bool has_reference() const;
  /// Computes `score` of base and reference adapters, for a KL term.
  TokenScores score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// Adds the gradient of this micro-batch's share of the loss in fp32; `counts` are its global denominators. is_last:
  /// no micro-batch follows before `update`, so sums over ranks begin during the backward pass (GradientSums). Ranks
  /// need not agree on it. If memory has room for a second micro-batch, a device's loss and backward pass wait for the
  /// next call. The device then runs the next forward pass while the host computes the loss. The bits are the same.
  void accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                  const ops::SampleParams& sample_params, bool is_last = false);

  /// Ends the mini-batch: sums gradients over ranks, checks and clips them, updates the weights and clears the
  /// gradients. If not finite on any rank, nothing is applied anywhere, and update count and schedule stay.
  UpdateReport update();

  double lr() const;
  std::int64_t num_updates() const;
  /// Restarts the optimizer (moments 0, count 0) with new options, between cold start and RL.
  void reset_optimizer(const config::OptimRecipe& optim, std::int64_t total_updates);

  /// Returns whether each tensor's masters and moments are on one rank alone. All ranks must then make the calls marked
  /// as collective.
  bool is_sharded() const;
  bool has_adapters() const;
  const model::LoraConfig& lora() const;  ///< of rank 0 without
  /// Gives access to masters, moments and gradients for checkpoints, exports and tests.
  LearnerState& state();
  const LearnerState& state() const;

  /// Quantizes the masters into `snapshot`. With options.lora and adapters in the snapshot, the base is quantized once,
  /// later only A and B. Without adapters in it, merged weights are published each time. fake_quant and low_bit read
  /// the snapshot from now on. It must outlive the learner, and only the learner may publish into it. Collective when
  /// sharded. `device` (or null) also keeps the snapshot's weights on this learner's device. Once it holds them, only
  /// they are rewritten, from the masters in place (DeviceWriter), and dequantized there for fake_quant. With low_bit
  /// on a device it is required and must live as long as the snapshot. The forward pass reads the weights there,
  /// uploaded if missing.
  void publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device = nullptr);

  /// Applies QuRL's update-aware quantization (§3.3): divides the linear weights behind a norm (q, k, v; gate, up) by
  /// `scale` and multiplies the norm's gain by it. The model computes the same; biases stay. Collective when sharded.
  void apply_uaq(float scale);

  /// Returns the published snapshot if it holds the present masters, else null.
  const model::Snapshot* published() const;
  config::LearnerForward forward_mode() const;
  /// Returns whether the forward pass reads this published tensor in the decoder's memory. False with bf16, and with
  /// fake_quant on a GPU.
  bool reads_in_place(const std::string& tensor) const;

  /// Frees memory that is kept only for the next micro-batch.
  void release_memory();

 private:
  TokenScores score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                       const ops::SampleParams& sample_params);
  void publish_adapters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device);
  std::unique_ptr<LearnerParts> parts_;
};

/// Returns the recipe's loss and correction from its catalog.
LossOptions policy_options(const config::Recipe& recipe);

/// Returns whether an update needs all response tokens and old log-probs before its first micro-batch.
bool needs_whole_mini_batch(const LossOptions& loss);
/// Returns whether it also needs all entropies under the old policy (MicroBatch::old_entropy).
bool needs_old_entropy(const LossOptions& loss);
/// Computes such an update's statistics over all ranks' mini-batch (`batches`: this rank's, with old log-probs). Sets
/// loss.blend, weight_scale and selection and returns metrics. No effect with other losses. Collective.
Metrics prepare_mini_batch(std::span<const types::MicroBatch* const> batches, LossOptions& loss,
                           dist::Collectives& world);

/// Returns pointers to each of `batches`, which must outlive them.
std::vector<const types::MicroBatch*> pointers_to(std::span<const types::MicroBatch> batches);

/// Returns the names of UpdateReport::metrics with such a loss, in order.
std::vector<std::string> policy_metric_names(const LossOptions& loss);

/// Returns the version of LibTorch at build time.
std::string torch_version();

}  // namespace qrl::learner
