#include "dist/shared_memory.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace qrl::dist {

namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

/// Returns a ring buffer's size: the largest power of two within an equal share of 64 MiB, but at least 16 KiB and at
/// most 1 MiB.
std::size_t ring_bytes_of(int num_ranks) {
  constexpr std::size_t kAll = std::size_t{64} << 20, kLeast = std::size_t{16} << 10, kMost = std::size_t{1} << 20;
  const std::size_t share = kAll / index(num_ranks) / index(num_ranks);
  std::size_t bytes = kLeast;
  while (bytes < kMost && 2 * bytes <= share) bytes *= 2;
  return bytes;
}

struct alignas(64) RankState {
  std::atomic<SharedMemory::End> end;
};

}  // namespace

SharedMemory::SharedMemory(int num_ranks) : num_ranks_(num_ranks), ring_bytes_(ring_bytes_of(num_ranks)) {
  const std::size_t num_rings = index(num_ranks) * index(num_ranks);
  total_bytes_ = index(num_ranks) * sizeof(RankState) + num_rings * (sizeof(Ring) + ring_bytes_);
  // New pages are zero, which is the initial value of every counter.
  void* memory = mmap(nullptr, total_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  QRL_REQUIRE(memory != MAP_FAILED, "--ranks", std::to_string(total_bytes_ >> 20) + " MiB of shared memory",
              std::string(std::strerror(errno)), "start fewer ranks");
  memory_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() { munmap(memory_, total_bytes_); }

std::atomic<SharedMemory::End>& SharedMemory::end_of(int rank) const {
  return reinterpret_cast<RankState*>(memory_)[rank].end;
}

std::byte* SharedMemory::at(int from, int to) const {
  const std::size_t ring = index(from) * index(num_ranks_) + index(to);
  return memory_ + index(num_ranks_) * sizeof(RankState) + ring * (sizeof(Ring) + ring_bytes_);
}

SharedMessages::SharedMessages(const SharedMemory& memory, int rank)
    : memory_(memory), rank_(rank), out_(index(memory.num_ranks())), in_(index(memory.num_ranks())) {}

void SharedMessages::begin_send(std::span<const std::byte> bytes, int to) {
  if (!bytes.empty()) out_[index(to)].push_back(bytes);
}

void SharedMessages::begin_receive(std::span<std::byte> bytes, int from) {
  if (!bytes.empty()) in_[index(from)].push_back(bytes);
}

void SharedMessages::begin_broadcast(std::span<std::byte> bytes, int root) {
  if (rank_ != root) return begin_receive(bytes, root);
  for (int peer = 0; peer < memory_.num_ranks(); ++peer) {
    if (peer != root) begin_send(bytes, peer);
  }
}

void SharedMessages::begin_barrier() {
  for (int peer = 0; peer < memory_.num_ranks(); ++peer) {
    if (peer == rank_) continue;
    begin_send({&sent_token_, 1}, peer);
    begin_receive({&received_token_, 1}, peer);
  }
}

Moved SharedMessages::poll() {
  std::uint64_t moved = 0;
  bool left = false;
  for (int peer = 0; peer < memory_.num_ranks(); ++peer) {
    if (peer == rank_) continue;
    moved += move_out(peer) + move_in(peer);
    left = left || !out_[index(peer)].empty() || !in_[index(peer)].empty();
  }
  if (!left) return Moved::all;
  if (moved > 0) return Moved::some;
  sched_yield();
  return Moved::nothing;
}

bool SharedMessages::waits_for(int peer) const { return !out_[index(peer)].empty() || !in_[index(peer)].empty(); }

void SharedMessages::end(double /*limit_s*/) {
  memory_.end_of(rank_).store(SharedMemory::End::together, std::memory_order_release);
}

std::uint64_t SharedMessages::move_out(int to) {
  SharedMemory::Ring& ring = memory_.ring(rank_, to);
  std::byte* const bytes = memory_.bytes_of_ring(rank_, to);
  const std::size_t size = memory_.ring_bytes();
  const std::uint64_t before = ring.written.load(std::memory_order_relaxed);
  const std::uint64_t limit = ring.read.load(std::memory_order_acquire) + size;
  std::uint64_t written = before;
  auto& rests = out_[index(to)];
  while (!rests.empty() && written < limit) {
    std::span<const std::byte>& rest = rests.front();
    const std::size_t place = written % size;
    const std::size_t count = std::min({rest.size(), limit - written, size - place});
    std::memcpy(bytes + place, rest.data(), count);
    written += count;
    rest = rest.subspan(count);
    if (rest.empty()) rests.pop_front();
  }
  ring.written.store(written, std::memory_order_release);
  return written - before;
}

std::uint64_t SharedMessages::move_in(int from) {
  SharedMemory::Ring& ring = memory_.ring(from, rank_);
  const std::byte* const bytes = memory_.bytes_of_ring(from, rank_);
  const std::size_t size = memory_.ring_bytes();
  const std::uint64_t before = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t written = ring.written.load(std::memory_order_acquire);
  std::uint64_t read = before;
  auto& rests = in_[index(from)];
  while (!rests.empty() && read < written) {
    std::span<std::byte>& rest = rests.front();
    const std::size_t place = read % size;
    const std::size_t count = std::min({rest.size(), written - read, size - place});
    std::memcpy(rest.data(), bytes + place, count);
    read += count;
    rest = rest.subspan(count);
    if (rest.empty()) rests.pop_front();
  }
  ring.read.store(read, std::memory_order_release);
  return read - before;
}

}  // namespace qrl::dist
