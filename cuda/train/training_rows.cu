#include <algorithm>
#include <bit>

#include "cuda/runtime/layout.h"
#include "cuda/train/number_segments.cuh"
#include "cuda/train/training_kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

template <int kSize>
QRL_KERNEL void swiglu_kernel(SwigluTask task) {
  wait_for_kernel_before();
  const std::int64_t gate = block_x() * task.halves.stride, out = block_x() * task.out.stride;
  for (std::int64_t i = kSize * thread_idx(); i < task.width; i += kSize * kThreads) {
    const auto gates = Vector<kSize>::load(task.halves, gate + i);
    const auto ups = Vector<kSize>::load(task.halves, gate + task.width + i);
    float g[kSize], u[kSize];
    gates.widen(task.halves.is_f32, g);
    ups.widen(task.halves.is_f32, u);
#pragma unroll
    for (int j = 0; j < kSize; ++j) g[j] = g[j] / (1.0F + expf(-g[j])) * u[j];
    Vector<kSize>::store(task.out, out + i, g);
  }
}

template <int kSize>
QRL_KERNEL void swiglu_gradient_kernel(SwigluGradientTask task) {
  wait_for_kernel_before();
  const std::int64_t gate = block_x() * task.halves.stride, out = block_x() * task.d_out.stride;
  const std::int64_t d_gate = block_x() * task.d_halves.stride;
  for (std::int64_t i = kSize * thread_idx(); i < task.width; i += kSize * kThreads) {
    const auto gates = Vector<kSize>::load(task.halves, gate + i);
    const auto ups = Vector<kSize>::load(task.halves, gate + task.width + i);
    const auto d_outs = Vector<kSize>::load(task.d_out, out + i);
    float g[kSize], u[kSize], d[kSize];
    gates.widen(task.halves.is_f32, g);
    ups.widen(task.halves.is_f32, u);
    d_outs.widen(task.d_out.is_f32, d);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float sigmoid = 1.0F / (1.0F + expf(-g[j]));
      const float d_silu = d[j] * u[j];
      u[j] = d[j] * (g[j] * sigmoid);
      g[j] = d_silu * (sigmoid * (1.0F + g[j] * (1.0F - sigmoid)));
    }
    Vector<kSize>::store(task.d_halves, d_gate + i, g);
    Vector<kSize>::store(task.d_halves, d_gate + task.width + i, u);
  }
}

// Maximum number of pairs per lane. A pair is elements i and i + head_dim / 2 of a head, which RoPE rotates together.
// The number of lanes that share a head is a power of two.
constexpr int kPairs = 8;
constexpr std::int64_t kSegment = 32;  ///< rows per block
static_assert(kMostHeadDim == 2 * 32 * kPairs);

/// Assigns heads to lanes. With vector loads, a lane's pairs are adjacent; otherwise they are 32 apart.
struct HeadLanes {
  int lanes = 0;  ///< lanes per head
  std::int64_t heads_per_block = 0, num_groups = 0;
  int threads() const { return static_cast<int>(round_up(heads_per_block * lanes, 32)); }
};
HeadLanes head_lanes(const HeadTransform& t, bool words) {
  HeadLanes at;
  at.lanes = words ? static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(t.head_dim / (2 * kPairs)))) : 32;
  const std::int64_t heads = t.num_heads + 2 * t.num_kv_heads;
  at.num_groups = ceil_div(heads * at.lanes, kThreads);
  at.heads_per_block = ceil_div(heads, at.num_groups);
  return at;
}

enum class Part : std::uint8_t { q, k, v, none };

