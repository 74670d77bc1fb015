// Owns how benchmarks time kernels: many calls in one CUDA graph, the best of some rounds by the host's clock. Also
// owns the reference kernel, which reads memory once.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

inline constexpr std::int64_t kFewestCalls = 20;

/// Returns the seconds per call of call(0 … count − 1), in the best of five rounds. A round is a CUDA graph, like a
/// tick, since the host needs as long to launch a small kernel as the kernel runs.
template <class Call>
double best_s(std::int64_t count, const Stream& stream, Call call) {
  constexpr int kRounds = 5;
  const auto call_all = [&] {
    for (std::int64_t i = 0; i < count; ++i) call(i);
  };
  call_all();  // first calls choose kernels and allocate, which a capture forbids
  stream.wait();
  const Graph graph(stream, call_all);
  double best = 0;
  for (int round = -1; round < kRounds; ++round) {  // round −1 warms up
    const double start_s = base::now_s();
    graph.launch(stream);
    stream.wait();
    const double taken_s = (base::now_s() - start_s) / static_cast<double>(count);
    if (round == 0 || (round > 0 && taken_s < best)) best = taken_s;
  }
  return best;
}

/// Reads every word of `from` once, with 16-byte loads. Writes num_read_sums(num_bytes) partial sums (mod 2³²), which
/// add up to the sum of all words. num_bytes is a multiple of 16. Pointers are device memory.
struct ReadTask {
  const void* from;
  std::int64_t num_bytes;
  std::uint32_t* sums;
};
std::int64_t num_read_sums(std::int64_t num_bytes);
void read_once(const ReadTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
