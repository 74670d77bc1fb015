#include "cuda/bench/timing.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256;

struct alignas(16) Words {
  std::uint32_t word[4];
};
/// kLoads: number of loads that a thread issues together; kTurns: how often it does so.
constexpr int kLoads = 8, kTurns = 4;
constexpr std::int64_t kWordsOfBlock = std::int64_t{kLoads} * kTurns * kThreads;

QRL_KERNEL void read_kernel(ReadTask task) {
  wait_for_kernel_before();
  const auto* from = static_cast<const Words*>(task.from);
  const std::int64_t end = task.num_bytes / static_cast<std::int64_t>(sizeof(Words));
  std::uint32_t sum = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t first = block_x() * kWordsOfBlock + turn * kLoads * kThreads + thread_idx();
    Words loaded[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) loaded[i] = first + i * kThreads < end ? from[first + i * kThreads] : Words{};
#pragma unroll
    for (const Words& words : loaded) sum += words.word[0] + words.word[1] + words.word[2] + words.word[3];
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (lane_idx() == 0) task.sums[block_x() * (kThreads / 32) + warp_idx()] = sum;
}

}  // namespace

std::int64_t num_read_sums(std::int64_t num_bytes) {
  return ceil_div(num_bytes, kWordsOfBlock * static_cast<std::int64_t>(sizeof(Words))) * (kThreads / 32);
}
void read_once(const ReadTask& task, const Stream& stream) {
  launch(read_kernel, {num_read_sums(task.num_bytes) / (kThreads / 32)}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
