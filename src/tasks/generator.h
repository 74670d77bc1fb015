// Owns what a generator of tasks is, and what is made of any: prompts with ground truths, held-out sets, worked
// demonstrations. Knows no task.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "tasks/split.h"

namespace qrl::tasks {

struct GeneratedTask {
  std::string prompt;
  std::string ground_truth;  ///< as the task's verifier reads it
  friend bool operator==(const GeneratedTask&, const GeneratedTask&) = default;
};

struct WorkedTask {
  GeneratedTask task;
  std::string response;  ///< trusted text
};

/// A word of data.train_generator.task, data.val_generator.task and sft.demonstrations.task. Its own keys are named
/// within those sections. Both functions depend on their arguments alone, and throw an input error when the ranges of
/// the own keys hold no task.
struct Generator : config::Choice {
  /// Task `index` (below 2^62) of the endless sequence (own, seed, split). No task of one split is in the other.
  GeneratedTask (*generate)(const config::OwnValues& own, std::uint64_t seed, Split split,
                            std::uint64_t index) = nullptr;
  /// Demonstration `index` of the sequence (own, seed), of the train split: the form is right, the answer often not, so
  /// that reinforcement learning finds something to improve.
  WorkedTask (*demonstrate)(const config::OwnValues& own, std::uint64_t seed, std::uint64_t index) = nullptr;
};

/// The generator of that word, which the catalog of the keys has.
const Generator& find_generator(const config::Keys& keys, const std::string& word);

/// The first `size` tasks of the held-out sequence whose prompts differ. Throws an input error when there are too few.
std::vector<GeneratedTask> held_out_tasks(const Generator& generator, const config::OwnValues& own, std::uint64_t seed,
                                          std::int64_t size);

/// Which task demonstration `index` works: of the train split, and none of the first, which training takes.
std::uint64_t demonstrated_index(std::uint64_t seed, std::uint64_t index);

/// Tasks as JSONL rows (prompt, ground_truth, data_source) that data::read_jsonl takes.
std::string tasks_jsonl(std::span<const GeneratedTask> tasks, const std::string& data_source);

/// Demonstrations likewise, with `response`: rows that sft.train_files takes.
std::string demonstrations_jsonl(std::span<const WorkedTask> demonstrations, const std::string& data_source);

}  // namespace qrl::tasks
