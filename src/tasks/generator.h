#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/option.h"

namespace qrl::tasks {

/// Split of a generated task. A hash of the task's content decides it, so that splits are disjoint. One task in four is
/// held out.
enum class Split : std::uint8_t { train, held_out };
Split split_of(std::span<const std::int64_t> values);
Split split_of(std::string_view text);

struct GeneratedTask {
  std::string prompt;
  std::string ground_truth;  ///< as the task's verifier reads it
  friend bool operator==(const GeneratedTask&, const GeneratedTask&) = default;
};

struct WorkedTask {
  GeneratedTask task;
  std::string response;  ///< text for Tokenizer::encode_trusted
};

/// Describes an allowed value of data.train_generator.task, data.val_generator.task and sft.demonstrations.task, and
/// the keys of that value. Both functions depend on their arguments alone, and throw an input error if the keys allow
/// no task.
struct Generator : config::Option {
  /// Returns task `index` (below 2^62) of the endless sequence (own, seed, split). The splits share no task.
  GeneratedTask (*generate)(const config::ParamValues& own, std::uint64_t seed, Split split,
                            std::uint64_t index) = nullptr;
  /// Returns demonstration `index` of the sequence (own, seed), from the train split. Its form is right, its answer
  /// often wrong.
  WorkedTask (*demonstrate)(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) = nullptr;
};

/// Returns the first `size` held-out tasks with different prompts, or throws an input error.
std::vector<GeneratedTask> held_out_tasks(const Generator& generator, const config::ParamValues& own,
                                          std::uint64_t seed, std::int64_t size);

/// Returns the index, in the train split, of the task that a demonstration shows. The index is random below 2^62, so
/// that demonstrations rarely repeat tasks of training.
std::uint64_t demonstrated_index(std::uint64_t seed, std::uint64_t index);

/// Returns JSONL rows (prompt, ground_truth, data_source) for data::read_prompt_file.
std::string tasks_jsonl(std::span<const GeneratedTask> tasks, const std::string& data_source);

/// Returns JSONL rows for sft.train_files, with `response` added.
std::string demonstrations_jsonl(std::span<const WorkedTask> demonstrations, const std::string& data_source);

}  // namespace qrl::tasks
