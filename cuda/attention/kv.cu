// Rotary positions, keys and values to their pages, copies of slots.
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::KvFormat;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxPairs = 4;  // a lane's, of a head of up to 256

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// A warp stores a head's values, each lane its pairs (i, i + half), in the pages' format.
struct HeadStore {
  const KvPages& pages;
  std::uint8_t* quantized;  // keys or values
  float* slot_scales;       // int8's
  float head_scale;         // fp8_e4m3's
  QRL_DEVICE void operator()(std::int64_t slot, std::int64_t half, const float* first, const float* second) const {
    std::uint8_t* to = quantized + pages.at.byte_at(slot);
    float scale = head_scale;
    if (pages.format == KvFormat::int8) {
      std::uint32_t largest = 0;
      for (int p = 0; p < kMaxPairs; ++p) {
        if (lane_idx() + 32 * p >= half) break;
        const std::uint32_t a = magnitude_of(first[p]), b = magnitude_of(second[p]);
        largest = a > largest ? a : largest;
        largest = b > largest ? b : largest;
      }
      largest = warp_max(largest);
      scale = largest < kInfinityBits ? float_of(largest) / 127.0F : float_of(kNanBits);
      if (lane_idx() == 0) slot_scales[slot] = scale;
    }
    for (int p = 0; p < kMaxPairs; ++p) {
      const std::int64_t i = lane_idx() + 32 * p;
      if (i >= half) break;
      put(to, i, first[p], scale);
      put(to, i + half, second[p], scale);
    }
  }
  QRL_DEVICE void put(std::uint8_t* to, std::int64_t e, float value, float scale) const {
    if (pages.format == KvFormat::bf16) reinterpret_cast<std::uint16_t*>(to)[e] = bf16_of(value);
    else if (pages.format == KvFormat::fp8_e4m3) to[e] = fp8_of(value / scale);
    else reinterpret_cast<std::int8_t*>(to)[e] = scale > 0 ? quantize_to_int(value, scale, 127.0F) : std::int8_t{0};
  }
};

/// A block a row and as many heads as it has warps.
QRL_KERNEL void rope_kernel(RopeTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x(), width = task.pages.head_dim, half = width / 2;
  const std::int64_t num_kv_heads = task.pages.at.num_kv_heads;
  const std::int64_t position = task.where.positions[row];
  if (position < 0) return;
  const float* cosines = task.rope_table + position * width;
  const std::int64_t head = block_y() * kWarps + warp_idx();
  if (head >= task.num_heads + 2 * num_kv_heads) return;
  const bool is_query = head < task.num_heads, is_value = head >= task.num_heads + num_kv_heads;
  float first[kMaxPairs], second[kMaxPairs];
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const std::int64_t i = lane_idx() + 32 * p;
    first[p] = second[p] = 0;
    if (i >= half) continue;
    first[p] = task.heads.at(row, head * width + i);
    second[p] = task.heads.at(row, head * width + half + i);
    if (task.bias != nullptr) {
      first[p] += task.bias[head * width + i];
      second[p] += task.bias[head * width + half + i];
    }
    squares = fmaf(first[p], first[p], squares);
    squares = fmaf(second[p], second[p], squares);
  }
  const float* gain = is_value ? nullptr : is_query ? task.q_norm_E : task.k_norm_E;
  float inverse = 1;
  if (gain != nullptr) inverse = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(width) + task.eps);
#pragma unroll
  for (int p = 0; p < kMaxPairs; ++p) {
    const std::int64_t i = lane_idx() + 32 * p;
    if (i >= half || is_value) continue;
    float a = first[p], b = second[p];
    if (gain != nullptr) {
      a = a * inverse * gain[i];
      b = b * inverse * gain[half + i];
    }
    const float cosine = cosines[i], sine = cosines[half + i];
    first[p] = fmaf(a, cosine, -(b * sine));
    second[p] = fmaf(b, cosine, a * sine);
  }
  if (is_query) {
    float* to = task.q + (row * task.num_heads + head) * width;
#pragma unroll
    for (int p = 0; p < kMaxPairs; ++p) {
      const std::int64_t i = lane_idx() + 32 * p;
      if (i >= half) continue;
      to[i] = first[p];
      to[half + i] = second[p];
    }
    return;
  }
  const std::int64_t kv_head = head - task.num_heads - (is_value ? num_kv_heads : 0);
  const std::int64_t slot = task.pages.slot_of(task.where.page_ids + task.where.first_pages[row], position, kv_head);
  const float* head_scales = is_value ? task.pages.value_head_scales_K : task.pages.key_head_scales_K;
  const HeadStore store{task.pages, is_value ? task.pages.values : task.pages.keys,
                        is_value ? task.pages.value_slot_scales : task.pages.key_slot_scales,
                        task.pages.format == KvFormat::fp8_e4m3 ? head_scales[kv_head] : 1.0F};
  store(slot, half, first, second);
}

/// A block a copy and kv head.
QRL_KERNEL void copy_kernel(CopyTask task) {
  wait_for_kernel_before();
  const std::int32_t* copy = task.copies + 3 * block_x();
  const KvLayout& at = task.pages.at;
  const std::int64_t from = at.slot(copy[0], block_y(), 0), to = at.slot(copy[1], block_y(), 0);
  const std::int64_t num_words = copy[2] * at.slot_bytes() / static_cast<std::int64_t>(sizeof(Words));
  for (std::uint8_t* quantized : {task.pages.keys, task.pages.values}) {
    const auto* source = reinterpret_cast<const Words*>(quantized + at.byte_at(from));
    auto* target = reinterpret_cast<Words*>(quantized + at.byte_at(to));
    for (std::int64_t i = thread_idx(); i < num_words; i += kThreads) target[i] = source[i];
  }
  if (task.pages.format != KvFormat::int8) return;
  for (float* scales : {task.pages.key_slot_scales, task.pages.value_slot_scales}) {
    for (std::int64_t i = thread_idx(); i < copy[2]; i += kThreads) scales[to + i] = scales[from + i];
  }
}

}  // namespace

void rope_and_store(const RopeTask& task, std::int64_t num_rows, const Stream& stream) {
  const std::int64_t num_heads = task.num_heads + 2 * task.pages.at.num_kv_heads;
  launch(rope_kernel, {num_rows, ceil_div(num_heads, kWarps)}, kThreads, 0, stream, task);
}

void copy_slots(const CopyTask& task, std::int64_t num_copies, const Stream& stream) {
  launch(copy_kernel, {num_copies, task.pages.at.num_kv_heads}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
