#include "base/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <vector>

#include "base/error.h"
#include "base/limits.h"

#if defined(__SANITIZE_THREAD__)
// Tells ThreadSanitizer the order of fork and join, because libgomp is not instrumented.
extern "C" void __tsan_acquire(void* tag);
extern "C" void __tsan_release(void* tag);
#define QRL_TSAN(call) call
#else
#define QRL_TSAN(call)
#endif

namespace qrl::base {

namespace {

std::atomic<int> g_num_threads{0};
thread_local int t_num_threads = 0;  // set by ThreadsInScope; 0: not set
[[maybe_unused]] char g_fork_tag, g_join_tag;

}  // namespace

Range Team::slice(std::int64_t count, std::int64_t grain) const {
  const std::int64_t units = (count + grain - 1) / grain;
  return {std::min(count, units * rank_ / size_ * grain), std::min(count, units * (rank_ + 1) / size_ * grain)};
}

void Team::barrier() {
  if (size_ == 1) return;
  const int phase = meeting_->phase.load(std::memory_order_acquire);
  if (meeting_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    meeting_->arrived.store(0, std::memory_order_relaxed);
    meeting_->phase.store(phase + 1, std::memory_order_release);
    return;
  }
  // Spins first, because other threads normally arrive within microseconds. Then yields, because on a busy machine they
  // may not be running.
  for (int spins = 0; meeting_->phase.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < 4096) __builtin_ia32_pause();
    else sched_yield();
  }
}

int num_threads() {
  if (t_num_threads > 0) return t_num_threads;
  const int count = g_num_threads.load();
  if (count > 0) return count;
  static const int standard = std::getenv("OMP_NUM_THREADS") != nullptr
                                  ? omp_get_max_threads()
                                  : std::min(omp_get_max_threads(), usable_processors());
  return standard;
}

void set_num_threads(int count) {
  QRL_INVARIANT(count >= 1, "threads", "1 or more", std::to_string(count));
  g_num_threads.store(count);
  omp_set_num_threads(count);
}

ThreadsInScope::ThreadsInScope(int count) {
  QRL_INVARIANT(count >= 0, "threads", "0 or more", std::to_string(count));
  if (count == 0) return;
  before_ = t_num_threads;
  omp_before_ = omp_get_max_threads();
  t_num_threads = count;
  omp_set_num_threads(count);
}

ThreadsInScope::~ThreadsInScope() {
  if (omp_before_ == 0) return;
  t_num_threads = before_;
  omp_set_num_threads(omp_before_);
}

void parallel(int count, const std::function<void(Team&)>& body) {
  if (count == 0) count = num_threads();
  if (count == 1 || omp_in_parallel()) {
    Team team = Team::solo();
    body(team);
    return;
  }
  Team::Meeting meeting;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  QRL_TSAN(__tsan_release(&g_fork_tag));
#pragma omp parallel num_threads(count)
  {
    QRL_TSAN(__tsan_acquire(&g_fork_tag));
    // OpenMP may start fewer threads than requested.
    Team team(omp_get_thread_num(), omp_get_num_threads(), &meeting);
    try {
      body(team);
    } catch (...) {
      errors[static_cast<std::size_t>(team.rank())] = std::current_exception();
    }
    QRL_TSAN(__tsan_release(&g_join_tag));
  }
  QRL_TSAN(__tsan_acquire(&g_join_tag));
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(Range)>& body) {
  const std::int64_t useful = std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, num_threads());
  parallel(static_cast<int>(useful), [&](Team& team) {
    const Range range = team.slice(count);
    if (range.size() > 0) body(range);
  });
}

}  // namespace qrl::base
