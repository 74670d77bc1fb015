// Owns folders that appear whole or not at all, with a hash of every file. Knows nothing of what the files hold.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace qrl::state {

/// Commit protocol (docs/decisions/0007-checkpoint-protocol.md): `fill` writes files into PATH.tmp-<id>; each is hashed
/// and fsynced; manifest.json (per file: size and hash; `facts_json` as given; its own hash) comes last and is fsynced;
/// then the directory is fsynced, renamed to `path` and the parent fsynced. When this returns the folder is committed.
/// An error or a kill at any moment leaves `path` absent. `path` must not exist. Never follows a symlink at the
/// temporary name.
void commit_folder(const std::filesystem::path& path, const std::function<void(const std::filesystem::path& dir)>& fill,
                   const std::string& facts_json);

/// Why a committed folder is damaged (which file, expected, found), or nothing when every byte matches its manifest.
/// Damaged are bytes that were read and differ, and files that are absent. Throws an internal error when the system
/// cannot read it (EIO, EACCES, EMFILE, …): the folder may be whole.
std::optional<std::string> verify_folder(const std::filesystem::path& path);

/// The facts_json of a committed folder. Throws an input error when the manifest is absent or damaged, an internal one
/// when the system cannot read it.
std::string folder_facts(const std::filesystem::path& path);

/// Removes `path.tmp-*` leftovers beside committed folders in `parent`.
void remove_leftovers(const std::filesystem::path& parent);

/// Replaces a small file atomically: temporary name, fsync, rename, fsync of the folder. Links are followed; what is
/// no regular file is refused (output_file).
void replace_file(const std::filesystem::path& file, const std::string& bytes);

/// Holds an exclusive flock on PATH/.lock while it lives; throws an input error when another process has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& dir);
  ~FolderLock();
  /// Locks PATH/.lock again where the file was deleted or replaced. Throws as the constructor.
  void keep();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path dir_;
  int fd_ = -1;
};

}  // namespace qrl::state
