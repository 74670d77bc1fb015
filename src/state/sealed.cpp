#include "state/sealed.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/error.h"

namespace qrl::state {

namespace {

namespace fs = std::filesystem;

/// Returns whether a folder has a manifest that ends as commit_folder ends it, whatever its hash.
bool is_committed(const fs::path& dir) {
  constexpr std::size_t kTail_bytes = kBeforeManifestHash.size() + kHashDigits + kAfterManifestHash.size();
  std::error_code none;
  if (!fs::is_regular_file(dir / kManifest, none)) return false;
  std::ifstream in(dir / kManifest, std::ios::binary);
  std::string tail(kTail_bytes, '\0');
  in.seekg(-static_cast<std::streamoff>(kTail_bytes), std::ios::end);
  in.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  return in.good() && tail.starts_with(kBeforeManifestHash) && tail.ends_with(kAfterManifestHash);
}

/// Returns whether a run takes a path for one of its checkpoints: step_N or sft_N in its folder `checkpoints`.
bool is_checkpoint_of_run(const fs::path& path) {
  std::error_code none;
  const fs::path checkpoints = path.parent_path();
  const std::string name = path.filename().string();
  const std::string number = name.substr(std::min(name.find('_'), name.size() - 1) + 1);
  return (name.starts_with("step_") || name.starts_with("sft_")) && !number.empty() &&
         number.find_first_not_of("0123456789") == std::string::npos && checkpoints.filename() == "checkpoints" &&
         fs::exists(checkpoints.parent_path() / "config.yaml", none);
}

}  // namespace

void require_place_for_output(const fs::path& path) {
  const std::string where = path.string();
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  for (const fs::path& one : {path.lexically_normal(), whole}) {
    const std::string name = one.string() + "/";
    const bool is_system = name.starts_with("/proc/") || name.starts_with("/sys/") ||
                           (name.starts_with("/dev/") && !name.starts_with("/dev/shm/"));
    QRL_REQUIRE(!is_system, where, "a place for files", "a path under /proc, /sys or /dev", "name another place");
  }
  for (fs::path dir = error ? path : whole; dir.has_relative_path(); dir = dir.parent_path()) {
    QRL_REQUIRE(!is_committed(dir), where, "a place outside checkpoints",
                "a path inside the checkpoint " + dir.string(),
                "name another place: a checkpoint holds what its manifest lists, and is deleted when it is old");
    QRL_REQUIRE(!is_checkpoint_of_run(dir), where, "a name other than those of a run's checkpoints", dir.string(),
                "name another place: the run would take it for a checkpoint");
  }
}

}  // namespace qrl::state
