// Rotary positions, keys and values to their pages, attention over them, copies of slots.
#include "kernels.h"
#include "target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::KvFormat;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxPairs = 4;    // a lane's, of a head of up to 256
constexpr int kMaxQueries = 8;  // query heads that one block attends with

QRL_DEVICE std::int64_t slot_of(const RowPlaces& where, std::int64_t row, std::int64_t position, const KvPages& pages,
                                std::int64_t kv_head) {
  const std::int64_t page = where.page_ids[where.first_pages[row] + position / pages.at.page_size];
  return pages.at.slot(page, kv_head, position % pages.at.page_size);
}

/// A warp stores a head's values, each lane its pairs (i, i + half), in the pages' format.
struct HeadStore {
  const KvPages& pages;
  std::uint8_t* codes;  // keys or values
  float* slot_scales;   // int8's
  float head_scale;     // fp8_e4m3's
  QRL_DEVICE void operator()(std::int64_t slot, std::int64_t half, const float* first, const float* second) const {
    std::uint8_t* to = codes + pages.at.code_at(slot);
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
    else reinterpret_cast<std::int8_t*>(to)[e] = scale > 0 ? int_code_of(value, scale, 127.0F) : std::int8_t{0};
  }
};

/// A block a row, a warp a head in turn.
QRL_KERNEL void rope_kernel(RopeTask task) {
  const std::int64_t row = block_x(), width = task.pages.head_dim, half = width / 2;
  const std::int64_t num_kv_heads = task.pages.at.num_kv_heads;
  const std::int64_t position = task.where.positions[row];
  const float* cosines = task.rope_table + position * width;
  for (std::int64_t head = warp_idx(); head < task.num_heads + 2 * num_kv_heads; head += kWarps) {
    const bool is_query = head < task.num_heads, is_value = head >= task.num_heads + num_kv_heads;
    float first[kMaxPairs], second[kMaxPairs];
    float squares = 0;
#pragma unroll
    for (int p = 0; p < kMaxPairs; ++p) {
      const std::int64_t i = lane_idx() + 32 * p;
      first[p] = second[p] = 0;
      if (i >= half) continue;
      first[p] = task.qkv.at(row, head * width + i);
      second[p] = task.qkv.at(row, head * width + half + i);
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
      continue;
    }
    const std::int64_t kv_head = head - task.num_heads - (is_value ? num_kv_heads : 0);
    const std::int64_t slot = slot_of(task.where, row, position, task.pages, kv_head);
    const float* head_scales = is_value ? task.pages.value_head_scales_K : task.pages.key_head_scales_K;
    const HeadStore store{task.pages, is_value ? task.pages.values : task.pages.keys,
                          is_value ? task.pages.value_slot_scales : task.pages.key_slot_scales,
                          task.pages.format == KvFormat::fp8_e4m3 ? head_scales[kv_head] : 1.0F};
    store(slot, half, first, second);
  }
}

/// Codes of a format, 16 bytes at a time and one by one.
template <KvFormat format>
struct Codes;
template <>
struct Codes<KvFormat::bf16> {
  static constexpr int kPerLoad = 8;
  QRL_DEVICE static float at(const std::uint32_t* words, int i) {
    return float_of(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000U);
  }
  QRL_DEVICE static float one(const std::uint8_t* codes, std::int64_t e) {
    return float_of_bf16(reinterpret_cast<const std::uint16_t*>(codes)[e]);
  }
};
template <>
struct Codes<KvFormat::int8> {
  static constexpr int kPerLoad = 16;
  QRL_DEVICE static float at(const std::uint32_t* words, int i) {
    return static_cast<float>(static_cast<std::int8_t>(words[i / 4] >> (i % 4 * 8)));
  }
  QRL_DEVICE static float one(const std::uint8_t* codes, std::int64_t e) {
    return static_cast<float>(reinterpret_cast<const std::int8_t*>(codes)[e]);
  }
};
template <>
struct Codes<KvFormat::fp8_e4m3> {
  static constexpr int kPerLoad = 16;
  QRL_DEVICE static float at(const std::uint32_t* words, int i) {
    return float_of_fp8(static_cast<std::uint8_t>(words[i / 4] >> (i % 4 * 8)));
  }
  QRL_DEVICE static float one(const std::uint8_t* codes, std::int64_t e) { return float_of_fp8(codes[e]); }
};

struct alignas(16) Words {
  std::uint32_t word[4];
};

/// Shared memory of an attention block, in floats: queries [Q, padded E]; each warp's softmax weights [kWarps, Q, 32];
/// each warp's result: largest score, sum [kWarps, Q] each, and context [kWarps, Q, padded E].
struct AttentionShared {
  std::int64_t padded_dim, num_queries;
  QRL_HD std::int64_t weights() const { return num_queries * padded_dim; }
  QRL_HD std::int64_t maxima() const { return weights() + kWarps * num_queries * 32; }
  QRL_HD std::int64_t sums() const { return maxima() + kWarps * num_queries; }
  QRL_HD std::int64_t contexts() const { return sums() + kWarps * num_queries; }
  QRL_HD std::int64_t num_floats() const { return contexts() + kWarps * num_queries * padded_dim; }
};

