#include "config/rules.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "config/keys/key.h"
#include "config/keys/rule_book.h"
#include "config/keys/sections.h"

namespace qrl::config {

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

/// Checks pairs of own keys, the first at most the second; `prefix` precedes their names.
void check_ascending(const Choice& choice, const OwnValues& values, const std::string& prefix, RuleBook& rules) {
  const auto value_of = [&](std::string_view name) {
    return values.of(
        *std::find_if(choice.keys.begin(), choice.keys.end(), [name](const OwnKey& one) { return one.name == name; }));
  };
  for (const auto& [low, high] : choice.ascending) {
    const std::string low_key = prefix + std::string(low), high_key = prefix + std::string(high);
    rules.require(value_of(low) <= value_of(high), {.keys = {low_key, high_key},
                                                    .expected = low_key + " of at most " + high_key,
                                                    .advice = "set both",
                                                    .got = rules.value(low_key) + " and " + rules.value(high_key)});
  }
}

void check_generator(const Recipe& recipe, const GeneratorRecipe& generator, const std::string& name, bool needs_size,
                     RuleBook& rules) {
  const std::string task = name + ".task", size = name + ".size";
  if (generator.task.empty()) {
    // task: null switches a generator off, despite an included recipe's section.
    std::vector<std::string> others;
    std::copy_if(recipe.keys->names().begin(), recipe.keys->names().end(), std::back_inserter(others),
                 [&](const std::string& key) { return key.starts_with(name + ".") && key != task; });
    rules.require(generator == GeneratorRecipe{} || rules.is_set(task),
                  {.keys = others,
                   .expected = task + " beside the generator's other keys",
                   .advice = "set " + task + ", or delete them",
                   .got = "none"});
    return;
  }
  rules.require(!needs_size || generator.size > 0, {.keys = {size, task},
                                                    .expected = size + " of 1 prompt or more",
                                                    .advice = "say how many tasks to make",
                                                    .got = number(generator.size)});
  if (const Choice* chosen = recipe.keys->catalog().generators.find(generator.task))
    check_ascending(*chosen, generator.own, name + ".", rules);
}

/// Checks what a run needs: a model and training prompts.
void check_complete(const Recipe& recipe, RuleBook& rules) {
  rules.require(!recipe.model.path.empty() || !recipe.model.init_config.empty(),
                {.keys = {"model.path", "model.init.config"},
                 .expected = "a model",
                 .advice = "set model.path to a Hugging Face folder, or model.init.config to a config.json",
                 .got = "none"});
  rules.require(!recipe.data.train_files.empty() || !recipe.data.train_generator.task.empty(),
                {.keys = {"data.train_files", "data.train_generator.task"},
                 .expected = "training data",
                 .advice = "set data.train_files or data.train_generator",
                 .got = "none"});
}

void check_data(const Recipe& recipe, RuleBook& rules) {
  const DataRecipe& data = recipe.data;
  check_generator(recipe, data.train_generator, "data.train_generator", true, rules);
  check_generator(recipe, data.val_generator, "data.val_generator", true, rules);
  const auto num_weights = static_cast<std::int64_t>(data.train_weights.size());
  const auto num_files = static_cast<std::int64_t>(data.train_files.size());
  rules.require(num_weights == 0 || num_weights == num_files,
                {.keys = {"data.train_weights", "data.train_files"},
                 .expected = "data.train_weights with one weight for each of data.train_files",
                 .advice = "write one for each, or delete it",
                 .got = number(num_weights) + " for " + number(num_files)});
}

/// Returns whether a run chooses its micro-batch size, which then fits the longest sequence and row.
bool is_chosen_on_gpu(const Recipe& recipe) {
  return learns_on_gpu(recipe) && recipe.actor.max_tokens_per_micro_batch.is_auto;
}

void check_batches(const Recipe& recipe, RuleBook& rules) {
  const std::int64_t prompts = recipe.data.train_batch_size, mini = recipe.actor.mini_batch_size;
  rules.require(prompts % mini == 0,
                {.keys = {"actor.mini_batch_size", "data.train_batch_size"},
                 .expected = "actor.mini_batch_size to divide data.train_batch_size (both in prompts)",
                 .advice = "every step makes a whole number of updates",
                 .got = number(mini) + " and " + number(prompts)});
  rules.require(recipe.rollout.n >= 2, {.keys = {"rollout.n", "algorithm.name"},
                                        .expected = "rollout.n of 2 samples or more",
                                        .advice = "a sample's advantage is measured against the others of its group",
                                        .got = number(recipe.rollout.n)});
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  const std::int64_t room = recipe.actor.max_tokens_per_micro_batch;
  rules.require(is_chosen_on_gpu(recipe) || room >= longest,
                {.keys = {"actor.max_tokens_per_micro_batch", "data.max_response_length", "data.max_prompt_length"},
                 .expected = "actor.max_tokens_per_micro_batch of at least " + number(longest) +
                             " tokens (max_prompt_length + max_response_length)",
                 .advice = "a sample must fit a micro-batch",
                 .got = number(room) + " tokens"});
  const std::int64_t page = recipe.rollout.page_size, pages = (longest + page - 1) / page;
  rules.require(
      recipe.rollout.kv_pages.value_or(pages) >= pages,
      {.keys = {"rollout.kv_pages", "rollout.page_size", "data.max_response_length", "data.max_prompt_length"},
       .expected = "rollout.kv_pages of at least " + number(pages) + " pages (" + number(longest) +
                   " tokens in pages of " + number(page) + ")",
       .advice = "the longest sequence must fit, or leave the key out",
       .got = number(recipe.rollout.kv_pages.value_or(0)) + " pages"});
}

void check_sampling(const Recipe& recipe, RuleBook& rules) {
  const FilterGroupsRecipe& filter = recipe.algorithm.filter_groups;
  const std::int64_t draw = recipe.data.gen_batch_size.value_or(recipe.data.train_batch_size);
  rules.require(
      !filter.enable || filter.max_num_gen_batches * draw >= recipe.data.train_batch_size,
      {.keys = {"algorithm.filter_groups.max_num_gen_batches", "data.gen_batch_size", "data.train_batch_size"},
       .expected =
           "algorithm.filter_groups.max_num_gen_batches * data.gen_batch_size of at least data.train_batch_size = " +
           number(recipe.data.train_batch_size),
       .advice = "no step would ever be full: allow more draws, or draw more prompts at once",
       .got = number(filter.max_num_gen_batches * draw)});
  const OverlongBufferRecipe& buffer = recipe.reward.overlong_buffer;
  rules.require(!buffer.enable || (buffer.len >= 1 && buffer.len <= recipe.data.max_response_length),
                {.keys = {"reward.overlong_buffer.len", "reward.overlong_buffer.enable", "data.max_response_length"},
                 .expected = "reward.overlong_buffer.len from 1 to data.max_response_length = " +
                             number(recipe.data.max_response_length),
                 .advice = "say over how many tokens the loss of reward grows",
                 .got = number(buffer.len)});
}

/// Returns whether activations of this format can be multiplied by weights of that.
bool fits(ActivationFormat activations, WeightFormat weights) {
  switch (activations) {
    case ActivationFormat::automatic:
      return true;
    case ActivationFormat::bf16:
      return weights == WeightFormat::int4 || weights == WeightFormat::bf16;
    case ActivationFormat::int8:
      return weights == WeightFormat::int4 || weights == WeightFormat::int8;
    case ActivationFormat::fp8_e4m3:
      break;
  }
  return weights == WeightFormat::int4 || weights == WeightFormat::fp8_e4m3;
}

void check_quant(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  rules.require(fits(quant.activations, quant.weights),
                {.keys = {"quant.rollout.activations", "quant.rollout.weights"},
                 .expected = "quant.rollout.activations auto, or a format that quant.rollout.weights supports",
                 .advice = "int4 takes bf16, int8 or fp8_e4m3, every other format its own"});
  // int32 sums over a micro-batch's tokens are exact up to 132,103 terms (kMaxInt8Width in
  // ops/dispatch/packed_linear.cpp). Terms are products of two quantized values, or of 128 and one value.
  constexpr std::int64_t kMostTokens = 131072;
  const std::int64_t room = recipe.actor.max_tokens_per_micro_batch;
  rules.require(quant.learner_backward != LearnerBackward::int8 || room <= kMostTokens,
                {.keys = {"quant.learner.backward", "actor.max_tokens_per_micro_batch"},
                 .expected = "actor.max_tokens_per_micro_batch of at most " + number(kMostTokens) +
                             " with quant.learner.backward int8",
                 .advice = "its sums over tokens are exact up to there",
                 .got = number(room)});
  const bool ignored = std::find(quant.ignore.begin(), quant.ignore.end(), "lm_head") != quant.ignore.end();
  rules.require(quant.lm_head != HeadFormat::int8 || !ignored,
                {.keys = {"quant.rollout.lm_head", "quant.rollout.ignore"},
                 .expected = "no lm_head in quant.rollout.ignore with quant.rollout.lm_head int8",
                 .advice = "say one of the two",
                 .got = "lm_head"});
}

void check_devices(const Recipe& recipe, RuleBook& rules) {
  const bool samples = samples_on_gpu(recipe), learns = learns_on_gpu(recipe);
  rules.require(
      !learns || samples || recipe.quant.learner_forward != LearnerForward::low_bit,
      {.keys = {"rollout.device", "trainer.device", "quant.learner.forward"},
       .expected = "rollout.device cuda with trainer.device cuda and quant.learner.forward low_bit",
       .advice = "its matmuls are the decoder's, on the decoder's tensors; fake_quant has the same values and "
                 "gradients without them",
       .got = "cpu"});
  rules.require(!recipe.rollout.bitwise || samples == learns,
                {.keys = {"rollout.bitwise", "rollout.device", "trainer.device"},
                 .expected = "trainer.device and rollout.device the same with rollout.bitwise",
                 .advice = "no two devices add up in one order: the decoder's own forward pass gives the learner its "
                           "bits"});
  const bool cuts = recipe.rollout.top_k != -1 || recipe.rollout.top_p < 1;
  rules.require(!recipe.rollout.bitwise || !samples || !cuts,
                {.keys = {"rollout.bitwise", "rollout.device", "rollout.top_p", "rollout.top_k"},
                 .expected = "rollout.top_p 1 and top_k -1 with rollout.bitwise and rollout.device cuda",
                 .advice = "such tokens are sampled on the CPU there, from whole rows of logits"});
  rules.require(recipe.quant.rotation != RotationKind::hadamard || samples || !reads_matrices_on_gpu(recipe),
                {.keys = {"quant.rollout.rotation", "trainer.device", "quant.learner.forward"},
                 .expected = "quant.learner.forward bf16, or trainer.device cpu, with quant.rollout.rotation hadamard",
                 .advice = "a learner on a GPU reads no rotated matrices: set quant.rollout.rotation: none"});
}

/// Checks the limits of the recipe's words (Choice::limits).
void check_choices(const Recipe& recipe, RuleBook& rules) {
  for (const Selector& selector : selectors_of(recipe)) {
    const std::string key_of_word(selector.key);
    const Choice* chosen = selector.choices->find(*selector.word);
    if (chosen == nullptr) continue;
    for (const Limit& limit : chosen->limits) {
      const std::string key(limit.key), value = recipe.keys->find(key)->print(recipe);
      std::string expected;
      for (const std::string_view allowed : limit.values)
        expected += (expected.empty() ? "" : " or ") + std::string(allowed);
      const bool holds =
          value == "null" || std::find(limit.values.begin(), limit.values.end(), value) != limit.values.end();
      rules.require(holds, {.keys = {key, key_of_word},
                            .expected = (expected == "null" ? "no " + key : key + " " + expected) + " with " +
                                        key_of_word + " " + *selector.word,
                            .advice = std::string(limit.reason),
                            .got = value});
    }
  }
}

void check_objective(const Recipe& recipe, RecipeUse use, RuleBook& rules) {
  Recipe filled = recipe;
  for (const char* name : {"rollout_correction.threshold", "rollout_correction.threshold_low"})
    recipe.keys->find(name)->fill(filled);
  const CorrectionRecipe& correction = filled.rollout_correction;
  const std::string low = recipe.keys->find("rollout_correction.threshold_low")->print(filled);
  rules.require(!correction.threshold || !correction.threshold_low || *correction.threshold_low < *correction.threshold,
                {.keys = {"rollout_correction.threshold_low", "rollout_correction.method"},
                 .expected = "rollout_correction.threshold_low below threshold",
                 .advice = "every weight would be 0",
                 .got = low + " and " + recipe.keys->find("rollout_correction.threshold")->print(filled)});
  const AlgorithmRecipe& algorithm = recipe.algorithm;
  rules.require(algorithm.kl_loss_type != "k1" || algorithm.kl_loss_coef == 0 || use != RecipeUse::training,
                {.keys = {"algorithm.kl_loss_type"},
                 .expected = "algorithm.kl_loss_type k2, k3, k3+ or unbiased",
                 .advice = "as a loss its gradient is 0 in expectation and adds noise alone; set k2, which has the "
                           "gradient of the KL. A run that was made with k1 then goes on with --allow-change",
                 .got = "k1"});
  rules.require(algorithm.clip_cov.low < algorithm.clip_cov.high,
                {.keys = {"algorithm.clip_cov.low", "algorithm.clip_cov.high"},
                 .expected = "algorithm.clip_cov.low below algorithm.clip_cov.high",
                 .advice = "no token would be left out"});
  rules.require(!algorithm.positive_only || !algorithm.teacher.path.empty() || !algorithm.off_policy_mask_threshold,
                {.keys = {"algorithm.positive_only", "algorithm.off_policy_mask_threshold"},
                 .expected = "no algorithm.off_policy_mask_threshold beside positive_only",
                 .advice = "it leaves out responses with a negative advantage, and there are none: delete it",
                 .got = "both"});
}

void check_sft(const Recipe& recipe, RuleBook& rules) {
  const SftRecipe& sft = recipe.sft;
  check_generator(recipe, sft.demonstrations, "sft.demonstrations", false, rules);
  rules.require(sft.steps == 0 || !sft.demonstrations.task.empty() || !sft.train_files.empty(),
                {.keys = {"sft.steps", "sft.demonstrations.task", "sft.train_files"},
                 .expected = "sft.demonstrations.task or sft.train_files beside sft.steps above 0",
                 .advice = "set sft.demonstrations: {task: …} (" + recipe.keys->find("sft.demonstrations.task")->type +
                           "), or sft.train_files: [FILE]",
                 .got = "none"});
  rules.require(sft.from.empty() || has_cold_start(sft),
                {.keys = {"sft.from", "sft.steps", "sft.epochs"},
                 .expected = "sft.steps above 0 beside sft.from",
                 .advice = "set sft.steps to those of the shared cold start; or model.path starts from any "
                           "checkpoint's weights",
                 .got = "0"});
  const std::int64_t room = recipe.actor.max_tokens_per_micro_batch, longest = sft.max_length.value_or(room);
  rules.require(is_chosen_on_gpu(recipe) || longest <= room,
                {.keys = {"sft.max_length", "actor.max_tokens_per_micro_batch"},
                 .expected = "sft.max_length of at most actor.max_tokens_per_micro_batch = " + number(room),
                 .advice = "a row must fit a micro-batch",
                 .got = number(longest)});
}

/// Checks that adapters have a base, and that what they begin with belongs to it.
void check_lora(const Recipe& recipe, RuleBook& rules) {
  if (!trains_adapters(recipe)) return;
  const bool is_new = !recipe.model.init_config.empty(), starts_cold = has_cold_start(recipe.sft);
  const bool by_adapters = cold_start_trains_adapters(recipe);
  rules.require(recipe.lora.sft == LoraSft::automatic || starts_cold,
                {.keys = {"lora.sft", "sft.steps"},
                 .expected = "sft.steps above 0 beside lora.sft",
                 .advice = "there is no cold start: delete lora.sft",
                 .got = "0"});
  rules.require(!is_new || !by_adapters, {.keys = {"lora.sft", "lora.rank", "model.init.config"},
                                          .expected = "model.path beside lora.sft adapters",
                                          .advice = "its random weights are no base: set lora.sft: full",
                                          .got = "a new model"});
  rules.require(!is_new || starts_cold,
                {.keys = {"lora.rank", "sft.steps", "model.init.config"},
                 .expected = "model.path, or a cold start (sft.steps above 0), with lora.rank above 0",
                 .advice = "random weights are no base for adapters",
                 .got = "a new model without one"});
  rules.require(recipe.lora.path.empty() || (!is_new && (!starts_cold || by_adapters)),
                {.keys = {"lora.path", "lora.sft", "model.init.config"},
                 .expected = "lora.path beside model.path, and no cold start that trains all weights",
                 .advice = "an adapter belongs to the weights that it was trained on"});
}

void check_reward(const Recipe& recipe, RuleBook& rules) {
  const RewardRecipe& reward = recipe.reward;
  const double most_of_wrong = std::max(0.0, reward.format) + std::max(0.0, reward.partial);
  rules.require(
      reward.correct > reward.wrong && reward.correct > reward.wrong + most_of_wrong,
      {.keys = {"reward.correct", "reward.wrong", "reward.format", "reward.partial"},
       .expected = "reward.correct above reward.wrong and above reward.wrong + reward.format + reward.partial",
       .advice = "raise reward.correct or lower the others"});
  rules.require(!judges(recipe, kCommandVerifier) || !reward.command.empty(),
                {.keys = {"reward.command", "reward.verifier", "reward.by_source"},
                 .expected = "reward.command beside the verifier command",
                 .advice = "name a program and its arguments: [python3, my_reward.py]",
                 .got = "none"});
  rules.require(reward.after != kCommandVerifier, {.keys = {"reward.after"},
                                                   .expected = "a built-in verifier in reward.after",
                                                   .advice = "the program itself judges; delete it",
                                                   .got = "command"});
  const bool some_count =
      std::any_of(reward.weights.begin(), reward.weights.end(), [](const auto& one) { return one.second != 0; });
  rules.require(reward.weights.empty() || some_count, {.keys = {"reward.weights"},
                                                       .expected = "a weight other than 0 in reward.weights",
                                                       .advice = "every response would score 0",
                                                       .got = "none"});
  if (reward.aggregation == RewardAggregation::sum_then_normalize) return;
  Recipe filled = recipe;
  recipe.keys->find("algorithm.norm_adv_by_std")->fill(filled);
  rules.require(recipe.algorithm.adv_estimator != "grpo" || filled.algorithm.norm_adv_by_std.value_or(true),
                {.keys = {"reward.aggregation", "algorithm.norm_adv_by_std", "algorithm.name"},
                 .expected = "algorithm.norm_adv_by_std true with reward.aggregation normalize_then_sum",
                 .advice = "each score is divided by its group's deviation: set it to true, or take "
                           "sum_then_normalize",
                 .got = "false"});
}

}  // namespace

void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Faults& faults) {
  RuleBook rules(recipe, origins, faults);
  if (complete) check_complete(recipe, rules);
  check_data(recipe, rules);
  check_batches(recipe, rules);
  check_sampling(recipe, rules);
  check_quant(recipe, rules);
  check_devices(recipe, rules);
  check_lora(recipe, rules);
  rules.check_rows(use == RecipeUse::record);
  check_choices(recipe, rules);
  check_objective(recipe, use, rules);
  check_sft(recipe, rules);
  check_reward(recipe, rules);
}

}  // namespace qrl::config
