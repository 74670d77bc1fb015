// Owns reading and writing of files, with errors that name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qrl::state {

/// Holds an open file; movable, closed by the destructor. New files get the permissions of the process's umask. A read
/// past the end is an input error, because the file has changed. Any other failure of the system is an internal error.
class File {
 public:
  /// Opens for reading and follows links. Throws an input error unless the target is a regular file.
  static File open(const std::filesystem::path& path);
  /// Opens like `open`, but throws an input error if the last component of the path is a link.
  static File open_no_follow(const std::filesystem::path& path);
  /// Opens like `open_no_follow`, but returns nothing if the file does not exist or is a link. Throws an internal error
  /// for every other failure of the system: the file may be undamaged.
  static std::optional<File> open_if_there(const std::filesystem::path& path);
  /// Opens a new file for writing. Throws an internal error if a file or a link of that name exists.
  static File create(const std::filesystem::path& path);
  /// Opens for writing and empties an existing file. Throws an internal error for a link of that name.
  static File create_or_empty(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const;
  /// Fills `bytes` from `offset`; thread-safe.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void write(const void* bytes, std::size_t num_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void sync();
  /// Closes the file. Throws an internal error for a write error that the system reports only now.
  void close();

 private:
  File(std::filesystem::path path, int flags);
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Returns the whole text of a regular file. Throws an input error for more than `max_bytes` and for a Git LFS pointer.
std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes);

/// Throws an input error if anything but a regular file has that name; links are followed. The file is not opened,
/// because opening a device or a pipe may block.
void require_no_special_file(const std::filesystem::path& path);

/// Returns the file to write when a user names `path`: the path itself, or the target of a link. Throws an input error
/// if the folder is missing or not writable, or if `path` exists and is no regular file.
std::filesystem::path output_file(const std::filesystem::path& path);

/// Syncs a folder: the names in it then survive a power cut.
void sync_dir(const std::filesystem::path& dir);

/// Returns a path for messages, quoted if one of its bytes is not printable ASCII.
std::string shown(const std::filesystem::path& path);

}  // namespace qrl::state
