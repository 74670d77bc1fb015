#include "train/session.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/processors.h"
#include "base/rng.h"
#include "base/threads.h"
#include "config/hub.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/libraries.h"
#include "model/peft.h"
#include "ops/peak_rates.h"
#include "state/file.h"
#include "train/adapters.h"
#include "train/checkpoint.h"
#include "train/decoder_fit.h"
#include "train/generation_progress.h"
#include "train/signals.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

/// Returns usable processors. A single process keeps its own (taskset, a batch system); several ranks first undo the
/// launcher's binding, within the container's set.
int usable_processors(const dist::Collectives& world) {
  if (world.size() > 1) {
    const long configured = std::clamp<long>(sysconf(_SC_NPROCESSORS_CONF), 1, CPU_SETSIZE);
    cpu_set_t all;
    CPU_ZERO(&all);
    for (long cpu = 0; cpu < configured; ++cpu) CPU_SET(cpu, &all);
    sched_setaffinity(0, sizeof all, &all);
  }
  return base::usable_processors();
}

model::WeightSource init_from(const config::Recipe& recipe, const model::ModelConfig& config) {
  return model::new_weights(config, recipe.model.init_seed.value_or(recipe.trainer.seed));
}

void check_fit(const data::Tokenizer& tokenizer, const model::ModelConfig& config, const std::string& where) {
  QRL_REQUIRE(
      tokenizer.eos() >= 0, where,
      "a tokenizer_config.json that names an `eos_token`, or a generation_config.json whose `eos_token_id` is a "
      "special token",
      "none", "nothing else says where a response ends");
  QRL_REQUIRE(tokenizer.vocab_size() <= config.vocab_size, where,
              "vocab_size of at least the tokenizer's " + std::to_string(tokenizer.vocab_size()) + " ids",
              std::to_string(config.vocab_size));
}

types::SamplingParams sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                               const data::Tokenizer& tokenizer, const std::vector<std::string>& stop) {
  types::SamplingParams params;
  params.stop_strings = stop;
  params.max_new_tokens = static_cast<std::int32_t>(recipe.data.max_response_length);
  params.stop_tokens = config.eos_token_ids;
  const auto add = [&](types::TokenId token) {
    auto& ends = params.stop_tokens;
    if (token >= 0 && std::find(ends.begin(), ends.end(), token) == ends.end()) ends.push_back(token);
  };
  add(tokenizer.eos());
  // A base model's end token ends texts, not turns, and what follows a turn is no answer (our choice).
  add(tokenizer.added_token_id(data::choose_template(recipe.data, tokenizer).end_of_turn));
  return params;
}

decoder::DecoderOptions decoder_options(const config::Recipe& recipe, const dist::Collectives& world,
                                        std::int64_t longest_prompt_tokens,
                                        std::optional<std::int64_t> logit_tile_tokens) {
  decoder::DecoderOptions options;
  options.logit_tile_tokens = logit_tile_tokens.value_or(options.logit_tile_tokens);
  options.device = config::samples_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
  options.device_number = world.local_rank();
  require_gpu(recipe, options.device_number);
  options.max_num_seqs = recipe.rollout.max_num_seqs;
  options.max_num_batched_tokens = recipe.rollout.max_num_batched_tokens;
  options.page_size = recipe.rollout.page_size;
  options.max_model_len = longest_prompt_tokens + recipe.data.max_response_length;
  options.kv_pages = kv_pages(recipe, longest_prompt_tokens);
  if (options.device == base::Device::cuda && !recipe.rollout.kv_pages)
    options.gpu_memory_utilization = gpu_memory_share(recipe);
  options.enforce_eager = recipe.rollout.enforce_eager;
  options.row_only_sums = recipe.rollout.bitwise;
  options.kv_format = kv_format(recipe.quant);
  options.prefix_sharing = recipe.rollout.prefix_sharing;
  options.before_tick = [] {
    abandon_if_stopping();
    GenerationProgress::tick();
  };
  options.num_threads = base::num_threads();
  return options;
}

/// Stop strings are sought in verifiers' text, without special tokens.
decoder::DecoderOptions with_texts(const data::Tokenizer* tokenizer, decoder::DecoderOptions options) {
  if (tokenizer != nullptr)
    options.bytes_of = [tokenizer = *tokenizer](types::TokenId token) { return tokenizer.bytes_of(token, false); };
  return options;
}

}  // namespace

void set_threads(const config::Recipe& recipe, const dist::Collectives& world) {
  const int processors = usable_processors(world);
  const auto asked = static_cast<int>(recipe.trainer.threads);
  base::set_num_threads(asked > 0 ? asked : std::max(1, processors / world.local_size()));
}

