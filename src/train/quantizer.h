// Owns what the sampler's quantizers keep from one publish to the next: a fixed int8 profile, fp8 scales of keys and
// values made once. Both are part of every checkpoint. Knows nothing of steps.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "config/recipe.h"
#include "decoder/kv_calibration.h"
#include "dist/collectives.h"
#include "model/int8_profile.h"
#include "rollout/rollout.h"
#include "train/session.h"

namespace qrl::train {

/// Made by this run (or the run it resumes); empty if every publish quantizes anew.
struct QuantizerState {
  std::shared_ptr<const model::Int8Profile> profile;   ///< quant.rollout.profile
  std::optional<decoder::KvScales> kv_scales;          ///< quant.kv_calibration.when: once
  std::vector<std::vector<types::TokenId>> responses;  ///< prompts with responses of the last step: see_responses
};

/// Makes the profile of `weights` (fp32) from what they see on a few of the training prompts, fixed by the seed: what
/// `qrl-train profile` and quant.rollout.profile auto do.
model::Int8Profile calibrate_profile(const model::ModelConfig& config, const model::WeightSource& weights,
                                     const PromptSet& prompts, const config::Recipe& recipe);

/// Reads the profile file that the recipe names; returns nothing where it names none. Throws an input error when the
/// file is missing or does not fit this model config. Needs neither weights nor prompts.
std::optional<model::Int8Profile> read_profile_file(const config::Recipe& recipe, const model::ModelConfig& config);

/// Throws an input error if the recipe names a file made from other weights or settings than `own`, a checkpoint's
/// profile. `own` is used, so the key would have no effect.
void require_same_profile(const config::Recipe& recipe, const model::ModelConfig& config,
                          const model::Int8Profile& own);

/// Returns the recipe's profile for the weights that training begins with: made (auto), or read and compared with
/// weights and settings. Throws an input error for one that was made for others. Null if the recipe names none.
std::shared_ptr<const model::Int8Profile> find_profile(const model::ModelConfig& config,
                                                       const model::WeightSource& weights, const PromptSet& prompts,
                                                       const config::Recipe& recipe);

/// Limits the calibration prompts for fp8 scales of keys and values: two, and more until this many tokens. Ours: 99.9 %
/// of a head's values needs some thousands of them.
inline constexpr std::size_t kKvPrompts = 2, kKvTokens = 512;
/// Limits the tokens of the last step's samples in the same way.
inline constexpr std::size_t kKvResponseTokens = 512;

/// Keeps the step's first samples, prompt and response, up to kKvResponseTokens tokens; the last sample is cut there.
/// The next calibration reads them besides prompts, so that scales also cover a response's keys and values. `places`:
/// the place of each group of n among those of all ranks. Keeps the same samples on every rank. Does nothing unless
/// scales are made anew. Collective.
void see_responses(std::span<const rollout::Rollout> rollouts, std::int32_t n, std::span<const std::int64_t> places,
                   const config::QuantRecipe& quant, QuantizerState& quantizer, dist::Collectives& world);

/// Loads the sampler's snapshot into the decoder after a learner's publish. Calibrates fp8 keys and values on the first
/// of `prompts` and on the responses seen, the same on every rank. With when: once, the scales of the first time stay.
void load_published(Sampler& sampler, std::span<const std::vector<types::TokenId>> prompts,
                    const config::QuantRecipe& quant, QuantizerState& quantizer);

/// Saves to and loads from a checkpoint's folder; absent parts of a state have no file there. Loading gives all ranks
/// the first rank's bytes.
void save_quantizer(const std::filesystem::path& dir, const QuantizerState& quantizer);
QuantizerState load_quantizer(const std::filesystem::path& dir, const model::ModelConfig& config,
                              dist::Collectives& world);

}  // namespace qrl::train
