#include "state/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "state/file.h"
#include "state/hash.h"
#include "state/json.h"
#include "state/sealed.h"

namespace qrl::state {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* kLock = ".lock";
constexpr std::uint64_t kMaxManifest_bytes = 100'000'000;
constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::size_t kIdDigits = 16;

std::string hash_text(std::string_view text) { return Hash().add(text).hex(); }

std::string hash_of(const File& file) {
  constexpr std::size_t kChunk_bytes = std::size_t{1} << 20;
  Hash hash;
  std::vector<std::byte> chunk(kChunk_bytes);
  const std::uint64_t size = file.size_bytes();
  for (std::uint64_t at = 0; at < size;) {
    const auto part = std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), size - at));
    file.read_at(at, part);
    hash.add(part.data(), part.size());
    at += part.size();
  }
  return hash.hex();
}

/// Appends kTemporaryMark and 64 random bits, so that an attacker cannot guess the name and place a link there first.
fs::path temporary_name(const fs::path& path) {
  std::uint64_t id = 0;
  QRL_INVARIANT(getrandom(&id, sizeof id, 0) == sizeof id, "getrandom", "8 random bytes", std::strerror(errno));
  constexpr char kHex[] = "0123456789abcdef";
  std::string name = path.string() + std::string(kTemporaryMark);
  for (std::size_t digit = 0; digit < kIdDigits; ++digit, id >>= 4) name += kHex[id & 15U];
  return name;
}

bool is_temporary_name(std::string_view name) {
  if (name.size() <= kTemporaryMark.size() + kIdDigits) return false;
  const std::string_view id = name.substr(name.size() - kIdDigits);
  return name.substr(0, name.size() - kIdDigits).ends_with(kTemporaryMark) &&
         id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// Returns the names of files below `dir`, relative to `dir`. Appends subfolders to `folders`. Throws an input error
/// for anything but files and folders.
std::set<std::string> list_files(const fs::path& dir, std::vector<fs::path>* folders = nullptr) try {
  std::set<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir)) {
    const fs::file_status status = entry.symlink_status();
    if (fs::is_directory(status)) {
      if (folders != nullptr) folders->push_back(entry.path());
      continue;
    }
    QRL_REQUIRE(fs::is_regular_file(status), shown(entry.path()), "regular files and folders only",
                "a link or special file");
    files.insert(entry.path().lexically_relative(dir).generic_string());
  }
  return files;
} catch (const fs::filesystem_error& error) {
  base::fail_internal(shown(dir), "to list the folder", error.code().message());
}

Json read_manifest(const fs::path& dir) {
  const fs::path file = dir / kManifest;
  const std::optional<File> open = File::open_if_there(file);
  QRL_REQUIRE(open, shown(file), "the folder's manifest", "no such file");
  QRL_REQUIRE(open->size_bytes() <= kMaxManifest_bytes, shown(file),
              "at most " + std::to_string(kMaxManifest_bytes) + " bytes", std::to_string(open->size_bytes()));
  std::string text(open->size_bytes(), '\0');
  open->read_at(0, std::as_writable_bytes(std::span(text)));
  constexpr std::size_t kTail = kHashDigits + kAfterManifestHash.size();
  QRL_REQUIRE(text.size() > kTail + kBeforeManifestHash.size() && text.ends_with(kAfterManifestHash) &&
                  std::string_view(text).substr(0, text.size() - kTail).ends_with(kBeforeManifestHash),
              shown(file), "a manifest that ends with its hash", "a different ending", "the folder is damaged");
  const std::string_view body = std::string_view(text).substr(0, text.size() - kTail);
  const std::string want = text.substr(body.size(), kHashDigits);
  const std::string found = hash_text(body);
  QRL_REQUIRE(found == want, shown(file), "hash " + base::quoted(want), found, "the folder is damaged");
  Json manifest = parse_json(text, shown(file));
  QRL_REQUIRE(
      manifest.is_object() && manifest.contains("facts") && manifest.contains("files") && manifest["files"].is_object(),
      shown(file), "facts and files", "a manifest without them");
  return manifest;
}

void write_synced(const fs::path& path, std::string_view text) {
  File file = File::create(path);
  file.write(text);
  file.sync();
  file.close();
}

void seal(const fs::path& dir, const Json& facts) {
  std::vector<fs::path> folders;
  Json files = Json::object();
  for (const std::string& name : list_files(dir, &folders)) {
    QRL_INVARIANT(name != kManifest && base::is_utf8(name), shown(dir), "files in UTF-8 other than the manifest",
                  base::quoted(name));
    File file = File::open_no_follow(dir / name);
    file.sync();
    files[name] = {{"size_bytes", file.size_bytes()}, {"xxh3_128", hash_of(file)}};
  }
  std::string text = Json{{"facts", facts}, {"files", files}}.dump(2);
  text.resize(text.size() - 2);  // removes the closing "\n}" to put the hash before it
  text += ",\n  " + std::string(kBeforeManifestHash);
  text += hash_text(text) + std::string(kAfterManifestHash);
  write_synced(dir / kManifest, text);
  for (const fs::path& folder : folders) sync_dir(folder);
  sync_dir(dir);
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  QRL_INVARIANT(std::rename(from.c_str(), to.c_str()) == 0, shown(to), "to rename " + shown(from) + " to it",
                std::strerror(errno));
}

