// Implements the NCCL functions that learner/tensors/nccl.cpp calls, for ranks that are threads of one process with
// tensors in host memory. It is stricter than NCCL: a group's operations begin only at its end, and complete only when
// a rank queries for errors. Until then, memory that receives is NaN, and memory in transit must not be written. Every
// rank must call the same operations. nccl_faults.h orders delays and lost ranks.
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_faults.h"

namespace {

constexpr int kSuccess = 0, kInternalError = 3, kInvalidArgument = 4, kRemoteError = 6;

NcclFaults the_faults;
std::atomic<int> num_aborted = 0, num_delays = 0;

struct Job {
  std::mutex mutex;
  std::condition_variable met;
  int num_ranks = 0, waiting = 0, round = 0, joined = 0;
  bool has_lost = false;  // a rank
  int parted = 0;         // communicators that were destroyed or aborted
  std::vector<void*> buffers;
  std::vector<std::array<std::size_t, 4>> asked;  // kind, count, root, and whether it was written before completion

  /// Begins a job with its first rank.
  void join(int count) {
    const std::lock_guard lock(mutex);
    if (joined++ == 0) {
      num_ranks = count;
      waiting = parted = 0;
      has_lost = false;
      buffers.assign(static_cast<std::size_t>(count), nullptr);
      asked.assign(static_cast<std::size_t>(count), {});
    }
    if (joined == count) joined = 0;
  }

  /// Returns false if a rank is lost before all ranks are here.
  [[nodiscard]] bool meet() {
    std::unique_lock lock(mutex);
    const int now = round;
    if (++waiting == num_ranks) {
      waiting = 0;
      ++round;
      met.notify_all();
    } else {
      met.wait(lock, [&] { return round != now || has_lost; });
    }
    return round != now;
  }

  void part() {
    const std::lock_guard lock(mutex);
    ++parted;
    met.notify_all();
  }

  /// Plays a rank that was killed: takes part in nothing until the others are gone, which may take 20 s.
  void lose() {
    std::unique_lock lock(mutex);
    has_lost = true;
    met.notify_all();
    (void)met.wait_for(lock, std::chrono::seconds(20), [&] { return parted == num_ranks - 1; });
  }
};

struct Rank;

/// Holds one operation of a rank, queued in call order.
struct Exchange {
  Rank* mine;
  void* buffer;
  std::size_t num_bytes;
  std::array<std::size_t, 3> what;
  bool receives;
  std::function<void(Job&)> act;
  std::vector<std::byte> left;  // the buffer's bytes at the start
};

struct Rank {
  Job* job;
  std::size_t rank;
  std::vector<Exchange> begun;
  NcclFaults faults;
  int num_calls = 0;
  std::minstd_rand random;

  /// Sleeps, or is lost, as the faults have it. Returns whether this rank goes on.
  bool goes_on() {
    if (faults.most_delay_us > 0) {
      ++num_delays;
      const auto most = static_cast<unsigned>(faults.most_delay_us);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % (most + 1)));
    }
    if (num_calls++ != faults.lost_in || static_cast<int>(rank) != faults.lost_rank) return true;
    job->lose();
    return false;
  }
};

Job the_job;
thread_local bool in_group = false;
thread_local std::vector<Exchange> queued;

void begin(Exchange exchange) {
  auto* bytes = static_cast<std::byte*>(exchange.buffer);
  if (exchange.receives) std::memset(bytes, 0xff, exchange.num_bytes);  // NaN, as bf16 and as fp32
  exchange.left.assign(bytes, bytes + exchange.num_bytes);
  exchange.mine->begun.push_back(std::move(exchange));
}

int ask(Exchange exchange) {
  if (in_group) queued.push_back(std::move(exchange));
  else begin(std::move(exchange));
  return kSuccess;
}

