// Owns training: fp32 master weights, the differentiable forward pass, losses, the optimizer, and publishing. Knows
// nothing of text, rewards or decoding. This header is free of LibTorch: only src/learner includes that.
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

/// Selects the loss that `accumulate` minimizes. policy: the policy-gradient loss of algorithms.md with the recipe's
/// settings; sft: the mean over response tokens of −log p.
enum class LossKind : std::uint8_t { policy, sft };

struct PolicyLoss;
struct Correction;
struct KlEstimator;

/// Selects tokens of a mini-batch by statistics of all of its tokens (objective/selection.h).
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
  const Correction* method = nullptr;  ///< likewise
  const KlEstimator* kl = nullptr;     ///< likewise; needed with algorithm.kl_loss_coef
  config::AlgorithmRecipe algorithm = {};
  config::CorrectionRecipe correction = {};
  config::OwnValues own = {};
  std::int64_t max_response_length = 0;  ///< data.max_response_length: of seq-mean-token-sum-norm
  double blend = 0;                      ///< of the mini-batch: prepare_mini_batch
  double weight_scale = 1;               ///< likewise, on every weight of the correction: batch_normalize
  TokenSelection selection = {};         ///< likewise
  /// The weights are those that sampled: a bitwise learner then checks its promise on every token.
  bool at_sampling_weights = false;
};

/// Host memory that a device's masters and moments go through to a checkpoint, some at a time. A power of two, which is
/// what LibTorch rounds pinned memory up to.
inline constexpr std::size_t kStagingBytes = std::size_t{256} << 20;

/// Selects dtypes and formats of a learner's forward and backward pass.
struct Numerics {
  config::ComputeDType compute = config::ComputeDType::bf16;
  /// With fake_quant and low_bit the linear layers read the snapshot last published. It must hold the present masters
  /// at every forward pass: publish after each update and restore.
  config::LearnerForward forward = config::LearnerForward::bf16;
  /// With low_bit: the backward matmuls of the layers in that format in its quantized values as well (quantized.h).
  /// int8 is not for a learner on cuda.
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;
  /// With low_bit: every op of the forward pass is the decoder's, and keys and values are kept in `kv_format` (not
  /// fp8_e4m3) like its pages. Log-probs are therefore the sampler's bit for bit at the weights that sampled. On a
  /// device the decoder itself runs the forward pass, without top-k and top-p, and must sum each row alone. The
  /// backward pass recomputes each layer from its input.
  bool bitwise = false;
  quant::KvFormat kv_format = quant::KvFormat::int8;  ///< the sampler's; fp32 pages make low_bit's attention fp32 too
  /// Logits from fp32 hidden states and the masters of lm_head; else from the compute dtype's.
  bool f32_lm_head = false;
  /// The snapshot's lm_head is the sampler's alone: low_bit and fake_quant read one of their own, as bf16 does.
  bool own_lm_head = false;
};

struct LearnerOptions {
  /// cuda: masters, gradients, moments and activations are on the GPU of this rank's number on its machine, counted
  /// round-robin. LibTorch's operations compute there (torch_ops.h), with low_bit the decoder's matmuls. An input error
  /// where there is no such GPU.
  base::Device device = base::Device::cpu;
  Numerics numerics;
  bool trainable = true;  ///< false: for `score` alone, without memory for gradients and moments
  /// ZeRO stage 1: of masters and moments each rank keeps the tensors that are its own, the same bits. Not of a learner
  /// that is not trainable, and nothing to do for one rank.
  bool shard_optimizer = false;
  /// Not of rank 0: low-rank adapters are all that is trained (model/adapter.h), by AdamW, not sharded.
  /// Masters, moments and gradients are then theirs alone.
  model::LoraConfig lora = {};
  std::uint64_t lora_seed = 0;                           ///< of new adapters (model::new_adapters)
  std::optional<model::WeightSource> lora_initial = {};  ///< adapter_specs' tensors to begin with instead
  bool activation_checkpointing = false;
  std::int64_t logprob_chunk_tokens = 1024;
  config::OptimRecipe optim;
  std::int64_t total_updates = 0;  ///< horizon of the linear and cosine schedules (down to 0)
  int num_threads = 0;  ///< on the CPU, LibTorch's too; 0: the caller's (base/thread_scope.h). Changes no bit
};

/// Limits the tokens whose gradients a device's learner quantizes at once with backward fp8_e4m3, whole segments of
/// 128. Their fp32 form stays small beside a micro-batch of a large model, and matmuls keep a GPU busy.
inline constexpr std::int64_t kFp8GradientTokens = 4096;

/// Holds named statistics of one optimizer update over all ranks ("actor/pg_loss", "mismatch/k3_kl", …), each the same
/// on every rank. The names are those of metrics.jsonl.
using Metrics = std::map<std::string, double>;

struct UpdateReport {
  bool finite = true;      ///< false: nothing was updated on any rank
  std::string non_finite;  ///< the first tensor found not finite, or "loss"
  Metrics metrics;
};

/// Holds per-token log-probs (and entropy) of a micro-batch's targets, N entries; 0 where masked.
struct TokenScores {
  std::vector<float> logprobs;
  std::vector<float> entropy;
};

class ForwardEngine;   // forward_engine.h
struct PolicyWeights;  // policy_weights.h

