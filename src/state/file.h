#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qrl::state {

/// Owns an open file. A read past the end is an input error (the file has changed); other failures are internal errors.
class File {
 public:
  /// Opens for reading; follows links. Throws an input error unless `path` is a readable regular file.
  static File open(const std::filesystem::path& path);
  /// Opens like `open`, but throws an input error if the path's last component is a link.
  static File open_no_follow(const std::filesystem::path& path);
  /// Opens like `open`, but returns nothing for a missing file or a link. Failures of the system are internal errors.
  static std::optional<File> open_if_there(const std::filesystem::path& path);
  /// Creates a file for writing. Throws an internal error if the name exists.
  static File create(const std::filesystem::path& path);
  /// Creates a file for writing, or empties an existing file. Throws an internal error for a link.
  static File create_or_empty(const std::filesystem::path& path);
  /// Opens for appending; follows links. If `creates`, makes a missing file. Throws an input error for a special file,
  /// and an internal error for any other failure.
  static File append(const std::filesystem::path& path, bool creates = false);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const;
  /// Fills `bytes` from `offset`; thread-safe.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void write(const void* bytes, std::size_t num_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void truncate(std::uint64_t num_bytes);
  void sync();
  /// Closes the file. Throws an internal error if the system reports a write error only now.
  void close();

 private:
  File(std::filesystem::path path, int flags);
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Returns a regular file's text; throws an input error for more than `max_bytes` or a Git LFS pointer.
std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Throws an input error if `path` exists and is no regular file; follows links. Does not open the file, because a
/// device or pipe may block.
void require_no_special_file(const std::filesystem::path& path);

/// Returns the file to write for a user's `path`: `path` itself or, if it is a link, its target. Throws an input error
/// if the file's folder is not writable, or if the file is neither new nor regular. Throws like
/// require_place_for_output (state/sealed.h).
std::filesystem::path output_file(const std::filesystem::path& path);

/// Syncs a folder, so that its names survive a power cut.
void sync_dir(const std::filesystem::path& dir);

/// Returns a path for messages, quoted unless printable ASCII.
std::string shown(const std::filesystem::path& path);

}  // namespace qrl::state
