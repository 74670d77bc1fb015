// Owns names of models on the Hugging Face Hub ("Qwen/Qwen3-0.6B@main") and their location in the Hub's cache on this
// machine. Never uses the network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qrl::config {

/// Returns whether a text has the form OWNER/NAME or OWNER/NAME@REVISION.
bool is_hub_name(std::string_view text);

/// Returns the cache folder with huggingface_hub's rules: $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub
/// or ~/.cache/huggingface/hub. Empty if none of these is set and no home folder is known.
std::filesystem::path hub_cache();

/// Returns OWNER/NAME@COMMIT if the cache has a snapshot of the name's revision (default: main); else nothing.
std::optional<std::string> pinned_hub_name(std::string_view name);

/// Resolves a path given to a command. Returns a hub name's snapshot if the cache has it and no file or folder has that
/// name; else the path itself.
std::string local_model(const std::string& path);

/// Returns the folder that model.path means: the path itself, or the snapshot of a hub name in the cache. Throws an
/// input error with the download command if the cache lacks the name.
std::filesystem::path model_folder(const std::string& model_path);

}  // namespace qrl::config