/// Waits until every rank has registered its buffer; rank 0 acts, then all continue.
int together(const Exchange& exchange) {
  const std::size_t rank = exchange.mine->rank;
  Job& job = *exchange.mine->job;
  const bool written = std::memcmp(exchange.buffer, exchange.left.data(), exchange.num_bytes) != 0;
  job.buffers[rank] = exchange.buffer;
  job.asked[rank] = {exchange.what[0], exchange.what[1], exchange.what[2], written ? 1U : 0U};
  if (!job.meet()) return kRemoteError;
  bool agree = true;
  for (const auto& theirs : job.asked) agree = agree && theirs == job.asked[0] && theirs[3] == 0;
  if (agree && rank == 0) exchange.act(job);
  if (!job.meet()) return kRemoteError;
  return agree ? kSuccess : kInternalError;
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

int ncclGetVersion(int* version) {
  *version = 22809;
  return kSuccess;
}
int ncclGetUniqueId(UniqueId* id) {
  std::memset(id->bytes, 7, sizeof(id->bytes));
  return kSuccess;
}

int ncclCommInitRank(void** comm, int num_ranks, UniqueId id, int rank) {
  if (id.bytes[0] != 7 || id.bytes[127] != 7) return kInvalidArgument;
  the_job.join(num_ranks);
  *comm = new Rank{&the_job, static_cast<std::size_t>(rank),
                   {},       the_faults,
                   0,        std::minstd_rand(the_faults.seed * 97 + static_cast<unsigned>(rank) + 1)};
  return the_job.meet() ? kSuccess : kRemoteError;
}

int ncclCommDestroy(void* comm) {
  static_cast<Rank*>(comm)->job->part();
  delete static_cast<Rank*>(comm);
  return kSuccess;
}

int ncclCommAbort(void* comm) {
  ++num_aborted;
  return ncclCommDestroy(comm);
}

void nccl_stand_in_set_faults(const NcclFaults* faults) {
  the_faults = *faults;
  num_aborted = num_delays = 0;
}
int nccl_stand_in_num_aborted() { return num_aborted; }
int nccl_stand_in_num_delays() { return num_delays; }

int ncclGroupStart() {
  in_group = true;
  return kSuccess;
}

int ncclGroupEnd() {
  in_group = false;
  if (!queued.empty() && !queued.front().mine->goes_on()) {
    queued.clear();
    return kInternalError;
  }
  for (Exchange& exchange : std::exchange(queued, {})) begin(std::move(exchange));
  return kSuccess;
}

int ncclCommGetAsyncError(void* comm, int* error) {
  *error = kSuccess;
  if (!static_cast<Rank*>(comm)->goes_on()) return kInternalError;
  for (const Exchange& exchange : std::exchange(static_cast<Rank*>(comm)->begun, {}))
    *error = *error == kSuccess ? together(exchange) : *error;
  return kSuccess;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, void* comm, void*) {
  if (type != 7 || op != 0 || from != to) return kInvalidArgument;
  const auto act = [count](Job& job) {
    std::vector<float> sums;
    sum_into(job, count, sums);
    for (void* buffer : job.buffers) std::memcpy(buffer, sums.data(), count * sizeof(float));
  };
  return ask({static_cast<Rank*>(comm), to, count * sizeof(float), {0, count, 0}, false, act, {}});
}

int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root, void* comm, void*) {
  if (type != 7 || op != 0 || from != to) return kInvalidArgument;
  const auto owner = static_cast<std::size_t>(root);
  const auto act = [count, owner](Job& job) {
    std::vector<float> sums;
    sum_into(job, count, sums);
    std::memcpy(job.buffers[owner], sums.data(), count * sizeof(float));
  };
  return ask({static_cast<Rank*>(comm), to, count * sizeof(float), {1, count, owner}, false, act, {}});
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* comm, void*) {
  if (type != 0 || from != to) return kInvalidArgument;
  const auto owner = static_cast<std::size_t>(root);
  auto* mine = static_cast<Rank*>(comm);
  const auto act = [count, owner](Job& job) {
    for (void* buffer : job.buffers) {
      if (buffer != job.buffers[owner]) std::memcpy(buffer, job.buffers[owner], count);
    }
  };
  return ask({mine, to, count, {2, count, owner}, mine->rank != owner, act, {}});
}

const char* ncclGetErrorString(int result) { return result == kSuccess ? "no error" : "the stand-in's error"; }
}
