#include "train/run/frozen.h"

#include <utility>

#include "base/error.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"

namespace qrl::train {

namespace {

/// Replaces low_bit on a GPU by fake_quant, because low_bit would read the policy's tensors in the decoder.
learner::LearnerForward reference_forward(const Recipe& recipe) {
  const learner::LearnerForward forward = recipe.quant.learner.forward;
  const bool is_decoders = forward == learner::LearnerForward::low_bit && learns_on_gpu(recipe);
  return is_decoders ? learner::LearnerForward::fake_quant : forward;
}

learner::LearnerOptions reference_options(const RunPlan& plan) {
  const Recipe& recipe = plan.recipe();
  learner::LearnerOptions options = plan.learner;
  options.trainable = false;
  options.numerics.forward = reference_forward(recipe);
  options.numerics.backward = learner::LearnerBackward::model_dtype;
  options.numerics.bitwise = recipe.rollout.bitwise && !learns_on_gpu(recipe);
  return options;
}

constexpr const char* kWhere = "algorithm.teacher.path";

/// Returns the teacher's formats: teacher.weights, without rotation. If the sampler's weights have the same format, the
/// sampler's other formats also apply.
QuantRecipe quant_of(const Recipe& recipe) {
  QuantRecipe quant;
  quant.weights = recipe.algorithm.teacher.weights;
  quant.rotation = RotationKind::none;
  if (quant.weights != recipe.quant.weights) return quant;
  quant.activations = recipe.quant.activations;
  quant.granularity = recipe.quant.granularity;
  quant.ignore = recipe.quant.ignore;
  quant.kv_cache = recipe.quant.kv_cache;
  return quant;
}

bool is_quantized(const Recipe& recipe) {
  const WeightFormat weights = recipe.algorithm.teacher.weights;
  return weights != WeightFormat::bf16 && weights != WeightFormat::f32;
}

/// Returns whether the teacher scores with the sampler's operations. Returns false for fp8 keys and values, for which
/// the teacher has no scales.
bool is_bitwise(const Recipe& recipe) {
  return recipe.rollout.bitwise && is_quantized(recipe) && recipe.algorithm.teacher.weights == recipe.quant.weights &&
         !learns_on_gpu(recipe) && kv_format(quant_of(recipe)) != quant::KvFormat::fp8_e4m3;
}

/// Returns the teacher's forward pass: bf16 for unquantized weights, else low_bit on the CPU and fake_quant on a GPU.
learner::LearnerForward forward_of(const Recipe& recipe) {
  if (!is_quantized(recipe)) return learner::LearnerForward::bf16;
  return learns_on_gpu(recipe) ? learner::LearnerForward::fake_quant : learner::LearnerForward::low_bit;
}

learner::LearnerOptions options_of(const Recipe& recipe) {
  learner::LearnerOptions options = learner_options(recipe);
  options.trainable = false;
  options.shard_optimizer = false;
  options.lora = {};
  options.numerics.forward = forward_of(recipe);
  options.numerics.backward = learner::LearnerBackward::model_dtype;
  options.numerics.bitwise = is_bitwise(recipe);
  options.numerics.kv_format = kv_format(quant_of(recipe));
  return options;
}

Policy load(const Recipe& recipe, const Policy& policy) {
  Policy teacher = load_policy(recipe.algorithm.teacher.path);
  require_gpu_kernels(recipe, teacher.config);
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  QRL_REQUIRE(teacher.config.max_position_embeddings >= longest, kWhere,
              "a model of at least " + std::to_string(longest) + " positions",
              std::to_string(teacher.config.max_position_embeddings),
              "use another model, or lower the recipe's lengths");
  const std::int64_t size = policy.tokenizer.vocab_size();
  bool same = teacher.tokenizer.vocab_size() == size;
  for (std::int64_t id = 0; same && id < size; ++id) {
    const types::TokenId token = static_cast<types::TokenId>(id);
    same = teacher.tokenizer.bytes_of(token, true) == policy.tokenizer.bytes_of(token, true);
  }
  QRL_REQUIRE(same, kWhere, "the policy's vocabulary, token by token", "a different vocabulary",
              "use a teacher with the same tokenizer: it scores the policy's own tokens");
  return teacher;
}

}  // namespace

Reference::Reference(const RunContext& run, const RunState& state, const std::filesystem::path& cold_start,
                     std::shared_ptr<const model::Int8Profile> profile)
    : learner(run.plan.model, run.plan.policy.weights, reference_options(run.plan), run.world) {
  const Recipe& recipe = run.recipe();
  if (recipe.sft.steps > 0) restore_learner(cold_start, state, learner, run.world);
  if (learner.forward_mode() == learner::LearnerForward::bf16) return;
  if (recipe.quant.uaq_scale != 1) learner.apply_uaq(static_cast<float>(recipe.quant.uaq_scale));
  snapshot.emplace(run.plan.model, sampler_formats(recipe));
  snapshot->use_profile(std::move(profile));
  learner.publish(*snapshot, 0);
}

Teacher::Teacher(const Recipe& recipe, const Policy& policy, dist::Collectives& world)
    : model(load(recipe, policy)),
      snapshot(model.config, snapshot_formats(quant_of(recipe))),
      learner(model.config, model.weights, options_of(recipe), world) {
  if (is_quantized(recipe)) learner.publish(snapshot, 0);
}

}  // namespace qrl::train
