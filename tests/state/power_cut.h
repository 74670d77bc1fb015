// What a disk may hold after a power cut, as POSIX allows it: what was fsynced before the cut is there; of everything
// else any part may be, or nothing.
#pragma once

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "state/trace.h"

namespace qrl::test {

/// A folder tree in memory.
class Disk {
 public:
  /// The tree at `root`, all of it on the disk for good.
  explicit Disk(const std::filesystem::path& root);
  /// This tree after the first `cut` of `calls` and a power cut. A new, moved or removed name is sure to be there, or
  /// gone, once its folder was fsynced after it; bytes written, once their file was. Of the rest `random` chooses what
  /// the disk has; of bytes it may have half, zeros or garbage too. Throws std::logic_error at a call that is not
  /// modelled.
  Disk after_power_cut(const std::vector<Call>& calls, std::size_t cut, std::mt19937& random) const;
  void write_to(const std::filesystem::path& folder) const;

 private:
  using Id = std::size_t;
  struct Inode {
    bool is_folder = false;
    std::string bytes;
    std::map<std::string, Id> names;
  };
  /// A change that a call makes, or the fsync that makes those before it last.
  struct Event {
    enum class Kind { add, remove, move, write, sync } kind;
    Id inode = 0;  ///< the folder whose names change, the file written, what is synced
    std::string name, new_name;
    Id child = 0;
    std::size_t offset = 0;
    std::string bytes;
  };

  Id read(const std::filesystem::path& path);
  void write(Id inode, const std::filesystem::path& path) const;
  bool below_root(const std::filesystem::path& path) const;
  Id find(const std::filesystem::path& path) const;
  void apply(const Event& event);
  std::vector<Event> events_of(const Call& call);

  std::filesystem::path root_path_;
  std::vector<Inode> inodes_;  ///< the root first
};

}  // namespace qrl::test