class Leftover {
 public:
  explicit Leftover(fs::path path) : path_(std::move(path)) {}
  ~Leftover() {
    std::error_code ignored;  // remove_leftovers later removes what remains
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  void keep() { path_.clear(); }

 private:
  fs::path path_;
};

/// Opens the lock file with `flags` and locks it by `operation`. Returns -1 if the file is missing and not created.
int locked(const fs::path& dir, int flags = O_RDWR | O_CREAT, int operation = LOCK_EX) {
  const fs::path file = dir / kLock;
  require_no_special_file(file);
  const int fd = ::open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd < 0 && errno == ENOENT && (flags & O_CREAT) == 0) return -1;
  QRL_REQUIRE(fd >= 0, shown(file), "to open the lock file", std::strerror(errno));
  if (flock(fd, operation | LOCK_NB) == 0) return fd;
  const int error = errno;
  ::close(fd);
  QRL_REQUIRE(error != EWOULDBLOCK, shown(dir), "a folder that no other run uses", "a folder in use by another process",
              "wait for that run, or choose another folder");
  base::fail_internal(shown(file), "to lock it", std::strerror(error));
}

}  // namespace

void commit_folder(const fs::path& path, const std::function<void(const fs::path& dir)>& fill,
                   const std::string& facts_json) {
  QRL_INVARIANT(!fs::exists(fs::symlink_status(path)), shown(path), "a name not yet taken",
                "an existing file or folder");
  const Json facts = parse_json(facts_json, shown(path) + ": facts");
  const fs::path temporary = temporary_name(path);
  // mkdir never follows a link, and fails if the name exists.
  QRL_INVARIANT(mkdir(temporary.c_str(), 0777) == 0, shown(temporary), "to make the folder", std::strerror(errno));
  Leftover leftover(temporary);
  fill(temporary);
  seal(temporary, facts);
  rename_or_fail(temporary, path);
  leftover.keep();
  sync_dir(parent_of(path));
}

std::optional<std::string> verify_folder(const fs::path& path) {
  try {
    const Json manifest = read_manifest(path);
    for (const auto& [name, want] : manifest["files"].items()) {
      const std::string where = shown(path / name);
      const std::optional<File> file = File::open_if_there(path / name);
      QRL_REQUIRE(file, where, "a file listed in the manifest", "no such file");
      const std::uint64_t size = file->size_bytes();
      QRL_REQUIRE(want.at("size_bytes") == size, where, want.at("size_bytes").dump() + " bytes", std::to_string(size));
      const std::string hash = hash_of(*file);
      QRL_REQUIRE(want.at("xxh3_128") == hash, where, "hash " + want.at("xxh3_128").dump(), hash);
    }
  } catch (const base::Error& error) {
    if (error.kind() != base::ErrorKind::input) throw;  // a file that cannot be read may be undamaged
    return error.what();
  } catch (const Json::exception&) {
    return shown(path / kManifest) + ": a manifest entry without size_bytes and xxh3_128";
  }
  return std::nullopt;
}

std::vector<std::string> listed_files(const fs::path& path) {
  std::vector<std::string> names;
  const Json manifest = read_manifest(path);
  for (const auto& [name, entry] : manifest["files"].items()) names.push_back(name);
  return names;
}

std::vector<std::string> unlisted_files(const fs::path& path) {
  const std::vector<std::string> listed = listed_files(path);  // sorted, as members of a JSON object
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().lexically_relative(path).generic_string();
    if (fs::is_directory(entry->symlink_status(error)) || name == kManifest) continue;
    if (!std::ranges::binary_search(listed, name)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::string folder_facts(const fs::path& path) { return read_manifest(path)["facts"].dump(); }

void remove_leftovers(const fs::path& parent) try {
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
    if (is_temporary_name(entry.path().filename().native())) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover);
  if (!leftovers.empty()) sync_dir(parent);
} catch (const fs::filesystem_error& error) {
  base::fail_internal(shown(error.path1()), "to remove what an unfinished save left", error.code().message());
}

void replace_file(const fs::path& file, const std::string& bytes) {
  const fs::path target = output_file(file);
  const fs::path temporary = temporary_name(target);
  Leftover leftover(temporary);
  write_synced(temporary, bytes);
  rename_or_fail(temporary, target);
  leftover.keep();
  sync_dir(parent_of(target));
}

void require_unlocked(const fs::path& dir) {
  if (const int fd = locked(dir, O_RDONLY, LOCK_SH); fd >= 0) ::close(fd);
}

FolderLock::FolderLock(const fs::path& dir) : dir_(dir), fd_(locked(dir)) {}

void FolderLock::keep() {
  struct stat held {
  }, there{};
  const bool is_same = fstat(fd_, &held) == 0 && stat((dir_ / kLock).c_str(), &there) == 0 &&
                       held.st_ino == there.st_ino && held.st_dev == there.st_dev;
  if (is_same) return;
  const int again = locked(dir_);
  ::close(std::exchange(fd_, again));
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace qrl::state
