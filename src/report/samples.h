#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace qrl::report {

/// Describes a file rollouts/step_N.jsonl or validation/step_N.jsonl.
struct SampleFile {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// Returns a folder's sample files, ordered by step.
std::vector<SampleFile> sample_files(const std::filesystem::path& dir);

/// Returns at most `count` files, evenly spaced, including the first and the last.
std::vector<SampleFile> spread(const std::vector<SampleFile>& files, std::size_t count);

/// Returns the groups of the first `max_prompts` prompts: [{prompt, ground_truth, …, samples: [{response, score, …}]}].
/// Cuts long texts and skips invalid lines.
nlohmann::ordered_json read_groups(const std::filesystem::path& file, std::size_t max_prompts);

}  // namespace qrl::report