/// Trains a policy. Data parallel: every rank holds the same weights and moments, sees its own micro-batches and makes
/// the same calls in the same order. One thread calls. All arguments and results are in host memory.
class Learner {
 public:
  /// Has `initial` written into the masters, tensor by tensor. With options.lora it is the base, which is read again
  /// when a snapshot is to have it: what it reads must outlive the learner. Temperature scales logits in every log-prob
  /// it computes: the distribution really sampled from.
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world);
  /// Does the same with the given engine (forward_engine.h) instead of the one that options.device selects.
  Learner(const model::ModelConfig& config, const model::WeightSource& initial, const LearnerOptions& options,
          dist::Collectives& world, std::unique_ptr<ForwardEngine> engine);
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Scores targets under the present weights, without gradients. After a cut only a batch's kept tokens count.
  TokenScores score(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// With options.lora: makes score_reference use the adapters that training began with. `start`: adapter_specs'
  /// tensors, which must stay readable; none: new ones, which add nothing.
  void keep_reference(const std::optional<model::WeightSource>& start);
  bool has_reference() const;
  /// Computes `score` of the base with those adapters: the reference of a KL term without a second model.
  TokenScores score_reference(const types::MicroBatch& batch, const ops::SampleParams& sample_params);

  /// Adds the gradient of this micro-batch's share of the loss, whose denominators are the global `counts`. Gradients
  /// accumulate in fp32. is_last: no micro-batch follows before `update`, so sums over ranks begin during the backward
  /// pass (GradientSums). Each rank may set it or not. On a device the loss and the backward pass wait for the next
  /// call if memory has room for a second micro-batch. The device then runs the next forward pass while the host
  /// computes the loss. The bits are the same.
  void accumulate(const types::MicroBatch& batch, const types::GlobalCounts& counts, const LossOptions& loss,
                  const ops::SampleParams& sample_params, bool is_last = false);

  /// Ends the mini-batch: sums gradients over ranks, checks them, clips, applies the optimizer's update and clears the
  /// gradients. Not finite on any rank: nothing is applied anywhere, the update count and schedule stay.
  UpdateReport update();

  /// Returns the learning rate of the next update, or the updates applied so far.
  double lr() const;
  std::int64_t num_updates() const;
  /// Starts the optimizer afresh (moments 0, count 0) with new options: between cold start and RL.
  void reset_optimizer(const config::OptimRecipe& optim, std::int64_t total_updates);

  /// Returns whether ranks shard masters and moments. Each tensor's are then on one rank alone, and all ranks must make
  /// the calls marked as collective.
  bool is_sharded() const;
  bool has_adapters() const;
  const model::LoraConfig& lora() const;  ///< of rank 0 without
  /// Returns the view of masters, moments and gradients for checkpoints, exports and tests.
  LearnerState& state();
  const LearnerState& state() const;

  /// Quantizes the masters into `snapshot`. With options.lora and adapters in the snapshot, the base is quantized once,
  /// and then A and B alone are published. Without adapters in the snapshot, the merged weights are published each
  /// time. With fake_quant and low_bit the learner reads the snapshot from now on. It must outlive the learner, and
  /// only the learner may publish into it. Collective when sharded, and then takes one tensor at a time.
  /// `device` (or null) also keeps the snapshot's weights on this learner's device. Once it holds them, they are
  /// rewritten only there, from the masters in place (DeviceWriter), and dequantized there for fake_quant. With low_bit
  /// on a device it is required and must live as long as the snapshot. The forward pass reads the weights there, and
  /// uploads them if they are missing.
  void publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device = nullptr);

  /// QuRL's update-aware quantization (§3.3): divides the weights of the linear layers behind a norm (q, k, v; gate,
  /// up) by `scale` and multiplies the norm's gain by it, so that the model computes the same. Biases stay. Collective
  /// when sharded.
  void apply_uaq(float scale);

  /// Returns the snapshot that `publish` wrote to if it holds the present masters, else null.
  const model::Snapshot* published() const;
  config::LearnerForward forward_mode() const;
  /// Returns whether the forward pass reads this tensor of the published snapshot in the decoder's memory. False with
  /// bf16, and with fake_quant on a GPU, which has a copy.
  bool reads_in_place(const std::string& tensor) const;

  /// Frees the memory that is only kept for the next micro-batch, for other users of the learner's device.
  void release_memory();

 private:
  TokenScores score_by(const PolicyWeights* policy, const types::MicroBatch& batch,
                       const ops::SampleParams& sample_params);
  void publish_adapters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device);
  std::unique_ptr<LearnerParts> parts_;
};

/// Returns the recipe's loss and correction, resolved in the catalog that the recipe was read with.
LossOptions policy_options(const config::Recipe& recipe);

/// Returns whether an update needs every response token and its old log-prob before its first micro-batch.
bool needs_whole_mini_batch(const LossOptions& loss);
/// Returns whether it also needs every token's entropy under the old policy (MicroBatch::old_entropy).
bool needs_old_entropy(const LossOptions& loss);
/// Computes the statistics of such an update over the mini-batch on all ranks (`batches`: this rank's, with old
/// log-probs). Sets loss.blend, weight_scale and selection and returns metrics. Does nothing with other losses.
/// Collective.
Metrics prepare_mini_batch(std::span<const types::MicroBatch* const> batches, LossOptions& loss,
                           dist::Collectives& world);

/// Pointers to each of `batches`, which outlive them.
std::vector<const types::MicroBatch*> pointers_to(std::span<const types::MicroBatch> batches);

/// Returns the names of the statistics that an update with such a loss has (UpdateReport::metrics), in their order.
std::vector<std::string> policy_metric_names(const LossOptions& loss);

/// Returns the version of LibTorch that this program was built with.
std::string torch_version();

}  // namespace qrl::learner
