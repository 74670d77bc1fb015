// NCCL's functions that learner/nccl.cpp calls, for ranks that are threads of one process with tensors in host memory.
// Stricter than the real one: what a group was asked runs only at its end, and every rank must ask the same.
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInternalError = 3, kInvalidArgument = 4;

struct Job {
  std::mutex mutex;
  std::condition_variable met;
  int num_ranks = 0, waiting = 0, round = 0;
  std::vector<void*> buffers;
  std::vector<std::array<std::size_t, 3>> asked;  // kind, count, root

  void meet() {
    std::unique_lock lock(mutex);
    const int now = round;
    if (++waiting == num_ranks) {
      waiting = 0;
      ++round;
      met.notify_all();
    } else {
      met.wait(lock, [&] { return round != now; });
    }
  }
};

struct Rank {
  Job* job;
  std::size_t rank;
};

Job the_job;
thread_local bool in_group = false;
thread_local std::vector<std::function<int()>> queued;

/// Every rank's buffer is there; one rank acts, then all go on.
int together(Rank& mine, void* buffer, std::array<std::size_t, 3> what, const std::function<void(Job&)>& act) {
  Job& job = *mine.job;
  job.buffers[mine.rank] = buffer;
  job.asked[mine.rank] = what;
  job.meet();
  bool agree = true;
  for (const auto& theirs : job.asked) agree = agree && theirs == what;
  if (agree && mine.rank == 0) act(job);
  job.meet();
  return agree ? kSuccess : kInternalError;
}

int later(std::function<int()> run) {
  if (!in_group) return run();
  queued.push_back(std::move(run));
  return kSuccess;
}

void sum_into(const Job& job, std::size_t count, std::vector<float>& sums) {
  sums.assign(count, 0.0F);
  for (void* buffer : job.buffers) {
    for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<const float*>(buffer)[i];
  }
}

}  // namespace

extern "C" {

struct UniqueId {
  char bytes[128];
};

int ncclGetUniqueId(UniqueId* id) {
  std::memset(id->bytes, 7, sizeof(id->bytes));
  return kSuccess;
}

int ncclCommInitRank(void** comm, int num_ranks, UniqueId id, int rank) {
  if (id.bytes[0] != 7 || id.bytes[127] != 7) return kInvalidArgument;
  {
    const std::lock_guard lock(the_job.mutex);
    the_job.num_ranks = num_ranks;
    the_job.buffers.resize(static_cast<std::size_t>(num_ranks));
    the_job.asked.resize(static_cast<std::size_t>(num_ranks));
  }
  *comm = new Rank{&the_job, static_cast<std::size_t>(rank)};
  the_job.meet();
  return kSuccess;
}

int ncclCommDestroy(void* comm) {
  delete static_cast<Rank*>(comm);
  return kSuccess;
}

int ncclGroupStart() {
  in_group = true;
  return kSuccess;
}

int ncclGroupEnd() {
  in_group = false;
  int result = kSuccess;
  for (const auto& run : queued) result = result == kSuccess ? run() : result;
  queued.clear();
  return result;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, void* comm, void*) {
  if (type != 7 || op != 0 || from != to) return kInvalidArgument;
  return later([=] {
    return together(*static_cast<Rank*>(comm), to, {0, count, 0}, [count](Job& job) {
      std::vector<float> sums;
      sum_into(job, count, sums);
      for (void* buffer : job.buffers) std::memcpy(buffer, sums.data(), count * sizeof(float));
    });
  });
}

int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root, void* comm, void*) {
  if (type != 7 || op != 0 || from != to) return kInvalidArgument;
  return later([=] {
    const auto owner = static_cast<std::size_t>(root);
    return together(*static_cast<Rank*>(comm), to, {1, count, owner}, [count, owner](Job& job) {
      std::vector<float> sums;
      sum_into(job, count, sums);
      std::memcpy(job.buffers[owner], sums.data(), count * sizeof(float));
    });
  });
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* comm, void*) {
  if (type != 0 || from != to) return kInvalidArgument;
  return later([=] {
    const auto owner = static_cast<std::size_t>(root);
    return together(*static_cast<Rank*>(comm), to, {2, count, owner}, [count, owner](Job& job) {
      for (void* buffer : job.buffers) {
        if (buffer != job.buffers[owner]) std::memcpy(buffer, job.buffers[owner], count);
      }
    });
  });
}

const char* ncclGetErrorString(int result) { return result == kSuccess ? "no error" : "the stand-in's error"; }
}
