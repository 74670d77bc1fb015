#include "config/keys/rotation_keys.h"

#include <string>

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"

namespace qrl::config {

namespace {

constexpr const char* kRotation = "quant.rollout.rotation";
constexpr const char* kBlock = "quant.rollout.rotation_block";

/// Returns whether a GPU reads the sampler's matrices, where rotation is unsupported.
bool reads_matrices_on_gpu(const Recipe& recipe) {
  return samples_on_gpu(recipe) || (learns_on_gpu(recipe) && recipe.quant.learner_forward != LearnerForward::bf16);
}

/// Returns whether auto selects hadamard if the block fits: only int8 reduces real models' gap
/// (docs/science/real-weights.md).
bool gains_by_rotation(WeightFormat weights) { return weights == WeightFormat::int8; }

}  // namespace

void add_rotation(std::vector<Key>& list) {
  Section quant(list, "quant", &Recipe::quant);
  Key& rotation = quant.add(
      "rollout.rotation", &QuantRecipe::rotation,
      choice<RotationKind>(
          {{"auto", RotationKind::automatic}, {"none", RotationKind::none}, {"hadamard", RotationKind::hadamard}}),
      "inputs of quantized matrices are rotated by blocks before they are quantized; auto: hadamard for int8 on the "
      "CPU where the block fits every width, without a profile, else none");
  rotation.absent_in_record = "none";
  rotation.fill = [](Recipe& recipe) {
    QuantRecipe& of = recipe.quant;
    const bool may_rotate = gains_by_rotation(of.weights) && of.profile.empty() && !reads_matrices_on_gpu(recipe);
    if (of.rotation == RotationKind::automatic && !may_rotate) of.rotation = RotationKind::none;
  };
  only_with(quant.add("rollout.rotation_block", &QuantRecipe::rotation_block,
                      choice<std::int64_t>({{"32", 32}, {"64", 64}, {"128", 128}}),
                      "inputs that are rotated together; one for the model"),
            kRotation, {"auto", "hadamard"});
}

void check_rotation(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  const bool is_low_bit = quant.weights != WeightFormat::bf16 && quant.weights != WeightFormat::f32;
  rules.require({kBlock, "quant.rollout.weights"}, is_low_bit || quant.rotation_block == QuantRecipe{}.rotation_block,
                "quant.rollout.weights int8, fp8_e4m3 or int4 beside quant.rollout.rotation_block",
                recipe.keys->find("quant.rollout.weights")->print(recipe), "it has no effect: delete it");
  if (quant.rotation != RotationKind::hadamard) return;
  const std::string beside = " with quant.rollout.rotation hadamard";
  rules.require({kRotation, "quant.rollout.weights"}, is_low_bit,
                "quant.rollout.weights int8, fp8_e4m3 or int4" + beside,
                recipe.keys->find("quant.rollout.weights")->print(recipe),
                "matrices in bf16 and fp32 are never rotated: set quant.rollout.rotation: none");
  rules.require({kRotation, "quant.rollout.profile"}, quant.profile.empty(), "no quant.rollout.profile" + beside,
                kTheirValues,
                "a profile's scales are of inputs that are not rotated: set one of the two to none (profile: null)");
  rules.require({kRotation, "rollout.device", "trainer.device"}, !samples_on_gpu(recipe), "rollout.device cpu" + beside,
                "cuda", "a GPU multiplies no rotated matrices: set quant.rollout.rotation: none");
  rules.require({kRotation, "trainer.device", "quant.learner.forward"},
                samples_on_gpu(recipe) || !reads_matrices_on_gpu(recipe),
                "quant.learner.forward bf16, or trainer.device cpu," + beside, kTheirValues,
                "a learner on a GPU reads no rotated matrices: set quant.rollout.rotation: none");
}

}  // namespace qrl::config