int all_local_threads(const config::Recipe& recipe, const dist::Collectives& world) {
  const auto asked = static_cast<int>(recipe.trainer.threads);
  return asked > 0 ? asked * world.local_size() : usable_processors(world);
}

model::ModelConfig model_config(const config::Recipe& recipe) {
  const bool is_new = recipe.model.path.empty();
  const fs::path folder = is_new ? fs::path() : config::model_folder(recipe.model.path);
  QRL_REQUIRE(is_new || fs::is_directory(folder), "model.path", "a Hugging Face folder on this machine",
              "none at " + state::shown(folder),
              "nothing is downloaded: fetch it first (hf download NAME --local-dir DIR), and write ~ in full");
  return model::read_config(is_new ? fs::path(recipe.model.init_config) : folder / "config.json");
}

data::Tokenizer make_tokenizer(const config::Recipe& recipe, const model::ModelConfig& config) {
  const bool is_new = recipe.model.path.empty();
  const fs::path dir =
      is_new ? fs::path(recipe.model.init_config).parent_path() : config::model_folder(recipe.model.path);
  data::Tokenizer tokenizer =
      is_new && !fs::exists(dir / "tokenizer.json") ? data::Tokenizer::byte_level() : data::Tokenizer::load(dir);
  check_fit(tokenizer, config, is_new ? recipe.model.init_config : dir.string());
  return tokenizer;
}

namespace {

Policy load_hf_policy(const fs::path& dir) {
  const model::HfModel hf = model::open_hf(dir);
  return {hf.config, hf.weights, data::Tokenizer::load(dir)};
}

}  // namespace

Policy make_policy(const config::Recipe& recipe) {
  if (!recipe.model.path.empty()) return load_policy(config::model_folder(recipe.model.path));
  const model::ModelConfig config = model_config(recipe);
  return {config, init_from(recipe, config), make_tokenizer(recipe, config)};
}

Policy load_policy(const std::filesystem::path& dir) {
  if (is_checkpoint(dir)) require_sound_checkpoint(dir, "use another checkpoint");
  QRL_REQUIRE(!std::filesystem::is_directory(dir / "checkpoints"), state::shown(dir),
              "a checkpoint or a model's folder", "a run's folder",
              "name one of those in " + state::shown(dir / "checkpoints"));
  Policy policy = model::is_peft(dir) ? load_adapted_policy(dir) : load_hf_policy(dir);
  check_fit(policy.tokenizer, policy.config, dir.string());
  return policy;
}

model::SnapshotFormats sampler_formats(const config::Recipe& recipe) {
  model::SnapshotFormats formats = snapshot_formats(recipe.quant);
  if (recipe.lora.publish == config::LoraPublish::adapter) formats.lora = lora_config(recipe.lora);
  return formats;
}

Sampler::Sampler(const model::ModelConfig& config, const config::Recipe& recipe, const dist::Collectives& world,
                 std::int64_t longest_prompt_tokens, std::optional<std::int64_t> logit_tile_tokens,
                 const data::Tokenizer* tokenizer)
    : snapshot(config, sampler_formats(recipe)),
      decoder(config, fitting(config, with_texts(tokenizer, decoder_options(recipe, world, longest_prompt_tokens,
                                                                            logit_tile_tokens)))) {}

std::vector<std::vector<types::TokenId>> calibration_prompts(const PromptSet& set, std::uint64_t seed,
                                                             std::uint64_t num_taken) {
  constexpr int kPrompts = 16;  // ours; fp8 scales take the first (train/quantizer.h)
  base::RandomStream random(seed, base::RandomPurpose::calibration, num_taken);
  std::vector<std::vector<types::TokenId>> prompts;
  prompts.reserve(kPrompts);
  for (int i = 0; i < kPrompts; ++i) prompts.push_back(set.prompts[random.below(set.prompts.size())].tokens);
  return prompts;
}

ops::SampleParams sample_params(const config::RolloutRecipe& rollout) {
  return {static_cast<float>(rollout.temperature), static_cast<float>(rollout.top_p),
          static_cast<std::int32_t>(rollout.top_k)};
}

types::SamplingParams train_sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                                     const data::Tokenizer& tokenizer) {
  types::SamplingParams params = sampling(recipe, config, tokenizer, recipe.rollout.stop);
  params.temperature = static_cast<float>(recipe.rollout.temperature);
  params.top_p = static_cast<float>(recipe.rollout.top_p);
  params.top_k = static_cast<std::int32_t>(recipe.rollout.top_k);
  params.max_kept = config::kMaxKeptTokens;
  return params;
}