/// A block takes a row and up to kMaxQueries query heads of one kv head (block_x: row, block_y: kv head × group of
/// them); a warp takes every fourth tile of 32 positions: a lane a position for the scores, then a lane an element (and
/// every 32nd) for the context.
template <KvFormat format, int kElements>
QRL_KERNEL void attention_kernel(AttentionTask task) {
  using C = Codes<format>;
  const KvPages& pages = task.pages;
  const std::int64_t row = block_x(), width = pages.head_dim, num_kv_heads = pages.at.num_kv_heads;
  const std::int64_t heads_of_kv = task.num_heads / num_kv_heads;
  const std::int64_t kv_head = block_y() % num_kv_heads, group = block_y() / num_kv_heads;
  const std::int64_t first_head = kv_head * heads_of_kv + group * kMaxQueries;
  const std::int64_t heads_left = heads_of_kv - group * kMaxQueries;
  const int num_queries = static_cast<int>(heads_left < kMaxQueries ? heads_left : kMaxQueries);
  const std::int64_t num_positions = static_cast<std::int64_t>(task.where.positions[row]) + 1;

  const AttentionShared at{pages.at.padded_dim, num_queries};
  float* shared = reinterpret_cast<float*>(shared_memory());
  float* queries = shared;
  float* weights = shared + at.weights() + warp_idx() * num_queries * 32;
  const float softmax_scale = 1.0F / sqrtf(static_cast<float>(width));
  for (std::int64_t i = thread_idx(); i < num_queries * at.padded_dim; i += kThreads) {
    const std::int64_t g = i / at.padded_dim, e = i % at.padded_dim;
    queries[i] = e < width ? task.q[(row * task.num_heads + first_head + g) * width + e] * softmax_scale : 0.0F;
  }
  sync_block();

  float largest[kMaxQueries], sum[kMaxQueries], context[kMaxQueries][kElements];
#pragma unroll
  for (int g = 0; g < kMaxQueries; ++g) {
    largest[g] = -INFINITY;
    sum[g] = 0;
#pragma unroll
    for (int c = 0; c < kElements; ++c) context[g][c] = 0;
  }
  const float key_scale = format == KvFormat::fp8_e4m3 ? pages.key_head_scales_K[kv_head] : 1.0F;
  const float value_scale = format == KvFormat::fp8_e4m3 ? pages.value_head_scales_K[kv_head] : 1.0F;

  for (std::int64_t first = warp_idx() * 32; first < num_positions; first += kWarps * 32) {
    const std::int64_t position = first + lane_idx();
    const bool seen = position < num_positions;
    const std::int64_t slot = slot_of(task.where, row, seen ? position : first, pages, kv_head);
    float score[kMaxQueries];
#pragma unroll
    for (int g = 0; g < kMaxQueries; ++g) score[g] = 0;
    const auto* key = reinterpret_cast<const Words*>(pages.keys + pages.at.code_at(slot));
    for (std::int64_t e = 0; e < at.padded_dim; e += C::kPerLoad) {
      const Words words = key[e / C::kPerLoad];
#pragma unroll
      for (int i = 0; i < C::kPerLoad; ++i) {
        const float k = C::at(words.word, i);
#pragma unroll
        for (int g = 0; g < kMaxQueries; ++g) {
          if (g < num_queries) score[g] = fmaf(queries[g * at.padded_dim + e + i], k, score[g]);
        }
      }
    }
    const float slot_key_scale = format == KvFormat::int8 ? pages.key_slot_scales[slot] : key_scale;
    const float slot_value_scale = format == KvFormat::int8 ? pages.value_slot_scales[slot] : value_scale;
    sync_warp();  // the tile before has read its weights
#pragma unroll
    for (int g = 0; g < kMaxQueries; ++g) {
      if (g >= num_queries) break;
      const float s = seen ? score[g] * slot_key_scale : -INFINITY;
      const float most = fmaxf(largest[g], warp_max(s));
      // Of −inf alone there is nothing yet to rescale, and −inf − −inf would be NaN.
      const float keep = largest[g] == -INFINITY ? 0.0F : expf(largest[g] - most);
      const float weight = seen ? expf(s - most) : 0.0F;
      largest[g] = most;
      sum[g] = sum[g] * keep + weight;
      weights[g * 32 + lane_idx()] = weight * slot_value_scale;
#pragma unroll
      for (int c = 0; c < kElements; ++c) context[g][c] *= keep;
    }
    sync_warp();
    const int count = static_cast<int>(num_positions - first < 32 ? num_positions - first : 32);
    for (int j = 0; j < count; ++j) {
      const std::int64_t value_slot = slot_of(task.where, row, first + j, pages, kv_head);
      const std::uint8_t* value = pages.values + pages.at.code_at(value_slot);
#pragma unroll
      for (int c = 0; c < kElements; ++c) {
        const std::int64_t e = lane_idx() + 32 * c;
        if (e >= width) break;
        const float v = C::one(value, e);
#pragma unroll
        for (int g = 0; g < kMaxQueries; ++g) {
          if (g < num_queries) context[g][c] = fmaf(weights[g * 32 + j], v, context[g][c]);
        }
      }
    }
  }

#pragma unroll
  for (int g = 0; g < kMaxQueries; ++g) {
    if (g >= num_queries) break;
    const float total = warp_sum(sum[g]);
    const std::int64_t of_warp = warp_idx() * num_queries + g;
    if (lane_idx() == 0) {
      shared[at.maxima() + of_warp] = largest[g];
      shared[at.sums() + of_warp] = total;
    }
#pragma unroll
    for (int c = 0; c < kElements; ++c) {
      const std::int64_t e = lane_idx() + 32 * c;
      if (e < width) shared[at.contexts() + of_warp * at.padded_dim + e] = context[g][c];
    }
  }
  sync_block();
  for (std::int64_t i = thread_idx(); i < num_queries * width; i += kThreads) {
    const std::int64_t g = i / width, e = i % width;
    float most = -INFINITY;  // warp 0 has seen position 0
    for (int warp = 0; warp < kWarps; ++warp) most = fmaxf(most, shared[at.maxima() + warp * num_queries + g]);
    float total = 0, value = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      const std::int64_t of_warp = warp * num_queries + g;
      if (warp * 32 >= num_positions) break;  // it has seen nothing
      const float share = expf(shared[at.maxima() + of_warp] - most);
      total = fmaf(shared[at.sums() + of_warp], share, total);
      value = fmaf(shared[at.contexts() + of_warp * at.padded_dim + e], share, value);
    }
    task.context[(row * task.num_heads + first_head + g) * width + e] = value / total;
  }
}

