#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "decoder/kv/kv_scales.h"
#include "dist/collectives.h"
#include "model/int8_profile.h"
#include "rollout/rollout.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

/// Holds the quantizers' state that checkpoints store. Empty if every publish computes it anew.
struct QuantizerState {
  std::shared_ptr<const model::Int8Profile> profile;   ///< int8 profile, if quant.rollout.profile is set
  std::optional<decoder::KvScales> kv_scales;          ///< first fp8 scales, if quant.kv_calibration.when is once
  std::vector<std::vector<types::TokenId>> responses;  ///< last step's prompts with responses, set by see_responses
};

/// Computes an int8 profile of fp32 `weights` from a few training prompts selected by trainer.seed.
model::Int8Profile calibrate_profile(const model::ModelConfig& config, const model::WeightSource& weights,
                                     const PromptSet& prompts, const Recipe& recipe);

/// Reads the recipe's profile file, if set. Throws an input error if it is missing or does not fit the model config.
std::optional<model::Int8Profile> read_profile_file(const Recipe& recipe, const model::ModelConfig& config);

/// Throws an input error if the recipe's profile file was made for other weights or settings than `own`, the
/// checkpoint's profile.
void require_same_profile(const Recipe& recipe, const model::ModelConfig& config, const model::Int8Profile& own);

/// Returns the recipe's profile of the initial `weights`: computed (auto), or read from its file. Throws an input error
/// if the file was made for other weights or prompts. Returns null without a profile.
std::shared_ptr<const model::Int8Profile> find_profile(const model::ModelConfig& config,
                                                       const model::WeightSource& weights, const PromptSet& prompts,
                                                       const Recipe& recipe);

/// Calibration of fp8 key and value scales reads kKvPrompts prompts. It then reads more until it has kKvTokens tokens.
inline constexpr std::size_t kKvPrompts = 2, kKvTokens = 512;
/// Calibration reads at most this number of tokens of the last step's samples, prompts included.
inline constexpr std::size_t kKvResponseTokens = 512;

/// Stores the first sample of each of the step's first prompts for the next calibration, at most kKvResponseTokens
/// tokens in total. The last sample may be truncated. Every rank stores the same samples. No-op unless every publish
/// calibrates fp8 scales. Collective.
void see_responses(std::span<const rollout::Rollout> rollouts, std::int32_t n, std::span<const std::int64_t> places,
                   const QuantRecipe& quant, QuantizerState& quantizer, dist::Collectives& world);

/// Loads the sampler's snapshot into the decoder after a publish. Calibrates fp8 keys and values on the first `prompts`
/// and the stored responses. With `when: once`, reuses the first scales.
void load_published(Sampler& sampler, std::span<const std::vector<types::TokenId>> prompts, const QuantRecipe& quant,
                    QuantizerState& quantizer);

/// Write the members to a checkpoint's folder, and read them from it. An unset member has no file. The first rank reads
/// and broadcasts.
void save_quantizer(const std::filesystem::path& dir, const QuantizerState& quantizer);
QuantizerState load_quantizer(const std::filesystem::path& dir, const model::ModelConfig& config,
                              dist::Collectives& world);

}  // namespace qrl::train
