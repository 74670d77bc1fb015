// Models what a disk may hold after a power cut under POSIX: what was fsynced before the cut survives; any part of the
// rest may survive.
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
  /// Reads the tree at `root`; all of it counts as durable.
  explicit Disk(const std::filesystem::path& root);
  /// Returns this tree after the first `cut` of `calls` and a power cut. A created, moved or removed name is durable
  /// once its folder was fsynced afterwards; written bytes, once their file was. `random` chooses what survives of the
  /// rest; bytes may also be half written, zeros or garbage. Throws std::logic_error for a call that is not modelled.
  Disk after_power_cut(const std::vector<Call>& calls, std::size_t cut, std::mt19937& random) const;
  void write_to(const std::filesystem::path& folder) const;

 private:
  using Id = std::size_t;
  struct Inode {
    bool is_folder = false;
    std::string bytes;
    std::map<std::string, Id> names;
  };
  /// Records a change that a call makes, or the fsync that makes earlier changes durable.
  struct Event {
    enum class Kind { add, remove, move, write, sync } kind;
    Id inode = 0;  ///< the folder whose names change, the file written, or the target of a sync
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
