// Owns how ranks fill and commit one folder together, and agree on failure.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "dist/collectives.h"

namespace qrl::train {

using Fill = std::function<void(const std::filesystem::path& dir)>;

/// Commits `path` as state::commit_folder does: every rank's `fill_share` writes at the same time, then the first
/// rank's `finish`. On any rank's failure all throw, nothing is committed and the temporary folder is removed. Returns
/// on all ranks when committed. Collective.
void commit_together(const std::filesystem::path& path, const Fill& fill_share, const Fill& finish,
                     const std::string& facts_json, dist::Collectives& world);

/// Throws an input error on every rank, with `what_to_do`, unless all can write to the first rank's folder `dir`. Other
/// ranks' argument is unused: hosts need not share a file system. Collective.
void require_shared_folder(const std::filesystem::path& dir, const std::string& what_to_do, dist::Collectives& world);

}  // namespace qrl::train
