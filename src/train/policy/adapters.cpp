#include "train/policy/adapters.h"

#include "base/error.h"
#include "base/hub.h"
#include "base/log.h"
#include "base/text.h"
#include "model/int8_profile.h"
#include "model/peft.h"
#include "state/file.h"
#include "state/gguf.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/options.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

std::string text_of(const model::LoraConfig& lora) {
  const std::string targets = base::joined(lora.target_modules, ", ");
  return "rank " + std::to_string(lora.rank) + ", scale " + std::to_string(lora.scale()) + ", modules " +
         (targets.empty() ? "all-linear" : targets) + (lora.train_norms ? ", norms" : "");
}

bool same_adapters(const model::ModelConfig& config, const model::LoraConfig& a, const model::LoraConfig& b) {
  return a.rank == b.rank && a.scale() == b.scale() && a.train_norms == b.train_norms &&
         model::adapted_modules(config, a) == model::adapted_modules(config, b);
}

bool finds_checkpoint(const Recipe& recipe) {
  if (recipe.trainer.resume_from.mode == ResumeMode::path) return is_checkpoint(recipe.trainer.resume_from.path);
  const fs::path dir = fs::path(recipe.trainer.default_local_dir) / "checkpoints";
  return !recipe.sft.from.empty() || (fs::exists(dir) && newest_sound_checkpoint(dir));
}

}  // namespace

AdapterBase find_base(const Recipe& recipe, const Policy& policy, const fs::path& cold_start) {
  const bool is_cold_start = has_cold_start(recipe.sft) && !cold_start_trains_adapters(recipe);
  const fs::path folder = is_cold_start ? fs::absolute(cold_start) : base::model_folder(recipe.model.path);
  QRL_REQUIRE(!state::is_gguf(folder), "model.path", "a Hugging Face folder as the base of adapters, which PEFT names",
              "the file " + state::shown(folder), "make one: qrl-train import " + state::shown(folder) + " --out DIR");
  AdapterBase base{folder.string(), {}, policy.weights};
  if (is_cold_start) base.weights = model::open_hf(cold_start).weights;
  base.hash = model::weights_hash(policy.config, *base.weights);
  return base;
}

void require_same_base(const fs::path& checkpoint, const fs::path& folder, const std::string& hash) {
  const std::string trained_on = checkpoint_base_hash(checkpoint);
  QRL_REQUIRE(trained_on == hash, state::shown(folder),
              "the weights that the adapters of " + state::shown(checkpoint) + " were trained on, hash " + trained_on,
              "weights with hash " + hash,
              "restore the adapters' base there, or start a new run (another trainer.default_local_dir)");
}

std::optional<model::WeightSource> given_adapters(const Recipe& recipe, const model::ModelConfig& config) {
  if (!trains_adapters(recipe) || recipe.lora.path.empty()) return std::nullopt;
  QRL_REQUIRE(recipe.algorithm.kl_loss_coef == 0 || model::is_peft(recipe.lora.path), "lora.path: " + recipe.lora.path,
              "the PEFT folder that algorithm.kl_loss_coef compares with", "no PEFT folder there", "restore it");
  const model::PeftAdapter given = model::open_peft(recipe.lora.path, config);
  const model::LoraConfig wanted = recipe.lora;
  QRL_REQUIRE(same_adapters(config, given.lora, wanted), "lora.path: " + state::shown(recipe.lora.path),
              "adapters that match the recipe: " + text_of(wanted), text_of(given.lora),
              "set lora.rank, alpha, rslora, target_modules and train_norms to the folder's values");
  return given.adapters;
}

bool reads_given_adapters(const Recipe& recipe) {
  const bool are_reference = recipe.algorithm.kl_loss_coef != 0 && !has_cold_start(recipe.sft);
  return trains_adapters(recipe) && !recipe.lora.path.empty() && (are_reference || !finds_checkpoint(recipe));
}

Policy initial_policy(const Recipe& recipe) {
  Policy policy = make_policy(recipe);
  const std::optional<model::WeightSource> adapters = given_adapters(recipe, policy.config);
  if (!adapters) return policy;
  policy.adapter =
      PolicyAdapter{recipe.lora, policy.weights, *adapters, base::model_folder(recipe.model.path).string()};
  policy.weights = model::merged_weights(policy.config, policy.weights, policy.adapter->lora, *adapters);
  return policy;
}

}  // namespace qrl::train
