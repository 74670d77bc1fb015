#include "config/rules.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "config/keys/key.h"
#include "config/keys/lora_keys.h"
#include "config/keys/reward_keys.h"
#include "config/keys/rotation_keys.h"
#include "config/keys/rule_book.h"

namespace qrl::config {

namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

/// Checks pairs of own keys, the first at most the second; `prefix` precedes their names.
void check_ascending(const Recipe& recipe, const Choice& choice, const OwnValues& values, const std::string& prefix,
                     RuleBook& rules) {
  const auto value_of = [&](std::string_view name) {
    const auto own =
        std::find_if(choice.keys.begin(), choice.keys.end(), [name](const OwnKey& one) { return one.name == name; });
    return values.of(*own);
  };
  for (const auto& [low, high] : choice.ascending) {
    const std::string low_key = prefix + std::string(low), high_key = prefix + std::string(high);
    rules.require({low_key, high_key}, value_of(low) <= value_of(high), low_key + " of at most " + high_key,
                  recipe.keys->find(low_key)->print(recipe) + " and " + recipe.keys->find(high_key)->print(recipe),
                  "set both");
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
    rules.require(others, generator == GeneratorRecipe{} || rules.is_set(task),
                  task + " beside the generator's other keys", "none", "set " + task + ", or delete them");
    return;
  }
  rules.require({size, task}, !needs_size || generator.size > 0, size + " of 1 prompt or more", number(generator.size),
                "say how many tasks to make");
  if (const Choice* chosen = recipe.keys->catalog().generators.find(generator.task))
    check_ascending(recipe, *chosen, generator.own, name + ".", rules);
}

void check_model(const Recipe& recipe, bool complete, RuleBook& rules) {
  const ModelRecipe& model = recipe.model;
  rules.require({"model.path", "model.init.config"}, model.path.empty() || model.init_config.empty(),
                "model.path or model.init.config", "both", "keep the one to start from");
  rules.require({"model.init.seed", "model.init.config"}, !model.init_seed || !model.init_config.empty(),
                "model.init.config beside model.init.seed", "none",
                "the seed has no effect without it: set it to null or delete it");
  rules.require({"model.path", "model.init.config"}, !complete || !model.path.empty() || !model.init_config.empty(),
                "a model", "none", "set model.path to a Hugging Face folder, or model.init.config to a config.json");
}

void check_data(const Recipe& recipe, bool complete, RuleBook& rules) {
  const DataRecipe& data = recipe.data;
  check_generator(recipe, data.train_generator, "data.train_generator", true, rules);
  check_generator(recipe, data.val_generator, "data.val_generator", true, rules);
  rules.require(
      {"data.train_files", "data.train_generator.task"}, data.train_files.empty() || data.train_generator.task.empty(),
      "data.train_files or data.train_generator", "both",
      "keep one; --set data.train_generator.task=null takes away the generator, --set data.train_files=[] the files");
  rules.require({"data.train_files", "data.train_generator.task"},
                !complete || !data.train_files.empty() || !data.train_generator.task.empty(), "training data", "none",
                "set data.train_files or data.train_generator");
  const bool files = !data.train_files.empty() || !data.val_files.empty();
  const auto for_files = [&](const std::string& key, bool is_set) {
    rules.require({"data." + key, "data.train_generator.task"}, !is_set || files,
                  "data.train_files or data.val_files beside data." + key, "neither", "it has no effect: delete it");
  };
  for_files("prompt_key", !data.prompt_key.empty());
  for_files("ground_truth_key", !data.ground_truth_key.empty());
  for_files("data_source_key", !data.data_source_key.empty());
  rules.require({"data.filter", "data.train_files"}, data.filter.empty() || !data.train_files.empty(),
                "data.train_files beside data.filter", "none", "data.val_filter is for data.val_files; or delete it");
  rules.require({"data.val_filter", "data.val_files"}, data.val_filter.empty() || !data.val_files.empty(),
                "data.val_files beside data.val_filter", "none", "it has no effect: delete it");
  rules.require({"data.train_max_samples", "data.train_weights"}, !data.train_max_samples || data.train_weights.empty(),
                "data.train_max_samples or data.train_weights", "both", "keep one: weights say what each file gives");
  rules.require({"data.train_weights", "data.train_files"},
                data.train_weights.empty() || data.train_weights.size() == data.train_files.size(),
                "data.train_weights with one weight for each of data.train_files",
                number(static_cast<std::int64_t>(data.train_weights.size())) + " for " +
                    number(static_cast<std::int64_t>(data.train_files.size())),
                "write one for each, or delete it");
}

/// Returns whether a run chooses its micro-batch size, which then fits the longest sequence and row.
bool is_chosen_on_gpu(const Recipe& recipe) {
  return learns_on_gpu(recipe) && recipe.actor.max_tokens_per_micro_batch.is_auto;
}

void check_batches(const Recipe& recipe, RuleBook& rules) {
  const std::int64_t prompts = recipe.data.train_batch_size, mini = recipe.actor.mini_batch_size;
  rules.require({"actor.mini_batch_size", "data.train_batch_size"}, prompts % mini == 0,
                "actor.mini_batch_size to divide data.train_batch_size (both in prompts)",
                number(mini) + " and " + number(prompts), "every step makes a whole number of updates");
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  rules.require({"actor.max_tokens_per_micro_batch", "data.max_response_length", "data.max_prompt_length"},
                is_chosen_on_gpu(recipe) || recipe.actor.max_tokens_per_micro_batch >= longest,
                "actor.max_tokens_per_micro_batch of at least " + number(longest) +
                    " tokens (max_prompt_length + max_response_length)",
                number(recipe.actor.max_tokens_per_micro_batch.value) + " tokens", "a sample must fit a micro-batch");
  const std::int64_t page = recipe.rollout.page_size;
  const std::int64_t pages = (longest + page - 1) / page;
  rules.require({"rollout.kv_pages", "rollout.page_size", "data.max_response_length", "data.max_prompt_length"},
                recipe.rollout.kv_pages.value_or(pages) >= pages,
                "rollout.kv_pages of at least " + number(pages) + " pages (" + number(longest) +
                    " tokens in pages of " + number(page) + ")",
                number(recipe.rollout.kv_pages.value_or(0)) + " pages",
                "the longest sequence must fit, or leave the key out");
  rules.require({"rollout.gpu_memory_utilization", "rollout.kv_pages"},
                !recipe.rollout.gpu_memory_utilization || !recipe.rollout.kv_pages,
                "rollout.gpu_memory_utilization or rollout.kv_pages", "both", "keep one");
}

void check_sampling(const Recipe& recipe, RuleBook& rules) {
  const FilterGroupsRecipe& filter = recipe.algorithm.filter_groups;
  const std::int64_t draw = recipe.data.gen_batch_size.value_or(recipe.data.train_batch_size);
  rules.require(
      {"algorithm.filter_groups.max_num_gen_batches", "data.gen_batch_size", "data.train_batch_size"},
      !filter.enable || filter.max_num_gen_batches * draw >= recipe.data.train_batch_size,
      "algorithm.filter_groups.max_num_gen_batches * data.gen_batch_size of at least data.train_batch_size = " +
          number(recipe.data.train_batch_size),
      number(filter.max_num_gen_batches * draw),
      "no step would ever be full: allow more draws, or draw more prompts at once");
  const OverlongBufferRecipe& buffer = recipe.reward.overlong_buffer;
  rules.require(
      {"reward.overlong_buffer.len", "reward.overlong_buffer.enable", "data.max_response_length"},
      !buffer.enable || (buffer.len >= 1 && buffer.len <= recipe.data.max_response_length),
      "reward.overlong_buffer.len from 1 to data.max_response_length = " + number(recipe.data.max_response_length),
      number(buffer.len), "say over how many tokens the loss of reward grows");
  rules.require({"optim.lr_warmup_ratio", "optim.lr_warmup_steps"},
                !recipe.optim.lr_warmup_ratio || recipe.optim.lr_warmup_steps == OptimRecipe{}.lr_warmup_steps,
                "optim.lr_warmup_ratio or optim.lr_warmup_steps", "both",
                "set optim.lr_warmup_ratio: null, or optim.lr_warmup_steps: " +
                    std::to_string(OptimRecipe{}.lr_warmup_steps) + ", its default");
}

void check_quant(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  const bool is_fp8 = quant.weights == WeightFormat::fp8_e4m3, is_int4 = quant.weights == WeightFormat::int4;
  const auto fits = [&](ActivationFormat activations) {
    switch (activations) {
      case ActivationFormat::automatic:
        return true;
      case ActivationFormat::bf16:
        return is_int4 || quant.weights == WeightFormat::bf16;
      case ActivationFormat::int8:
        return is_int4 || quant.weights == WeightFormat::int8;
      case ActivationFormat::fp8_e4m3:
        break;
    }
    return is_int4 || is_fp8;
  };
  rules.require({"quant.rollout.activations", "quant.rollout.weights"}, fits(quant.activations),
                "quant.rollout.activations auto, or what quant.rollout.weights can meet", kTheirValues,
                "int4 takes bf16, int8 or fp8_e4m3, every other format its own");
  const bool is_low_bit = quant.weights != WeightFormat::bf16 && quant.weights != WeightFormat::f32;
  const std::string format = quant.weights == WeightFormat::bf16 ? "bf16" : "fp32";
  rules.require({"quant.uaq_scale", "quant.rollout.weights", "mode"}, quant.uaq_scale == 1 || is_low_bit,
                "quant.uaq_scale 1 without low-bit quant.rollout.weights", format,
                "it makes updates reach the weights' quantized values, and there are none: set quant.uaq_scale: 1");
  rules.require({"rollout.bitwise", "quant.learner.forward"},
                !recipe.rollout.bitwise || quant.learner_forward == LearnerForward::low_bit,
                "quant.learner.forward low_bit with rollout.bitwise", kTheirValues,
                "only the sampler's own matmuls give its bits");
  rules.require({"rollout.bitwise", "quant.rollout.kv_cache"},
                !recipe.rollout.bitwise || quant.kv_cache != KvCache::fp8_e4m3,
                "quant.rollout.kv_cache other than fp8_e4m3 with rollout.bitwise", "fp8_e4m3", "use int8 or bf16");
}

void check_backward(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  const bool int8_backward = quant.learner_backward == LearnerBackward::int8;
  const bool fp8_backward = quant.learner_backward == LearnerBackward::fp8_e4m3;
  const std::string backward = std::string(" with quant.learner.backward ") + (fp8_backward ? "fp8_e4m3" : "int8");
  rules.require({"quant.learner.backward", "quant.learner.forward"},
                !(int8_backward || fp8_backward) || quant.learner_forward == LearnerForward::low_bit,
                "quant.learner.forward low_bit" + backward, kTheirValues,
                "its operands are the quantized values of that forward pass");
  // int32 sums over a micro-batch's tokens are exact up to 132,103 terms (kMaxInt8Width in
  // ops/dispatch/packed_linear.cpp). Terms are products of two quantized values, or of 128 and one value.
  constexpr std::int64_t kMostTokens = 131072;
  rules.require({"quant.learner.backward", "actor.max_tokens_per_micro_batch"},
                !int8_backward || recipe.actor.max_tokens_per_micro_batch <= kMostTokens,
                "actor.max_tokens_per_micro_batch of at most " + number(kMostTokens) + backward,
                number(recipe.actor.max_tokens_per_micro_batch.value), "its sums over tokens are exact up to there");
  rules.require({"quant.learner.backward", "quant.rollout.weights"},
                !int8_backward || quant.weights == WeightFormat::int8, "quant.rollout.weights int8" + backward,
                kTheirValues, "use model_dtype");
  const bool in_blocks = quant.weights == WeightFormat::fp8_e4m3 && quant.granularity == Granularity::block128;
  rules.require({"quant.learner.backward", "quant.rollout.weights", "quant.rollout.granularity"},
                !fp8_backward || in_blocks,
                "quant.rollout.weights fp8_e4m3 and quant.rollout.granularity block128" + backward, kTheirValues,
                "scales of square blocks are those of the transposed weights, too; else use model_dtype");
}

void check_devices(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  const bool on_gpu = samples_on_gpu(recipe);
  rules.require({"rollout.device", "trainer.device", "quant.learner.forward"},
                !learns_on_gpu(recipe) || on_gpu || quant.learner_forward != LearnerForward::low_bit,
                "rollout.device cuda with trainer.device cuda and quant.learner.forward low_bit", "cpu",
                "its matmuls are the decoder's, on the decoder's tensors; fake_quant has the same values and gradients "
                "without them");
  rules.require({"trainer.device", "quant.learner.backward"},
                !learns_on_gpu(recipe) || quant.learner_backward != LearnerBackward::int8,
                "quant.learner.backward model_dtype or fp8_e4m3 with trainer.device cuda", "int8",
                "on a GPU the forward pass's matmuls alone are in int8");
  rules.require({"rollout.bitwise", "rollout.device", "trainer.device"},
                !recipe.rollout.bitwise || on_gpu == learns_on_gpu(recipe),
                "trainer.device and rollout.device the same with rollout.bitwise", kTheirValues,
                "no two devices add up in one order: the decoder's own forward pass gives the learner its bits");
  const bool cuts = recipe.rollout.top_k != -1 || recipe.rollout.top_p < 1;
  rules.require({"rollout.bitwise", "rollout.device", "rollout.top_p", "rollout.top_k"},
                !recipe.rollout.bitwise || !on_gpu || !cuts,
                "rollout.top_p 1 and top_k -1 with rollout.bitwise and rollout.device cuda", kTheirValues,
                "such tokens are sampled on the CPU there, from whole rows of logits");
  rules.require({"rollout.device", "quant.rollout.weights"}, !on_gpu || quant.weights != WeightFormat::f32,
                "quant.rollout.weights other than fp32 with rollout.device cuda", "fp32", "use bf16");
  rules.require({"rollout.device", "quant.rollout.lm_head"}, !on_gpu || quant.lm_head != HeadFormat::f32,
                "quant.rollout.lm_head auto or int8 with rollout.device cuda", "fp32",
                "the GPU's lm_head is bf16 or int8");
  rules.require({"rollout.device", "quant.rollout.queries"}, !on_gpu || quant.queries == QueryFormat::automatic,
                "quant.rollout.queries auto with rollout.device cuda", "fp8_e4m3",
                "scales of queries are the CPU's alone");
  rules.require({"rollout.device", "quant.rollout.kv_cache"}, !on_gpu || quant.kv_cache != KvCache::f32,
                "quant.rollout.kv_cache other than fp32 with rollout.device cuda", "fp32",
                "use bf16, int8 or fp8_e4m3");
}

void check_head(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  if (quant.lm_head != HeadFormat::int8) return;
  const std::string beside = " with quant.rollout.lm_head int8";
  rules.require({"quant.rollout.lm_head", "rollout.bitwise"}, !recipe.rollout.bitwise, "rollout.bitwise false" + beside,
                "true", "the learner's lm_head is not the sampler's then: set quant.rollout.lm_head: auto");
  rules.require({"quant.rollout.lm_head", "quant.rollout.weights"}, quant.weights != WeightFormat::f32,
                "quant.rollout.weights other than fp32" + beside, "fp32",
                "a sampler that is to be exact has no low-bit lm_head");
  const bool ignored = std::find(quant.ignore.begin(), quant.ignore.end(), "lm_head") != quant.ignore.end();
  rules.require({"quant.rollout.lm_head", "quant.rollout.ignore"}, !ignored,
                "no lm_head in quant.rollout.ignore" + beside, "lm_head", "say one of the two");
}

void check_noise(const Recipe& recipe, RuleBook& rules) {
  if (recipe.quant.noise.start == 0) return;
  const std::string key = "quant.rollout.noise.start", beside = " with quant.rollout.noise.start above 0";
  rules.require({key, "rollout.bitwise"}, !recipe.rollout.bitwise, "rollout.bitwise false" + beside, "true",
                "the learner's gains have no noise: set quant.rollout.noise.start: 0");
  rules.require({key, "rollout.device"}, !samples_on_gpu(recipe), "rollout.device cpu" + beside, "cuda",
                "the noise is the CPU sampler's alone");
  rules.require({key, "quant.rollout.profile"}, recipe.quant.profile.empty(), "no quant.rollout.profile" + beside,
                kTheirValues, "a profile folds its factors into the gains");
}

void check_profile(const Recipe& recipe, RuleBook& rules) {
  const QuantRecipe& quant = recipe.quant;
  const bool fixed = !quant.profile.empty();
  rules.require({"quant.rollout.profile", "quant.rollout.weights"}, !fixed || quant.weights == WeightFormat::int8,
                "quant.rollout.weights int8 with quant.rollout.profile", kTheirValues, "the profile is of int8 values");
  rules.require({"quant.rollout.profile", "quant.learner.forward"},
                !fixed || quant.learner_forward == LearnerForward::bf16,
                "quant.learner.forward bf16 with quant.rollout.profile", kTheirValues,
                "the profile's smoothing is folded into the sampler's norms alone");
  rules.require({"quant.rollout.profile", "quant.uaq_scale"}, !fixed || quant.uaq_scale == 1,
                "quant.uaq_scale 1 with quant.rollout.profile", kTheirValues,
                "update-aware quantization needs scales that follow the weights");
}

/// Checks for settings without effect, other than defaults, which every printed recipe has.
void check_conditions(const Recipe& recipe, RecipeUse use, RuleBook& rules) {
  for (const Key& key : recipe.keys->all()) {
    if (use == RecipeUse::record && !rules.is_override(key.name)) continue;
    const Condition& condition = key.condition;
    const std::string value = key.print(recipe);
    if (condition.key.empty() || value == key.print(recipe.keys->defaults()) || value == key.former_default) continue;
    const std::string got = recipe.keys->find(condition.key)->print(recipe);
    rules.require({key.name, condition.key}, condition.holds(recipe),
                  condition.key + " " + condition.values + " beside " + key.name, got == "null" ? "none" : got,
                  condition.advice);
  }
}

void check_choices(const Recipe& recipe, RuleBook& rules) {
  for (const Selector& selector : selectors_of(recipe)) {
    const std::string key_of_word(selector.key);
    for (const Choice* one : selector.choices->all) {
      if (one->word != *selector.word) continue;
      for (const Limit& limit : one->limits) {
        const std::string key(limit.key), value = recipe.keys->find(key)->print(recipe);
        std::string expected;
        for (const std::string_view allowed : limit.values)
          expected += (expected.empty() ? "" : " or ") + std::string(allowed);
        const bool holds =
            value == "null" || std::find(limit.values.begin(), limit.values.end(), value) != limit.values.end();
        rules.require(
            {key, key_of_word}, holds,
            (expected == "null" ? "no " + key : key + " " + expected) + " with " + key_of_word + " " + *selector.word,
            value, std::string(limit.reason));
      }
    }
  }
  Recipe filled = recipe;
  for (const char* key : {"rollout_correction.threshold", "rollout_correction.threshold_low"})
    recipe.keys->find(key)->fill(filled);
  const CorrectionRecipe& correction = filled.rollout_correction;
  rules.require({"rollout_correction.threshold_low", "rollout_correction.method"},
                !correction.threshold || !correction.threshold_low || *correction.threshold_low < *correction.threshold,
                "rollout_correction.threshold_low below threshold",
                recipe.keys->find("rollout_correction.threshold_low")->print(filled) + " and " +
                    recipe.keys->find("rollout_correction.threshold")->print(filled),
                "every weight would be 0");
}

void check_selection(const Recipe& recipe, RuleBook& rules) {
  const AlgorithmRecipe& algorithm = recipe.algorithm;
  const ClipCovRecipe &cov = algorithm.clip_cov, no_cov;
  rules.require({"algorithm.clip_cov.low", "algorithm.clip_cov.high", "algorithm.clip_cov.ratio"},
                cov.ratio > 0 || cov == no_cov, "algorithm.clip_cov.ratio above 0 beside its bounds", "0",
                "they have no effect: set ratio, or delete them");
  rules.require({"algorithm.clip_cov.low", "algorithm.clip_cov.high"}, cov.low < cov.high,
                "algorithm.clip_cov.low below algorithm.clip_cov.high", kTheirValues, "no token would be left out");
  const TeacherRecipe& teacher = algorithm.teacher;
  rules.require(
      {"algorithm.reward_coef", "algorithm.teacher.weights", "algorithm.teacher.coef", "algorithm.teacher.path"},
      !teacher.path.empty() || (algorithm.reward_coef == 1 && teacher == TeacherRecipe{}),
      "algorithm.teacher.path beside reward_coef and the teacher's other keys", "none",
      "they have no effect: set the path, or delete them");
  rules.require({"algorithm.positive_only", "algorithm.off_policy_mask_threshold"},
                !algorithm.positive_only || !teacher.path.empty() || !algorithm.off_policy_mask_threshold,
                "no algorithm.off_policy_mask_threshold beside positive_only", "both",
                "it leaves out responses with a negative advantage, and there are none: delete it");
  const CorrectionRecipe& correction = recipe.rollout_correction;
  const bool rejects = correction.rs != RsLevel::none;
  rules.require(
      {"rollout_correction.rs_threshold", "rollout_correction.rs_threshold_low", "rollout_correction.rs_stat",
       "rollout_correction.rs"},
      rejects || (!correction.rs_threshold && !correction.rs_threshold_low && correction.rs_stat == RsStat::k1),
      "rollout_correction.rs beside its other keys", "none", "they have no effect: set rs, or delete them");
  rules.require({"rollout_correction.rs", "rollout_correction.rs_threshold"}, !rejects || correction.rs_threshold,
                "rollout_correction.rs_threshold beside rollout_correction.rs", "none",
                "say beyond which value a token or sequence is rejected");
  rules.require({"rollout_correction.rs_threshold_low", "rollout_correction.rs_stat"},
                !correction.rs_threshold_low || correction.rs_stat == RsStat::k1,
                "rollout_correction.rs_threshold_low with rs_stat k1 alone", kTheirValues,
                "k2 and k3 are never negative: delete it");
  rules.require(
      {"rollout_correction.rs_threshold", "rollout_correction.rs_stat"},
      !rejects || correction.rs_stat != RsStat::k1 || !correction.rs_threshold || *correction.rs_threshold > 1,
      "rollout_correction.rs_threshold above 1 with rs_stat k1", kTheirValues,
      "where sampler and learner agree the ratio is 1, which must be kept");
  rules.require({"rollout_correction.rs", "rollout_correction.rs_stat"},
                correction.rs != RsLevel::seq_max || correction.rs_stat != RsStat::k1,
                "rollout_correction.rs_stat k2 or k3 with rs seq_max", "k1",
                "the largest log ratio says nothing of the smallest");
  rules.require({"rollout_correction.batch_normalize", "rollout_correction.method"},
                !correction.batch_normalize || correction.method != "none",
                "a rollout_correction.method with weights beside batch_normalize", "none",
                "every weight is 1: delete it");
}

void check_trainer(const Recipe& recipe, RuleBook& rules) {
  const TrainerRecipe& trainer = recipe.trainer;
  const std::int64_t standard = TrainerRecipe{}.total_training_steps;
  rules.require({"trainer.total_epochs", "trainer.total_training_steps"},
                trainer.total_epochs == 0 || trainer.total_training_steps == standard,
                "trainer.total_epochs or trainer.total_training_steps", "both",
                "keep one: set total_epochs to 0, or total_training_steps to its default, " + number(standard));
  rules.require({"trainer.total_epochs", "data.train_weights"},
                trainer.total_epochs == 0 || recipe.data.train_weights.empty(),
                "trainer.total_training_steps with data.train_weights", "trainer.total_epochs",
                "files with weights have epochs of their own");
  rules.require({"trainer.total_epochs", "algorithm.filter_groups.enable"},
                trainer.total_epochs == 0 || !recipe.algorithm.filter_groups.enable,
                "trainer.total_training_steps with algorithm.filter_groups", "trainer.total_epochs",
                "how many prompts a step draws is known when it has drawn them");
}

void check_sft(const Recipe& recipe, RuleBook& rules) {
  const SftRecipe& sft = recipe.sft;
  const bool has_task = !sft.demonstrations.task.empty(), has_files = !sft.train_files.empty();
  rules.require({"sft.train_files", "sft.demonstrations.task"}, !has_task || !has_files,
                "sft.train_files or sft.demonstrations", "both",
                "keep one; --set sft.demonstrations.task=null takes away the generator, --set sft.train_files=[] the "
                "files");
  rules.require({"sft.steps", "sft.demonstrations.task", "sft.train_files"}, sft.steps == 0 || has_task || has_files,
                "sft.demonstrations.task or sft.train_files beside sft.steps above 0", "none",
                "set sft.demonstrations: {task: …} (" + recipe.keys->find("sft.demonstrations.task")->type +
                    "), or sft.train_files: [FILE]");
  rules.require({"sft.epochs", "sft.steps"}, sft.epochs == 0 || sft.steps == 0, "sft.epochs or sft.steps", "both",
                "keep one: set the other to 0");
  rules.require({"sft.from", "sft.steps", "sft.epochs"}, sft.from.empty() || has_cold_start(sft),
                "sft.steps above 0 beside sft.from", "0",
                "set sft.steps to those of the shared cold start; or model.path starts from any checkpoint's weights");
  const std::int64_t room = recipe.actor.max_tokens_per_micro_batch;
  rules.require({"sft.max_length", "actor.max_tokens_per_micro_batch"},
                is_chosen_on_gpu(recipe) || sft.max_length.value_or(room) <= room,
                "sft.max_length of at most actor.max_tokens_per_micro_batch = " + number(room),
                number(sft.max_length.value_or(room)), "a row must fit a micro-batch");
  check_generator(recipe, sft.demonstrations, "sft.demonstrations", false, rules);
}

void check_command(const Recipe& recipe, RuleBook& rules) {
  const RewardRecipe& reward = recipe.reward;
  rules.require({"reward.command", "reward.verifier", "reward.by_source"},
                !judges(recipe, kCommandVerifier) || !reward.command.empty(),
                "reward.command beside the verifier command", "none",
                "name a program and its arguments: [python3, my_reward.py]");
  rules.require({"reward.after"}, reward.after != kCommandVerifier, "a built-in verifier in reward.after", "command",
                "the program itself judges; delete it");
  rules.require({"reward.in_flight", "reward.rows"}, reward.rows != RewardRows::group || reward.in_flight == 1,
                "reward.in_flight 1 with reward.rows group", number(reward.in_flight),
                "a worker has one group at a time: delete it");
  rules.require({"reward.weights"},
                reward.weights.empty() || std::any_of(reward.weights.begin(), reward.weights.end(),
                                                      [](const auto& one) { return one.second != 0; }),
                "a weight other than 0 in reward.weights", "none", "every response would score 0");
}

void check_reward(const Recipe& recipe, RuleBook& rules) {
  const RewardRecipe& reward = recipe.reward;
  const double most_of_wrong = std::max(0.0, reward.format) + std::max(0.0, reward.partial);
  rules.require({"reward.correct", "reward.wrong", "reward.format", "reward.partial"},
                reward.correct > reward.wrong && reward.correct > reward.wrong + most_of_wrong,
                "reward.correct above reward.wrong and above reward.wrong + reward.format + reward.partial",
                kTheirValues, "raise reward.correct or lower the others");
  check_command(recipe, rules);
  if (reward.aggregation == RewardAggregation::sum_then_normalize) return;
  const std::string with = " with reward.aggregation normalize_then_sum";
  rules.require({"reward.aggregation", "algorithm.adv_estimator"}, recipe.algorithm.adv_estimator == "grpo",
                "algorithm.adv_estimator grpo" + with, recipe.algorithm.adv_estimator,
                "it has advantages of its own: each score's, then the batch's");
  Recipe filled = recipe;
  if (const Key* by_std = recipe.keys->find("algorithm.norm_adv_by_std"); by_std->fill) by_std->fill(filled);
  rules.require({"reward.aggregation", "algorithm.norm_adv_by_std", "algorithm.name"},
                recipe.algorithm.adv_estimator != "grpo" || filled.algorithm.norm_adv_by_std.value_or(true),
                "algorithm.norm_adv_by_std true" + with, "false",
                "each score is divided by its group's deviation: set it to true, or take sum_then_normalize");
  rules.require({"reward.aggregation", "reward.overlong_buffer.enable"}, !reward.overlong_buffer.enable,
                "no reward.overlong_buffer" + with, "both",
                "a penalty for length is no score of the verifier: have the command give one");
}

}  // namespace

