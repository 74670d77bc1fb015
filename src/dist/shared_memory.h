#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "dist/messages.h"

namespace qrl::dist {

/// Holds a job's shared memory, which child processes inherit: a ring buffer for each ordered pair of ranks, and an End
/// for each rank.
class SharedMemory {
 public:
  /// Throws an input error if the machine refuses the memory.
  explicit SharedMemory(int num_ranks);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Counts all bytes that one rank wrote to a ring buffer, and all bytes that another rank read from it.
  struct alignas(64) Ring {
    std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
  };
  enum class End : std::uint32_t {
    none,      ///< still running, or ended without a message
    together,  ///< ended after the last barrier, with the other ranks
    aborted,   ///< ended the job and printed why
  };

  int num_ranks() const { return num_ranks_; }
  std::size_t ring_bytes() const { return ring_bytes_; }
  Ring& ring(int from, int to) const { return *reinterpret_cast<Ring*>(at(from, to)); }
  std::byte* bytes_of_ring(int from, int to) const { return at(from, to) + sizeof(Ring); }
  std::atomic<End>& end_of(int rank) const;

 private:
  std::byte* at(int from, int to) const;

  int num_ranks_;
  std::size_t ring_bytes_, total_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

class SharedMessages final : public Messages {
 public:
  SharedMessages(const SharedMemory& memory, int rank);

  Place place() const override { return {rank_, memory_.num_ranks(), rank_, memory_.num_ranks()}; }
  void begin_send(std::span<const std::byte> bytes, int to) override;
  void begin_receive(std::span<std::byte> bytes, int from) override;
  void begin_broadcast(std::span<std::byte> bytes, int root) override;
  void begin_barrier() override;
  Moved poll() override;
  bool waits_for(int peer) const override;
  void end(double limit_s) override;

 private:
  std::uint64_t move_out(int to);
  std::uint64_t move_in(int from);

  const SharedMemory& memory_;
  int rank_;
  std::vector<std::deque<std::span<const std::byte>>> out_;  ///< data not sent yet, in order, per receiver
  std::vector<std::deque<std::span<std::byte>>> in_;         ///< buffers not filled yet, in order, per sender
  std::byte sent_token_ = {}, received_token_ = {};          ///< bytes that a barrier exchanges
};

}  // namespace qrl::dist
