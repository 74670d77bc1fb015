// Owns the process's one pool of worker threads and the way work is split over it. Knows nothing of the work.
//
// The pool is OpenMP's, because LibTorch brings the same one (libgomp.so.1): its operators and ours then share two
// workers instead of fighting with four.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace qrl::base {

/// Half-open index range.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Threads that run one function together (SPMD). Each member holds its own Team; the members share the barrier.
class Team {
 public:
  /// A team of the calling thread alone: every slice is the whole, barriers cost nothing.
  static Team solo() { return Team(0, 1, nullptr); }

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// This member's contiguous share of [0, count), cut only at multiples of `grain`; members' shares partition it.
  Range slice(std::int64_t count, std::int64_t grain = 1) const;

  /// Waits until every member is here; what was written before is visible after.
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

/// Threads that `parallel` uses when told 0, and that LibTorch is given: OMP_NUM_THREADS, else the processors this
/// process may run on.
int num_threads();
void set_num_threads(int count);  ///< 1 or more

/// Runs `body` on `num_threads` threads (0: num_threads()) and returns when all have ended. Calls do not nest: inside
/// a body it runs on the calling thread alone. The first exception (lowest rank) is rethrown after all have ended; a
/// body that throws while others wait at a barrier would hang them, so bodies check their inputs before the first one.
void parallel(int num_threads, const std::function<void(Team&)>& body);

/// Splits [0, count) over all threads, at least `grain` indices each, and calls body(range) on each.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body);

}  // namespace qrl::base
