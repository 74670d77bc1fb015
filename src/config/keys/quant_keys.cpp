#include <string>

#include "config/keys/sections.h"

namespace qrl::config {

namespace {

using enum OnResume;

constexpr std::int64_t kMaxStages = 1'048'576;

/// Returns whether auto selects hadamard where the block fits. On real models, rotation reduces only int8's gap between
/// sampler and learner (docs/science/real-weights.md).
bool gains_by_rotation(WeightFormat weights) { return weights == WeightFormat::int8; }

void add_sampler_formats(Section<QuantRecipe Recipe::*>& quant) {
  quant.add(
      fixed, "rollout.weights", &QuantRecipe::weights,
      "format of the decoder's linear layers; activations, granularity and kv_cache follow it unless they are set");
  const char* own_format = "int4 takes bf16, int8 or fp8_e4m3, every other format its own";
  quant
      .add(fixed, "rollout.activations", &QuantRecipe::activations,
           "format of the linear layers' inputs; auto: that of the weights, bf16 for int4 (W4A16); int8 and fp8_e4m3 "
           "make int4 W4A8")
      .needs("bf16", "quant.rollout.weights", "bf16 or int4", own_format)
      .needs("int8", "quant.rollout.weights", "int8 or int4", own_format)
      .needs("fp8_e4m3", "quant.rollout.weights", "fp8_e4m3 or int4", own_format);
  quant
      .add(fixed, "rollout.granularity", &QuantRecipe::granularity,
           "what shares a scale in fp8_e4m3; auto: channel_token")
      .only_with("quant.rollout.weights", "fp8_e4m3");
  quant
      .add(fixed, "rollout.ignore", &QuantRecipe::ignore,
           "linear layers that stay bf16: down_proj, model.layers.0.*, with * and ?; q, k, v together, as gate, up")
      .only_with("quant.rollout.weights", "int8 or fp8_e4m3 or int4");
  quant
      .add(fixed, "rollout.lm_head", &QuantRecipe::lm_head,
           "lm_head of sampler and learner; auto: bf16, or fp32 with fp32 weights; int8: the sampler's alone, the "
           "learner's as with auto")
      .needs("int8", "rollout.bitwise", "false",
             "the learner's lm_head is not the sampler's then: set quant.rollout.lm_head: auto")
      .needs("int8", "quant.rollout.weights", "other than fp32",
             "a sampler that is to be exact has no low-bit lm_head");
  quant
      .add(fixed, "rollout.profile", &QuantRecipe::profile, word_or_path({"auto"}),
           "int8 weights by a profile made once instead of anew at each publish (FlashRL): auto, made when training "
           "begins; or a file that qrl-train profile made",
           "none")
      .needs("set", "quant.rollout.weights", "int8", "the profile is of int8 values")
      .needs("set", "quant.learner.forward", "bf16", "the profile's smoothing is folded into the sampler's norms alone")
      .needs("set", "quant.uaq_scale", "default", "update-aware quantization needs scales that follow the weights");
  quant.add(fixed, "rollout.kv_cache", &QuantRecipe::kv_cache,
            "format of the KV cache; auto: int8 where activations are, fp32 with fp32 weights, else bf16");
  quant
      .add(fixed, "rollout.queries", &QuantRecipe::queries,
           "format of the queries; auto: bf16; fp8_e4m3: as FP8 attention has it, with calibrated scales "
           "(for experiments, on the CPU)")
      .only_with("quant.rollout.kv_cache", "fp8_e4m3");
}

void add_rotation(Section<QuantRecipe Recipe::*>& quant) {
  Key& rotation =
      quant.add(fixed, "rollout.rotation", &QuantRecipe::rotation,
                "inputs of quantized matrices are rotated by blocks before they are quantized; auto: hadamard for int8 "
                "on the CPU where the block fits every width, without a profile, else none");
  rotation.absent_in_record = "none";
  rotation
      .needs("hadamard", "quant.rollout.weights", "int8, fp8_e4m3 or int4",
             "matrices in bf16 and fp32 are never rotated: set quant.rollout.rotation: none")
      .needs("hadamard", "quant.rollout.profile", "unset",
             "a profile's scales are of inputs that are not rotated: set one of the two to none (profile: null)")
      .needs("hadamard", "rollout.device", "cpu",
             "a GPU multiplies no rotated matrices: set quant.rollout.rotation: none");
  rotation.fill = [](Recipe& recipe) {
    QuantRecipe& of = recipe.quant;
    const bool may_rotate = gains_by_rotation(of.weights) && of.profile.empty() && !reads_matrices_on_gpu(recipe);
    if (of.rotation == RotationKind::automatic && !may_rotate) of.rotation = RotationKind::none;
  };
  quant
      .add(fixed, "rollout.rotation_block", &QuantRecipe::rotation_block,
           one_of<std::int64_t>({{"32", 32}, {"64", 64}, {"128", 128}}),
           "inputs that are rotated together; one for the model")
      .only_with("quant.rollout.rotation", "auto or hadamard")
      .needs("changed", "quant.rollout.weights", "int8, fp8_e4m3 or int4", "it has no effect: delete it");
}

void add_gain_noise(Section<QuantRecipe Recipe::*>& quant) {
  using N = GainNoiseRecipe;
  auto noise = quant.inner("rollout.noise", &QuantRecipe::noise);
  noise
      .add(fixed, "start", &N::start, real(kAtLeast0),
           "standard deviation of normal noise on the gains of the sampler's norms in the second stage, the first with "
           "any; 0: none (QeRL, there 1e-2)")
      .needs("above 0", "rollout.bitwise", "false",
             "the learner's gains have no noise: set quant.rollout.noise.start: 0")
      .needs("above 0", "rollout.device", "cpu", "the noise is the CPU sampler's alone")
      .needs("above 0", "quant.rollout.profile", "unset", "a profile folds its factors into the gains");
  noise.only_with("quant.rollout.noise.start", "above 0");
  noise.add(fixed, "end", &N::end, real(kPositive), "of the last stage; in between it falls by one factor a stage");
  noise.add(fixed, "stages", &N::stages, integer(3, kMaxStages), "equal parts of trainer.total_training_steps");
}

void add_quant_learner(Section<QuantRecipe Recipe::*>& quant) {
  quant.add(fixed, "learner.forward", &QuantRecipe::learner_forward,
            "the learner's linear layers: bf16, in model.dtype; fake_quant, on values quantized and dequantized; "
            "low_bit, the sampler's own GEMM on its tensors, on a GPU with rollouts there");
  quant
      .add(fixed, "learner.backward", &QuantRecipe::learner_backward,
           "GEMMs of the backward pass; with forward low_bit also int8, of int8 layers, or fp8_e4m3, of fp8_e4m3 "
           "layers of granularity block128; gradients are quantized as activations are")
      .needs("int8 or fp8_e4m3", "quant.learner.forward", "low_bit",
             "its operands are the quantized values of that forward pass")
      .needs("int8", "quant.rollout.weights", "int8", "use model_dtype")
      // int32 sums over tokens are exact up to 132,103 terms (kMaxInt8Width in ops/dispatch/packed_linear.cpp). Terms
      // are products of two int8 values, or of 128 and an int8 value.
      .needs("int8", "actor.max_tokens_per_micro_batch", "at most 131072", "its sums over tokens are exact up to there")
      .needs("fp8_e4m3", "quant.rollout.granularity", "block128",
             "scales of square blocks are those of the transposed weights as well: set quant.rollout.weights: fp8_e4m3 "
             "and granularity: block128, or use model_dtype");
}

void add_quant_calibration(Section<QuantRecipe Recipe::*>& quant) {
  quant.only_with("quant.rollout.kv_cache", "fp8_e4m3");
  quant.add(fixed, "kv_calibration.when", &QuantRecipe::kv_when,
            "fp8_e4m3's scales of keys and values: of each policy version, or of the first alone (for experiments)");
  quant.add(
      fixed, "kv_calibration.percentile", &QuantRecipe::kv_percentile, real(kPercentile),
      "of |key| or |value| of a head on a few training prompts, after every publish: what fp8_e4m3's range is set "
      "by");
  quant.add(fixed, "kv_calibration.margin", &QuantRecipe::kv_margin, real(kPositive),
            "room above that percentile, a factor");
  quant.only_with("quant.rollout.weights", "int8, fp8_e4m3 or int4");
  quant
      .add(fixed, "uaq_scale", &QuantRecipe::uaq_scale, real(kPositive),
           "once, weights after a norm are divided by this, the norm's gain is multiplied (QuRL, there 1.5): updates "
           "reach quantized values sooner")
      .condition.advice =
      "it makes updates reach the weights' quantized values, and there are none: set quant.uaq_scale: 1";
}

}  // namespace

bool reads_matrices_on_gpu(const Recipe& recipe) {
  return samples_on_gpu(recipe) || (learns_on_gpu(recipe) && recipe.quant.learner_forward != LearnerForward::bf16);
}

void add_quant(List& list) {
  Section quant(list, "quant", &Recipe::quant);
  add_sampler_formats(quant);
  add_rotation(quant);
  add_gain_noise(quant);
  add_quant_learner(quant);
  add_quant_calibration(quant);
}

}  // namespace qrl::config
