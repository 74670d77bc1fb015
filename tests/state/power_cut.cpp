#include "state/power_cut.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace qrl::test {

namespace fs = std::filesystem;

Disk::Disk(const fs::path& root) : root_path_(fs::canonical(root)) { read(root_path_); }

Disk::Id Disk::read(const fs::path& path) {
  const Id id = inodes_.size();
  inodes_.push_back({fs::is_directory(path), "", {}});
  if (!inodes_[id].is_folder) {
    std::ifstream file(path, std::ios::binary);
    inodes_[id].bytes.assign(std::istreambuf_iterator<char>(file), {});
    return id;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const Id child = read(entry.path());
    inodes_[id].names[entry.path().filename().string()] = child;
  }
  return id;
}

void Disk::write_to(const fs::path& folder) const { write(0, folder); }

void Disk::write(Id inode, const fs::path& path) const {
  const Inode& node = inodes_[inode];
  if (!node.is_folder) {
    std::ofstream(path, std::ios::binary) << node.bytes;
    return;
  }
  fs::create_directories(path);
  for (const auto& [name, child] : node.names) write(child, path / name);
}

bool Disk::below_root(const fs::path& path) const {
  return std::mismatch(root_path_.begin(), root_path_.end(), path.begin(), path.end()).first == root_path_.end();
}

Disk::Id Disk::find(const fs::path& path) const {
  Id id = 0;
  for (const fs::path& part : path.lexically_relative(root_path_)) {
    if (part != ".") id = inodes_[id].names.at(part.string());
  }
  return id;
}

void Disk::apply(const Event& event) {
  Inode& inode = inodes_[event.inode];
  switch (event.kind) {
    case Event::Kind::add:
      inode.names[event.name] = event.child;
      break;
    case Event::Kind::remove:
      inode.names.erase(event.name);
      break;
    case Event::Kind::move:
      inode.names.erase(event.name);
      inode.names[event.new_name] = event.child;
      break;
    case Event::Kind::write:
      if (inode.bytes.size() < event.offset + event.bytes.size()) inode.bytes.resize(event.offset + event.bytes.size());
      std::ranges::copy(event.bytes, inode.bytes.begin() + static_cast<std::ptrdiff_t>(event.offset));
      break;
    case Event::Kind::sync:
      break;
  }
}

std::vector<Disk::Event> Disk::events_of(const Call& call) {
  const fs::path path = call.path;
  if (call.result < 0 || !below_root(path)) return {};
  const auto named = [&](Event::Kind kind) {
    const Id folder = find(path.parent_path());
    const auto found = inodes_[folder].names.find(path.filename().string());
    return Event{kind, folder, path.filename().string(), "", found == inodes_[folder].names.end() ? 0 : found->second,
                 0,    ""};
  };
  const auto add = [&](bool is_folder) -> std::vector<Event> {
    Event event = named(Event::Kind::add);
    if (event.child != 0) return {};  // it existed before
    event.child = inodes_.size();
    inodes_.push_back({is_folder, "", {}});
    return {event};
  };
  switch (call.number) {
    case SYS_openat:
      if ((call.flags & O_TRUNC) != 0 && !inodes_[named(Event::Kind::add).child].bytes.empty())
        throw std::logic_error("O_TRUNC of " + call.path);
      return (call.flags & O_CREAT) != 0 ? add(false) : std::vector<Event>{};
    case SYS_mkdir:
      return add(true);
    case SYS_unlink:
    case SYS_rmdir:
    case SYS_unlinkat:
      return {named(Event::Kind::remove)};
    case SYS_rename: {
      Event event = named(Event::Kind::move);
      if (fs::path(call.second).parent_path() != path.parent_path()) throw std::logic_error("a move between folders");
      event.new_name = fs::path(call.second).filename().string();
      return {event};
    }
    case SYS_write: {
      const Id file = find(path);
      return {{Event::Kind::write, file, "", "", 0, inodes_[file].bytes.size(), call.bytes}};
    }
    case SYS_fsync:
    case SYS_fdatasync:
      return {{Event::Kind::sync, find(path), "", "", 0, 0, ""}};
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_ftruncate:
    case SYS_mmap:
      throw std::logic_error("a call that is not modelled on " + call.path);
    default:
      return {};
  }
}

Disk Disk::after_power_cut(const std::vector<Call>& calls, std::size_t cut, std::mt19937& random) const {
  Disk seen = *this;  // with every change of the program
  std::vector<Event> events;
  for (std::size_t i = 0; i < cut; ++i) {
    for (const Event& event : seen.events_of(calls[i])) {
      seen.apply(event);
      events.push_back(event);
    }
  }
  Disk image = *this;
  image.inodes_.resize(seen.inodes_.size());
  for (Id id = inodes_.size(); id < seen.inodes_.size(); ++id) image.inodes_[id].is_folder = seen.inodes_[id].is_folder;
  for (auto event = events.begin(); event != events.end(); ++event) {
    const bool lasts = std::any_of(event, events.end(), [&](const Event& later) {
      return later.kind == Event::Kind::sync && later.inode == event->inode;
    });
    Event on_disk = *event;
    if (!lasts) {
      const auto luck = random() % 4;
      if (luck == 0) continue;
      if (luck == 1 && event->kind == Event::Kind::write) on_disk.bytes.resize(event->bytes.size() / 2);
      if (luck == 2 && event->kind == Event::Kind::write)
        on_disk.bytes.assign(event->bytes.size(), random() % 2 != 0 ? '\0' : 'x');
    }
    image.apply(on_disk);
  }
  return image;
}

}  // namespace qrl::test
