#include "train/plan/disk_estimate.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "model/adapter.h"
#include "train/files/checkpoint_folder.h"
#include "train/files/run_folder.h"
#include "train/plan/memory_estimate.h"
#include "train/plan/options.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

constexpr double kF32_bytes = 4;

/// Returns the bytes of masters and moments. Layer matrices under Muon have one moment. All other tensors have two.
double learner_bytes(const std::vector<model::WeightSpec>& specs, bool by_muon) {
  double bytes = 0;
  for (const model::WeightSpec& spec : specs) {
    const int num_moments = by_muon && is_layer_matrix(spec.kind) ? 1 : 2;
    bytes += static_cast<double>(spec.shape.numel()) * kF32_bytes * (1 + num_moments);
  }
  return bytes;
}

std::int64_t num_saved(std::int64_t steps, std::int64_t freq) {
  return freq > 0 ? (steps + freq - 1) / freq : std::min<std::int64_t>(steps, 1);
}

double present_bytes(const fs::path& checkpoints) {
  double bytes = 0;
  std::error_code none;
  for (const fs::path& path : list_checkpoints(checkpoints)) {
    for (const auto& entry : fs::directory_iterator(path, none))
      if (entry.is_regular_file(none)) bytes += static_cast<double>(entry.file_size(none));
  }
  return bytes;
}

}  // namespace

double DiskEstimate::most_bytes() const {
  const CheckpointRoom& last = rl.most_kept > 0 ? rl : cold_start;
  return static_cast<double>(cold_start.most_kept) * cold_start.bytes_each +
         static_cast<double>(rl.most_kept) * rl.bytes_each + (last.replaces ? last.bytes_each : 0);
}

DiskEstimate estimate_disk(const Recipe& recipe, const model::ModelConfig& config) {
  const TrainerRecipe& trainer = recipe.trainer;
  const std::vector<model::WeightSpec> all = model::weight_specs(config);
  const bool has_adapters = trains_adapters(recipe);
  const std::vector<model::WeightSpec> adapters =
      has_adapters ? model::adapter_specs(config, recipe.lora) : std::vector<model::WeightSpec>();
  DiskEstimate disk;
  disk.rl.bytes_each = learner_bytes(has_adapters ? adapters : all, recipe.optim.name == learner::OptimName::muon);
  // trainer.keep_best keeps one checkpoint more. An unknown number of steps counts as unlimited.
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const bool knows_steps = trainer.total_epochs == 0 || trainer.total_training_steps > 0;
  const auto limit = [](CheckpointRoom& room, std::int64_t saved, std::int64_t most) {
    room.most_kept = std::min(saved, most);
    room.replaces = saved > most;
  };
  limit(disk.rl, knows_steps ? num_saved(trainer.total_training_steps, trainer.save_freq) : kAny,
        trainer.max_ckpt_to_keep + (trainer.keep_best.empty() ? 0 : 1));
  if (!has_cold_start(recipe.sft)) return disk;
  const bool by_adapters = cold_start_trains_adapters(recipe);
  disk.cold_start.bytes_each = learner_bytes(by_adapters ? adapters : all, false);
  // The cold start's last checkpoint always stays. With sft.from, the only cold-start checkpoint is a copy of another
  // run's.
  const std::int64_t of_cold_start = !recipe.sft.from.empty() ? 1
                                     : recipe.sft.steps > 0   ? num_saved(recipe.sft.steps, recipe.sft.save_freq)
                                                              : kAny;
  limit(disk.cold_start, of_cold_start, trainer.max_ckpt_to_keep + 1);
  return disk;
}

std::optional<FreeDisk> free_disk(const Recipe& recipe) {
  fs::path folder = existing_part(recipe.trainer.default_local_dir);
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return std::nullopt;
  return FreeDisk{std::move(folder), static_cast<double>(space.available)};
}

std::string disk_doubt(const Recipe& recipe, const model::ModelConfig& config) {
  const std::optional<FreeDisk> free = free_disk(recipe);
  const double needed = estimate_disk(recipe, config).most_bytes();
  if (!free || needed <= free->bytes + present_bytes(fs::path(recipe.trainer.default_local_dir) / "checkpoints"))
    return "";
  return "the checkpoints need up to ~" + memory_amount(needed) + " of disk space, and " + memory_amount(free->bytes) +
         " are free in " + free->folder.string() +
         ": lower trainer.max_ckpt_to_keep, or set another trainer.default_local_dir";
}

}  // namespace qrl::train
