#include "train/recipe/rules.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tasks/keys.h"
#include "train/recipe/automatic.h"
#include "train/recipe/sections.h"

namespace qrl::train {

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

void check_complete(const Recipe& recipe, config::RuleBook& rules) {
  rules.require(!recipe.model.path.empty() || !recipe.model.init_config.empty(), {"model.path", "model.init.config"},
                "a model", "set model.path to a Hugging Face folder, or model.init.config to a config.json",
                "no model");
  rules.require(
      !recipe.data.train_files.empty() || !recipe.data.train_generator.task.empty() || has_environment(recipe),
      {"data.train_files", "data.train_generator.task"}, "training data",
      "set data.train_files or data.train_generator", "no training data");
}

void check_data(const Recipe& recipe, config::RuleBook& rules) {
  const DataRecipe& data = recipe.data;
  const std::int64_t prompts = data.train_batch_size, mini = prompts_per_update(recipe);
  rules.require(prompts % mini == 0, {"actor.mini_batch_size", "data.train_batch_size"},
                "actor.mini_batch_size to divide data.train_batch_size (both in prompts)",
                "every step makes a whole number of updates", number(mini) + " and " + number(prompts));
  const auto& filter = recipe.algorithm.filter_groups;
  const std::int64_t draw = data.gen_batch_size.value_or(prompts);
  rules.require(
      !filter.enable || filter.max_num_gen_batches * draw >= prompts,
      {"algorithm.filter_groups.max_num_gen_batches", "data.gen_batch_size", "data.train_batch_size"},
      "algorithm.filter_groups.max_num_gen_batches * data.gen_batch_size of at least data.train_batch_size = " +
          number(prompts),
      "no step would ever be full: allow more draws, or draw more prompts at once",
      number(filter.max_num_gen_batches * draw));
  const auto num_weights = static_cast<std::int64_t>(data.train_weights.size());
  const auto num_files = static_cast<std::int64_t>(data.train_files.size());
  rules.require(num_weights == 0 || num_weights == num_files, {"data.train_weights", "data.train_files"},
                "data.train_weights with one weight for each of data.train_files", "write one for each, or delete it",
                number(num_weights) + " weights for " + number(num_files) + " files");
}

/// Returns whether a run chooses its micro-batch size, which then fits the longest sequence and row.
bool is_chosen_on_gpu(const Recipe& recipe) {
  return learns_on_gpu(recipe) && recipe.actor.max_tokens_per_micro_batch.is_auto;
}

void check_lengths(const Recipe& recipe, config::RuleBook& rules) {
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  const std::int64_t room = tokens_per_micro_batch(recipe);
  rules.require(is_chosen_on_gpu(recipe) || room >= longest,
                {"actor.max_tokens_per_micro_batch", "data.max_response_length", "data.max_prompt_length"},
                "actor.max_tokens_per_micro_batch of at least " + number(longest) +
                    " tokens (max_prompt_length + max_response_length)",
                "a sample must fit in a micro-batch", number(room) + " tokens");
  const std::int64_t page = recipe.rollout.page_size, pages = (longest + page - 1) / page;
  rules.require(recipe.rollout.kv_pages == 0 || recipe.rollout.kv_pages >= pages,
                {"rollout.kv_pages", "rollout.page_size", "data.max_response_length", "data.max_prompt_length"},
                "rollout.kv_pages of at least " + number(pages) + " pages (" + number(longest) +
                    " tokens in pages of " + number(page) + ")",
                "make room for the longest sequence, or leave the key out", number(recipe.rollout.kv_pages) + " pages");
}

void check_formats(const Recipe& recipe, config::RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  const bool ignored = std::find(quant.ignore.begin(), quant.ignore.end(), "lm_head") != quant.ignore.end();
  rules.require(quant.lm_head != HeadFormat::int8 || !ignored, {"quant.rollout.lm_head", "quant.rollout.ignore"},
                "no lm_head in quant.rollout.ignore with quant.rollout.lm_head int8", "set only one of the two",
                "lm_head");
  const bool samples = samples_on_gpu(recipe), learns = learns_on_gpu(recipe);
  rules.require(!learns || samples || quant.learner.forward != learner::LearnerForward::low_bit,
                {"rollout.device", "trainer.device", "quant.learner.forward"},
                "rollout.device cuda with trainer.device cuda and quant.learner.forward low_bit",
                "low_bit runs the decoder's matmuls on the decoder's tensors; fake_quant gives the same values and "
                "gradients without them",
                "cpu");
  rules.require(!recipe.rollout.bitwise || samples == learns, {"rollout.bitwise", "rollout.device", "trainer.device"},
                "trainer.device and rollout.device the same with rollout.bitwise",
                "devices sum in different orders, and the learner's bits come from the decoder's own forward pass");
}

void check_objective(const Recipe& recipe, RecipeUse use, config::RuleBook& rules) {
  const AlgorithmRecipe& algorithm = recipe.algorithm;
  rules.require(algorithm.kl_loss_type != "k1" || algorithm.kl_loss_coef == 0 || use != RecipeUse::training,
                {"algorithm.kl_loss_type"}, "algorithm.kl_loss_type k2, k3, k3+ or unbiased",
                "its gradient as a loss is 0 in expectation and only adds noise; set k2, which has the gradient of the "
                "KL. A run made with k1 then resumes with --allow-change",
                "k1");
  rules.require(!algorithm.positive_only || !algorithm.teacher.path.empty() || !algorithm.off_policy_mask_threshold,
                {"algorithm.positive_only", "algorithm.off_policy_mask_threshold"},
                "no algorithm.off_policy_mask_threshold with positive_only",
                "it masks responses with a negative advantage, which positive_only already excludes: delete it",
                "both");
}

void check_sft(const Recipe& recipe, config::RuleBook& rules) {
  const SftRecipe& sft = recipe.sft;
  rules.require(sft.steps == 0 || !sft.demonstrations.task.empty() || !sft.train_files.empty(),
                {"sft.steps", "sft.demonstrations.task", "sft.train_files"},
                "sft.demonstrations.task or sft.train_files with sft.steps above 0",
                "set sft.demonstrations: {task: …} (" + recipe.keys->find("sft.demonstrations.task")->type +
                    "), or sft.train_files: [FILE]",
                "neither");
  const std::int64_t room = tokens_per_micro_batch(recipe), longest = sft.max_length.value_or(room);
  rules.require(is_chosen_on_gpu(recipe) || longest <= room, {"sft.max_length", "actor.max_tokens_per_micro_batch"},
                "sft.max_length of at most actor.max_tokens_per_micro_batch = " + number(room),
                "a row must fit in a micro-batch", number(longest));
}

/// Checks that adapters have a base, and that lora.path belongs to this base.
void check_lora(const Recipe& recipe, config::RuleBook& rules) {
  if (!trains_adapters(recipe)) return;
  const bool is_new = !recipe.model.init_config.empty(), starts_cold = has_cold_start(recipe.sft);
  const bool by_adapters = cold_start_trains_adapters(recipe);
  rules.require(recipe.lora.sft == LoraSft::automatic || starts_cold, {"lora.sft", "sft.steps"},
                "sft.steps above 0 with lora.sft", "there is no cold start: delete lora.sft", "0");
  rules.require(!is_new || !by_adapters, {"lora.sft", "lora.rank", "model.init.config"},
                "model.path with lora.sft adapters", "random weights are not a base for adapters: set lora.sft: full",
                "a new model");
  rules.require(!is_new || starts_cold, {"lora.rank", "sft.steps", "model.init.config"},
                "model.path, or a cold start (sft.steps above 0), with lora.rank above 0",
                "random weights are not a base for adapters", "a new model without a cold start");
  rules.require(recipe.lora.path.empty() || (!is_new && (!starts_cold || by_adapters)),
                {"lora.path", "lora.sft", "model.init.config"},
                "lora.path with model.path, and no cold start that trains all weights",
                "an adapter belongs to the weights that it was trained on");
}

void check_environment(const Recipe& recipe, config::RuleBook& rules) {
  const bool judges = config::has_value(*recipe.keys->find("reward.verifier"), recipe, tasks::kEnvironmentVerifier);
  rules.require(!judges || has_environment(recipe), {"reward.verifier", "reward.by_source", "environment.command"},
                "environment.command with the verifier environment",
                "name a program and its arguments: [python3, -m, qrl_env, \"trl:envs.py:Game\"]", "no program");
  rules.require(!judges || recipe.reward.by_source.empty(), {"reward.by_source", "reward.verifier"},
                "no reward.by_source with the verifier environment", "an environment judges all conversations",
                "reward.by_source");
}

void check_reward(const Recipe& recipe, config::RuleBook& rules) {
  const RewardRecipe& reward = recipe.reward;
  const double most_of_wrong = std::max(0.0, reward.format) + std::max(0.0, reward.partial);
  rules.require(reward.correct > reward.wrong && reward.correct > reward.wrong + most_of_wrong,
                {"reward.correct", "reward.wrong", "reward.format", "reward.partial"},
                "reward.correct above reward.wrong and above reward.wrong + reward.format + reward.partial",
                "raise reward.correct or lower the others");
  rules.require(!config::has_value(*recipe.keys->find("reward.verifier"), recipe, tasks::kCommandVerifier) ||
                    !reward.argv.empty(),
                {"reward.command", "reward.verifier", "reward.by_source"}, "reward.command with the verifier command",
                "name a program and its arguments: [python3, my_reward.py]", "no program");
  const bool some_count =
      std::any_of(reward.weights.begin(), reward.weights.end(), [](const auto& one) { return one.second != 0; });
  rules.require(reward.weights.empty() || some_count, {"reward.weights"}, "a weight other than 0 in reward.weights",
                "every response would score 0", "only weights of 0");
  if (reward.aggregation == RewardAggregation::sum_then_normalize) return;
  Recipe filled = recipe;
  recipe.keys->find("algorithm.norm_adv_by_std")->fill(filled);
  rules.require(recipe.algorithm.adv_estimator != "grpo" || filled.algorithm.norm_adv_by_std.value_or(true),
                {"reward.aggregation", "algorithm.norm_adv_by_std", "algorithm.name"},
                "algorithm.norm_adv_by_std true with reward.aggregation normalize_then_sum",
                "each score is divided by its group's deviation: set it to true, or use sum_then_normalize", "false");
}

}  // namespace

void check_rules(const Recipe& recipe, const config::Origins& origins, bool complete, RecipeUse use,
                 config::Errors& errors) {
  config::RuleBook rules(*recipe.keys, recipe, origins, errors);
  if (complete) check_complete(recipe, rules);
  check_data(recipe, rules);
  check_lengths(recipe, rules);
  check_formats(recipe, rules);
  check_lora(recipe, rules);
  rules.check_rows(use == RecipeUse::record);
  rules.check_options();
  check_objective(recipe, use, rules);
  check_sft(recipe, rules);
  check_reward(recipe, rules);
  check_environment(recipe, rules);
}

}  // namespace qrl::train
