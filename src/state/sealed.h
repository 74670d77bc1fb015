// Owns what makes a folder a committed one: the manifest at its end of a commit (state/folder.h).
#pragma once

#include <filesystem>
#include <string_view>

namespace qrl::state {

inline constexpr const char* kManifest = "manifest.json";
// The manifest ends with its own hash, over every byte before the hash's digits.
inline constexpr std::string_view kBeforeManifestHash = R"("manifest_xxh3_128": ")";
inline constexpr std::string_view kAfterManifestHash = "\"\n}\n";
inline constexpr std::size_t kHashDigits = 32;

/// Throws an input error if output must not be written to `path`: inside a committed folder, such as a checkpoint, or
/// below /proc, /sys or /dev (except /dev/shm).
void require_place_for_output(const std::filesystem::path& path);

}  // namespace qrl::state
