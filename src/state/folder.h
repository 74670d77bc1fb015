#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace qrl::state {

/// Creates folder `path`, which must not exist, by the protocol of docs/decisions/0007-checkpoint-protocol.md. `fill`
/// writes files into PATH.tmp-<id>, which is then renamed. The manifest has the files' sizes and hashes, `facts_json`,
/// and its own hash. An error or a kill leaves `path` absent or complete.
void commit_folder(const std::filesystem::path& path, const std::function<void(const std::filesystem::path& dir)>& fill,
                   const std::string& facts_json);

/// Returns how a folder is damaged (file, expected, found), or nothing if it is intact. A folder is damaged if a listed
/// file is missing or a link, or if bytes differ from the manifest. Added files are no damage: see unlisted_files.
/// Throws an internal error if the system cannot read the folder.
std::optional<std::string> verify_folder(const std::filesystem::path& path);

/// Returns the names of the files that the manifest lists, relative to the folder, sorted. Throws like folder_facts.
std::vector<std::string> listed_files(const std::filesystem::path& path);

/// Returns the names of files that the manifest does not list, sorted: what users and file systems added. Throws like
/// folder_facts.
std::vector<std::string> unlisted_files(const std::filesystem::path& path);

/// Returns a committed folder's facts_json. Throws an input error for a damaged manifest, and an internal error for a
/// manifest that cannot be read.
std::string folder_facts(const std::filesystem::path& path);

/// Removes unfinished commits (`*.tmp-<id>`) in `parent`.
void remove_leftovers(const std::filesystem::path& parent);

/// Replaces a small file atomically: writes and syncs a temporary file, renames it and syncs the folder. Follows links.
/// Throws like output_file.
void replace_file(const std::filesystem::path& file, const std::string& bytes);

/// Throws the input error of FolderLock if a process holds the lock of `dir`. Writes nothing.
void require_unlocked(const std::filesystem::path& dir);

/// Holds an exclusive flock on PATH/.lock; throws an input error if another process holds it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& dir);
  ~FolderLock();
  /// Locks again if PATH/.lock was deleted or replaced. Throws like the constructor.
  void keep();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path dir_;
  int fd_ = -1;
};

}  // namespace qrl::state
