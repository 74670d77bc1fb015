// Owns the division of work among OpenMP's threads (libgomp.so.1). These are the process's only thread pool; LibTorch
// shares it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace qrl::base {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Represents one thread of a team whose threads run the same function (SPMD).
class Team {
 public:
  static Team solo() { return Team(0, 1, nullptr); }

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Returns this thread's share of [0, count), cut at multiples of `grain`.
  Range slice(std::int64_t count, std::int64_t grain = 1) const;

  /// Waits for all threads of the team, whose earlier writes are then visible.
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

/// Returns the number of threads of a parallel region. ThreadsInScope has priority, then set_num_threads,
/// OMP_NUM_THREADS and usable_processors().
int num_threads();
void set_num_threads(int count);  ///< 1 or more

/// Runs `body` on `num_threads` threads, or on num_threads() threads if 0. Nested calls run on the calling thread
/// alone. Rethrows the exception of the lowest rank. Hangs if a body throws while other threads wait at a barrier, so
/// check inputs beforehand.
void parallel(int num_threads, const std::function<void(Team&)>& body);

/// Calls body(range) on each thread for its share of [0, count). Shares have at least `grain` items.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body);

/// While it lives, sets the number of threads in parallel regions that the calling thread starts, including LibTorch's.
/// A count of 0 changes nothing. Scopes nest.
class ThreadsInScope {
 public:
  explicit ThreadsInScope(int count);
  ~ThreadsInScope();
  ThreadsInScope(const ThreadsInScope&) = delete;
  ThreadsInScope& operator=(const ThreadsInScope&) = delete;

 private:
  int before_ = 0, omp_before_ = 0;  // omp_before_ 0: nothing to restore
};

}  // namespace qrl::base
