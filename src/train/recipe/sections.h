// Owns the functions that add a recipe's sections.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/keys/sections.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

/// Adds a task generator's keys. Omits `size` if `is_endless`.
void add_generator(config::OnResume on_resume, config::Section<GeneratorRecipe> section,
                   const config::Choices<tasks::Generator>& generators, const std::string& unset_seed,
                   bool is_endless = false);

void add_quant(config::Keys& keys, const MatchedForward& decided);
/// Adds the keys of algorithm and rollout_correction.
void add_objective(config::Keys& keys, const Catalog& catalog);
void add_reward(config::Keys& keys, const config::Choices<tasks::VerifierChoice>& verifiers);

void add_environment(config::Keys& keys);

inline constexpr const char* kCommandVerifier = "command";
inline constexpr const char* kEnvironmentVerifier = "environment";
inline constexpr std::int64_t kMaxWorkers = 1024;
inline constexpr std::int64_t kMaxInFlight = 4096;  ///< rows or conversations per worker at once

/// Makes a folder key's default the folder of the file that sets the command.
void anchor_command_folder(const std::vector<std::string>& command, std::string& folder,
                           const std::filesystem::path& directory);

/// Returns actor.max_tokens_per_micro_batch. On the CPU `auto` holds the longest sequence and row; on a GPU the run
/// chooses (train/plan/gpu_plan.h).
std::int64_t tokens_per_micro_batch(const Recipe& recipe);

}  // namespace qrl::train
