#include "state/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "state/sealed.h"

namespace qrl::state {

namespace {

[[noreturn]] void fail_system(const std::filesystem::path& path, const std::string& doing) {
  const int error = errno;
  const char* advice = error == EACCES || error == EPERM    ? "give this user permission"
                       : error == EMFILE || error == ENFILE ? "raise ulimit -n"
                       : error == EFBIG                     ? "raise ulimit -f"
                                                            : "check whether the disk is full or failing";
  base::fail_internal(shown(path), "to " + doing, std::strerror(error), advice);
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  QRL_REQUIRE(S_ISREG(status.st_mode), shown(path), "a regular file",
              S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
}

void require_regular(const std::filesystem::path& path, int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail_system(path, "inspect the open file");
  require_regular(path, status);
}

/// Returns whether opening failed because the file does not exist or, with O_NOFOLLOW, is a link.
bool is_absent(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

}  // namespace

File::File(std::filesystem::path path, int flags) : path_(std::move(path)) {
  constexpr mode_t kMode = 0666;
  fd_ = ::open(path_.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kMode);
}

File File::open(const std::filesystem::path& path) {
  require_no_special_file(path);
  File file(path, O_RDONLY);
  QRL_REQUIRE(file.fd_ >= 0, shown(path), "a readable file", std::strerror(errno));
  require_regular(path, file.fd_);
  return file;
}

File File::open_no_follow(const std::filesystem::path& path) {
  File file(path, O_RDONLY | O_NOFOLLOW);
  QRL_REQUIRE(file.fd_ >= 0, shown(path), "a readable file that is not a link", std::strerror(errno));
  require_regular(path, file.fd_);
  return file;
}

std::optional<File> File::open_if_there(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (is_absent(errno)) return std::nullopt;
    fail_system(path, "look for the file");
  }
  if (S_ISLNK(status.st_mode)) return std::nullopt;
  require_regular(path, status);
  File file(path, O_RDONLY | O_NOFOLLOW);
  if (file.fd_ < 0 && is_absent(errno)) return std::nullopt;
  if (file.fd_ < 0) fail_system(path, "open the file");
  require_regular(path, file.fd_);
  return file;
}

File File::create(const std::filesystem::path& path) {
  File file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (file.fd_ < 0) fail_system(path, "create the file");
  return file;
}

File File::create_or_empty(const std::filesystem::path& path) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (file.fd_ < 0) fail_system(path, "create the file");
  require_regular(path, file.fd_);
  return file;
}

File File::append(const std::filesystem::path& path, bool creates) {
  require_no_special_file(path);
  File file(path, O_WRONLY | O_APPEND | (creates ? O_CREAT : 0));
  if (file.fd_ < 0) fail_system(path, "open the file");
  return file;
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t File::size_bytes() const {
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail_system(path_, "read the file's size");
  return static_cast<std::uint64_t>(status.st_size);
}

void File::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system(path_, "read " + std::to_string(bytes.size()) + " bytes at " + std::to_string(offset));
    QRL_REQUIRE(got > 0, shown(path_), std::to_string(bytes.size()) + " more bytes at " + std::to_string(offset),
                "the end of the file");
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void File::write(const void* bytes, std::size_t num_bytes) {
  const auto* next = static_cast<const std::byte*>(bytes);
  while (num_bytes > 0) {
    const ssize_t put = ::write(fd_, next, num_bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_system(path_, "write " + std::to_string(num_bytes) + " bytes");
    next += put;
    num_bytes -= static_cast<std::size_t>(put);
  }
}

void File::truncate(std::uint64_t num_bytes) {
  if (ftruncate(fd_, static_cast<off_t>(num_bytes)) != 0) fail_system(path_, "truncate the file");
}

void File::sync() {
  if (fsync(fd_) != 0) fail_system(path_, "flush the file to the disk");
}

void File::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail_system(path_, "close the file");
}

std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const File file = File::open(path);
  const std::uint64_t size = file.size_bytes();
  QRL_REQUIRE(size <= max_bytes, shown(path), "at most " + std::to_string(max_bytes) + " bytes", std::to_string(size));
  std::string text(size, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  QRL_REQUIRE(!base::is_lfs_pointer(text), shown(path), "the file itself", base::kLfsPointer);
  return text;
}

void require_no_special_file(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) require_regular(path, status);
}

std::filesystem::path output_file(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path target = path;
  if (fs::is_symlink(fs::symlink_status(path, error))) {
    target = fs::canonical(path, error);
    QRL_REQUIRE(!error, shown(path), "a file to write", "a broken link", "delete it, or name another file");
  }
  require_place_for_output(path);  // also of names like /dev/stdout: other programs may write to the same file
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const fs::file_status status = fs::status(target, error);
  QRL_REQUIRE(!fs::is_directory(status), shown(path), "a file to write", "a folder", "name a file in it");
  QRL_REQUIRE(target.has_filename(), shown(path), "a file to write", "a path without a file name");
  QRL_REQUIRE(!fs::exists(status) || fs::is_regular_file(status), shown(path), "a new or regular file to write",
              "a device or pipe", "name another file");
  QRL_REQUIRE(fs::is_directory(folder, error), shown(path), "a file in an existing folder", "no such folder",
              "create the folder first");
  QRL_REQUIRE(access(folder.c_str(), W_OK | X_OK) == 0, shown(path), "a folder that can be written to",
              std::strerror(errno), "name another file");
  return target;
}

void sync_dir(const std::filesystem::path& dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_system(dir, "open the folder");
  const bool synced = fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!synced) fail_system(dir, "flush the folder to the disk");
}

std::string shown(const std::filesystem::path& path) {
  const std::string& text = path.native();
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  return plain ? text : base::quoted(text, text.size());
}

}  // namespace qrl::state