template <bool kWords>
struct Place {
  std::int64_t slot, head, half;  ///< slot: the head's index in the block
  Part part;
  std::int64_t of_part;  ///< the head's index within its part (q, k or v)
  int lane;
  QRL_DEVICE Place(const HeadTransform& t, int lanes, std::int64_t heads_per_block)
      : slot(thread_idx() / lanes),
        head(block_y() * heads_per_block + slot),
        half(t.head_dim / 2),
        part(Part::none),
        of_part(0),
        lane(thread_idx() % lanes) {
    if (slot >= heads_per_block || head >= t.num_heads + 2 * t.num_kv_heads) return;
    part = head < t.num_heads ? Part::q : head < t.num_heads + t.num_kv_heads ? Part::k : Part::v;
    of_part = part == Part::q ? head : (head - t.num_heads) % t.num_kv_heads;
  }
  QRL_DEVICE std::int64_t pair(int j) const { return kWords ? kPairs * lane + j : lane + 32 * j; }
  /// Loads the first (a) and second (b) elements of the lane's pairs; zeros past the head's end.
  QRL_DEVICE void load(const ReadRows& rows, std::int64_t at, float (&a)[kPairs], float (&b)[kPairs]) const {
    if constexpr (kWords) {
      Vector<kPairs> first{}, second{};
      if (part != Part::none && pair(0) < half) {
        first = Vector<kPairs>::load(rows, at + pair(0));
        second = Vector<kPairs>::load(rows, at + half + pair(0));
      }
      first.widen(rows.is_f32, a);
      second.widen(rows.is_f32, b);
    } else {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const bool is_there = part != Part::none && pair(j) < half;
        a[j] = is_there ? Vector<1>::load(rows, at + pair(j)).value : 0;
        b[j] = is_there ? Vector<1>::load(rows, at + half + pair(j)).value : 0;
      }
    }
  }
  QRL_DEVICE void store(const WrittenRows& rows, std::int64_t at, const float (&a)[kPairs],
                        const float (&b)[kPairs]) const {
    if (part == Part::none) return;
    if constexpr (kWords) {
      if (pair(0) >= half) return;
      Vector<kPairs>::store(rows, at + pair(0), a);
      Vector<kPairs>::store(rows, at + half + pair(0), b);
    } else {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        if (pair(j) >= half) continue;
        Vector<1>::store(rows, at + pair(j), {a[j]});
        Vector<1>::store(rows, at + half + pair(j), {b[j]});
      }
    }
  }
  QRL_DEVICE void load_one_by_one(const float* from, float (&a)[kPairs], float (&b)[kPairs]) const {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const bool is_there = from != nullptr && part != Part::none && pair(j) < half;
      a[j] = is_there ? from[pair(j)] : 0;
      b[j] = is_there ? from[half + pair(j)] : 0;
    }
  }
  QRL_DEVICE void store_one_by_one(float* to, const float (&a)[kPairs], const float (&b)[kPairs]) const {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      if (part == Part::none || pair(j) >= half) continue;
      to[pair(j)] = a[j];
      to[half + pair(j)] = b[j];
    }
  }
};

/// Returns the sum of `value` over a head's lanes to each of these lanes. All lanes of the warp must call it.
QRL_DEVICE float head_sum(float value, int lanes) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
QRL_DEVICE float dot(const float (&a)[kPairs], const float (&b)[kPairs], const float (&c)[kPairs],
                     const float (&d)[kPairs]) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) sum = fmaf(b[j], d[j], fmaf(a[j], c[j], sum));
  return sum;
}

template <class Task>
struct OfHeads {
  Task task;
  HeadLanes lanes;
};

template <bool kWords>
QRL_KERNEL void heads_kernel(OfHeads<HeadsTask> work) {
  wait_for_kernel_before();
  const HeadsTask& task = work.task;
  const HeadTransform& t = task.transform;
  const int lanes = work.lanes.lanes;
  const Place<kWords> at(t, lanes, work.lanes.heads_per_block);
  const bool has_norms = t.q_gain != nullptr, turns = at.part == Part::q || at.part == Part::k;
  const std::int64_t column = at.head * t.head_dim;
  const WrittenRows out = at.part == Part::q ? task.q : at.part == Part::k ? task.k : task.v;
  float bias_a[kPairs], bias_b[kPairs], gain_a[kPairs], gain_b[kPairs];
  at.load_one_by_one(t.bias == nullptr ? nullptr : t.bias + column, bias_a, bias_b);
  at.load_one_by_one(at.part == Part::q ? t.q_gain : t.k_gain, gain_a, gain_b);
  const std::int64_t begin = block_x() * kSegment, end = begin + kSegment < t.num_rows ? begin + kSegment : t.num_rows;
  for (std::int64_t row = begin; row < end; ++row) {
    float a[kPairs], b[kPairs], cosine[kPairs], sine[kPairs];
    at.load(task.heads, row * task.heads.stride + column, a, b);
    at.load({t.angles, t.head_dim, true}, row * t.head_dim, cosine, sine);
    if (t.bias != nullptr) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        a[j] += bias_a[j];
        b[j] += bias_b[j];
      }
    }
    if (has_norms) {
      const float mean = head_sum(dot(a, b, a, b), lanes) / static_cast<float>(t.head_dim);
      const float inverse = 1.0F / sqrtf(mean + t.norm_eps);
      if (turns) {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          a[j] = a[j] * inverse * gain_a[j];
          b[j] = b[j] * inverse * gain_b[j];
        }
      }
    }
    if (turns) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float first = a[j] * cosine[j] - b[j] * sine[j];
        b[j] = b[j] * cosine[j] + a[j] * sine[j];
        a[j] = first;
      }
    }
    at.store(out, row * out.stride + at.of_part * t.head_dim, a, b);
  }
}

