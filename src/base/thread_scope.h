#pragma once

namespace qrl::base {

/// Sets, for its lifetime, the threads of parallel regions that the calling thread begins, LibTorch's included (0:
/// unchanged). Scopes nest. libgomp keeps a pool per thread that begins regions, so a decoder in another thread has its
/// own.
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