template <KvFormat format>
void attention_of(const AttentionTask& task, std::int64_t num_rows, const Stream& stream) {
  const std::int64_t heads_of_kv = task.num_heads / task.pages.at.num_kv_heads;
  const std::int64_t num_groups = ceil_div(heads_of_kv, kMaxQueries);
  const AttentionShared at{task.pages.at.padded_dim, heads_of_kv < kMaxQueries ? heads_of_kv : kMaxQueries};
  const auto shared_bytes = static_cast<std::size_t>(at.num_floats()) * sizeof(float);
  const Grid grid{num_rows, task.pages.at.num_kv_heads * num_groups};
  if (task.pages.head_dim <= 64) launch(attention_kernel<format, 2>, grid, kThreads, shared_bytes, stream, task);
  else if (task.pages.head_dim <= 128) launch(attention_kernel<format, 4>, grid, kThreads, shared_bytes, stream, task);
  else launch(attention_kernel<format, 8>, grid, kThreads, shared_bytes, stream, task);
}

/// A block a copy and kv head.
QRL_KERNEL void copy_kernel(CopyTask task) {
  const std::int32_t* copy = task.copies + 3 * block_x();
  const KvLayout& at = task.pages.at;
  const std::int64_t from = at.slot(copy[0], block_y(), 0), to = at.slot(copy[1], block_y(), 0);
  const std::int64_t num_words = copy[2] * at.slot_bytes() / static_cast<std::int64_t>(sizeof(Words));
  for (std::uint8_t* codes : {task.pages.keys, task.pages.values}) {
    const auto* source = reinterpret_cast<const Words*>(codes + at.code_at(from));
    auto* target = reinterpret_cast<Words*>(codes + at.code_at(to));
    for (std::int64_t i = thread_idx(); i < num_words; i += kThreads) target[i] = source[i];
  }
  if (task.pages.format != KvFormat::int8) return;
  for (float* scales : {task.pages.key_slot_scales, task.pages.value_slot_scales}) {
    for (std::int64_t i = thread_idx(); i < copy[2]; i += kThreads) scales[to + i] = scales[from + i];
  }
}

}  // namespace

void rope_and_store(const RopeTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(rope_kernel, {num_rows}, kThreads, 0, stream, task);
}

void attention(const AttentionTask& task, std::int64_t num_rows, const Stream& stream) {
  switch (task.pages.format) {
    case KvFormat::bf16:
      return attention_of<KvFormat::bf16>(task, num_rows, stream);
    case KvFormat::int8:
      return attention_of<KvFormat::int8>(task, num_rows, stream);
    default:
      return attention_of<KvFormat::fp8_e4m3>(task, num_rows, stream);
  }
}

void copy_slots(const CopyTask& task, std::int64_t num_copies, const Stream& stream) {
  launch(copy_kernel, {num_copies, task.pages.at.num_kv_heads}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
