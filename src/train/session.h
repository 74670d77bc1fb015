// Owns a run's parts and making them from a recipe: model, decoder, prompts, verifier.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "config/reader.h"
#include "data/tokenizer.h"
#include "decoder/decoder.h"
#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/snapshot.h"
#include "model/weights.h"
#include "tasks/verifier.h"
#include "train/formats.h"
#include "train/prompts.h"

namespace qrl::train {

/// Sets this process's threads by trainer.threads: a number, or the machine's processors divided among its ranks. With
/// several ranks, undoes a launcher's binding to one core.
void set_threads(const config::Recipe& recipe, const dist::Collectives& world);
/// Returns threads for one rank's work while others wait: those of all its machine's ranks.
int all_local_threads(const config::Recipe& recipe, const dist::Collectives& world);

/// Holds a policy's adapters on a base.
struct PolicyAdapter {
  model::LoraConfig lora;
  model::WeightSource base, adapters;
  std::string base_path;
};

struct Policy {
  model::ModelConfig config;
  model::WeightSource weights;  ///< merged, in fp32, with adapters
  data::Tokenizer tokenizer;
  std::optional<PolicyAdapter> adapter = {};
};

/// Returns shapes of model.path or model.init, or its tokenizer, without loading weights.
model::ModelConfig model_config(const config::Recipe& recipe);
data::Tokenizer make_tokenizer(const config::Recipe& recipe, const model::ModelConfig& config);

/// Makes the policy of model.path (an HF folder with tokenizer.json), or a new model of model.init's config and seed.
/// The latter's tokenizer is the tokenizer.json beside the config, or the byte-level one. Throws if vocabularies do not
/// fit.
Policy make_policy(const config::Recipe& recipe);
/// Loads a policy from a checkpoint (verified), an HF folder or a PEFT folder.
Policy load_policy(const std::filesystem::path& dir);

/// Holds a snapshot, the decoder's only weight memory, and the decoder (load it by quantizer.h's load_published after
/// each publish).
struct Sampler {
  /// rollout.device cuda selects the GPU of this process's number on its machine. logit_tile_tokens: the decoder's
  /// choice unless given. `tokenizer`: for requests with stop strings.
  Sampler(const model::ModelConfig& config, const config::Recipe& recipe, const dist::Collectives& world,
          std::int64_t longest_prompt_tokens, std::optional<std::int64_t> logit_tile_tokens = {},
          const data::Tokenizer* tokenizer = nullptr);
  model::Snapshot snapshot;
  decoder::Decoder decoder;  ///< throws Abandoned (train/signals.h) on a stop request
};
/// Returns the sampler's formats: snapshot_formats, with adapters unless lora.publish merges them.
model::SnapshotFormats sampler_formats(const config::Recipe& recipe);

/// Returns calibration prompts, chosen by the seed and how many prompts were drawn.
std::vector<std::vector<types::TokenId>> calibration_prompts(const PromptSet& set, std::uint64_t seed,
                                                             std::uint64_t num_taken);

/// Returns training samples' distribution, in which the learner computes log-probs.
ops::SampleParams sample_params(const config::RolloutRecipe& rollout);
types::SamplingParams train_sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                                     const data::Tokenizer& tokenizer);
types::SamplingParams eval_sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                                    const data::Tokenizer& tokenizer);

/// Returns rollout.kv_pages, else the pages of rollout.max_num_seqs longest sequences (default prompts:
/// data.max_prompt_length tokens).
std::int64_t kv_pages(const config::Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens = {});
/// Returns the GPU memory share in use including KV pages: rollout.gpu_memory_utilization, or its default.
double gpu_memory_share(const config::Recipe& recipe);

/// Throws an input error that names what the recipe's GPU lacks: driver, device, or a library version. With
/// trainer.device cuda, first loads LibTorch's CUDA part, before a decoder can load another cuBLASLt.
void require_gpu(const config::Recipe& recipe, int device_number);

/// Returns why the recipe's GPU is unusable, with its key ("trainer.device: cuda: expected …"), else "".
std::string missing_gpu(const config::Recipe& recipe, int device_number);

learner::LearnerOptions learner_options(const config::Recipe& recipe);
/// Measures the most operations a second of the learner's products in model.dtype, in about 50 ms.
double learner_ceiling(const config::Recipe& recipe);
/// Returns trainer.total_training_steps, or the steps of trainer.total_epochs passes.
std::int64_t total_steps(const config::Recipe& recipe, const PromptSet& prompts);
std::int64_t updates_per_step(const config::Recipe& recipe);

}  // namespace qrl::train