void check_rules(const Recipe& recipe, const Origins& origins, bool complete, RecipeUse use, Faults& faults) {
  RuleBook rules(recipe, origins, faults);
  check_model(recipe, complete, rules);
  check_data(recipe, complete, rules);
  check_batches(recipe, rules);
  check_quant(recipe, rules);
  check_backward(recipe, rules);
  check_devices(recipe, rules);
  check_head(recipe, rules);
  check_noise(recipe, rules);
  check_profile(recipe, rules);
  check_rotation(recipe, rules);
  check_lora(recipe, rules);
  check_sampling(recipe, rules);
  rules.require({"rollout.n", "algorithm.name"}, recipe.rollout.n >= 2, "rollout.n of 2 samples or more",
                number(recipe.rollout.n), "a sample's advantage is measured against the others of its group");
  check_conditions(recipe, use, rules);
  check_choices(recipe, rules);
  rules.require(
      {"algorithm.kl_loss_type"},
      recipe.algorithm.kl_loss_type != "k1" || recipe.algorithm.kl_loss_coef == 0 || use != RecipeUse::training,
      "algorithm.kl_loss_type k2, k3, k3+ or unbiased", "k1",
      "as a loss its gradient is 0 in expectation and adds noise alone; set k2, which has the gradient of the "
      "KL. A run that was made with k1 then goes on with --allow-change");
  check_selection(recipe, rules);
  check_sft(recipe, rules);
  check_trainer(recipe, rules);
  check_reward(recipe, rules);
}

}  // namespace qrl::config
