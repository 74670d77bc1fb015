// Owns what the generators of tasks have in common, whatever the task: prompts with ground truths, held-out sets,
// worked demonstrations. Knows nothing of how answers are judged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "data/split.h"

namespace qrl::data {

struct GeneratedTask {
  std::string prompt;
  std::string ground_truth;  ///< as the task's verifier reads it
  friend bool operator==(const GeneratedTask&, const GeneratedTask&) = default;
};

/// Task `index` (below 2^62) of the endless sequence (recipe, seed, split) of recipe.task, which is set. Depends on its
/// arguments alone; no task of one split is in the other. Throws an input error when the recipe's ranges hold no task.
GeneratedTask generate_task(const config::GeneratorRecipe& recipe, std::uint64_t seed, Split split,
                            std::uint64_t index);

/// The first `size` tasks of the held-out sequence whose prompts differ. Throws an input error when there are too few.
std::vector<GeneratedTask> held_out_tasks(const config::GeneratorRecipe& recipe, std::uint64_t seed, std::int64_t size);

struct WorkedTask {
  GeneratedTask task;
  std::string response;  ///< trusted text
};
/// Demonstration `index` of the sequence (recipe, seed), of the train split: the form is right, the answer often not,
/// so that reinforcement learning finds something to improve.
WorkedTask demonstrate_task(const config::GeneratorRecipe& recipe, std::uint64_t seed, std::uint64_t index);

/// Tasks as JSONL rows (prompt, ground_truth, data_source) that read_jsonl takes.
std::string tasks_jsonl(std::span<const GeneratedTask> tasks, const std::string& data_source);

}  // namespace qrl::data
