// Owns how benchmarks time kernels: many calls as one CUDA graph, the best of some rounds by the host's clock; and the
// kernel that they compare others with, which reads memory once.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// Calls in a round at least.
inline constexpr std::int64_t kFewestCalls = 20;

/// Returns the seconds of one of `count` calls of call(i), in the best of five rounds. A round is a CUDA graph, as a
/// tick is, since launching each kernel takes the host as long as a small one runs.
template <class Call>
double best_s(std::int64_t count, const Stream& stream, Call call) {
  constexpr int kRounds = 5;
  const auto call_all = [&] {
    for (std::int64_t i = 0; i < count; ++i) call(i);
  };
  call_all();  // the first calls choose kernels and allocate, which a capture does not allow
  stream.wait();
  const Graph graph(stream, call_all);
  double best = 0;
  for (int round = -1; round < kRounds; ++round) {  // one to warm up
    const double start_s = base::now_s();
    graph.launch(stream);
    stream.wait();
    const double taken_s = (base::now_s() - start_s) / static_cast<double>(count);
    if (round == 0 || (round > 0 && taken_s < best)) best = taken_s;
  }
  return best;
}

/// Reads every word of `from` once, 16 bytes a load, and leaves num_read_sums(num_bytes) sums of them (mod 2³²), which
/// together are the sum of all words. num_bytes: a multiple of 16. Pointers are the device's.
struct ReadTask {
  const void* from;
  std::int64_t num_bytes;
  std::uint32_t* sums;
};
std::int64_t num_read_sums(std::int64_t num_bytes);
void read_once(const ReadTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
