// Owns Hugging Face Hub names ("Qwen/Qwen3-0.6B@main") and their lookup in this machine's cache. Never uses the
// network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qrl::base {

/// Returns whether a text is OWNER/NAME[@REVISION].
bool is_hub_name(std::string_view text);

/// Returns the folder of huggingface_hub's cache. The first variable that is set determines it: $HF_HUB_CACHE,
/// $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. Returns an empty path if none is set.
std::filesystem::path hub_cache();

/// Returns OWNER/NAME@COMMIT if the cache has the name's revision (default: main).
std::optional<std::string> pinned_hub_name(std::string_view name);

/// Returns `path` if it exists. For a Hub name with a cached snapshot, returns the snapshot's folder. Otherwise returns
/// `path`.
std::string local_model(const std::string& path);

/// Returns the folder of model.path: the path itself, or a Hub name's cached snapshot. Throws an input error with the
/// download command if the snapshot is missing.
std::filesystem::path model_folder(const std::string& model_path);

}  // namespace qrl::base
