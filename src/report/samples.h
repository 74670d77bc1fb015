// Owns the reading of a run's sampled responses, with limits on files, prompts and text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace qrl::report {

/// A file rollouts/step_N.jsonl or validation/step_N.jsonl
struct SampleFile {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// Returns the sample files of a folder in order of step; none if the folder is missing.
std::vector<SampleFile> sample_files(const std::filesystem::path& dir);

/// Returns at most `count` files, evenly spaced, including the first and the last.
std::vector<SampleFile> spread(const std::vector<SampleFile>& files, std::size_t count);

/// Returns the groups of a file's first `max_prompts` prompts: [{prompt, ground_truth, …, samples: [{response, score,
/// …}]}]. Long texts are cut, and lines that are no sample are skipped. The file is read only as far as needed.
nlohmann::ordered_json read_groups(const std::filesystem::path& file, std::size_t max_prompts);

}  // namespace qrl::report
