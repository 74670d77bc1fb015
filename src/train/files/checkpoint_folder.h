#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace qrl::train {

inline constexpr std::uint64_t kMaxCheckpointText_bytes = std::uint64_t{64} << 20;
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kRecipeFile = "recipe.yaml";
/// Entry of state.json that holds path and weights hash of the adapters' base.
inline constexpr const char* kBaseEntry = "base";

/// Returns "sft_N" while cold-starting, else "step_N".
std::string checkpoint_name(bool cold_start, std::int64_t sft_step, std::int64_t step);

/// Renames `path` to PATH.copy if its manifest names another checkpoint: the folder is then a renamed copy.
void set_aside_copy(const std::filesystem::path& path);

/// Lists the checkpoints in `dir`, newest first: RL steps, then cold-start steps. Skips renamed copies, with a warning.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& dir);

/// Links DIR/best to DIR/step_N atomically.
void name_best(const std::filesystem::path& dir, std::int64_t step);

/// Removes all but the newest `keep` RL and `keep` cold-start checkpoints. First verifies the newest checkpoint; if it
/// is damaged, warns and removes nothing. Always keeps sft_<final_sft_step> and step_<best_step>.
void prune_checkpoints(const std::filesystem::path& dir, std::int64_t keep, std::int64_t final_sft_step,
                       std::int64_t best_step = -1);

/// Returns the newest sound checkpoint in `dir`; RL steps count as newer than cold-start steps. Warns of damaged
/// checkpoints, renamed copies, and files that were added to the sound one. Throws an input error for an added file
/// that would be read, and an internal error if the system cannot read a checkpoint.
std::optional<std::filesystem::path> newest_sound_checkpoint(const std::filesystem::path& dir);

/// Returns the newest sound checkpoint of a run folder; returns other paths unchanged. Throws an input error for a run
/// without one, and like newest_sound_checkpoint.
std::filesystem::path checkpoint_of_run(const std::filesystem::path& path);

/// Renames the checkpoints newer than `sound`, or all if `sound` is unset, to NAME.damaged, NAME.damaged_2, … Does not
/// touch copies that a user made under another name.
void set_aside_damaged(const std::filesystem::path& dir, const std::optional<std::filesystem::path>& sound);

/// Throws an input error with `what_to_do` if the checkpoint is damaged or missing. Treats added files like
/// newest_sound_checkpoint.
void require_sound_checkpoint(const std::filesystem::path& path, const std::string& what_to_do);

/// Commits a copy of `from` as `to`, and verifies every byte.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to);

/// Returns whether the manifests of two committed checkpoints list equal files.
bool same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b);

/// Returns the weights hash of the adapters' base that a checkpoint records, else "".
std::string checkpoint_base_hash(const std::filesystem::path& checkpoint);
/// Returns the RL step in a checkpoint's name; nothing for other names.
std::optional<std::int64_t> rl_step_of(const std::filesystem::path& checkpoint);

/// Returns whether `path` looks like a checkpoint of this program, even if damaged.
bool is_checkpoint(const std::filesystem::path& path);

/// Returns the manifest, which identifies every byte of the checkpoint.
std::string manifest_text(const std::filesystem::path& checkpoint);

}  // namespace qrl::train
