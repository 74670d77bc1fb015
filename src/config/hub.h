// Owns names of models on the Hugging Face Hub ("Qwen/Qwen3-0.6B@main") and where the Hub's own cache on this machine
// keeps them. Knows nothing of what is in a model's folder. Nothing here uses the network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace qrl::config {

/// Whether a text has the form OWNER/NAME or OWNER/NAME@REVISION.
bool is_hub_name(std::string_view text);

/// The cache as huggingface_hub finds it: $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
/// ~/.cache/huggingface/hub; empty where none of these is set and there is no home.
std::filesystem::path hub_cache();

/// OWNER/NAME@COMMIT of a name whose revision (main by default) the cache has a snapshot of; else nothing.
std::optional<std::string> pinned_hub_name(std::string_view name);

/// A path as a command is given it: itself, or the snapshot of a hub name that the cache has, where nothing else has
/// that name.
std::string local_model(const std::string& path);

/// The folder that model.path means: itself, or the snapshot of a hub name in the cache. A name that the cache lacks is
/// an input error with the command that downloads it.
std::filesystem::path model_folder(const std::string& model_path);

}  // namespace qrl::config
