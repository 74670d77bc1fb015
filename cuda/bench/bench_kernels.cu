// Kernels that only benchmarks launch.
#include "cuda/bench/bench_kernels.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Element;

constexpr int kThreads = 256;
constexpr std::int64_t kValuesOfBlock = 16 * kThreads;

/// A word that depends on the seed and the index alone (splitmix64's finalizer).
QRL_DEVICE std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t word = (seed << 56) + (index + 1) * 0x9e3779b97f4a7c15U;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31);
}

/// Inverse of the error function for x in (−1, 1), to some 1e-6 (M. Giles, "Approximating the erfinv function", GPU
/// Computing Gems 2): logarithms and polynomials, as sines of any number would need memory of a thread's own.
QRL_DEVICE float inverse_erf(float x) {
  constexpr float kMiddle[] = {2.81022636e-08F, 3.43273939e-07F, -3.5233877e-06F, -4.39150654e-06F, 0.00021858087F,
                               -0.00125372503F, -0.00417768164F, 0.246640727F,    1.50140941F};
  constexpr float kTail[] = {-0.000200214257F, 0.000100950558F, 0.00134934322F, -0.00367342844F, 0.00573950773F,
                             -0.0076224613F,   0.00943887047F,  1.00167406F,    2.83297682F};
  const float w = -logf((1.0F - x) * (1.0F + x));
  const bool is_tail = w >= 5.0F;
  const float t = is_tail ? sqrtf(w) - 3.0F : w - 2.5F;
  float p = is_tail ? kTail[0] : kMiddle[0];
#pragma unroll
  for (int i = 1; i < 9; ++i) p = fmaf(p, t, is_tail ? kTail[i] : kMiddle[i]);
  return p * x;
}

/// One of 2²³ equally likely quantiles of the normal distribution, symmetric about 0.
QRL_DEVICE float normal_at(std::uint64_t seed, std::int64_t index) {
  constexpr float kSqrt2 = 1.41421356F;
  const auto bits = static_cast<std::uint32_t>(random_word(seed, static_cast<std::uint64_t>(index)) >> 41);  // 23
  return kSqrt2 * inverse_erf((static_cast<float>(bits) + 0.5F) * 0x1p-22F - 1.0F);  // exact up to inverse_erf
}

QRL_KERNEL void fill_normal_kernel(NormalTask task) {
  wait_for_kernel_before();
  const std::int64_t begin = block_x() * kValuesOfBlock;
  const std::int64_t end = begin + kValuesOfBlock < task.count ? begin + kValuesOfBlock : task.count;
  for (std::int64_t i = begin + thread_idx(); i < end; i += kThreads) {
    const float value = task.sigma * normal_at(task.seed, i);
    switch (task.element) {
      case Element::bf16:
        static_cast<std::uint16_t*>(task.to)[i] = bf16_of(value);
        break;
      case Element::int8:
        static_cast<std::int8_t*>(task.to)[i] = quantize_to_int(value, 1.0F, 127.0F);
        break;
      case Element::fp8_e4m3:
        static_cast<std::uint8_t*>(task.to)[i] = fp8_of(value);
        break;
      default:
        static_cast<float*>(task.to)[i] = value;
    }
  }
}

struct alignas(16) Words {
  std::uint32_t word[4];
};
/// Loads of a thread that are under way together, and how often: a block has 32 KiB of them in flight, 128 KiB in all.
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

void fill_normal(const NormalTask& task, const Stream& stream) {
  launch(fill_normal_kernel, {ceil_div(task.count, kValuesOfBlock)}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
