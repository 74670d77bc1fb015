#include "train/recipe/automatic.h"

#include <algorithm>
#include <utility>

#include "train/recipe/catalog.h"

namespace qrl::train {

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

Chosen<learner::LearnerForward> chosen_forward(const Recipe& recipe) {
  const MatchedForward& decided = recipe.keys->matched_forward();
  const bool samples = samples_on_gpu(recipe), learns = learns_on_gpu(recipe);
  if (!has_quantized_weights(recipe.quant))
    return {learner::LearnerForward::bf16, "the sampler's weights are not quantized"};
  if (!recipe.quant.profile.empty())
    return {learner::LearnerForward::bf16, "only the sampler's norms contain the profile's smoothing"};
  if (trains_adapters(recipe) && recipe.lora.publish == LoraPublish::merge)
    return {learner::LearnerForward::bf16, "only the sampler has the merged weights"};
  if (!(samples || learns ? decided.on_gpu : decided.on_cpu))
    return {learner::LearnerForward::bf16, "no other default is shown to learn more (docs/science/real-weights.md)"};
  const char* unmeasured = "; its speed and memory on a GPU are not measured";
  if (learns && !samples)
    return {learner::LearnerForward::fake_quant,
            std::string("the CPU's sampler has the GEMMs of low_bit") + unmeasured};
  return {learner::LearnerForward::low_bit,
          std::string("runs on real weights favor it (docs/science/real-weights.md)") + (samples ? unmeasured : "")};
}

/// Reads quant.learner.forward after its choice.
Chosen<bool> chosen_bitwise(const Recipe& recipe) {
  const QuantRecipe& quant = recipe.quant;
  if (quant.learner.forward != learner::LearnerForward::low_bit)
    return {false, "it needs quant.learner.forward low_bit"};
  if (samples_on_gpu(recipe) || learns_on_gpu(recipe)) return {false, "not both devices are the CPU"};
  if (!quant.kv_cache.is_auto && quant.kv_cache == KvCache::fp8_e4m3) return {false, "its pages cannot be fp8_e4m3"};
  if (quant.lm_head == HeadFormat::int8) return {false, "only the sampler has an int8 lm_head"};
  if (quant.noise.start > 0) return {false, "only the sampler's gains have noise"};
  if (!recipe.keys->matched_forward().bitwise)
    return {false, "equal bits are not shown to learn as much (docs/science/real-weights.md)"};
  return {true, "it learns as much, without a gap (docs/science/real-weights.md)"};
}

/// Reads rollout.bitwise after its choice.
Chosen<KvCache> chosen_kv_cache(const Recipe& recipe) {
  if (recipe.quant.weights == WeightFormat::f32 && !samples_on_gpu(recipe))
    return {KvCache::f32, "the weights are fp32"};
  if (!has_int8_activations(recipe.quant)) return {KvCache::bf16, "activations are not int8"};
  if (recipe.rollout.bitwise) return {KvCache::int8, "the learner reads the same pages"};
  return {KvCache::bf16, "int8 pages would widen the gap to the learner"};
}

/// Returns whether the recorded KV pages are what `auto` means for the recorded weights, and `quant` has other weights.
bool chose_pages_for_other_weights(Recipe recorded, const QuantRecipe& quant) {
  const config::AutoValue<KvCache> pages = recorded.quant.kv_cache;
  if (pages.is_auto) return false;  // a record of 0.2
  if (recorded.quant.weights == quant.weights && recorded.quant.activations == quant.activations) return false;
  recorded.quant.kv_cache.is_auto = true;
  (void)choose_automatic(recorded);
  return recorded.quant.kv_cache.value == pages.value;
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
  choose(kAutomaticKeys[0], recipe.quant.learner.forward, chosen_forward);
  choose(kAutomaticKeys[1], recipe.rollout.bitwise, chosen_bitwise);
  choose(kAutomaticKeys[2], recipe.quant.kv_cache, chosen_kv_cache);
  return choices;
}

std::vector<AutoChoice> resolve_automatic(Recipe& recipe) {
  std::vector<AutoChoice> choices = choose_automatic(recipe);
  recipe.quant.learner.forward.is_auto = recipe.rollout.bitwise.is_auto = recipe.quant.kv_cache.is_auto = false;
  return choices;
}

void set_former_automatic(Recipe& recipe, const Recipe& recorded, const config::Origins& origins) {
  const auto is_open = [&](std::string_view key, const auto& member) {
    return member.is_auto && !origins.is_override(key);
  };
  QuantRecipe& quant = recipe.quant;
  if (is_open(kAutomaticKeys[0], quant.learner.forward)) quant.learner.forward = learner::LearnerForward::bf16;
  if (is_open(kAutomaticKeys[1], recipe.rollout.bitwise)) recipe.rollout.bitwise = false;
  if (is_open(kAutomaticKeys[2], quant.kv_cache)) {
    quant.kv_cache = quant.weights == WeightFormat::f32 ? KvCache::f32
                     : has_int8_activations(quant)      ? KvCache::int8
                                                        : KvCache::bf16;
  }
  if (!origins.is_override(kAutomaticKeys[2]) && chose_pages_for_other_weights(recorded, quant))
    quant.kv_cache.is_auto = true;
}

std::string auto_text_of_forward(const MatchedForward& decided) {
  if (!decided.on_cpu && !decided.on_gpu) return "auto: bf16";
  const std::string where = decided.on_cpu && decided.on_gpu ? "" : decided.on_cpu ? " on the CPU" : " on a GPU";
  return "auto: low_bit with quantized weights" + where + " without profile or lora.publish merge; " +
         (decided.on_gpu ? "fake_quant for a learner on a GPU with the sampler on the CPU; " : "") + "else bf16";
}

std::string auto_text_of_bitwise(const MatchedForward& decided) {
  if (!decided.bitwise || !decided.on_cpu) return "auto: false";
  return "auto: true with quant.learner.forward low_bit on the CPU, without an int8 lm_head or noise; else false";
}

std::int64_t tokens_per_micro_batch(const Recipe& recipe) {
  const config::AutoValue<std::int64_t>& size = recipe.actor.max_tokens_per_micro_batch;
  if (!size.is_auto || learns_on_gpu(recipe)) return size;
  const std::int64_t sequence = recipe.data.max_prompt_length + recipe.data.max_response_length;
  return std::max({ActorRecipe{}.max_tokens_per_micro_batch.value, sequence, recipe.sft.max_length.value_or(0)});
}

bool gains_by_rotation(const QuantRecipe& quant) {
  return quant.weights == WeightFormat::int8 && quant.profile.empty();
}

}  // namespace qrl::train