/// Holds the gradients' sums over a block's rows: [segments, columns] for the bias, [segments · groups, 2 (q, k),
/// head_dim] for the gains.
struct Scratch {
  float *bias, *gains;
};
struct HeadsGradientWork {
  HeadsGradientTask task;
  HeadLanes lanes;
  Scratch sums;
};

template <bool kWords, bool kNorms>
QRL_KERNEL void heads_gradient_kernel(HeadsGradientWork work) {
  wait_for_kernel_before();
  const HeadsGradientTask& task = work.task;
  const HeadTransform& t = task.transform;
  const int lanes = work.lanes.lanes;
  const Place<kWords> at(t, lanes, work.lanes.heads_per_block);
  const bool turns = at.part == Part::q || at.part == Part::k;
  const std::int64_t column = at.head * t.head_dim;
  const ReadRows d_out = at.part == Part::q ? task.d_q : at.part == Part::k ? task.d_k : task.d_v;
  float d_bias_a[kPairs] = {}, d_bias_b[kPairs] = {};
  float bias_a[kPairs], bias_b[kPairs], gain_a[kPairs], gain_b[kPairs], d_gain_a[kPairs] = {}, d_gain_b[kPairs] = {};
  if constexpr (kNorms) {
    at.load_one_by_one(t.bias == nullptr ? nullptr : t.bias + column, bias_a, bias_b);
    at.load_one_by_one(at.part == Part::q ? t.q_gain : t.k_gain, gain_a, gain_b);
  }
  const std::int64_t begin = block_x() * kSegment, end = begin + kSegment < t.num_rows ? begin + kSegment : t.num_rows;
  for (std::int64_t row = begin; row < end; ++row) {
    float a[kPairs], b[kPairs], cosine[kPairs], sine[kPairs];
    at.load(d_out, row * d_out.stride + at.of_part * t.head_dim, a, b);
    at.load({t.angles, t.head_dim, true}, row * t.head_dim, cosine, sine);
    if (turns) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const float first = a[j] * cosine[j] + b[j] * sine[j];
        b[j] = b[j] * cosine[j] - a[j] * sine[j];
        a[j] = first;
      }
    }
    if constexpr (kNorms) {
      // RMSNorm's gradient, as in training_norms.cu.
      float x[kPairs], z[kPairs];
      at.load(task.heads, row * task.heads.stride + column, x, z);
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        x[j] += bias_a[j];
        z[j] += bias_b[j];
      }
      const float mean = head_sum(dot(x, z, x, z), lanes) / static_cast<float>(t.head_dim);
      const float inverse = 1.0F / sqrtf(mean + t.norm_eps);
      float d_a[kPairs], d_b[kPairs];
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        x[j] *= inverse;
        z[j] *= inverse;
        d_gain_a[j] = fmaf(a[j], x[j], d_gain_a[j]);
        d_gain_b[j] = fmaf(b[j], z[j], d_gain_b[j]);
        d_a[j] = a[j] * gain_a[j];
        d_b[j] = b[j] * gain_b[j];
      }
      const float along = head_sum(dot(d_a, d_b, x, z), lanes) / static_cast<float>(t.head_dim);
      if (turns) {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          a[j] = inverse * (d_a[j] - x[j] * along);
          b[j] = inverse * (d_b[j] - z[j] * along);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      d_bias_a[j] += a[j];
      d_bias_b[j] += b[j];
    }
    at.store(task.d_heads, row * task.d_heads.stride + column, a, b);
  }
  if (t.bias != nullptr) at.store_one_by_one(work.sums.bias + block_x() * t.num_columns() + column, d_bias_a, d_bias_b);
  if constexpr (kNorms) {
    // Sums gain gradients in order: one sum over the block's q heads, one over its k heads.
    auto* of_heads = reinterpret_cast<float*>(shared_memory());
    at.store_one_by_one(of_heads + at.slot * t.head_dim, d_gain_a, d_gain_b);
    sync_block();
    float* to = work.sums.gains + (block_x() * work.lanes.num_groups + block_y()) * 2 * t.head_dim;
    const std::int64_t first_head = block_y() * work.lanes.heads_per_block;
    for (std::int64_t i = thread_idx(); i < 2 * t.head_dim; i += num_threads()) {
      const bool is_q = i < t.head_dim;
      const std::int64_t from = is_q ? 0 : t.num_heads, until = is_q ? t.num_heads : t.num_heads + t.num_kv_heads;
      float sum = 0;
      for (std::int64_t slot = 0; slot < work.lanes.heads_per_block; ++slot) {
        const std::int64_t head = first_head + slot;
        if (head >= from && head < until) sum += of_heads[slot * t.head_dim + (is_q ? i : i - t.head_dim)];
      }
      to[i] = sum;
    }
  }
}

