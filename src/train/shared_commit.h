// Owns how several ranks fill and commit one folder, and agree when one of them cannot. The commit protocol itself is
// state/folder.h's. Knows nothing of what the files hold.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "dist/collectives.h"

namespace qrl::train {

using Fill = std::function<void(const std::filesystem::path& dir)>;

/// Commits `path` as state::commit_folder does: every rank's `fill_share` writes into the temporary folder, at the same
/// time, then the first rank's `finish`. When any of them or the commit itself fails, on whichever rank, every rank
/// throws, nothing is committed and the temporary folder is gone. Returns on all ranks when it is committed.
/// Collective.
void commit_together(const std::filesystem::path& path, const Fill& fill_share, const Fill& finish,
                     const std::string& facts_json, dist::Collectives& world);

/// Throws an input error on every rank, with `what_to_do`, unless all ranks see and can write to the first rank's
/// folder `dir`. Other ranks' argument is not read: hosts need not share a file system. Collective.
void require_shared_folder(const std::filesystem::path& dir, const std::string& what_to_do, dist::Collectives& world);

}  // namespace qrl::train
