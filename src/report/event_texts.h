// A run's recipe and samples as Markdown, for TensorBoard's page of texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::report {

struct EventText {
  std::string tag, markdown;
};

/// Returns a table of a recipe's keys: those that were set, then the defaults. `yaml`: config.yaml with origins.
std::string recipe_markdown(std::string_view yaml);

/// Returns the texts of one step of a run: "recipe" with its first row, "samples/held_out" and "samples/rollouts" if
/// the folder has responses of the step. Rollouts become a text at step 1, at each multiple of 20, and where held-out
/// responses are.
std::vector<EventText> step_texts(const std::filesystem::path& run_dir, std::int64_t step, bool is_first_row);

}  // namespace qrl::report
