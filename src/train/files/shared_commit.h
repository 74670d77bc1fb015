#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "dist/collectives.h"

namespace qrl::train {

using Fill = std::function<void(const std::filesystem::path& dir)>;

/// Commits `path` like state::commit_folder. All ranks call `fill_share` concurrently; then the first rank calls
/// `finish`. If any rank fails, all ranks throw and nothing is committed. Collective.
void commit_together(const std::filesystem::path& path, const Fill& fill_share, const Fill& finish,
                     const std::string& facts_json, dist::Collectives& world);

/// Throws an input error with `what_to_do` on every rank, unless all ranks can write to the first rank's folder `dir`.
/// Collective.
void require_shared_folder(const std::filesystem::path& dir, const std::string& what_to_do, dist::Collectives& world);

}  // namespace qrl::train
