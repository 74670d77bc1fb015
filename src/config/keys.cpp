#include "config/keys.h"

#include <algorithm>
#include <utility>

#include "config/key_types.h"

namespace qrl::config {

namespace {

constexpr std::int64_t kMaxThreads = 1024;
// Far above any run there is, and low enough that a digit too many is refused by name instead of by the allocator.
constexpr std::int64_t kMaxSamples = 65'536;        // of a prompt; sequences decoded at once
constexpr std::int64_t kMaxBatch = 1'048'576;       // prompts or demonstrations of an update
constexpr std::int64_t kMaxTokens = 1'048'576;      // of a text, a decoder tick, a micro-batch
constexpr std::int64_t kMaxPageTokens = 4096;       // of a KV page
constexpr std::int64_t kMaxPages = 16'777'216;      // of the KV cache
constexpr std::int64_t kMaxGenerated = 10'000'000;  // tasks of a generator, held in memory

using List = std::vector<Key>;

/// Null stands for one value, whatever the rest of the recipe.
template <class T>
Unset<T> always(std::string text, T value) {
  return {std::move(text), [value](const Recipe&) { return std::optional<T>(value); }};
}

Unset<std::uint64_t> root_seed() {
  return {"trainer.seed", [](const Recipe& recipe) { return std::optional(recipe.trainer.seed); }};
}

/// trainer.resume_mode: auto | never | PATH, held in two members.
Key resume_mode_key() {
  Key key{"trainer.resume_mode",
          "auto | never | PATH",
          "which checkpoint a run goes on from",
          "",
          true,
          {},
          {},
          {},
          {},
          {}};
  key.read = [](const YamlNode& node, Recipe& recipe) -> std::optional<Refusal> {
    Reading<std::string> reading = read_text(node);
    if (auto* refusal = std::get_if<Refusal>(&reading)) return std::move(*refusal);
    const std::string& word = std::get<std::string>(reading);
    TrainerRecipe& trainer = recipe.trainer;
    trainer.resume_mode = word == "auto"    ? ResumeMode::automatic
                          : word == "never" ? ResumeMode::never
                                            : ResumeMode::path;
    trainer.resume_path = trainer.resume_mode == ResumeMode::path ? word : "";
    return std::nullopt;
  };
  key.reset = [](Recipe& recipe) {
    recipe.trainer.resume_mode = TrainerRecipe{}.resume_mode;
    recipe.trainer.resume_path.clear();
  };
  key.print = [](const Recipe& recipe) -> std::string {
    switch (recipe.trainer.resume_mode) {
      case ResumeMode::automatic:
        return "auto";
      case ResumeMode::never:
        return "never";
      case ResumeMode::path:
        break;
    }
    return write_text(recipe.trainer.resume_path);
  };
  return key;
}

/// What generators of prompts and of demonstrations share, `section` being a GeneratorRecipe.
template <class AnySection>
void add_generator(AnySection section, const Unset<std::uint64_t>& unset_seed) {
  using G = GeneratorRecipe;
  const auto seed_if_used = [section, unset_seed](const Recipe& recipe) {
    return section.of(recipe).task.empty() ? std::nullopt : unset_seed.value(recipe);
  };
  section.add("task", &G::task, choice<std::string>({{"countdown", "countdown"}}), "kind of task", {"no generator"});
  section.add("seed", &G::seed, seed(), "seed of the tasks", {unset_seed.text, seed_if_used});
  section.add("min_numbers", &G::min_numbers, integer(2, 6), "fewest numbers in a task");
  section.add("max_numbers", &G::max_numbers, integer(2, 6), "most numbers in a task");
  section.add("max_number", &G::max_number, integer(1), "numbers are 1 … max_number");
  section.add("max_target", &G::max_target, integer(1), "targets are 1 … max_target");
}

/// What optim and sft both say about an update, `section` being an OptimRecipe.
template <class AnySection>
void add_update_rule(AnySection section) {
  using O = OptimRecipe;
  section.add("lr", &O::lr, real(positive()), "peak learning rate");
  section.add("betas", &O::betas, list_of(real(from_0_to_below_1()), 2), "AdamW's decay rates of the two moments");
  section.add("weight_decay", &O::weight_decay, real(at_least_0()), "decoupled weight decay");
  section.add("lr_warmup_steps", &O::lr_warmup_steps, integer(0), "optimizer updates over which lr rises from 0");
  section.add(
      "lr_scheduler", &O::lr_scheduler,
      choice<LrScheduler>(
          {{"constant", LrScheduler::constant}, {"linear", LrScheduler::linear}, {"cosine", LrScheduler::cosine}}),
      "course of lr after the warm-up");
  section.add("grad_clip", &O::grad_clip, real(at_least_0()), "largest gradient norm; 0: no clipping");
}

void add_model(List& list) {
  using M = ModelRecipe;
  Section model(list, "model", &Recipe::model);
  model.add("path", &M::path, unset_when_empty(input_path()), "Hugging Face folder to start from", {"a new model"});
  model.add("dtype", &M::dtype,
            choice<ComputeDType>({{"bfloat16", ComputeDType::bf16}, {"float32", ComputeDType::f32}}),
            "precision of the learner's forward and backward; master weights are float32");
  model.add("init.config", &M::init_config, unset_when_empty(input_path()), "config.json of a new model",
            {"the model of model.path"});
  model.add("init.seed", &M::init_seed, seed(), "seed of a new model's weights",
            {"trainer.seed", [](const Recipe& recipe) {
               return recipe.model.init_config.empty() ? std::nullopt : std::optional(recipe.trainer.seed);
             }});
}

void add_data(List& list) {
  using D = DataRecipe;
  Section data(list, "data", &Recipe::data);
  data.add("train_files", &D::train_files, list_of(input_path()), "files of training prompts, JSONL or CSV");
  data.add("train_weights", &D::train_weights, list_of(real(positive())),
           "shares of train_files in what is drawn, one a file; []: every row once an epoch");
  data.add("val_files", &D::val_files, list_of(input_path()), "files of held-out prompts, JSONL or CSV");
  data.add("prompt_key", &D::prompt_key, unset_when_empty(text()),
           "field of a row that holds its prompt; a.b: field b of a", {"prompt or question"});
  data.add("ground_truth_key", &D::ground_truth_key, unset_when_empty(text()), "field of a row that holds its gold",
           {"ground_truth, answer or reward_model.ground_truth"});
  data.add("data_source_key", &D::data_source_key, unset_when_empty(text()), "field of a row that names its source",
           {"data_source where there is one, else the file's name"});
  data.add("filter", &D::filter, list_of(text()),
           "conditions that a row must meet, as \"level >= 3\"; others are left out");
  auto train = data.inner("train_generator", &D::train_generator);
  train.add("size", &GeneratorRecipe::size, integer(0, kMaxGenerated), "prompts; needed with a task");
  add_generator(train, root_seed());
  auto held_out = data.inner("val_generator", &D::val_generator);
  held_out.add("size", &GeneratorRecipe::size, integer(0, kMaxGenerated), "prompts; needed with a task");
  add_generator(held_out, always(std::to_string(kHeldOutSeed), kHeldOutSeed));
  data.add("train_batch_size", &D::train_batch_size, integer(1, kMaxBatch), "prompts a step");
  data.add("max_prompt_length", &D::max_prompt_length, integer(1, kMaxTokens), "tokens of a prompt");
  data.add("max_response_length", &D::max_response_length, integer(1, kMaxTokens), "tokens of a response");
  data.add("overlong_prompt", &D::overlong_prompt,
           choice<OverlongPrompt>({{"error", OverlongPrompt::error},
                                   {"filter", OverlongPrompt::filter},
                                   {"truncate", OverlongPrompt::truncate}}),
           "what happens to a prompt above max_prompt_length");
  data.add("shuffle", &D::shuffle, boolean(), "a new order of the prompts in each epoch");
  data.add("seed", &D::seed, seed(), "seed of that order", root_seed());
  data.add("prompt_template", &D::prompt_template, text_with_one("{prompt}"), "text around each prompt");
  data.add("chat_template", &D::chat_template,
           choice<ChatTemplateName>({kChatTemplateNames.begin(), kChatTemplateNames.end()}),
           "how a prompt becomes a conversation; auto: as the model's own template, plain where it has none");
  data.add("system_prompt", &D::system_prompt, unset_when_empty(text()), "system message before each prompt",
           {"the template's own, if any"});
  data.add("enable_thinking", &D::enable_thinking, boolean(), "Qwen3's switch: false opens each answer with no thought",
           {"true where the template has the choice"});
  data.add("parse_special_tokens", &D::parse_special_tokens, boolean(),
           "control tokens that prompts of the data spell are tokens; false: they are text");
}

void add_rollout(List& list) {
  using O = RolloutRecipe;
  Section rollout(list, "rollout", &Recipe::rollout);
  rollout.add("n", &O::n, integer(1, kMaxSamples), "samples a prompt; 2 or more for grpo");
  rollout.add("temperature", &O::temperature, real(positive()), "temperature of training samples");
  rollout.add("top_p", &O::top_p, real(above_0_to_1()), "nucleus of training samples; 1: off");
  rollout.add("top_k", &O::top_k, integer_or_minus_one(1), "likeliest tokens kept; -1: all");
  rollout.add("max_num_seqs", &O::max_num_seqs, integer(1, kMaxSamples), "sequences decoded at once");
  rollout.add("max_num_batched_tokens", &O::max_num_batched_tokens, integer(1, kMaxTokens),
              "tokens of one decoder tick");
  rollout.add("page_size", &O::page_size, integer(1, kMaxPageTokens), "tokens a KV page holds");
  rollout.add("kv_pages", &O::kv_pages, integer(1, kMaxPages), "KV pages",
              {"what max_num_seqs longest sequences need"});
  rollout.add("prefix_sharing", &O::prefix_sharing, boolean(), "samples of a prompt share its KV pages");
  rollout.add("bitwise", &O::bitwise, boolean(),
              "the learner's log-probs are the sampler's bit for bit, so that no correction is left to do; needs "
              "quant.learner.forward low_bit and a KV cache other than fp8_e4m3");
  rollout.add("free_cache_engine", &O::free_cache_engine, boolean(),
              "give the KV cache's memory back while the learner works");
}

void add_quant(List& list) {
  Section quant(list, "quant", &Recipe::quant);
  quant.add("rollout.weights", &QuantRecipe::weights,
            choice<WeightFormat>({{"fp32", WeightFormat::f32},
                                  {"bf16", WeightFormat::bf16},
                                  {"int8", WeightFormat::int8},
                                  {"fp8_e4m3", WeightFormat::fp8_e4m3},
                                  {"int4", WeightFormat::int4}}),
            "format of the decoder's linear layers; it sets the next four");
  quant.add("rollout.activations", &QuantRecipe::activations,
            choice<ActivationFormat>({{"auto", ActivationFormat::automatic},
                                      {"bf16", ActivationFormat::bf16},
                                      {"int8", ActivationFormat::int8},
                                      {"fp8_e4m3", ActivationFormat::fp8_e4m3}}),
            "what meets them; auto: their own format, bf16 for int4 (W4A16); int8 and fp8_e4m3 make int4 W4A8");
  quant.add("rollout.granularity", &QuantRecipe::granularity,
            choice<Granularity>({{"auto", Granularity::automatic},
                                 {"tensor", Granularity::tensor},
                                 {"channel_token", Granularity::channel_token},
                                 {"block128", Granularity::block128}}),
            "what shares a scale in fp8_e4m3; auto: channel_token");
  quant.add("rollout.ignore", &QuantRecipe::ignore, list_of(text()),
            "linear layers that stay bf16: names such as down_proj or model.layers.0.*, with * and ?");
  quant.add("rollout.lm_head", &QuantRecipe::lm_head,
            choice<HeadFormat>({{"auto", HeadFormat::automatic}, {"fp32", HeadFormat::f32}}),
            "lm_head of sampler and learner, never low-bit; auto: bf16, or fp32 with fp32 weights");
  quant.add("rollout.kv_cache", &QuantRecipe::kv_cache,
            choice<KvCache>({{"auto", KvCache::automatic},
                             {"fp32", KvCache::f32},
                             {"bf16", KvCache::bf16},
                             {"int8", KvCache::int8},
                             {"fp8_e4m3", KvCache::fp8_e4m3}}),
            "format of the KV cache; auto: int8 where activations are, fp32 with fp32 weights, else bf16");
  quant.add(
      "learner.forward", &QuantRecipe::learner_forward,
      choice<LearnerForward>({{"bf16", LearnerForward::bf16},
                              {"fake_quant", LearnerForward::fake_quant},
                              {"low_bit", LearnerForward::low_bit}}),
      "linear layers of the learner's forward: bf16, in model.dtype; fake_quant, that of values quantised and back; "
      "low_bit, the sampler's own product on the sampler's own tensors");
  quant.add(
      "kv_calibration.percentile", &QuantRecipe::kv_percentile, real(percentile()),
      "of |key| or |value| of a head on a few training prompts, after every publish: what fp8_e4m3's range is set by");
  quant.add("kv_calibration.margin", &QuantRecipe::kv_margin, real(positive()), "room above that percentile, a factor");
  quant.add("uaq_scale", &QuantRecipe::uaq_scale, real(positive()),
            "once before training, weights behind a norm are divided and its gain multiplied by this (QuRL's "
            "update-aware quantisation, there 1.5): the model stays the same, updates reach its codes sooner");
}

void add_algorithm(List& list) {
  using A = AlgorithmRecipe;
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  algorithm.add("name", &A::name, choice<AlgorithmName>({{"grpo", AlgorithmName::grpo}}), "the loss");
  algorithm.add("clip_ratio_low", &A::clip_ratio_low, real(inside_0_to_1()), "ratios are clipped at 1 - this",
                always("0.2", 0.2));
  algorithm.add("clip_ratio_high", &A::clip_ratio_high, real(positive()), "ratios are clipped at 1 + this",
                always("0.2", 0.2));
  algorithm.add("norm_adv_by_std", &A::norm_adv_by_std, boolean(), "divide advantages by their group's deviation");
  algorithm.add("kl_loss_coef", &A::kl_loss_coef, real(at_least_0()),
                "weight of the KL to the initial model; 0: no reference model");
  algorithm.add("kl_loss_type", &A::kl_loss_type,
                choice<KlType>({{"k1", KlType::k1}, {"k2", KlType::k2}, {"k3", KlType::k3}}), "estimator of that KL");
  algorithm.add("entropy_coef", &A::entropy_coef, real(at_least_0()), "weight of the entropy bonus");

  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction.add("method", &C::method,
                 choice<CorrectionMethod>({{"none", CorrectionMethod::none}, {"tis", CorrectionMethod::tis}}),
                 "weight of a token for the gap between sampler and learner");
  correction.add("threshold", &C::threshold, real(positive()), "largest weight of a token",
                 {"2 with tis", [](const Recipe& recipe) {
                    const bool tis = recipe.rollout_correction.method == CorrectionMethod::tis;
                    return tis ? std::optional(2.0) : std::nullopt;
                  }});
}

void add_gap_limit(List& list) {
  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction.add("gap_limit.k3_kl", &C::gap_limit, real(positive()),
                 "largest k3 KL between sampler and learner on a few fixed prompts, measured after every publish",
                 {"none"});
  correction.add("gap_limit.action", &C::gap_action,
                 choice<GapAction>({{"stop", GapAction::stop}, {"warn", GapAction::warn}}),
                 "beyond it: end the run with exit code 3, or say so and go on");
}

void add_sft(List& list) {
  using S = SftRecipe;
  Section sft(list, "sft", &Recipe::sft);
  sft.add("steps", &S::steps, integer(0), "optimizer updates of the cold start; 0: none");
  sft.add("batch_size", &S::batch_size, integer(1, kMaxBatch), "demonstrations an update");
  sft.add("save_freq", &S::save_freq, integer(0), "updates between its checkpoints; 0: only at the end")
      .may_change_on_resume = true;
  add_update_rule(Section(list, "sft", &Recipe::sft, &S::optim));
  add_generator(sft.inner("demonstrations", &S::demonstrations), root_seed());
}

void add_reward(List& list) {
  using W = RewardRecipe;
  Section reward(list, "reward", &Recipe::reward);
  reward.add("verifier", &W::verifier, choice<VerifierName>({{"countdown", VerifierName::countdown}}),
             "who judges the responses");
  reward.add("numbers", &W::numbers, choice<Numbers>({{"all", Numbers::all}, {"subset", Numbers::subset}}),
             "countdown: which of the given numbers an answer must use, each at most once");
  reward.add("correct", &W::correct, real(any()), "score of a correct response");
  reward.add("wrong", &W::wrong, real(any()), "score of any other response");
  reward.add("format", &W::format, real(any()), "added to a wrong response whose answer has the right form");
  reward.add("max_error_fraction", &W::max_error_fraction, real(from_0_to_1()),
             "share of verifier errors above which the run stops");
}

void add_actor(List& list) {
  using A = ActorRecipe;
  Section actor(list, "actor", &Recipe::actor);
  actor.add("mini_batch_size", &A::mini_batch_size, integer(1, kMaxBatch), "prompts an optimizer update");
  actor.add("max_tokens_per_micro_batch", &A::max_tokens_per_micro_batch, integer(2, kMaxTokens),
            "tokens of one forward and backward");
  actor.add("ppo_epochs", &A::ppo_epochs, integer(1), "passes over a step's samples");
  actor.add("logprob_chunk_tokens", &A::logprob_chunk_tokens, integer(1, kMaxTokens),
            "tokens whose logits exist at once");
  actor.add("activation_checkpointing", &A::activation_checkpointing, boolean(),
            "recompute activations in the backward pass to save memory");

  Section optim(list, "optim", &Recipe::optim);
  optim.add("name", &OptimRecipe::name, choice<OptimName>({{"adamw", OptimName::adamw}}), "the optimizer");
  add_update_rule(optim);
  optim.add("eps", &OptimRecipe::eps, real(positive()), "AdamW's epsilon");
}

void add_eval(List& list) {
  using E = EvalRecipe;
  Section eval(list, "eval", &Recipe::eval);
  eval.add("freq", &E::freq, integer(0), "steps between evaluations; 0: never").may_change_on_resume = true;
  eval.add("before_train", &E::before_train, boolean(), "evaluate before the first step").may_change_on_resume = true;
  eval.add("n", &E::n, integer(1, kMaxSamples), "samples a held-out prompt");
  eval.add("temperature", &E::temperature, real(at_least_0()), "temperature of evaluation; 0: greedy");
  eval.add("top_p", &E::top_p, real(above_0_to_1()), "nucleus of evaluation; 1: off");
  eval.add("top_k", &E::top_k, integer_or_minus_one(1), "likeliest tokens kept in evaluation; -1: all");
}

void add_trainer(List& list) {
  using T = TrainerRecipe;
  Section trainer(list, "trainer", &Recipe::trainer);
  trainer.add("device", &T::device, choice<TrainDevice>({{"auto", TrainDevice::automatic}, {"cpu", TrainDevice::cpu}}),
              "where to compute");
  trainer.add("threads", &T::threads, integer_or_auto(kMaxThreads),
              "threads a process; auto: processors / processes on this machine");
  trainer.add("total_training_steps", &T::total_training_steps, integer(0), "steps of the run").may_change_on_resume =
      true;
  trainer.add("save_freq", &T::save_freq, integer(0), "steps between checkpoints; 0: only at the end")
      .may_change_on_resume = true;
  trainer.add("max_ckpt_to_keep", &T::max_ckpt_to_keep, integer(1), "newest checkpoints that are kept")
      .may_change_on_resume = true;
  list.push_back(resume_mode_key());
  trainer
      .add("default_local_dir", &T::default_local_dir, unset_when_empty(text()), "run folder",
           {"runs/<recipe>-seed<trainer.seed>"})
      .may_change_on_resume = true;
  trainer.add("rollout_dump", &T::rollout_dump, boolean(), "write rollouts/step_N.jsonl").may_change_on_resume = true;
  trainer.add("seed", &T::seed, seed(), "root of all random numbers");
  trainer.add("max_non_finite_steps", &T::max_non_finite_steps, integer(1),
              "skipped updates in a row before the run stops");
}

List declare() {
  List list;
  add_model(list);
  add_data(list);
  add_rollout(list);
  add_quant(list);
  add_algorithm(list);
  add_gap_limit(list);
  add_sft(list);
  add_reward(list);
  add_actor(list);
  add_eval(list);
  add_trainer(list);
  return list;
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> all = declare();
  return all;
}

const std::vector<std::string>& key_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Key& key : keys()) all.push_back(key.name);
    return all;
  }();
  return names;
}

const Key* find_key(std::string_view name) {
  const auto found = std::find_if(keys().begin(), keys().end(), [&](const Key& key) { return key.name == name; });
  return found == keys().end() ? nullptr : &*found;
}

bool is_section(std::string_view name) {
  return std::any_of(keys().begin(), keys().end(), [&](const Key& key) {
    return name.empty() ||
           (key.name.size() > name.size() && key.name.starts_with(name) && key.name[name.size()] == '.');
  });
}

}  // namespace qrl::config
