#include <utility>

#include "data/keys.h"
#include "decoder/keys.h"
#include "learner/keys.h"
#include "model/keys.h"
#include "train/recipe/automatic.h"
#include "train/recipe/sections.h"

namespace qrl::train {

namespace {

using namespace config;
using enum config::OnResume;
using namespace std::string_literals;

constexpr std::int64_t kMaxThreads = 1024;
// These limits far exceed real runs. They turn a mistyped digit into an error instead of a failed allocation.
constexpr std::int64_t kMaxSamples = 65'536;    // samples per prompt, and sequences decoded at once
constexpr std::int64_t kMaxBatch = 1'048'576;   // prompts or demonstrations per update
constexpr std::int64_t kMaxTokens = 1'048'576;  // tokens per text, decoder tick or micro-batch

Type<ResumeFrom> resume_from() {
  const Type<ResumeFrom> path{"PATH",
                              [](const YamlNode& node) {
                                if (!node.quoted && (node.text == "disable" || node.text == "false"))
                                  throw ParseError{base::quoted(node.text), "use never"};
                                return ResumeFrom{ResumeMode::path, read_text(node)};
                              },
                              [](const ResumeFrom& from) { return write_text(from.path); }};
  return word_or("auto", ResumeFrom{}, word_or("never", ResumeFrom{ResumeMode::never}, path));
}

void add_mode(config::Keys& keys, const Catalog& catalog) {
  keys.add(make_key(keys, "mode", Access(&Recipe::mode), option_of(catalog.modes),
                    "a paper's system: sets the defaults of other keys", "each key's own default"));
}

void add_model(config::Keys& keys) {
  using M = ModelRecipe;
  Section model(keys, "model", &Recipe::model);
  model
      .add(fixed, "path", &M::path, model_path(),
           "model to start from: Hugging Face folder, GGUF file, or OWNER/NAME[@REVISION] in the local Hub cache",
           "a new model")
      .excludes("model.init.config", "set only one of the two");
  model.add(fixed, "dtype", &M::dtype, "dtype of the learner's forward and backward pass; master weights are float32");
  model.add(fixed, "init.config", &M::init_config, input_path(), "config.json of a new model",
            "the model of model.path");
  model.add(fixed, "init.seed", &M::init_seed, "seed of a new model's weights")
      .unset_is("trainer.seed")
      .only_with("model.init.config", "set");
}

void add_data(config::Keys& keys) {
  using D = DataRecipe;
  Section data(keys, "data", &Recipe::data);
  const auto reads_files = [](const Recipe& recipe) {
    return !recipe.data.train_files.empty() || !recipe.data.val_files.empty();
  };
  data.add(allow_change, "train_files", &D::train_files, list_of(input_path()),
           "training prompts: JSONL, CSV or parquet files, or DIR:SPLIT of a dataset folder")
      .excludes("data.train_generator.task",
                "set only one: remove the generator with --set data.train_generator.task=null, or the files with --set "
                "data.train_files=[]");
  data.add(allow_change, "train_weights", &D::train_weights, list_of(real(kPositive)),
           "sampling weight of each file in train_files; []: each row once per epoch");
  data.add(free, "val_files", &D::val_files, list_of(input_path()), "held-out prompts, in the formats of train_files");
  data.only_with({"data.train_files", "or data.val_files set", reads_files});
  qrl::data::add_field_keys(data.of<qrl::data::FieldNames>());
  data.only_with({});
  data.add(allow_change, "filter", &D::filter,
           R"(conditions on rows of train_files: "level >= 3", "subject == 'Number Theory'"; others are skipped)")
      .only_with("data.train_files", "set");
  data.add(allow_change, "train_max_samples", &D::train_max_samples, integer(1),
           "number of training prompts to keep, from the start", "all")
      .excludes("data.train_weights", "set only one: weights already say how often each file is drawn");
  data.add(free, "val_max_samples", &D::val_max_samples, integer(1),
           "number of held-out prompts to keep per data source, from the start", "all");
  data.add(free, "val_filter", &D::val_filter, "conditions on rows of val_files, as for data.filter")
      .only_with("data.val_files", "set");
}

void add_prompts(config::Keys& keys, const Choices<tasks::Generator>& generators) {
  using D = DataRecipe;
  Section data(keys, "data", &Recipe::data);
  add_generator(allow_change, data.inner("train_generator", &D::train_generator), generators, "trainer.seed");
  add_generator(free, data.inner("val_generator", &D::val_generator), generators, std::to_string(kHeldOutSeed));
  data.add(allow_change, "train_batch_size", &D::train_batch_size, integer(1, kMaxBatch), "prompts per step");
  data.add(allow_change, "gen_batch_size", &D::gen_batch_size, integer(1, kMaxBatch),
           "prompts per draw of algorithm.filter_groups")
      .unset_is("data.train_batch_size")
      .only_with("algorithm.filter_groups.enable", "true");
  data.add(allow_change, "max_prompt_length", &D::max_prompt_length, integer(1, kMaxTokens),
           "maximum tokens per prompt");
  data.add(allow_change, "max_response_length", &D::max_response_length, integer(1, kMaxTokens),
           "maximum tokens per response");
  data.add(allow_change, "overlong_prompt", &D::overlong_prompt, "what to do with a prompt above max_prompt_length");
  data.add(fixed, "shuffle", &D::shuffle, "shuffle the prompts anew in each epoch");
  data.add(fixed, "seed", &D::seed, "seed of the shuffle").unset_is("trainer.seed");
  data.add(fixed, "prompt_template", &D::prompt_template, text_with_one("{prompt}"), "text around each prompt");
  qrl::data::add_template_keys(data.of<qrl::data::TemplateOptions>());
  data.add(fixed, "parse_special_tokens", &D::parse_special_tokens,
           "read control tokens spelled in the data's prompts as tokens; false: as text");
}

void add_rollout(config::Keys& keys, const MatchedForward& decided) {
  using O = RolloutRecipe;
  Section rollout(keys, "rollout", &Recipe::rollout);
  rollout.add(fixed, "device", &O::device, "device of the sampler; auto: the learner's device")
      .needs("cuda", "quant.rollout.weights", "other than fp32", "use bf16")
      .needs("cuda", "quant.rollout.lm_head", "auto or int8", "a GPU's lm_head is bf16 or int8")
      .needs("cuda", "quant.rollout.queries", "auto", "only the CPU has scales for queries")
      .needs("cuda", "quant.rollout.kv_cache", "other than fp32", "use bf16, int8 or fp8_e4m3")
      .effective = [](const Recipe& recipe) {
    return std::vector<std::string>{samples_on_gpu(recipe) ? "cuda" : "cpu"};
  };
  rollout.add(allow_change, "n", &O::n, integer(2, kMaxSamples),
              "samples per prompt; advantages are relative to their group");
  rollout.add(allow_change, "temperature", &O::temperature, real(kPositive), "sampling temperature in training");
  rollout.add(allow_change, "top_p", &O::top_p, real(kAbove0To1),
              "nucleus (top-p) sampling in training, at most " + std::to_string(kMaxKeptTokens) + " tokens; 1: off");
  rollout.add(allow_change, "top_k", &O::top_k, word_or("-1", std::int64_t{-1}, integer(1, kMaxKeptTokens)),
              "top-k sampling in training; -1: off");
  decoder::add_keys(rollout.of<decoder::DecoderOptions>());
  rollout.behind("rollout.gpu_memory_utilization");
  rollout.add(allow_change, "stop", &O::stop, "stop strings; kept at the end of the response");
  rollout.behind("rollout.prefix_sharing");
  add_auto(rollout, "bitwise", &O::bitwise,
           "make the learner's log-probs equal the sampler's bit for bit; needs quant.learner.forward low_bit, no "s
           "fp8_e4m3 KV cache, and one device; " +
               auto_text_of_bitwise(decided))
      .needs("true", "quant.learner.forward", "low_bit", "only the sampler's own GEMM gives its bits")
      .needs("true", "quant.rollout.kv_cache", "other than fp8_e4m3", "use int8 or bf16");
  rollout.add(free, "free_cache_engine", &O::free_cache_engine, "free the KV cache's memory while the learner works");
}

void size_micro_batch(Recipe& recipe) {
  if (!learns_on_gpu(recipe)) recipe.actor.max_tokens_per_micro_batch = tokens_per_micro_batch(recipe);
}

void add_sft(config::Keys& keys, const Choices<tasks::Generator>& generators) {
  using S = SftRecipe;
  Section sft(keys, "sft", &Recipe::sft);
  sft.add(fixed, "steps", &S::steps, integer(0), "optimizer updates of the cold start; 0: none, or by sft.epochs");
  sft.add(fixed, "from", &S::from, input_path(),
          "finished cold start (RUN/checkpoints/sft_N) to reuse; model, prompt and sft keys must be equal",
          "the run makes its own")
      .condition = {
      "sft.steps", "or sft.epochs above 0", [](const Recipe& recipe) { return has_cold_start(recipe.sft); },
      "set sft.steps to the shared cold start's; or set model.path to start from any checkpoint's weights"};
  sft.add(fixed, "batch_size", &S::batch_size, integer(1, kMaxBatch), "demonstrations, or rows of files, per update");
  sft.add(free, "save_freq", &S::save_freq, integer(0), "updates between checkpoints; 0: only at the end");
  learner::add_update_rule(fixed, Section(keys, "sft", sft.access().at(&S::optim)));
  add_generator(fixed, sft.inner("demonstrations", &S::demonstrations), generators, "trainer.seed", true);
  sft.add(fixed, "train_files", &S::train_files, list_of(input_path()),
          "conversations to train on instead of sft.demonstrations: `messages`, or `prompt` with `response`")
      .excludes("sft.demonstrations.task",
                "set only one: remove the generator with --set sft.demonstrations.task=null, or the files with --set "
                "sft.train_files=[]");
  sft.only_with("sft.train_files", "set");
  sft.add(free, "val_files", &S::val_files, list_of(input_path()),
          "held-out conversations for val/loss: after each epoch, at each checkpoint and at the end");
  sft.add(fixed, "epochs", &S::epochs, integer(0), "passes over train_files, instead of sft.steps; 0: by steps")
      .excludes("sft.steps", "set one of them to 0");
  sft.add(fixed, "max_length", &S::max_length, integer(2), "maximum tokens per row", "actor.max_tokens_per_micro_batch")
      .fill = [](Recipe& recipe) {
    size_micro_batch(recipe);
    if (!recipe.sft.train_files.empty() && !recipe.sft.max_length)
      recipe.sft.max_length = recipe.actor.max_tokens_per_micro_batch;
  };
  sft.add(fixed, "overlong", &S::overlong, "what to do with a row above max_length; truncate cuts its end");
  sft.add(fixed, "shuffle", &S::shuffle, "shuffle the rows anew in each epoch");
  sft.add(fixed, "loss_on", &S::loss_on, "tokens in the loss: all assistant turns, the last one, or all tokens");
}

void add_lora(config::Keys& keys) {
  using L = LoraRecipe;
  Section lora(keys, "lora", &Recipe::lora);
  model::add_adapter_keys(lora.of<model::LoraConfig>());
  lora.only_with("lora.rank", "above 0");
  lora.add(fixed, "path", &L::path, input_path(), "PEFT folder to start from, with the same rank, alpha and modules",
           "new adapters");
  lora.add(fixed, "sft", &L::sft,
           "what the cold start trains: all weights, which become the base, or adapters; auto: full for a new model");
  lora.add(fixed, "publish", &L::publish,
           "what the sampler uses: adapters on the base, or merged weights quantized anew (for comparison)")
      .needs("merge", "quant.learner.forward", "bf16",
             "only the sampler would use merged weights: the learner multiplies base and adapters");
}

void add_actor(config::Keys& keys) {
  using A = ActorRecipe;
  Section actor(keys, "actor", &Recipe::actor);
  actor.add(allow_change, "mini_batch_size", &A::mini_batch_size, integer(1, kMaxBatch), "prompts per optimizer update")
      .unset_is("data.train_batch_size");
  actor
      .add(allow_change, "max_tokens_per_micro_batch", &A::max_tokens_per_micro_batch,
           word_or("auto", A{}.max_tokens_per_micro_batch, integer(2, kMaxTokens)),
           "tokens per forward and backward pass; auto: 4096 or the longest sequence, or what fits in GPU memory")
      .fill = size_micro_batch;
  actor.add(allow_change, "ppo_epochs", &A::ppo_epochs, integer(1), "passes over the samples of a step");
  learner::add_memory_keys(actor.of<learner::MemoryOptions>());
  learner::add_optimizer_keys(Section(keys, "optim", &Recipe::optim));
}

void add_eval(config::Keys& keys) {
  using E = EvalRecipe;
  Section eval(keys, "eval", &Recipe::eval);
  eval.add(free, "freq", &E::freq, integer(0), "steps between evaluations; 0: never");
  eval.add(free, "before_train", &E::before_train, "evaluate before the first step");
  eval.add(free, "n", &E::n, integer(1, kMaxSamples), "samples per held-out prompt");
  eval.add(free, "temperature", &E::temperature, real(kAtLeast0), "sampling temperature in evaluation; 0: greedy");
  eval.add(free, "top_p", &E::top_p, real(kAbove0To1), "nucleus (top-p) sampling in evaluation; 1: off");
  eval.add(free, "top_k", &E::top_k, word_or("-1", std::int64_t{-1}, integer(1)),
           "top-k sampling in evaluation; -1: off");
  eval.add(free, "stop", &E::stop, "stop strings in evaluation", "rollout.stop");
  eval.add(free, "dump", &E::dump, integer(0),
           "prompts per held-out set whose responses are written to validation/step_N.jsonl; 0: none");
}

void add_trainer(config::Keys& keys) {
  using T = TrainerRecipe;
  Section trainer(keys, "trainer", &Recipe::trainer);
  trainer.add(fixed, "device", &T::device, "device of the learner; auto: cpu")
      .needs("cuda", "quant.learner.backward", "model_dtype or fp8_e4m3",
             "on a GPU only the forward pass multiplies in int8")
      .effective = [](const Recipe& recipe) {
    return std::vector<std::string>{learns_on_gpu(recipe) ? "cuda" : "cpu"};
  };
  trainer.add(free, "threads", &T::threads, word_or("auto", std::int64_t{0}, integer(1, kMaxThreads)),
              "threads per process; auto: processors / processes on this machine");
  trainer.add(free, "zero_stage", &T::zero_stage, integer(0, 1),
              "ZeRO stage with several processes; 1: each keeps the master weights and moments of some tensors, with "
              "the same bits, and writes a shard of each checkpoint");
  trainer.add(free, "total_training_steps", &T::total_training_steps, integer(0), "number of steps");
  trainer
      .add(free, "total_epochs", &T::total_epochs, integer(0),
           "passes over the training prompts, instead of total_training_steps; 0: by steps")
      .excludes("trainer.total_training_steps", "set only one: total_epochs: 0, or the steps to their default")
      .needs("above 0", "data.train_weights", "unset",
             "weighted files have no common epoch: set trainer.total_training_steps")
      .needs("above 0", "algorithm.filter_groups.enable", "false",
             "the prompts of a step are not known in advance: set trainer.total_training_steps");
  trainer.add(free, "max_time", &T::max_time, duration(),
              "time from its start after which the run writes a checkpoint and stops with exit code 75", "no limit");
  trainer
      .add(free, "keep_best", &T::keep_best,
           "metric of held-out responses, such as val/gsm8k/mean@8 or val/letters/score/mean@8; the checkpoint where "
           "it is "
           "highest (a truncated or error fraction: lowest) is kept as checkpoints/best",
           "none")
      .only_with("eval.freq", "above 0");
  trainer.add(free, "save_freq", &T::save_freq, integer(0), "steps between checkpoints; 0: only at the end");
  trainer.add(free, "max_ckpt_to_keep", &T::max_ckpt_to_keep, integer(1), "number of checkpoints to keep, the newest");
  trainer.add(free, "resume_mode", &T::resume_from, resume_from(), "checkpoint to resume from");
  trainer.add(free, "default_local_dir", &T::default_local_dir, "run folder", "runs/<recipe>-seed<trainer.seed>");
  trainer.add(free, "rollout_dump", &T::rollout_dump, "write rollouts/step_N.jsonl");
  trainer.add(free, "tensorboard", &T::tensorboard, "also write TensorBoard event files");
  trainer.add(free, "wandb", &T::wandb, "send metrics, recipe and samples to Weights & Biases");
  trainer.add(fixed, "seed", &T::seed, "seed of all random numbers");
  trainer.add(free, "collective_timeout_s", &T::collective_timeout_s, integer(1),
              "seconds to wait for the slowest process before the job ends");
  trainer.add(free, "max_non_finite_steps", &T::max_non_finite_steps, integer(1),
              "consecutive skipped updates after which the run stops");
}

}  // namespace

Keys::Keys(Catalog catalog, const MatchedForward& decided)
    : config::Keys({.sections = "model, data, rollout",
                    .setting = "optim.lr=2e-6",
                    .json_lines = "name the file in data.train_files"}),
      catalog_(std::move(catalog)),
      matched_forward_(decided) {
  defaults_.keys = this;
  defaults_.algorithm.name = catalog_.losses.default_option();
  defaults_.algorithm.adv_estimator = catalog_.estimators.default_option();
  defaults_.rollout_correction.method = catalog_.corrections.default_option();
  defaults_.reward.verifier = catalog_.verifiers.default_option();
  defaults_.algorithm.kl_loss_type = catalog_.kl_estimators.default_option();
  add_mode(*this, catalog_);
  add_model(*this);
  add_data(*this);
  add_prompts(*this, catalog_.generators);
  add_rollout(*this, matched_forward_);
  add_quant(*this, matched_forward_);
  add_objective(*this, catalog_);
  add_sft(*this, catalog_.generators);
  add_lora(*this);
  add_reward(*this, catalog_.verifiers);
  add_environment(*this);
  add_actor(*this);
  add_eval(*this);
  add_trainer(*this);
  at("quant.learner.backward")
      .needs("int8", "quant.rollout.weights", "int8", "use model_dtype")
      // int32 sums over tokens are exact up to 132,103 terms (kMaxInt8Width in ops/dispatch/packed_linear.cpp). Terms
      // are products of two int8 values, or of 128 and an int8 value.
      .needs("int8", "actor.max_tokens_per_micro_batch", "at most 131072", "int32 sums are exact up to there")
      .needs("fp8_e4m3", "quant.rollout.granularity", "block128",
             "only square blocks keep their scales when transposed: set quant.rollout.weights: fp8_e4m3 and "
             "granularity: block128, or use model_dtype");
  at("lora.rank")
      .needs("above 0", "trainer.zero_stage", "0", "adapters are small, so every rank keeps them all")
      .needs("above 0", "optim.name", "adamw", "Muon updates whole matrices only: set optim.name: adamw")
      .needs("above 0", "quant.uaq_scale", "default",
             "the base's quantized values never change: set quant.uaq_scale: 1")
      .needs("above 0", "quant.rollout.profile", "unset",
             "the base is quantized once, without a profile: set quant.rollout.profile: null");
  for (const char* name : {"rollout.max_num_seqs", "actor.logprob_chunk_tokens", "actor.activation_checkpointing"}) {
    Key& key = at(name);
    key.fill = [state = key.fill](Recipe& recipe) {  // with a learner on a GPU, the run chooses
      if (!learns_on_gpu(recipe)) state(recipe);
    };
  }
}

}  // namespace qrl::train
