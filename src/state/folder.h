// Owns folders that are committed atomically, with a hash of every file.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace qrl::state {

/// Commits a folder by the protocol of docs/decisions/0007-checkpoint-protocol.md:
/// 1. `fill` writes files into PATH.tmp-<id>; each is hashed and synced.
/// 2. manifest.json is written and synced: size and hash of each file, `facts_json`, and its own hash.
/// 3. The folder is synced, renamed to `path`, and the parent is synced.
/// When the function returns, the folder is committed. An error or a kill at any moment leaves `path` absent. `path`
/// must not exist. A symlink at the temporary name is never followed.
void commit_folder(const std::filesystem::path& path, const std::function<void(const std::filesystem::path& dir)>& fill,
                   const std::string& facts_json);

/// Returns why a committed folder is damaged (file, expected, found), or nothing if every byte matches the manifest.
/// Damage means bytes that were read and differ, or missing files. Throws an internal error if the system cannot read
/// it (EIO, EACCES, EMFILE, …): the folder may be undamaged.
std::optional<std::string> verify_folder(const std::filesystem::path& path);

/// Returns the facts_json of a committed folder. Throws an input error if the manifest is absent or damaged, and an
/// internal error if the system cannot read it.
std::string folder_facts(const std::filesystem::path& path);

/// Removes leftovers of unfinished commits (`*.tmp-<id>`) in `parent`.
void remove_leftovers(const std::filesystem::path& parent);

/// Replaces a small file atomically: temporary name, fsync, rename, fsync of the folder. Links are followed. Throws an
/// input error if the target is no regular file (output_file).
void replace_file(const std::filesystem::path& file, const std::string& bytes);

/// Holds an exclusive flock on PATH/.lock during its lifetime. Throws an input error if another process holds it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& dir);
  ~FolderLock();
  /// Locks PATH/.lock again if the file was deleted or replaced. Throws like the constructor.
  void keep();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path dir_;
  int fd_ = -1;
};

}  // namespace qrl::state