types::SamplingParams eval_sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                                    const data::Tokenizer& tokenizer) {
  types::SamplingParams params = sampling(recipe, config, tokenizer, recipe.eval.stop.value_or(recipe.rollout.stop));
  params.temperature = static_cast<float>(recipe.eval.temperature);
  params.top_p = static_cast<float>(recipe.eval.top_p);
  params.top_k = static_cast<std::int32_t>(recipe.eval.top_k);
  return params;
}

std::int64_t kv_pages(const config::Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens) {
  const std::int64_t page = recipe.rollout.page_size;
  const std::int64_t longest =
      longest_prompt_tokens.value_or(recipe.data.max_prompt_length) + recipe.data.max_response_length;
  return recipe.rollout.kv_pages.value_or((longest + page - 1) / page * recipe.rollout.max_num_seqs);
}

double gpu_memory_share(const config::Recipe& recipe) {
  // vLLM's default and veRL's: a learner allocates activations later, and needs more free memory.
  constexpr double kGpuShare = 0.9, kShareBesideLearner = 0.5;
  return recipe.rollout.gpu_memory_utilization.value_or(config::learns_on_gpu(recipe) ? kShareBesideLearner
                                                                                      : kGpuShare);
}

std::int64_t total_steps(const config::Recipe& recipe, const PromptSet& prompts) {
  if (recipe.trainer.total_epochs == 0) return recipe.trainer.total_training_steps;
  const std::int64_t batch = recipe.data.train_batch_size;
  return (recipe.trainer.total_epochs * std::ssize(prompts.prompts) + batch - 1) / batch;
}

std::int64_t updates_per_step(const config::Recipe& recipe) {
  return recipe.data.train_batch_size / recipe.actor.mini_batch_size * recipe.actor.ppo_epochs;
}

std::string missing_gpu(const config::Recipe& recipe, int device_number) {
  const bool learns_there = config::learns_on_gpu(recipe);
  if (!learns_there && !config::samples_on_gpu(recipe)) return {};
  const std::string fault = learner::gpu_fault(device_number);
  return fault.empty() ? "" : std::string(learns_there ? "trainer.device" : "rollout.device") + ": cuda: " + fault;
}

void require_gpu(const config::Recipe& recipe, int device_number) {
  const bool learns_there = config::learns_on_gpu(recipe);
  if (!learns_there && !config::samples_on_gpu(recipe)) return;
  if (const std::string missing = missing_gpu(recipe, device_number); !missing.empty())
    throw base::Error(base::ErrorKind::input, missing, "", "");
  if (learns_there) (void)learner::load_cuda_library(device_number);
  const std::string where = std::string(learns_there ? "trainer" : "rollout") + ".device: cuda";
  for (const base::LibraryReport& library : learner::gpu_libraries(false)) base::require(library, where);
}

learner::LearnerOptions learner_options(const config::Recipe& recipe) {
  learner::LearnerOptions options;
  options.num_threads = base::num_threads();
  options.device = config::learns_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
  options.numerics.compute = recipe.model.dtype;
  options.numerics.forward = recipe.quant.learner_forward;
  options.numerics.backward = recipe.quant.learner_backward;
  options.numerics.bitwise = recipe.rollout.bitwise;
  options.numerics.kv_format = kv_format(recipe.quant);
  options.numerics.f32_lm_head = snapshot_formats(recipe.quant).f32_lm_head;
  options.numerics.own_lm_head = snapshot_formats(recipe.quant).int8_lm_head;
  options.activation_checkpointing = recipe.actor.activation_checkpointing;
  options.logprob_chunk_tokens = recipe.actor.logprob_chunk_tokens;
  options.shard_optimizer = recipe.trainer.zero_stage > 0;
  options.optim = recipe.optim;
  options.lora = lora_config(recipe.lora);
  options.lora_seed = recipe.trainer.seed;
  options.total_updates = updates_per_step(recipe) * recipe.trainer.total_training_steps;
  return options;
}

double learner_ceiling(const config::Recipe& recipe) {
  const config::ComputeDType dtype = recipe.model.dtype;
  if (config::learns_on_gpu(recipe)) return learner::measure_gpu_matmul_flops_per_s(dtype);
  return dtype == config::ComputeDType::bf16 ? ops::measure_bf16_flops_per_s() : ops::measure_f32_flops_per_s();
}

}  // namespace qrl::train
