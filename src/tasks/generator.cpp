#include "tasks/generator.h"

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::tasks {

std::vector<GeneratedTask> held_out_tasks(const Generator& generator, const config::ParamValues& own,
                                          std::uint64_t seed, std::int64_t size) {
  constexpr int kMaxRepeats = 2000;  // more consecutive repeats are an error
  std::vector<GeneratedTask> tasks;
  std::set<std::string> seen;
  int repeats = 0;
  for (std::uint64_t index = 0; std::ssize(tasks) < size; ++index) {
    GeneratedTask task = generator.generate(own, seed, Split::held_out, index);
    if (seen.insert(task.prompt).second) {
      tasks.push_back(std::move(task));
      repeats = 0;
    } else {
      QRL_REQUIRE(++repeats <= kMaxRepeats, std::string(generator.word) + " generator",
                  std::to_string(size) + " different held-out tasks", std::to_string(tasks.size()),
                  "request fewer tasks or widen the ranges");
    }
  }
  return tasks;
}

std::uint64_t demonstrated_index(std::uint64_t seed, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::demonstrations, index * 2);
  return random.below(std::uint64_t{1} << 62);
}

namespace {

nlohmann::ordered_json row_of(const GeneratedTask& task, const std::string& data_source) {
  const auto json = state::ordered_json_or_null(task.ground_truth);
  nlohmann::ordered_json row = {{"prompt", task.prompt}};
  if (json.is_object()) row["ground_truth"] = json;
  else row["ground_truth"] = task.ground_truth;
  row["data_source"] = data_source;
  return row;
}

}  // namespace

std::string tasks_jsonl(std::span<const GeneratedTask> tasks, const std::string& data_source) {
  std::string lines;
  for (const GeneratedTask& task : tasks) lines += row_of(task, data_source).dump() + "\n";
  return lines;
}

std::string demonstrations_jsonl(std::span<const WorkedTask> demonstrations, const std::string& data_source) {
  std::string lines;
  for (const WorkedTask& demonstration : demonstrations) {
    nlohmann::ordered_json row = row_of(demonstration.task, data_source);
    row["response"] = demonstration.response;
    lines += row.dump() + "\n";
  }
  return lines;
}

Split split_of(std::span<const std::int64_t> values) {
  std::array<std::uint32_t, 2> state{};
  for (const std::int64_t value : values) {
    const auto bits = static_cast<std::uint64_t>(value);
    const auto words =
        base::philox({static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32), state[0], state[1]},
                     {0x636f756e, 0x74646f77});  // "countdow": must never change, because it decides each task's split
    state = {words[0], words[1]};
  }
  return state[0] % 4 == 0 ? Split::held_out : Split::train;
}

Split split_of(std::string_view text) {
  const std::vector<std::int64_t> bytes(text.begin(), text.end());
  return split_of(std::span(bytes));
}

}  // namespace qrl::tasks
