#include "learner/keys.h"

namespace qrl::learner {

namespace {

using namespace config;
using enum config::OnResume;

constexpr std::int64_t kMaxTokens = 1'048'576;
constexpr std::int64_t kMaxNewtonSchulz = 100;

}  // namespace

void add_algorithm_keys(config::Section<AlgorithmOptions> algorithm, const config::AnyChoices& losses) {
  using A = AlgorithmOptions;
  algorithm.add(fixed, "clip_ratio_low", &A::clip_ratio_low, real(kInside0To1), "ratios are clipped at 1 - this")
      .unset_by(losses);
  algorithm.add(fixed, "clip_ratio_high", &A::clip_ratio_high, real(kPositive), "ratios are clipped at 1 + this")
      .unset_by(losses);
  algorithm
      .add(fixed, "clip_ratio_c", &A::clip_ratio_c, real(kAbove1OrOff),
           "dual clip: maximum ratio of tokens with a negative advantage")
      .unset_by(losses);
  algorithm
      .add(fixed, "loss_agg_mode", &A::loss_agg_mode,
           "reduction of token losses over the mini-batch and all ranks; norm divides sums by data.max_response_length")
      .unset_by(losses);
  algorithm.add(fixed, "off_policy_mask_threshold", &A::off_policy_mask_threshold, real(kPositive),
                "mask a response with a negative advantage if its mean log mu/pi exceeds this (DeepSeek-V3.2)",
                "no mask");
  algorithm.add(fixed, "top_entropy_quantile", &A::top_entropy_quantile, real(kAbove0To1),
                "share of a mini-batch's tokens in the loss, those of highest entropy; 1: all");
  using V = A::ClipCov;
  auto clip_cov = algorithm.inner("clip_cov", &A::clip_cov);
  clip_cov.add(fixed, "ratio", &V::ratio, real(kFrom0To1),
               "Clip-Cov: share of tokens to exclude, among those whose covariance of advantage and log-prob is within "
               "the bounds; 0: off");
  clip_cov.only_with("algorithm.clip_cov.ratio", "above 0");
  clip_cov.add(fixed, "low", &V::low, "lower bound of the covariance")
      .needs("", "algorithm.clip_cov.high", "above algorithm.clip_cov.low", "no token would be excluded");
  clip_cov.add(fixed, "high", &V::high, "upper bound of the covariance");
  algorithm.add(fixed, "kl_loss_coef", &A::kl_loss_coef, real(kAtLeast0),
                "weight of the KL to the initial model; 0: no reference model");
  algorithm.add(allow_change, "entropy_coef", &A::entropy_coef, real(kAtLeast0), "weight of the entropy bonus");
  algorithm.add(
      fixed, "bound_moved_only", &A::bound_moved_only,
      "bound only tokens that the step's updates moved, not those beyond the bound around the sampler before");
}

void add_correction_keys(config::Section<CorrectionOptions> correction, const config::AnyChoices& corrections) {
  using C = CorrectionOptions;
  correction
      .add(fixed, "threshold", &C::threshold, real(kAtLeast1), "maximum weight of a token, or maximum ratio to keep")
      .unset_by(corrections);
  correction.add(fixed, "threshold_low", &C::threshold_low, real(kAbove0To1), "minimum ratio to keep")
      .unset_by(corrections)
      .needs("", "rollout_correction.threshold", "above rollout_correction.threshold_low", "every weight would be 0");
}

void add_rejection_keys(config::Section<CorrectionOptions> correction) {
  using C = CorrectionOptions;
  correction
      .add(fixed, "rs", &C::rs,
           "rejection in addition to weights: per token, or per sequence by sum, mean or maximum over its tokens")
      .needs("other than none", "rollout_correction.rs_threshold", "set",
             "set the value beyond which a token or sequence is rejected")
      .needs("seq_max", "rollout_correction.rs_stat", "k2 or k3", "the maximum log ratio does not bound the minimum");
  correction.only_with("rollout_correction.rs", "other than none");
  correction
      .add(fixed, "rs_stat", &C::rs_stat,
           "statistic of rho = pi_old/mu: k1: log rho, bounded as a ratio; k2: half its square; k3: rho - 1 - log rho")
      .needs("k1", "rollout_correction.rs_threshold", "above 1",
             "the ratio is 1 where sampler and learner agree, and must be kept");
  correction.add(fixed, "rs_threshold", &C::rs_threshold, real(kPositive), "maximum value to keep; required with rs",
                 "none");
  correction
      .add(fixed, "rs_threshold_low", &C::rs_threshold_low, real(kAbove0To1), "minimum ratio to keep (k1 only)",
           "1 / rs_threshold with k1")
      .needs("set", "rollout_correction.rs_stat", "k1", "k2 and k3 are never negative: delete it")
      .fill = [access = correction.access()](Recipe& recipe) {
    C& own = access(recipe);
    const bool has_k1 = own.rs != RsLevel::none && own.rs_stat == RsStat::k1 && own.rs_threshold;
    if (has_k1 && !own.rs_threshold_low) own.rs_threshold_low = 1 / *own.rs_threshold;
  };
  correction.only_with({});
  correction.add(fixed, "token_veto_threshold", &C::token_veto_threshold, real(kInside0To1),
                 "reject a response that has a token with rho below this", "no veto");
  correction
      .add(fixed, "batch_normalize", &C::batch_normalize,
           "divide weights by their mean over the mini-batch's tokens (or responses) before rejection")
      .only_with("rollout_correction.method", "other than none");
  correction.add(fixed, "behaviour_in_ratio", &C::behaviour_in_ratio,
                 "clip the ratio to the sampler, not to the old policy; only without a correction, for experiments");
}

void add_update_rule(config::OnResume on_resume, config::Section<OptimizerOptions> section) {
  using O = OptimizerOptions;
  section.add(on_resume, "lr", &O::lr, real(kPositive), "peak learning rate");
  section.add(on_resume, "betas", &O::betas, list_of(real(kFrom0ToBelow1), 2),
              "AdamW's decay rates of the two moments");
  section.add(on_resume, "weight_decay", &O::weight_decay, real(kAtLeast0),
              "decoupled weight decay; norms and biases have none");
  section.add(on_resume, "lr_warmup_steps", &O::lr_warmup_steps, integer(0), "optimizer updates of linear warm-up");
  section.add(on_resume, "lr_scheduler", &O::lr_scheduler, "learning rate schedule after the warm-up");
  section.add(on_resume, "grad_clip", &O::grad_clip, real(kAtLeast0), "maximum gradient norm; 0: no clipping");
}

void add_optimizer_keys(config::Section<OptimizerOptions> optim) {
  using O = OptimizerOptions;
  optim.add(fixed, "name", &O::name,
            "optimizer; muon updates the layers' matrices, and AdamW the rest with the same lr");
  add_update_rule(allow_change, optim);
  optim
      .add(allow_change, "lr_warmup_ratio", &O::lr_warmup_ratio, real(kFrom0To1),
           "share of the run's updates for warm-up, instead of lr_warmup_steps", "lr_warmup_steps")
      .excludes("optim.lr_warmup_steps", "set only one: optim.lr_warmup_ratio: null, or the steps to their default");
  optim.add(allow_change, "eps", &O::eps, real(kPositive), "AdamW's epsilon");
  using M = O::Muon;
  auto muon = optim.inner("muon", &O::muon);
  muon.only_with("optim.name", "muon");
  muon.add(fixed, "momentum", &M::momentum, real(kFrom0ToBelow1), "decay rate of Muon's momentum");
  muon.add(fixed, "nesterov", &M::nesterov, "use Nesterov momentum");
  muon.add(fixed, "ns_steps", &M::ns_steps, integer(1, kMaxNewtonSchulz), "Newton-Schulz iterations per update");
  muon.add(fixed, "match_adamw_rms", &M::match_adamw_rms,
           "scale updates by 0.2 sqrt(max(rows, columns)), so that lr has AdamW's meaning");
}

void add_numerics_keys(config::Section<Numerics> learner, const std::string& auto_text) {
  using N = Numerics;
  add_auto(learner, "forward", &N::forward,
           "learner's linear layers: bf16, fake_quant (dequantized values) or low_bit (the sampler's GEMM, on its "
           "device); " +
               auto_text);
  learner
      .add(fixed, "backward", &N::backward,
           "format of the backward pass's GEMMs; with low_bit also int8 (int8 layers) or fp8_e4m3 (fp8_e4m3 with "
           "block128); gradients are quantized like activations")
      .needs("int8 or fp8_e4m3", "quant.learner.forward", "low_bit",
             "its operands are the quantized values of that forward pass");
}

void add_memory_keys(config::Section<MemoryOptions> actor) {
  using A = MemoryOptions;
  actor.add(fixed, "logprob_chunk_tokens", &A::logprob_chunk_tokens,
            word_or("auto", A{}.logprob_chunk_tokens, integer(1, kMaxTokens)),
            "tokens whose logits are in memory at once; auto: 1024, or on a GPU up to 4096");
  actor.add(fixed, "activation_checkpointing", &A::activation_checkpointing,
            word_or("auto", A{}.activation_checkpointing, type_of<bool>()),
            "recompute activations in the backward pass to save memory; auto: only on a GPU without room for them");
}

}  // namespace qrl::learner
