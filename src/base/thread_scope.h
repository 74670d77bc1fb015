// Owns how many threads the parallel regions of one part of the program have. Knows nothing of the work.
#pragma once

namespace qrl::base {

/// While it lives, regions that the calling thread begins have `count` threads, LibTorch's too; 0: as many as before.
/// Scopes nest. It is how decoder and learner use the number of threads that they are given.
///
/// libgomp keeps workers for each thread that begins regions. So the decoder that another thread calls has a pool of
/// its own.
class ThreadsInScope {
 public:
  explicit ThreadsInScope(int count);
  ~ThreadsInScope();
  ThreadsInScope(const ThreadsInScope&) = delete;
  ThreadsInScope& operator=(const ThreadsInScope&) = delete;

 private:
  int before_ = 0, omp_before_ = 0;  // omp_before_ 0: nothing was set
};

}  // namespace qrl::base
