#include "config/keys/automatic.h"

#include <utility>

#include "config/keys/key.h"

namespace qrl::config {

namespace {

template <class T>
struct Chosen {
  T value;
  std::string why;
};

bool has_quantized_weights(const QuantRecipe& quant) {
  return quant.weights != WeightFormat::f32 && quant.weights != WeightFormat::bf16;
}

bool has_int8_activations(const QuantRecipe& quant) {
  return quant.weights == WeightFormat::int8 ||
         (quant.weights == WeightFormat::int4 && quant.activations == ActivationFormat::int8);
}

/// Returns whether the sampler's matrices are rotated, or may be, while the learner does not read them.
bool may_rotate_beside_learner(const QuantRecipe& quant) {
  return quant.rotation == RotationKind::hadamard ||
         (quant.rotation == RotationKind::automatic && quant.weights == WeightFormat::int8 && quant.profile.empty());
}

Chosen<LearnerForward> forward_of(const Recipe& recipe) {
  const MatchedForward& decided = recipe.keys->matched_forward();
  const bool samples = samples_on_gpu(recipe), learns = learns_on_gpu(recipe);
  if (!has_quantized_weights(recipe.quant)) return {LearnerForward::bf16, "the sampler's weights are not quantized"};
  if (!recipe.quant.profile.empty())
    return {LearnerForward::bf16, "only the sampler's norms contain the profile's smoothing"};
  if (trains_adapters(recipe) && recipe.lora.publish == LoraPublish::merge)
    return {LearnerForward::bf16, "only the sampler has the merged weights"};
  if (!(samples || learns ? decided.on_gpu : decided.on_cpu))
    return {LearnerForward::bf16, "no other default is shown to learn more (docs/science/real-weights.md)"};
  const char* unmeasured = "; its speed and memory on a GPU are not measured";
  if (learns && !samples && may_rotate_beside_learner(recipe.quant))
    return {LearnerForward::bf16, "a learner on a GPU cannot read rotated matrices"};
  if (learns && !samples)
    return {LearnerForward::fake_quant, std::string("the CPU's sampler has the GEMMs of low_bit") + unmeasured};
  return {LearnerForward::low_bit,
          std::string("real weights learn more by it (docs/science/real-weights.md)") + (samples ? unmeasured : "")};
}

/// Reads quant.learner.forward after its choice.
Chosen<bool> bitwise_of(const Recipe& recipe) {
  const QuantRecipe& quant = recipe.quant;
  if (quant.learner_forward != LearnerForward::low_bit) return {false, "it needs quant.learner.forward low_bit"};
  if (samples_on_gpu(recipe) || learns_on_gpu(recipe)) return {false, "not both devices are the CPU"};
  if (!quant.kv_cache.is_auto && quant.kv_cache == KvCache::fp8_e4m3) return {false, "its pages cannot be fp8_e4m3"};
  if (quant.lm_head == HeadFormat::int8) return {false, "only the sampler has an int8 lm_head"};
  if (quant.noise.start > 0) return {false, "only the sampler's gains have noise"};
  if (!recipe.keys->matched_forward().bitwise)
    return {false, "equal bits are not shown to learn as much (docs/science/real-weights.md)"};
  return {true, "it learns as much, without a gap (docs/science/real-weights.md)"};
}

/// Reads rollout.bitwise after its choice.
Chosen<KvCache> kv_cache_of(const Recipe& recipe) {
  if (recipe.quant.weights == WeightFormat::f32 && !samples_on_gpu(recipe))
    return {KvCache::f32, "the weights are fp32"};
  if (!has_int8_activations(recipe.quant)) return {KvCache::bf16, "activations are not int8"};
  if (recipe.rollout.bitwise) return {KvCache::int8, "the learner reads the same pages"};
  return {KvCache::bf16, "int8 pages would widen the gap to the learner"};
}

}  // namespace

std::vector<AutoChoice> choose_automatic(Recipe& recipe) {
  std::vector<AutoChoice> choices;
  const auto choose = [&](std::string_view key, auto& member, const auto& of) {
    if (!member.is_auto) return;
    auto chosen = of(recipe);
    member.value = chosen.value;
    choices.push_back({key, std::move(chosen.why)});
  };
  choose(kAutomaticKeys[0], recipe.quant.learner_forward, forward_of);
  choose(kAutomaticKeys[1], recipe.rollout.bitwise, bitwise_of);
  choose(kAutomaticKeys[2], recipe.quant.kv_cache, kv_cache_of);
  return choices;
}

std::vector<AutoChoice> resolve_automatic(Recipe& recipe) {
  std::vector<AutoChoice> choices = choose_automatic(recipe);
  recipe.quant.learner_forward.is_auto = recipe.rollout.bitwise.is_auto = recipe.quant.kv_cache.is_auto = false;
  return choices;
}

void set_former_automatic(Recipe& recipe) {
  QuantRecipe& quant = recipe.quant;
  if (quant.learner_forward.is_auto) quant.learner_forward = LearnerForward::bf16;
  if (recipe.rollout.bitwise.is_auto) recipe.rollout.bitwise = false;
  if (!quant.kv_cache.is_auto) return;
  quant.kv_cache = quant.weights == WeightFormat::f32 ? KvCache::f32
                   : has_int8_activations(quant)      ? KvCache::int8
                                                      : KvCache::bf16;
}

std::string auto_text_of_forward(const MatchedForward& decided) {
  if (!decided.on_cpu && !decided.on_gpu) return "auto: bf16";
  const std::string where = decided.on_cpu && decided.on_gpu ? "" : decided.on_cpu ? " on the CPU" : " on a GPU";
  return "auto: low_bit with quantized weights" + where + ", without a profile or lora.publish merge; " +
         (decided.on_gpu ? "fake_quant for a learner on a GPU with an unrotated sampler on the CPU; " : "") +
         "else bf16";
}

std::string auto_text_of_bitwise(const MatchedForward& decided) {
  if (!decided.bitwise || !decided.on_cpu) return "auto: false";
  return "auto: true with quant.learner.forward low_bit on the CPU, without an int8 lm_head or noise; else false";
}

bool reads_matrices_on_gpu(const Recipe& recipe) {
  return samples_on_gpu(recipe) || (learns_on_gpu(recipe) && recipe.quant.learner_forward != LearnerForward::bf16);
}

bool gains_by_rotation(const Recipe& recipe) {
  return recipe.quant.weights == WeightFormat::int8 && recipe.quant.profile.empty() && !reads_matrices_on_gpu(recipe);
}

}  // namespace qrl::config
