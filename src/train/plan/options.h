#pragma once

#include <cstdint>
#include <optional>

#include "data/tokenizer.h"
#include "learner/options.h"
#include "model/adapter.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "ops/sample.h"
#include "train/recipe/load.h"
#include "train/recipe/recipe.h"
#include "types/batch.h"
#include "types/prompt.h"

namespace qrl::train {

/// Returns the sampler's formats: snapshot_formats, with adapters unless lora.publish merges them.
model::SnapshotFormats sampler_formats(const Recipe& recipe);

ops::SampleParams sample_params(const RolloutRecipe& rollout);
types::SamplingParams train_sampling(const Recipe& recipe, const model::ModelConfig& config,
                                     const data::Tokenizer& tokenizer);
/// Returns which expert routes are replayed to compute old log-probs: the sampler's routes if algorithm.router_replay
/// is rollout and `batch` has them, else none.
types::RouteReplay replay_of_old_logprobs(const Recipe& recipe, const types::MicroBatch& batch);
types::SamplingParams eval_sampling(const Recipe& recipe, const model::ModelConfig& config,
                                    const data::Tokenizer& tokenizer);

/// Returns the KV pages of a full-length sequence. longest_prompt_tokens defaults to data.max_prompt_length.
std::int64_t pages_of_longest(const Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens = {});
/// Returns rollout.kv_pages. If it is unset, returns the pages of rollout.max_num_seqs full-length sequences.
/// longest_prompt_tokens defaults to data.max_prompt_length.
std::int64_t kv_pages(const Recipe& recipe, std::optional<std::int64_t> longest_prompt_tokens = {});
/// Returns how many sequences keep states: those that run, or with an environment all open conversations.
std::int64_t most_sequences_with_states(const Recipe& recipe);
/// Returns the decoder's number of state slots, for a model with DeltaNet layers.
std::int64_t state_slots(const Recipe& recipe);
/// Halves an unset rollout.max_num_seqs on the CPU until the states of DeltaNet layers take at most a quarter of
/// `memory_bytes`. Samples do not depend on it.
void choose_sequences_by_states(const model::ModelConfig& config, std::uint64_t memory_bytes, LoadedRecipe& loaded);
/// Returns rollout.gpu_memory_utilization, or its default.
double gpu_memory_share(const Recipe& recipe);

learner::LearnerOptions learner_options(const Recipe& recipe);
learner::LossOptions loss_options(const Recipe& recipe);

/// Returns trainer.total_training_steps, or the steps of trainer.total_epochs passes over num_prompts prompts.
std::int64_t total_steps(const Recipe& recipe, std::int64_t num_prompts);
std::int64_t updates_per_step(const Recipe& recipe);

}  // namespace qrl::train