QRL_KERNEL void column_sums_kernel(ColumnSumsTask task) {
  wait_for_kernel_before();
  auto* of_warps = reinterpret_cast<float*>(shared_memory());
  const std::int64_t column = block_x() * 32 + lane_idx();
  float sum = 0;
  if (column < task.num_columns) {
#pragma unroll 8
    for (std::int64_t row = warp_idx(); row < task.num_rows; row += kWarps)
      sum += task.from[row * task.stride + column];
  }
  of_warps[thread_idx()] = sum;
  sync_block();
  if (warp_idx() != 0 || column >= task.num_columns) return;
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += of_warps[32 * warp + lane_idx()];
  task.to[column] += total;
}

std::int64_t num_segments(const HeadTransform& t) { return ceil_div(t.num_rows, kSegment); }
bool has_words(const HeadTransform& t) {
  return t.head_dim % (2 * kPairs) == 0 && reinterpret_cast<std::uintptr_t>(t.angles) % 16 == 0;
}

}  // namespace

void add_column_sums(const ColumnSumsTask& task, const Stream& stream) {
  launch(column_sums_kernel, {ceil_div(task.num_columns, 32)}, kThreads, kThreads * sizeof(float), stream, task);
}

void swiglu(const SwigluTask& task, const Stream& stream) {
  const bool words = has_words(task.halves) && has_words(task.out) && task.width % 8 == 0;
  launch(words ? swiglu_kernel<8> : swiglu_kernel<1>, {task.num_rows}, kThreads, 0, stream, task);
}

void swiglu_gradient(const SwigluGradientTask& task, const Stream& stream) {
  const bool words = has_words(task.halves) && has_words(task.d_out) && has_words(task.d_halves) && task.width % 8 == 0;
  launch(words ? swiglu_gradient_kernel<8> : swiglu_gradient_kernel<1>, {task.num_rows}, kThreads, 0, stream, task);
}

void transform_heads(const HeadsTask& task, const Stream& stream) {
  const bool words =
      has_words(task.transform) && has_words(task.heads) && has_words(task.q) && has_words(task.k) && has_words(task.v);
  const HeadLanes at = head_lanes(task.transform, words);
  launch(words ? heads_kernel<true> : heads_kernel<false>, {num_segments(task.transform), at.num_groups}, at.threads(),
         0, stream, OfHeads<HeadsTask>{task, at});
}

std::int64_t heads_scratch_floats(const HeadTransform& transform) {
  const std::int64_t most_groups =
      std::max(head_lanes(transform, true).num_groups, head_lanes(transform, false).num_groups);
  return num_segments(transform) * ((transform.bias != nullptr ? transform.num_columns() : 0) +
                                    (transform.q_gain != nullptr ? most_groups * 2 * transform.head_dim : 0));
}

void transform_heads_gradient(const HeadsGradientTask& task, const Stream& stream) {
  const HeadTransform& t = task.transform;
  const bool has_norms = t.q_gain != nullptr;
  const bool words = has_words(t) && has_words(task.d_q) && has_words(task.d_k) && has_words(task.d_v) &&
                     has_words(task.d_heads) && (!has_norms || has_words(task.heads));
  const HeadLanes at = head_lanes(t, words);
  const std::int64_t segments = num_segments(t), columns = t.num_columns();
  const Scratch sums{task.scratch, task.scratch + (t.bias != nullptr ? segments * columns : 0)};
  const auto kernel = words ? (has_norms ? heads_gradient_kernel<true, true> : heads_gradient_kernel<true, false>)
                            : (has_norms ? heads_gradient_kernel<false, true> : heads_gradient_kernel<false, false>);
  const auto of_heads = has_norms ? static_cast<std::size_t>(at.heads_per_block * t.head_dim) * sizeof(float) : 0;
  launch(kernel, {segments, at.num_groups}, at.threads(), of_heads, stream, HeadsGradientWork{task, at, sums});
  if (t.bias != nullptr && task.d_bias != nullptr)
    add_column_sums({sums.bias, segments, columns, columns, task.d_bias}, stream);
  if (!has_norms || task.d_q_gain == nullptr) return;
  const std::int64_t blocks = segments * at.num_groups, width = 2 * t.head_dim;
  add_column_sums({sums.gains, blocks, width, t.head_dim, task.d_q_gain}, stream);
  add_column_sums({sums.gains + t.head_dim, blocks, width, t.head_dim, task.d_k_gain}, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
