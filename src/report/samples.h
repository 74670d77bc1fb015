// Owns the responses that a run leaves, read within bounds: which files, how many prompts, how much text. Knows nothing
// of how they are shown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace qrl::report {

/// A file rollouts/step_N.jsonl or validation/step_N.jsonl.
struct SampleFile {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// The files of a folder by their steps; none where it is missing.
std::vector<SampleFile> sample_files(const std::filesystem::path& dir);

/// At most `count` of them, evenly spread, with the first and the last.
std::vector<SampleFile> spread(const std::vector<SampleFile>& files, std::size_t count);

/// The groups of a file's first `max_prompts` prompts: [{prompt, ground_truth, …, samples: [{response, score, …}]}].
/// Long texts are cut, lines that are no sample are left out; of a file no more is read than those groups need.
nlohmann::ordered_json read_groups(const std::filesystem::path& file, std::size_t max_prompts);

}  // namespace qrl::report
