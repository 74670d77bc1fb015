#pragma once

#include <cstdint>

#include "base/clock.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

inline constexpr std::int64_t kFewestCalls = 20;

/// Returns the mean seconds per call of call(0), …, call(count − 1) in the best of five rounds. A round is a CUDA
/// graph, because launching a small kernel takes as long as running it.
template <class Call>
double best_s(std::int64_t count, const Stream& stream, Call call) {
  constexpr int kRounds = 5;
  const auto call_all = [&] {
    for (std::int64_t i = 0; i < count; ++i) call(i);
  };
  call_all();  // before the capture, because first calls choose kernels and allocate
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

/// Reads num_bytes bytes of device memory (a multiple of 16) once, with 16-byte loads. Writes num_read_sums(num_bytes)
/// partial sums of the 32-bit words (mod 2³²).
struct ReadTask {
  const void* from;
  std::int64_t num_bytes;
  std::uint32_t* sums;
};
std::int64_t num_read_sums(std::int64_t num_bytes);
void read_once(const ReadTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
