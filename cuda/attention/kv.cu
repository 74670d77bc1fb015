#include "cuda/attention/kv.h"
#include "cuda/runtime/target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::KvFormat;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Places the pairs that a head's lanes hold: those that rotate together, then the other elements.
struct Pairs {
  int half, rotating;  ///< number of all pairs, and of those that rotate
  QRL_DEVICE int low(int i) const { return i < rotating ? i : i + rotating; }
  QRL_DEVICE int high(int i) const { return i < rotating ? i + rotating : i + half; }
};

/// Stores a head's key or value in the pages' format, in one warp. Each lane holds pairs of elements.
template <KvFormat kFormat, int kPairs>
struct HeadStore {
  const KvPages& pages;
  std::uint8_t* quantized;  // keys or values
  float* slot_scales;       // int8 only
  float head_scale;         // fp8_e4m3 only
  QRL_DEVICE void operator()(std::int64_t slot, const Pairs& pairs, const float (&first)[kPairs],
                             const float (&second)[kPairs]) const {
    std::uint8_t* to = quantized + pages.at.byte_at(slot);
    float scale = head_scale;
    if constexpr (kFormat == KvFormat::int8) {
      std::uint32_t largest = 0;  // absent pairs are 0
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const std::uint32_t a = magnitude_of(first[p]), b = magnitude_of(second[p]);
        largest = a > largest ? a : largest;
        largest = b > largest ? b : largest;
      }
      largest = warp_max(largest);
      scale = largest < kInfinityBits ? float_of(largest) / 127.0F : float_of(kNanBits);
      if (lane_idx() == 0) slot_scales[slot] = scale;
    }
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int i = lane_idx() + 32 * p;
      if (i < pairs.half) put(to, pairs.low(i), pairs.high(i), first[p], second[p], scale);
    }
  }
  QRL_DEVICE static void put(std::uint8_t* to, int i, int j, float first, float second, float scale) {
    if constexpr (kFormat == KvFormat::bf16) {
      const std::uint32_t pair = bf16x2_of(first, second);
      reinterpret_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(pair);
      reinterpret_cast<std::uint16_t*>(to)[j] = static_cast<std::uint16_t>(pair >> 16);
    } else if constexpr (kFormat == KvFormat::fp8_e4m3) {
      const std::uint32_t word = fp8x4_of({first / scale, second / scale, 0, 0});
      to[i] = static_cast<std::uint8_t>(word);
      to[j] = static_cast<std::uint8_t>(word >> 8);
    } else {
      const auto quantize = [&](float value) {
        return scale > 0 ? quantize_to_int(value, scale, 127.0F) : std::int8_t{0};
      };
      reinterpret_cast<std::int8_t*>(to)[i] = quantize(first);
      reinterpret_cast<std::int8_t*>(to)[j] = quantize(second);
    }
  }
};

constexpr int kWarpHeads = 2;

/// kPairs: number of pairs per lane and head.
template <KvFormat kFormat, int kPairs>
QRL_KERNEL_OF(kThreads, kPairs <= 2 ? 10 : 8)
void rope_kernel(RopeTask task) {
  wait_for_kernel_before();
  const std::int64_t row = block_x();
  const int width = static_cast<int>(task.pages.head_dim), half = width / 2;
  const int rotary_dim = task.rotary_dim < 0 ? width : static_cast<int>(task.rotary_dim);
  const Pairs pairs{half, rotary_dim / 2};
  const int num_heads = static_cast<int>(task.num_heads), num_kv_heads = static_cast<int>(task.pages.at.num_kv_heads);
  const int all_heads = num_heads + 2 * num_kv_heads;
  const std::int32_t position = task.where.positions[row], first_page = task.where.first_pages[row];
  const int first_head = (static_cast<int>(block_y()) * kWarps + warp_idx()) * kWarpHeads;
  float first[kWarpHeads][kPairs], second[kWarpHeads][kPairs];
#pragma unroll
  for (int h = 0; h < kWarpHeads; ++h) {
    const int from = (first_head + h) * width;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int i = lane_idx() + 32 * p;
      const bool is_there = i < half && first_head + h < all_heads;
      first[h][p] = is_there ? task.heads.at(row, from + pairs.low(i)) : 0.0F;
      second[h][p] = is_there ? task.heads.at(row, from + pairs.high(i)) : 0.0F;
      if (task.bias == nullptr || !is_there) continue;
      first[h][p] += task.bias[from + pairs.low(i)];
      second[h][p] += task.bias[from + pairs.high(i)];
    }
  }
  if (position < 0) return;
  const float* cosines = task.rope_table + static_cast<std::int64_t>(position) * rotary_dim;
  float cosine[kPairs], sine[kPairs];
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    const int i = lane_idx() + 32 * p;
    cosine[p] = i < pairs.rotating ? cosines[i] : 1.0F;
    sine[p] = i < pairs.rotating ? cosines[pairs.rotating + i] : 0.0F;
  }
