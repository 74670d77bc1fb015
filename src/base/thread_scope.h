// Owns the number of threads that the parallel regions of one part of the program use.
#pragma once

namespace qrl::base {

/// Sets the number of threads of parallel regions that the calling thread begins, LibTorch's included, during its
/// lifetime. A `count` of 0 changes nothing. Scopes nest. libgomp keeps a pool of workers for each thread that begins
/// regions, so a decoder in another thread has its own pool.
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
