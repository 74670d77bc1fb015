// Owns the process's one pool of worker threads and the division of work among them. The pool is that of OpenMP
// (libgomp.so.1), which LibTorch also uses, so both share the processors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace qrl::base {

/// Holds a half-open index range.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Represents one thread of a team that runs a function together (SPMD). Each thread has its own Team.
class Team {
 public:
  /// Returns a team with the calling thread only.
  static Team solo() { return Team(0, 1, nullptr); }

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Returns this thread's contiguous share of [0, count), cut at multiples of `grain`.
  Range slice(std::int64_t count, std::int64_t grain = 1) const;

  /// Waits for all threads of the team. Memory that any of them wrote before is visible to all after.
  void barrier();

 private:
  friend void parallel(int num_threads, const std::function<void(Team&)>& body);
  struct alignas(64) Meeting {
    std::atomic<int> arrived{0};
    std::atomic<int> phase{0};
  };
  Team(int rank, int size, Meeting* meeting) : rank_(rank), size_(size), meeting_(meeting) {}
  int rank_;
  int size_;
  Meeting* meeting_;
};

/// Returns the default of `parallel` and of LibTorch: OMP_NUM_THREADS, else the processors that this process may run
/// on.
int num_threads();
void set_num_threads(int count);  ///< 1 or more

/// Runs `body` on `num_threads` threads (0: num_threads()) and returns when all have ended. A nested call runs on the
/// calling thread only. The exception of the lowest rank is rethrown after all threads have ended. A body that throws
/// while others wait at a barrier would hang them, so bodies check their inputs before the first barrier.
void parallel(int num_threads, const std::function<void(Team&)>& body);

/// Splits [0, count) over the threads, at least `grain` indices each, and calls body(range) on each.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body);

}  // namespace qrl::base
