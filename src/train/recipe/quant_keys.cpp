#include <string>

#include "learner/keys.h"
#include "train/recipe/automatic.h"
#include "train/recipe/sections.h"

namespace qrl::train {

namespace {

using namespace config;
using enum config::OnResume;
using namespace std::string_literals;

constexpr std::int64_t kMaxStages = 1'048'576;

/// What auto selects for int4 weights.
constexpr GroupSize kInt4GroupSize = GroupSize::inputs128;
constexpr WeightScales kInt4Scales = WeightScales::largest;

/// Replaces auto by `choice` with int4 weights, and any value by auto without.
template <class Word>
void resolve(const QuantRecipe& quant, Word& word, Word choice) {
  if (quant.weights != WeightFormat::int4) word = Word::automatic;
  else if (word == Word::automatic) word = choice;
}

void add_int4_groups(Section<QuantRecipe>& quant) {
  Key& size = quant.add(fixed, "rollout.group_size", &QuantRecipe::group_size,
                        "inputs that share a scale in int4; auto: 128; 64 and 32 must divide every width");
  size.absent_in_record = "128";
  size.only_with("quant.rollout.weights", "int4");
  size.fill = [](Recipe& recipe) { resolve(recipe.quant, recipe.quant.group_size, kInt4GroupSize); };
  Key& scales = quant.add(fixed, "rollout.scales", &QuantRecipe::scales,
                          "scale of an int4 group: amax/7, or of amax/7 and ±amax/8 (levels -8 to 7) the one with the "
                          "least square error; auto: largest");
  scales.absent_in_record = "largest";
  scales.only_with("quant.rollout.weights", "int4");
  scales.fill = [](Recipe& recipe) { resolve(recipe.quant, recipe.quant.scales, kInt4Scales); };
}

void add_sampler_formats(Section<QuantRecipe>& quant) {
  quant.add(fixed, "rollout.weights", &QuantRecipe::weights,
            "format of the sampler's linear layers; activations, granularity and kv_cache follow it by default");
  const char* own_format = "int4 allows bf16, int8 or fp8_e4m3; every other format has its own";
  quant
      .add(fixed, "rollout.activations", &QuantRecipe::activations,
           "format of the linear layers' inputs; auto: that of the weights, or bf16 for int4 (W4A16); int8 or fp8_e4m3 "
           "make int4 W4A8")
      .needs("bf16", "quant.rollout.weights", "bf16 or int4", own_format)
      .needs("int8", "quant.rollout.weights", "int8 or int4", own_format)
      .needs("fp8_e4m3", "quant.rollout.weights", "fp8_e4m3 or int4", own_format);
  quant
      .add(fixed, "rollout.granularity", &QuantRecipe::granularity,
           "values that share a scale in fp8_e4m3; auto: channel_token")
      .only_with("quant.rollout.weights", "fp8_e4m3");
  add_int4_groups(quant);
  quant
      .add(fixed, "rollout.ignore", &QuantRecipe::ignore,
           "linear layers to keep in bf16: down_proj, model.layers.0.*, with * and ?; q, k, v match together, as do "
           "gate, up")
      .only_with("quant.rollout.weights", "int8 or fp8_e4m3 or int4");
  quant
      .add(
          fixed, "rollout.lm_head", &QuantRecipe::lm_head,
          "format of lm_head; auto: bf16, or fp32 with fp32 weights; int8: in the sampler, and with rollout.bitwise in "
          "the learner")
      .needs("int8", "quant.rollout.weights", "other than fp32", "an exact fp32 sampler cannot have a low-bit lm_head");
  quant
      .add(fixed, "rollout.profile", &QuantRecipe::profile, word_or_path({"auto"}),
           "fixed scales for int8 weights, made once (FlashRL): auto makes them when training begins; or a file from "
           "qrl-train profile",
           "none")
      .needs("set", "quant.rollout.weights", "int8", "a profile holds int8 scales")
      .needs("set", "quant.learner.forward", "bf16", "only the sampler's norms contain the profile's smoothing")
      .needs("set", "quant.uaq_scale", "default", "update-aware quantization needs scales that follow the weights");
  add_auto(quant, "rollout.kv_cache", &QuantRecipe::kv_cache,
           "format of the KV cache; auto: fp32 with fp32 weights, int8 with int8 activations and rollout.bitwise, else "
           "bf16");
  quant
      .add(fixed, "rollout.queries", &QuantRecipe::queries,
           "format of the queries; auto: bf16; fp8_e4m3: with calibrated scales, as in FP8 attention (CPU only, for "
           "experiments)")
      .only_with("quant.rollout.kv_cache", "fp8_e4m3");
}

Type<std::int64_t> block_sizes() {
  const Type<std::size_t> index = one_of({"32", "64", "128"});
  return {index.text, [read = index.read](const YamlNode& node) { return std::int64_t{32} << read(node); },
          [](std::int64_t size) { return std::to_string(size); }};
}

void add_rotation(Section<QuantRecipe>& quant) {
  Key& rotation = quant.add(fixed, "rollout.rotation", &QuantRecipe::rotation,
                            "rotate inputs of quantized matrices by blocks; auto: hadamard for int8 if the block "
                            "divides every width and no profile is set, else none");
  rotation.absent_in_record = "none";
  rotation
      .needs("hadamard", "quant.rollout.weights", "int8, fp8_e4m3 or int4",
             "bf16 and fp32 matrices are never rotated: set quant.rollout.rotation: none")
      .needs("hadamard", "quant.rollout.profile", "unset",
             "a profile's scales are for unrotated inputs: set quant.rollout.rotation: none, or quant.rollout.profile: "
             "null");
  rotation.fill = [](Recipe& recipe) {
    RotationKind& kind = recipe.quant.rotation;
    if (kind == RotationKind::automatic && !gains_by_rotation(recipe.quant)) kind = RotationKind::none;
  };
  rotation.effective = [fill = rotation.fill, print = rotation.print](const Recipe& recipe) {
    Recipe filled = recipe;
    fill(filled);
    return std::vector{print(filled)};
  };
  quant
      .add(fixed, "rollout.rotation_block", &QuantRecipe::rotation_block, block_sizes(),
           "number of inputs that are rotated together")
      .only_with("quant.rollout.rotation", "auto or hadamard");
}

void add_gain_noise(Section<QuantRecipe>& quant) {
  using N = GainNoiseRecipe;
  auto noise = quant.inner("rollout.noise", &QuantRecipe::noise);
  noise
      .add(fixed, "start", &N::start, real(kAtLeast0),
           "standard deviation of the noise on the sampler's norm gains in the second stage, the first stage with "
           "noise; 0: off (QeRL: 1e-2)")
      .needs("above 0", "rollout.bitwise", "false",
             "the learner's gains have no noise: set quant.rollout.noise.start: 0")
      .needs("above 0", "rollout.device", "cpu", "only the CPU sampler adds noise")
      .needs("above 0", "quant.rollout.profile", "unset", "a profile already changes the gains");
  noise.only_with("quant.rollout.noise.start", "above 0");
  noise.add(fixed, "end", &N::end, real(kPositive),
            "standard deviation in the last stage; it decays by the same factor per stage");
  noise.add(fixed, "stages", &N::stages, integer(3, kMaxStages),
            "number of equal parts of trainer.total_training_steps");
}

void add_quant_calibration(Section<QuantRecipe>& quant) {
  quant.only_with("quant.rollout.kv_cache", "fp8_e4m3");
  quant.add(fixed, "kv_calibration.when", &QuantRecipe::kv_when,
            "when to calibrate fp8_e4m3's key and value scales: after each update, or once (for experiments)");
  quant.add(fixed, "kv_calibration.percentile", &QuantRecipe::kv_percentile, real(kPercentile),
            "percentile of |key| and |value| per head, over a few training prompts, that sets the range of fp8_e4m3");
  quant.add(fixed, "kv_calibration.margin", &QuantRecipe::kv_margin, real(kPositive), "factor on that percentile");
  quant.only_with("quant.rollout.weights", "int8, fp8_e4m3 or int4");
  quant
      .add(fixed, "uaq_scale", &QuantRecipe::uaq_scale, real(kPositive),
           "divide weights after a norm by this and multiply the norm's gain by it, once (QuRL: 1.5); updates then "
           "reach quantized values sooner")
      .condition.advice = "no weights are quantized, so it has no effect: set quant.uaq_scale: 1";
}

}  // namespace

void add_quant(config::Keys& keys, const MatchedForward& decided) {
  Section quant(keys, "quant", &Recipe::quant);
  add_sampler_formats(quant);
  add_rotation(quant);
  add_gain_noise(quant);
  learner::add_numerics_keys(Section(keys, "quant.learner", quant.access().at(&QuantRecipe::learner)),
                             auto_text_of_forward(decided));
  add_quant_calibration(quant);
}

}  // namespace qrl::train
