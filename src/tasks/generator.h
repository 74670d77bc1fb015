// Owns the interface of task generators, and what is made from any of them: held-out sets, and JSONL of prompts and
// demonstrations.
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
  std::string ground_truth;  ///< in the form that the task's verifier reads
  friend bool operator==(const GeneratedTask&, const GeneratedTask&) = default;
};

struct WorkedTask {
  GeneratedTask task;
  std::string response;  ///< trusted text
};

/// Describes a word of data.train_generator.task, data.val_generator.task and sft.demonstrations.task, with its own
/// keys in those sections. Both functions depend only on their arguments, and throw an input error if the keys allow no
/// task.
struct Generator : config::Choice {
  /// Returns task `index` (below 2^62) of the endless sequence (own, seed, split). The splits have no task in common.
  GeneratedTask (*generate)(const config::OwnValues& own, std::uint64_t seed, Split split,
                            std::uint64_t index) = nullptr;
  /// Returns demonstration `index` of the sequence (own, seed), from the train split. Its form is right, its answer
  /// often wrong, so that reinforcement learning has something to improve.
  WorkedTask (*demonstrate)(const config::OwnValues& own, std::uint64_t seed, std::uint64_t index) = nullptr;
};

/// Returns the generator of that word, which must exist in the key catalog.
const Generator& find_generator(const config::Keys& keys, const std::string& word);

/// Returns the first `size` held-out tasks with different prompts. Throws an input error if there are too few.
std::vector<GeneratedTask> held_out_tasks(const Generator& generator, const config::OwnValues& own, std::uint64_t seed,
                                          std::int64_t size);

/// Returns the index of the train-split task that a demonstration solves: random below 2^62, so practically never one
/// of the first tasks, which training uses.
std::uint64_t demonstrated_index(std::uint64_t seed, std::uint64_t index);

/// Returns tasks as JSONL rows (prompt, ground_truth, data_source) for data::read_jsonl.
std::string tasks_jsonl(std::span<const GeneratedTask> tasks, const std::string& data_source);

/// Returns demonstrations as JSONL rows for sft.train_files, with the additional field `response`.
std::string demonstrations_jsonl(std::span<const WorkedTask> demonstrations, const std::string& data_source);

}  // namespace qrl::tasks
