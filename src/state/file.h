// Owns the way bytes enter and leave files, each file named in its errors. Knows nothing of formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qrl::state {

/// An open file with the permissions of the process's umask. Movable; closed with the object. A read that finds the
/// bytes missing is an input error (the file changed under us); whatever else the system refuses is an internal error
/// with its words.
class File {
 public:
  /// For reading. Links are followed (Hugging Face's cache is made of them); what they lead to must be a regular file:
  /// a folder, a pipe or a missing file is an input error.
  static File open(const std::filesystem::path& path);
  /// As `open`, but a link at the last name is an input error too.
  static File open_no_follow(const std::filesystem::path& path);
  /// Opens as `open_no_follow` does, and returns nothing when no file of that name exists. Throws an internal error for
  /// every other failure of the system to open it: the file may be whole.
  static std::optional<File> open_if_there(const std::filesystem::path& path);
  /// For writing: a new file; an existing one, or a link by that name, is an error.
  static File create(const std::filesystem::path& path);
  /// For writing: an existing file is emptied; a link by that name is an error.
  static File create_or_empty(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const;
  /// Fills `bytes` from `offset` on; may be called from several threads.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void write(const void* bytes, std::size_t num_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void sync();
  /// Ends the writing: an error that the system kept until now is raised here.
  void close();

 private:
  File(std::filesystem::path path, int flags);
  std::filesystem::path path_;
  int fd_ = -1;
};

/// The whole of a regular file; more than `max_bytes` is an input error, and so is a Git LFS pointer in its place.
std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes);

/// An input error where anything but a regular file has that name, which is not opened: a device or a pipe may wait for
/// others. Links are followed.
void require_no_special_file(const std::filesystem::path& path);

/// The file to write when a user names `path`: itself, or what links lead to. An input error that names `path` when its
/// folder is missing or closed to us, or when something is there that is no regular file (a device, a pipe, a folder).
std::filesystem::path output_file(const std::filesystem::path& path);

/// fsync of a folder: the names in it survive a power cut from here on.
void sync_dir(const std::filesystem::path& dir);

/// A path for messages: quoted when a byte of it is not printable ASCII.
std::string shown(const std::filesystem::path& path);

}  // namespace qrl::state
