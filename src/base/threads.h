// Owns the process's one pool of worker threads, OpenMP's (libgomp.so.1), which LibTorch shares, and the division of
// work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace qrl::base {

/// A half-open index range.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// One thread of a team that runs a function together (SPMD).
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

/// Returns the default number of threads, also LibTorch's: OMP_NUM_THREADS, else usable processors.
int num_threads();
void set_num_threads(int count);  ///< 1 or more

/// Runs `body` on `num_threads` threads (0: num_threads()); nested calls run on the calling thread alone. Rethrows the
/// lowest rank's exception. A body that throws while others wait at a barrier would hang: check inputs before.
void parallel(int num_threads, const std::function<void(Team&)>& body);

/// Calls body(range) on each thread, for shares of [0, count) of at least `grain`.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body);

/// Sets, for its lifetime, the number of threads of the calling thread's parallel regions, including LibTorch's (0:
/// unchanged). Scopes nest. libgomp keeps a pool for each such thread.
class ThreadsInScope {
 public:
  explicit ThreadsInScope(int count);
  ~ThreadsInScope();
  ThreadsInScope(const ThreadsInScope&) = delete;
  ThreadsInScope& operator=(const ThreadsInScope&) = delete;

 private:
  int before_ = 0, omp_before_ = 0;  // omp_before_: 0 if there is nothing to restore
};

}  // namespace qrl::base
