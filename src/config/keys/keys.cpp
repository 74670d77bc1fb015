#include "config/keys/keys.h"

#include <algorithm>
#include <utility>

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"
#include "config/keys/lora_keys.h"
#include "config/keys/resume_keys.h"
#include "config/keys/reward_keys.h"
#include "config/keys/rotation_keys.h"
#include "config/keys/selection_keys.h"
#include "config/keys/sft_keys.h"

namespace qrl::config {

namespace {

constexpr std::int64_t kMaxThreads = 1024;
// Limits are far above real runs, and give an extra digit a clear error instead of a failed allocation.
constexpr std::int64_t kMaxSamples = 65'536;    // per prompt; also sequences decoded at once
constexpr std::int64_t kMaxBatch = 1'048'576;   // prompts or demonstrations per update
constexpr std::int64_t kMaxTokens = 1'048'576;  // per text, decoder tick or micro-batch
constexpr std::int64_t kMaxPageTokens = 4096;   // per KV page
constexpr std::int64_t kMaxPages = 16'777'216;  // in the KV cache
constexpr std::int64_t kMaxNewtonSchulz = 100;
constexpr std::int64_t kMaxGenerated = 10'000'000;  // tasks of a generator, held in memory

using List = std::vector<Key>;

template <class T>
Unset<T> always(std::string text, T value) {
  return {std::move(text), [value](const Recipe&) { return std::optional<T>(value); }};
}

Unset<std::uint64_t> root_seed() {
  return {"trainer.seed", [](const Recipe& recipe) { return std::optional(recipe.trainer.seed); }};
}

/// Declares trainer.resume_mode: auto | never | PATH, in two members.
Key resume_mode_key() {
  Key key{"trainer.resume_mode",
          "auto | never | PATH",
          "which checkpoint a run goes on from",
          "",
          OnResume::fixed,
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

template <class AnySection>
void add_update_rule(AnySection section) {
  using O = OptimRecipe;
  section.add("lr", &O::lr, real(positive()), "peak learning rate");
  section.add("betas", &O::betas, list_of(real(from_0_to_below_1()), 2), "AdamW's decay rates of the two moments");
  section.add("weight_decay", &O::weight_decay, real(at_least_0()),
              "decoupled weight decay, of matrices and embeddings; norms and biases have none");
  section.add("lr_warmup_steps", &O::lr_warmup_steps, integer(0), "optimizer updates over which lr rises from 0");
  section.add(
      "lr_scheduler", &O::lr_scheduler,
      choice<LrScheduler>(
          {{"constant", LrScheduler::constant}, {"linear", LrScheduler::linear}, {"cosine", LrScheduler::cosine}}),
      "course of lr after the warm-up");
  section.add("grad_clip", &O::grad_clip, real(at_least_0()), "largest gradient norm; 0: no clipping");
}

void add_mode(List& list, const Catalog& catalog) {
  Type<std::string> type = unset_when_empty(word_of(catalog.modes));
  list.push_back(key("mode", at(&Recipe::mode), std::move(type), "a paper's system: defaults of other keys",
                     {"every key's own default"}));
}

void add_model(List& list) {
  using M = ModelRecipe;
  Section model(list, "model", &Recipe::model);
  model.add("path", &M::path, unset_when_empty(model_path()),
            "Hugging Face folder to start from, or OWNER/NAME[@REVISION] in the Hub's local cache", {"a new model"});
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

void add_data(List& list, const Choices& generators) {
  using D = DataRecipe;
  Section data(list, "data", &Recipe::data);
  data.add("train_files", &D::train_files, list_of(input_path()),
           "files of training prompts: JSONL, CSV, parquet, or DIR:SPLIT of a data set's folder");
  data.add("train_weights", &D::train_weights, list_of(real(positive())),
           "shares of train_files in what is drawn, one a file; []: every row once an epoch");
  data.add("val_files", &D::val_files, list_of(input_path()), "files of held-out prompts, as train_files");
  data.add("prompt_key", &D::prompt_key, unset_when_empty(text()),
           "field of a row that holds its prompt; a.b: field b of a; \"a, b\": the one of these that a row has",
           {"prompt or question"});
  data.add("ground_truth_key", &D::ground_truth_key, unset_when_empty(text()),
           "field of a row that holds its gold, as data.prompt_key",
           {"ground_truth, answer or reward_model.ground_truth"});
  data.add("data_source_key", &D::data_source_key, unset_when_empty(text()), "field of a row that names its source",
           {"data_source where there is one, else the file's name"});
  data.add(
      "filter", &D::filter, list_of(text()),
      "conditions that a row of train_files must meet, as \"level >= 3\" or \"subject == 'Number Theory'\"; others are "
      "left out");
  data.add("train_max_samples", &D::train_max_samples, integer(1), "first prompts of training data that are kept",
           {"all"});
  data.add("val_max_samples", &D::val_max_samples, integer(1),
           "first held-out prompts of each data source that are kept", {"all"});
  data.add("val_filter", &D::val_filter, list_of(text()),
           "conditions that a row of val_files must meet, as data.filter");
  auto train = data.inner("train_generator", &D::train_generator);
  train.add("size", &GeneratorRecipe::size, integer(0, kMaxGenerated), "prompts; needed with a task");
  add_generator(list, train, generators, root_seed());
  auto held_out = data.inner("val_generator", &D::val_generator);
  held_out.add("size", &GeneratorRecipe::size, integer(0, kMaxGenerated), "prompts; needed with a task");
  add_generator(list, held_out, generators, always(std::to_string(kHeldOutSeed), kHeldOutSeed));
  data.add("train_batch_size", &D::train_batch_size, integer(1, kMaxBatch), "prompts a step");
  only_with(data.add("gen_batch_size", &D::gen_batch_size, integer(1, kMaxBatch),
                     "prompts of one draw of algorithm.filter_groups",
                     {"data.train_batch_size",
                      [](const Recipe& recipe) {
                        const bool draws = recipe.algorithm.filter_groups.enable;
                        return draws ? std::optional(recipe.data.train_batch_size) : std::nullopt;
                      }}),
            "algorithm.filter_groups.enable", {"true"});
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
  data.add("chat_template", &D::chat_template, word_or_path({kChatTemplateNames.begin(), kChatTemplateNames.end()}),
           "the Jinja template that makes a text of a conversation; auto: the model's own, plain where it has none");
  data.add("system_prompt", &D::system_prompt, unset_when_empty(text()), "system message before each prompt",
           {"the template's own, if any"});
  data.add("enable_thinking", &D::enable_thinking, boolean(),
           "the template's switch for thoughts: false opens Qwen3's answers with an empty one",
           {"as the template has it"});
  data.add("parse_special_tokens", &D::parse_special_tokens, boolean(),
           "control tokens that prompts of the data spell are tokens; false: they are text");
}

void add_rollout(List& list) {
  using O = RolloutRecipe;
  Section rollout(list, "rollout", &Recipe::rollout);
  rollout.add("device", &O::device,
              choice<RolloutDevice>(
                  {{"auto", RolloutDevice::automatic}, {"cpu", RolloutDevice::cpu}, {"cuda", RolloutDevice::cuda}}),
              "where samples are generated: auto, where the learner is; cuda, an NVIDIA GPU");
  rollout.add("n", &O::n, integer(1, kMaxSamples), "samples a prompt, 2 or more: advantages are relative to the group");
  rollout.add("temperature", &O::temperature, real(positive()), "temperature of training samples");
  rollout.add("top_p", &O::top_p, real(above_0_to_1()),
              "nucleus of training samples, at most " + std::to_string(kMaxKeptTokens) + " tokens; 1: off");
  rollout.add("top_k", &O::top_k, integer_or_minus_one(1, kMaxKeptTokens), "likeliest tokens kept; -1: all");
  rollout.add(
      "max_num_seqs", &O::max_num_seqs, or_auto(integer(1, kMaxSamples), O{}.max_num_seqs),
      "sequences decoded at once; auto: 256, beside a learner on a GPU more where the KV cache has room for that "
      "many longest ones");
  rollout.add("max_num_batched_tokens", &O::max_num_batched_tokens, integer(1, kMaxTokens),
              "tokens of one decoder tick");
  rollout.add("page_size", &O::page_size, integer(1, kMaxPageTokens), "tokens a KV page holds");
  rollout.add("kv_pages", &O::kv_pages, integer(1, kMaxPages), "KV pages",
              {"what max_num_seqs longest sequences need; with device cuda as many of them as fit"});
  only_with(
      rollout.add(
          "gpu_memory_utilization", &O::gpu_memory_utilization, real(above_0_to_1()),
          "share of the GPU's memory that may be in use, weights and all else included, when KV pages take the rest",
          {"0.9 with device cuda and without kv_pages, 0.5 when the learner is there, too"}),
      "rollout.device", "cuda", samples_on_gpu);
  rollout.add("stop", &O::stop, list_of(text()), "texts that end a response, which they are then the end of");
  rollout.add("prefix_sharing", &O::prefix_sharing, boolean(), "samples of a prompt share its KV pages");
  rollout.add(
      "bitwise", &O::bitwise, boolean(),
      "the learner's log-probs are the sampler's bit for bit; needs quant.learner.forward low_bit, a KV cache other "
      "than fp8_e4m3, both on one device, and on a GPU no top_k or top_p");
  rollout.add("free_cache_engine", &O::free_cache_engine, boolean(),
              "give the KV cache's memory back while the learner works");
  only_with(
      rollout.add(
          "enforce_eager", &O::enforce_eager, boolean(),
          "with device cuda: launch each kernel by itself, ticks of decoding rows, too, which else are CUDA graphs"),
      "rollout.device", "cuda", samples_on_gpu);
}

void add_quant(List& list) {
  Section quant(list, "quant", &Recipe::quant);
  quant.add(
      "rollout.weights", &QuantRecipe::weights,
      choice<WeightFormat>({{"fp32", WeightFormat::f32},
                            {"bf16", WeightFormat::bf16},
                            {"int8", WeightFormat::int8},
                            {"fp8_e4m3", WeightFormat::fp8_e4m3},
                            {"int4", WeightFormat::int4}}),
      "format of the decoder's linear layers; activations, granularity and kv_cache follow it unless they are set");
  quant.add("rollout.activations", &QuantRecipe::activations,
            choice<ActivationFormat>({{"auto", ActivationFormat::automatic},
                                      {"bf16", ActivationFormat::bf16},
                                      {"int8", ActivationFormat::int8},
                                      {"fp8_e4m3", ActivationFormat::fp8_e4m3}}),
            "what meets them; auto: their own format, bf16 for int4 (W4A16); int8 and fp8_e4m3 make int4 W4A8");
  only_with(quant.add("rollout.granularity", &QuantRecipe::granularity,
                      choice<Granularity>({{"auto", Granularity::automatic},
                                           {"tensor", Granularity::tensor},
                                           {"channel_token", Granularity::channel_token},
                                           {"block128", Granularity::block128}}),
                      "what shares a scale in fp8_e4m3; auto: channel_token"),
            "quant.rollout.weights", {"fp8_e4m3"});
  only_with(
      quant.add(
          "rollout.ignore", &QuantRecipe::ignore, list_of(text()),
          "linear layers that stay bf16: down_proj, model.layers.0.*, with * and ?; q, k, v together, as gate, up"),
      "quant.rollout.weights", {"int8", "fp8_e4m3", "int4"});
  quant.add(
      "rollout.lm_head", &QuantRecipe::lm_head,
      choice<HeadFormat>({{"auto", HeadFormat::automatic}, {"fp32", HeadFormat::f32}, {"int8", HeadFormat::int8}}),
      "lm_head of sampler and learner; auto: bf16, or fp32 with fp32 weights; int8: the sampler's alone, the "
      "learner's as with auto");
  quant.add("rollout.profile", &QuantRecipe::profile, unset_when_empty(word_or_path({"auto"})),
            "int8 weights by a profile made once instead of anew at each publish (FlashRL): auto, made when training "
            "begins; or a file that qrl-train profile made",
            {"none"});
  quant.add("rollout.kv_cache", &QuantRecipe::kv_cache,
            choice<KvCache>({{"auto", KvCache::automatic},
                             {"fp32", KvCache::f32},
                             {"bf16", KvCache::bf16},
                             {"int8", KvCache::int8},
                             {"fp8_e4m3", KvCache::fp8_e4m3}}),
            "format of the KV cache; auto: int8 where activations are, fp32 with fp32 weights, else bf16");
  only_with(quant.add("rollout.queries", &QuantRecipe::queries,
                      choice<QueryFormat>({{"auto", QueryFormat::automatic}, {"fp8_e4m3", QueryFormat::fp8_e4m3}}),
                      "format in which queries meet keys; auto: bf16; fp8_e4m3: as FP8 attention has it, with "
                      "calibrated scales (for experiments, on the CPU)"),
            "quant.rollout.kv_cache", {"fp8_e4m3"});
}

void add_quant_learner(List& list) {
  Section quant(list, "quant", &Recipe::quant);
  quant.add("learner.forward", &QuantRecipe::learner_forward,
            choice<LearnerForward>({{"bf16", LearnerForward::bf16},
                                    {"fake_quant", LearnerForward::fake_quant},
                                    {"low_bit", LearnerForward::low_bit}}),
            "the learner's linear layers: bf16, in model.dtype; fake_quant, on values quantized and dequantized; "
            "low_bit, the "
            "sampler's own GEMM on its tensors, on a GPU with rollouts there");
  quant.add(
      "learner.backward", &QuantRecipe::learner_backward,
      choice<LearnerBackward>({{"model_dtype", LearnerBackward::model_dtype},
                               {"int8", LearnerBackward::int8},
                               {"fp8_e4m3", LearnerBackward::fp8_e4m3}}),
      "GEMMs of the backward pass; with forward low_bit also int8, of int8 layers, or fp8_e4m3, of fp8_e4m3 layers of "
      "granularity block128; gradients are quantized as activations are");
}

void add_gain_noise(List& list) {
  Section quant(list, "quant", &Recipe::quant);
  using N = GainNoiseRecipe;
  auto noise = quant.inner("rollout.noise", &QuantRecipe::noise);
  noise.add("start", &N::start, real(at_least_0()),
            "standard deviation of normal noise on the gains of the sampler's norms in the second stage, the first "
            "with any; 0: none (QeRL, there 1e-2)");
  const auto with_noise = [](Key& key) {
    only_with(key, "quant.rollout.noise.start", "above 0",
              [](const Recipe& recipe) { return recipe.quant.noise.start > 0; });
  };
  with_noise(
      noise.add("end", &N::end, real(positive()), "of the last stage; in between it falls by one factor a stage"));
  with_noise(noise.add("stages", &N::stages, integer(3, kMaxBatch), "equal parts of trainer.total_training_steps"));
}

void add_quant_calibration(List& list) {
  Section quant(list, "quant", &Recipe::quant);
  only_with(
      quant.add(
          "kv_calibration.when", &QuantRecipe::kv_when,
          choice<CalibrateKv>({{"every_update", CalibrateKv::every_update}, {"once", CalibrateKv::once}}),
          "fp8_e4m3's scales of keys and values: of each policy version, or of the first alone (for experiments)"),
      "quant.rollout.kv_cache", {"fp8_e4m3"});
  only_with(quant.add("kv_calibration.percentile", &QuantRecipe::kv_percentile, real(percentile()),
                      "of |key| or |value| of a head on a few training prompts, after every publish: what fp8_e4m3's "
                      "range is set by"),
            "quant.rollout.kv_cache", {"fp8_e4m3"});
  Key& margin = quant.add("kv_calibration.margin", &QuantRecipe::kv_margin, real(positive()),
                          "room above that percentile, a factor");
  margin.former_default = "1.05";
  only_with(margin, "quant.rollout.kv_cache", {"fp8_e4m3"});
  quant.add("uaq_scale", &QuantRecipe::uaq_scale, real(positive()),
            "once before training, weights behind a norm are divided and its gain multiplied by this (QuRL's "
            "update-aware quantization, there 1.5): the model stays, updates reach its quantized values sooner");
}

/// Adds own keys of losses and corrections, even in each other's section.
void add_own_of_objective(List& list, const std::string& section, bool nested, const Catalog& catalog) {
  add_own(list, section, nested, catalog.losses, "algorithm.name");
  add_own(list, section, nested, catalog.corrections, "rollout_correction.method");
}

void add_algorithm(List& list, const Catalog& catalog) {
  using A = AlgorithmRecipe;
  const auto of_loss = [&](Key& key) {
    unset_by_choice(key, catalog.losses, [](const Recipe& recipe) { return recipe.algorithm.name; });
  };
  Section algorithm(list, "algorithm", &Recipe::algorithm);
  algorithm.add("name", &A::name, word_of(catalog.losses), "the loss").reset =
      [word = catalog.losses.standard](Recipe& recipe) { recipe.algorithm.name = word; };
  of_loss(algorithm.add("clip_ratio_low", &A::clip_ratio_low, real(inside_0_to_1()), "ratios are clipped at 1 - this"));
  of_loss(algorithm.add("clip_ratio_high", &A::clip_ratio_high, real(positive()), "ratios are clipped at 1 + this"));
  of_loss(algorithm.add("clip_ratio_c", &A::clip_ratio_c, real(above_1_or_off()),
                        "dual clip: with a negative advantage a token's ratio counts as this at most"));
  of_loss(algorithm.add("loss_agg_mode", &A::loss_agg_mode,
                        choice<LossAggMode>({{"token-mean", LossAggMode::token_mean},
                                             {"token-sum", LossAggMode::token_sum},
                                             {"seq-mean-token-sum", LossAggMode::seq_mean_token_sum},
                                             {"seq-mean-token-mean", LossAggMode::seq_mean_token_mean},
                                             {"seq-mean-token-sum-norm", LossAggMode::seq_mean_token_sum_norm}}),
                        "how tokens make one loss, over the whole mini-batch and all ranks; norm: sums are divided by "
                        "data.max_response_length"));
  add_estimator(list, catalog);
  add_selection(list);
  algorithm.add("kl_loss_coef", &A::kl_loss_coef, real(at_least_0()),
                "weight of the KL to the initial model; 0: no reference model");
  Key& kl_type = algorithm.add("kl_loss_type", &A::kl_loss_type, word_of(catalog.kl_estimators),
                               "estimator of that KL; k1 is refused");
  kl_type.reset = [word = catalog.kl_estimators.standard](Recipe& recipe) { recipe.algorithm.kl_loss_type = word; };
  only_with(kl_type, "algorithm.kl_loss_coef", "above 0",
            [](const Recipe& recipe) { return recipe.algorithm.kl_loss_coef != 0; });
  algorithm.add("entropy_coef", &A::entropy_coef, real(at_least_0()), "weight of the entropy bonus");
  algorithm.add(
      "mask_truncated", &A::mask_truncated, boolean(),
      "responses cut at data.max_response_length teach nothing and leave the denominators; their reward stays "
      "in the group's mean");

  using G = FilterGroupsRecipe;
  auto filter = algorithm.inner("filter_groups", &A::filter_groups);
  filter.add("enable", &G::enable, boolean(),
             "dynamic sampling: train on groups whose scores differ, draw more prompts until there are "
             "data.train_batch_size of them");
  only_with(filter.add("metric", &G::metric, text(),
                       "what must differ in a group: score, the sum; acc, whether responses are correct; or one of the "
                       "verifier's scores by its name"),
            "algorithm.filter_groups.enable", {"true"});
  only_with(filter.add("max_num_gen_batches", &G::max_num_gen_batches, integer(1, kMaxBatch), "draws of a step"),
            "algorithm.filter_groups.enable", {"true"});
  only_with(
      filter.add("on_exhausted", &G::on_exhausted,
                 choice<OnExhausted>({{"error", OnExhausted::error}, {"train_partial", OnExhausted::train_partial}}),
                 "after the last draw: end the run with exit code 3, or train on the groups there are"),
      "algorithm.filter_groups.enable", {"true"});

  add_own_of_objective(list, "algorithm", false, catalog);
  add_own_of_objective(list, "algorithm", true, catalog);
}

void add_correction(List& list, const Catalog& catalog) {
  using C = CorrectionRecipe;
  const auto of_method = [&](Key& key) {
    unset_by_choice(key, catalog.corrections, [](const Recipe& recipe) { return recipe.rollout_correction.method; });
  };
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction
      .add("method", &C::method, word_of(catalog.corrections),
           "weight of a token for the gap between sampler and learner")
      .reset = [word = catalog.corrections.standard](Recipe& recipe) { recipe.rollout_correction.method = word; };
  of_method(correction.add("threshold", &C::threshold, real(at_least_1()),
                           "largest weight of a token, or largest ratio that is not rejected"));
  of_method(
      correction.add("threshold_low", &C::threshold_low, real(above_0_to_1()), "smallest ratio that is not rejected"));
  add_own_of_objective(list, "rollout_correction", false, catalog);
  add_rejection(list);
  correction.add("behaviour_in_ratio", &C::behaviour_in_ratio, boolean(),
                 "without a correction, for experiments: clip the ratio to the sampler instead of the ratio to the old "
                 "policy");
  add_own_of_objective(list, "rollout_correction", true, catalog);
}

void add_gap_limit(List& list) {
  using C = CorrectionRecipe;
  Section correction(list, "rollout_correction", &Recipe::rollout_correction);
  correction.add("gap_limit.k3_kl", &C::gap_limit, real(positive()),
                 "largest k3 KL between sampler and learner on a few fixed prompts, measured after every publish",
                 {"none"});
  only_with(correction.add("gap_limit.action", &C::gap_action,
                           choice<GapAction>({{"stop", GapAction::stop}, {"warn", GapAction::warn}}),
                           "beyond it: end the run with exit code 3, or say so and go on"),
            "rollout_correction.gap_limit.k3_kl", "set",
            [](const Recipe& recipe) { return recipe.rollout_correction.gap_limit.has_value(); });
}

void add_sft(List& list, const Choices& generators) {
  using S = SftRecipe;
  Section sft(list, "sft", &Recipe::sft);
  sft.add("steps", &S::steps, integer(0), "optimizer updates of the cold start; 0: none, or by sft.epochs");
  sft.add(
      "from", &S::from, unset_when_empty(input_path()),
      "finished cold start of another run (RUN/checkpoints/sft_N) to take instead of making one; that run must have "
      "had the same model, prompt and sft keys",
      {"none: the run makes its own"});
  sft.add("batch_size", &S::batch_size, integer(1, kMaxBatch), "demonstrations, or rows of files, an update");
  sft.add("save_freq", &S::save_freq, integer(0), "updates between its checkpoints; 0: only at the end");
  add_update_rule(Section(list, "sft", &Recipe::sft, &S::optim));
  add_generator(list, sft.inner("demonstrations", &S::demonstrations), generators, root_seed());
  add_sft_files(list);
}

void add_actor(List& list) {
  using A = ActorRecipe;
  Section actor(list, "actor", &Recipe::actor);
  actor.add("mini_batch_size", &A::mini_batch_size, integer(1, kMaxBatch), "prompts an optimizer update");
  actor.add("max_tokens_per_micro_batch", &A::max_tokens_per_micro_batch,
            or_auto(integer(2, kMaxTokens), A{}.max_tokens_per_micro_batch),
            "tokens of one forward and backward; auto: 4096, on a GPU what its memory has room for");
  actor.add("ppo_epochs", &A::ppo_epochs, integer(1), "passes over a step's samples");
  actor.add("logprob_chunk_tokens", &A::logprob_chunk_tokens, or_auto(integer(1, kMaxTokens), A{}.logprob_chunk_tokens),
            "tokens whose logits exist at once; auto: 1024, on a GPU up to 4096");
  actor.add(
      "activation_checkpointing", &A::activation_checkpointing, or_auto(boolean(), A{}.activation_checkpointing),
      "recompute activations in the backward pass to save memory; auto: false, on a GPU true where its memory has "
      "no room without");

  Section optim(list, "optim", &Recipe::optim);
  optim.add("name", &OptimRecipe::name, choice<OptimName>({{"adamw", OptimName::adamw}, {"muon", OptimName::muon}}),
            "the optimizer; muon is for the matrices of the layers, embeddings, norms, lm_head and biases have adamw "
            "with the same lr");
  add_update_rule(optim);
  optim.add("lr_warmup_ratio", &OptimRecipe::lr_warmup_ratio, real(from_0_to_1()),
            "share of the run's updates over which lr rises from 0, in place of lr_warmup_steps", {"lr_warmup_steps"});
  optim.add("eps", &OptimRecipe::eps, real(positive()), "AdamW's epsilon");
  auto muon = optim.inner("muon", &OptimRecipe::muon);
  only_with(muon.add("momentum", &MuonRecipe::momentum, real(from_0_to_below_1()), "decay rate of Muon's momentum"),
            "optim.name", {"muon"});
  only_with(muon.add("nesterov", &MuonRecipe::nesterov, boolean(), "look ahead by one more gradient"), "optim.name",
            {"muon"});
  only_with(
      muon.add("ns_steps", &MuonRecipe::ns_steps, integer(1, kMaxNewtonSchulz), "Newton-Schulz steps of an update"),
      "optim.name", {"muon"});
  only_with(muon.add("match_adamw_rms", &MuonRecipe::match_adamw_rms, boolean(),
                     "scale updates by 0.2 sqrt(max(rows, columns)), the size of AdamW's, so that lr means the same"),
            "optim.name", {"muon"});
}

void add_eval(List& list) {
  using E = EvalRecipe;
  Section eval(list, "eval", &Recipe::eval);
  eval.add("freq", &E::freq, integer(0), "steps between evaluations; 0: never");
  eval.add("before_train", &E::before_train, boolean(), "evaluate before the first step");
  eval.add("n", &E::n, integer(1, kMaxSamples), "samples a held-out prompt");
  eval.add("temperature", &E::temperature, real(at_least_0()), "temperature of evaluation; 0: greedy");
  eval.add("top_p", &E::top_p, real(above_0_to_1()), "nucleus of evaluation; 1: off");
  eval.add("top_k", &E::top_k, integer_or_minus_one(1), "likeliest tokens kept in evaluation; -1: all");
  eval.add("stop", &E::stop, list_of(text()), "texts that end a response of evaluation", {"rollout.stop"});
  eval.add("dump", &E::dump, integer(0),
           "first prompts of a held-out set whose responses go to validation/step_N.jsonl; 0: none");
}

void add_trainer(List& list) {
  using T = TrainerRecipe;
  Section trainer(list, "trainer", &Recipe::trainer);
  trainer.add(
      "device", &T::device,
      choice<TrainDevice>({{"auto", TrainDevice::automatic}, {"cpu", TrainDevice::cpu}, {"cuda", TrainDevice::cuda}}),
      "where the learner computes: cuda, an NVIDIA GPU; auto: cpu");
  trainer.add("threads", &T::threads, integer_or_auto(kMaxThreads),
              "threads a process; auto: processors / processes on this machine");
  trainer.add(
      "zero_stage", &T::zero_stage, integer(0, 1),
      "with several processes: 0, each keeps all master weights and moments; 1 (ZeRO), each keeps those of some "
      "tensors, with the same bits, and writes a shard of a checkpoint");
  trainer.add("total_training_steps", &T::total_training_steps, integer(0), "steps of the run");
  trainer.add("total_epochs", &T::total_epochs, integer(0),
              "passes over the training prompts, in place of total_training_steps; 0: by steps");
  trainer.add("max_time", &T::max_time, duration(),
              "time from its start after which a run stops as a signal would have it: a checkpoint, exit code 75",
              {"no limit"});
  only_with(
      trainer.add("keep_best", &T::keep_best, unset_when_empty(text()),
                  "held-out score, as val/gsm8k/mean@8: the checkpoint of its best evaluation is written at once and "
                  "kept as checkpoints/best",
                  {"none"}),
      "eval.freq", "above 0", [](const Recipe& recipe) { return recipe.eval.freq > 0; });
  trainer.add("save_freq", &T::save_freq, integer(0), "steps between checkpoints; 0: only at the end");
  trainer.add("max_ckpt_to_keep", &T::max_ckpt_to_keep, integer(1), "newest checkpoints that are kept");
  list.push_back(resume_mode_key());
  trainer.add("default_local_dir", &T::default_local_dir, unset_when_empty(text()), "run folder",
              {"runs/<recipe>-seed<trainer.seed>"});
  trainer.add("rollout_dump", &T::rollout_dump, boolean(), "write rollouts/step_N.jsonl");
  trainer.add("tensorboard", &T::tensorboard, boolean(), "write the metrics as TensorBoard's events files, too");
  trainer.add("seed", &T::seed, seed(), "root of all random numbers");
  trainer.add("collective_timeout_s", &T::collective_timeout_s, integer(1),
              "seconds that a process waits for the others before it takes them for hung and ends the job");
  trainer.add("max_non_finite_steps", &T::max_non_finite_steps, integer(1),
              "skipped updates in a row before the run stops");
}

List declare(const Catalog& catalog) {
  List list;
  add_mode(list, catalog);
  add_model(list);
  add_data(list, catalog.generators);
  add_rollout(list);
  add_quant(list);
  add_rotation(list);
  add_gain_noise(list);
  add_quant_learner(list);
  add_quant_calibration(list);
  add_algorithm(list, catalog);
  add_correction(list, catalog);
  add_gap_limit(list);
  add_sft(list, catalog.generators);
  add_lora(list);
  add_reward(list, catalog.verifiers);
  add_actor(list);
  add_eval(list);
  add_trainer(list);
  for (Key& key : list) key.on_resume = on_resume(key.name);
  return list;
}

}  // namespace

Keys declared_keys(Catalog catalog) { return {std::move(catalog), declare}; }

}  // namespace qrl::config