#pragma unroll
  for (int h = 0; h < kWarpHeads; ++h) {
    const int head = first_head + h;
    if (head >= all_heads) return;
    const bool is_query = head < num_heads, is_value = head >= num_heads + num_kv_heads;
    const float* gain = is_value ? nullptr : is_query ? task.q_norm_E : task.k_norm_E;
    float inverse = 1;
    const bool is_whole = task.inverse_rms_N2 != nullptr;
    if (gain != nullptr && is_whole) {
      inverse = task.inverse_rms_N2[2 * row + (is_query ? 0 : 1)];
      gain += (is_query ? head : head - num_heads) * width;
    } else if (gain != nullptr) {
      float squares = 0;
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        squares = fmaf(first[h][p], first[h][p], squares);
        squares = fmaf(second[h][p], second[h][p], squares);
      }
      inverse = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(width) + task.eps);
    }
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int i = lane_idx() + 32 * p;
      if (i >= half || is_value) continue;
      float a = first[h][p], b = second[h][p];
      if (gain != nullptr) {
        a = a * inverse * gain[pairs.low(i)];
        b = b * inverse * gain[pairs.high(i)];
      }
      first[h][p] = fmaf(a, cosine[p], -(b * sine[p]));
      second[h][p] = fmaf(b, cosine[p], a * sine[p]);
    }
    if (is_query) {
      float* to = task.q + (row * task.num_heads + head) * width;
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const int i = lane_idx() + 32 * p;
        if (i >= half) continue;
        to[pairs.low(i)] = first[h][p];
        to[pairs.high(i)] = second[h][p];
      }
      continue;
    }
    const int kv_head = head - num_heads - (is_value ? num_kv_heads : 0);
    const std::int64_t slot = task.pages.slot_of(task.where.page_ids + first_page, position, kv_head);
    const float* head_scales = is_value ? task.pages.value_head_scales_K : task.pages.key_head_scales_K;
    const HeadStore<kFormat, kPairs> store{task.pages, is_value ? task.pages.values : task.pages.keys,
                                           is_value ? task.pages.value_slot_scales : task.pages.key_slot_scales,
                                           kFormat == KvFormat::fp8_e4m3 ? head_scales[kv_head] : 1.0F};
    store(slot, pairs, first[h], second[h]);
  }
}

template <KvFormat kFormat>
void rope_and_store_as(const RopeTask& task, std::int64_t num_rows, const Stream& stream) {
  const std::int64_t num_heads = task.num_heads + 2 * task.pages.at.num_kv_heads, width = task.pages.head_dim;
  launch(width <= 64    ? rope_kernel<kFormat, 1>
         : width <= 128 ? rope_kernel<kFormat, 2>
                        : rope_kernel<kFormat, 4>,
         {num_rows, ceil_div(num_heads, kWarps * kWarpHeads)}, kThreads, 0, stream, task);
}

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
  switch (task.pages.format) {
    case KvFormat::bf16:
      return rope_and_store_as<KvFormat::bf16>(task, num_rows, stream);
    case KvFormat::int8:
      return rope_and_store_as<KvFormat::int8>(task, num_rows, stream);
    default:
      return rope_and_store_as<KvFormat::fp8_e4m3>(task, num_rows, stream);
  }
}

void copy_slots(const CopyTask& task, std::int64_t num_copies, const Stream& stream) {
  launch(copy_kernel, {num_copies, task.pages.at.num_kv_heads}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
