#include "cuda/attention/kv.h"
#include "cuda/runtime/row_block.cuh"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::uint32_t kLargestFinite = 0x7f7f;
constexpr int kVector = 8;  // bf16 numbers per load

struct alignas(16) Vector {
  std::uint16_t bits[kVector];
};

QRL_DEVICE std::uint32_t count_above(const KvPercentileTask& task, const Vector* quantized, std::uint32_t magnitude,
                                     std::uint32_t* exchange) {
  const std::int64_t per_head = task.at.page_size * task.at.padded_dim / kVector;
  const std::int64_t per_page = per_head * task.at.num_kv_heads;
  std::uint32_t count = 0;
  for (std::int64_t page = 0; page < task.num_pages; ++page) {
    const Vector* head = quantized + page * per_page + block_x() * per_head;
    for (std::int64_t i = thread_idx(); i < per_head; i += kThreads) {
      const Vector some = head[i];
#pragma unroll
      for (int e = 0; e < kVector; ++e) count += (some.bits[e] & 0x7fffU) > magnitude ? 1U : 0U;
    }
  }
  for (int mask = 16; mask > 0; mask /= 2) count += shuffle_xor(count, mask);
  if (lane_idx() == 0) exchange[warp_idx()] = count;
  sync_block();
  std::uint32_t total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += exchange[warp];
  sync_block();
  return total;
}

/// Finds percentiles by bisection. One block handles a kv head's keys, another its values. The bits of |bf16| numbers
/// sort like the numbers, so 15 calls of count_above suffice for the bisection.
QRL_KERNEL void kv_percentile_kernel(KvPercentileTask task) {
  wait_for_kernel_before();
  auto* exchange = reinterpret_cast<std::uint32_t*>(shared_memory());
  const bool is_value = block_y() == 1;
  const auto* quantized = reinterpret_cast<const Vector*>(is_value ? task.values : task.keys);
  const bool finite = count_above(task, quantized, kLargestFinite, exchange) == 0;
  std::uint32_t low = 0, high = kLargestFinite;
  while (finite && low < high) {
    const std::uint32_t middle = (low + high) / 2;
    if (count_above(task, quantized, middle, exchange) <= task.num_above) high = middle;
    else low = middle + 1;
  }
  if (thread_idx() == 0)
    (is_value ? task.values_K : task.keys_K)[block_x()] = finite ? float_of(low << 16) : float_of(kNanBits);
}

}  // namespace

void kv_percentiles(const KvPercentileTask& task, const Stream& stream) {
  launch(kv_percentile_kernel, {task.at.num_kv_heads, 2}, kThreads, kWarps * sizeof(std::uint32_t), stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
