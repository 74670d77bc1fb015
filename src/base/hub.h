// Owns Hugging Face Hub names ("Qwen/Qwen3-0.6B@main") and this machine's cache of them. Never uses the network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qrl::base {

/// Returns whether a text is OWNER/NAME[@REVISION].
bool is_hub_name(std::string_view text);

/// Returns huggingface_hub's cache: $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
/// ~/.cache/huggingface/hub. Empty if none is set and no home folder is known.
std::filesystem::path hub_cache();

/// Returns OWNER/NAME@COMMIT if the cache has the name's revision (default: main).
std::optional<std::string> pinned_hub_name(std::string_view name);

/// Resolves a command's path: an existing file or folder, else a hub name's cached snapshot, else the path itself.
std::string local_model(const std::string& path);

/// Returns model.path's folder: the path, or a hub name's cached snapshot. Throws an input error with the download
/// command if not cached.
std::filesystem::path model_folder(const std::string& model_path);

}  // namespace qrl::base
