// Owns the parts of a run and how they are made from a recipe: who needs a model, a decoder, prompts or a verifier asks
// here. Knows nothing of steps.
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
/// several ranks a launcher's binding to one core is undone, so that the division holds.
void set_threads(const config::Recipe& recipe, const dist::Collectives& world);
/// Threads for work that one rank does while the others wait: those of all its machine's ranks together.
int all_local_threads(const config::Recipe& recipe, const dist::Collectives& world);

/// Holds the parts of a policy that are adapters on a base.
struct PolicyAdapter {
  model::LoraConfig lora;
  model::WeightSource base, adapters;
  std::string base_path;
};

/// Holds a model with its tokenizer.
struct Policy {
  model::ModelConfig config;
  model::WeightSource weights;  ///< merged, in fp32, where there are adapters
  data::Tokenizer tokenizer;
  std::optional<PolicyAdapter> adapter = {};
};

/// Returns the shapes of model.path or model.init, or its tokenizer: the parts of a policy that take little memory.
model::ModelConfig model_config(const config::Recipe& recipe);
data::Tokenizer make_tokenizer(const config::Recipe& recipe, const model::ModelConfig& config);

/// Makes the policy of model.path (an HF folder with tokenizer.json), or of model.init: a new model of that config and
/// seed. The new model's tokenizer is the tokenizer.json beside the config, or else the byte-level one. Throws if
/// vocabularies do not fit.
Policy make_policy(const config::Recipe& recipe);
/// Loads the policy of a checkpoint (verified), or of an HF folder or one of PEFT's.
Policy load_policy(const std::filesystem::path& dir);

/// Holds a snapshot and the decoder that reads it (train/quantizer.h's load_published, after each publish into it). The
/// snapshot is the decoder's only weight memory.
struct Sampler {
  /// With rollout.device cuda on the GPU of this process's number among those of `world` on this machine.
  /// logit_tile_tokens: the decoder's own choice unless given (decoder/decoder.h). `tokenizer`: needed by requests with
  /// stop strings.
  Sampler(const model::ModelConfig& config, const config::Recipe& recipe, const dist::Collectives& world,
          std::int64_t longest_prompt_tokens, std::optional<std::int64_t> logit_tile_tokens = {},
          const data::Tokenizer* tokenizer = nullptr);
  model::Snapshot snapshot;
  decoder::Decoder decoder;  ///< throws Abandoned (train/signals.h) after a stop request
};
/// Returns the formats of the recipe's sampler: snapshot_formats, with adapters unless lora.publish merges them.
model::SnapshotFormats sampler_formats(const config::Recipe& recipe);

/// Prompts to calibrate on: a few of the set, chosen by the seed and how many prompts were drawn so far.
std::vector<std::vector<types::TokenId>> calibration_prompts(const PromptSet& set, std::uint64_t seed,
                                                             std::uint64_t num_taken);

/// Returns the distribution of training samples, under which the learner computes log-probs.
ops::SampleParams sample_params(const config::RolloutRecipe& rollout);
types::SamplingParams train_sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                                     const data::Tokenizer& tokenizer);
types::SamplingParams eval_sampling(const config::Recipe& recipe, const model::ModelConfig& config,
                                    const data::Tokenizer& tokenizer);

/// Pages of the KV cache; without rollout.kv_pages what rollout.max_num_seqs longest sequences need (prompts of
/// data.max_prompt_length tokens by default).
std::int64_t kv_pages(const config::Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens = {});
/// Returns the share of a GPU's memory that may be in use once KV pages have taken the rest:
/// rollout.gpu_memory_utilization, or its default.
double gpu_memory_share(const config::Recipe& recipe);

/// Throws an input error that names what the recipe's GPU lacks on this machine: driver, device, or a library of the
/// required version. With trainer.device cuda it loads LibTorch's CUDA part, before any decoder can load a cuBLASLt of
/// another version. May be called any number of times.
void require_gpu(const config::Recipe& recipe, int device_number);

/// Returns why the recipe's GPU cannot be used, with the key that selects it: "trainer.device: cuda: expected …". Empty
/// if it can be used, or if the recipe selects none.
std::string missing_gpu(const config::Recipe& recipe, int device_number);

learner::LearnerOptions learner_options(const config::Recipe& recipe);
/// Operations a second that products in model.dtype reach at most on the learner's device: measured, some 50 ms.
double learner_ceiling(const config::Recipe& recipe);
/// Steps of the run: trainer.total_training_steps, or as many as trainer.total_epochs passes over the prompts take.
std::int64_t total_steps(const config::Recipe& recipe, const PromptSet& prompts);
/// Returns the optimizer updates of one RL step.
std::int64_t updates_per_step(const config::Recipe& recipe);

}  // namespace qrl::train
