// Causal attention of one sequence and one key head (with the H/K query heads that read it). The work is small matrix
// products over blocks of query rows; keys and values are packed once per call, so that every inner loop is a broadcast
// times contiguous lanes.
#include "ops/kernels/varlen_attention.h"

#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {
namespace {

#if defined(QRL_ISA_AVX512)
constexpr int kTileRows = 6, kTileVectors = 4;  // 24 accumulators, 4 of B, 1 broadcast: 29 of 32 registers
#elif defined(QRL_ISA_AVX2)
constexpr int kTileRows = 6, kTileVectors = 2;  // 12 accumulators, 2 of B, 1 broadcast: 15 of 16
#else
constexpr int kTileRows = 4, kTileVectors = 2;
#endif

std::int64_t padded(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// Query rows handled together: more make the products efficient, fewer waste less above the diagonal.
constexpr std::int64_t kMaxBlock = 48;
std::int64_t block_rows(std::int64_t length) { return length < 96 ? 24 : kMaxBlock; }

/// A matrix with any strides, as the broadcast operand.
struct Strided {
  const float* data;
  std::int64_t row_stride, column_stride;
};

template <int kRows, int kVectors>
[[gnu::always_inline]] inline void multiply_tile(Strided a, const float* b, std::int64_t b_stride, std::int64_t depth,
                                                 bool accumulate, float* c, std::int64_t c_stride) {
  VecF sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = accumulate ? load(c + r * c_stride + v * kLanes, All{}) : VecF{};
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    VecF row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + k * b_stride + v * kLanes, All{});
    for (int r = 0; r < kRows; ++r) {
      const VecF left = splat(a.data[r * a.row_stride + k * a.column_stride]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = fma(left, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) store(c + r * c_stride + v * kLanes, sums[r][v], All{});
  }
}

template <int kVectors, int kRows = kTileRows>
void multiply_columns(Strided a, const float* b, std::int64_t b_stride, std::int64_t rows, std::int64_t depth,
                      bool accumulate, float* c, std::int64_t c_stride) {
  std::int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    multiply_tile<kRows, kVectors>({a.data + r * a.row_stride, a.row_stride, a.column_stride}, b, b_stride, depth,
                                   accumulate, c + r * c_stride, c_stride);
  }
  if constexpr (kRows > 1) {
    if (r < rows) {
      multiply_columns<kVectors, kRows - 1>({a.data + r * a.row_stride, a.row_stride, a.column_stride}, b, b_stride,
                                            rows - r, depth, accumulate, c + r * c_stride, c_stride);
    }
  }
}

/// C (+)= A·B; A [rows, depth], B [depth, columns] and C [rows, columns] with rows contiguous; `columns` a multiple of
/// kLanes. Each element sums over depth in order.
void multiply(Strided a, const float* b, std::int64_t b_stride, std::int64_t rows, std::int64_t columns,
              std::int64_t depth, bool accumulate, float* c, std::int64_t c_stride) {
  std::int64_t column = 0;
  for (; column + kTileVectors * kLanes <= columns; column += kTileVectors * kLanes) {
    multiply_columns<kTileVectors>(a, b + column, b_stride, rows, depth, accumulate, c + column, c_stride);
  }
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes) {
    multiply_columns<2>(a, b + column, b_stride, rows, depth, accumulate, c + column, c_stride);
  }
  for (; column < columns; column += kLanes) {
    multiply_columns<1>(a, b + column, b_stride, rows, depth, accumulate, c + column, c_stride);
  }
}

/// Rows [T, E] as fp32 with zeros up to the padded width.
template <class T>
void pack_rows(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t width, float* to) {
  const std::int64_t wide = padded(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    for_vectors(width, [&](std::int64_t e, auto lanes) {
      store(to + r * wide + e, load(from + r * stride + e, lanes), All{});
    });
  }
}

/// [T, E] to [E, padded T], zeros beyond T.
void pack_transposed(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t width, float* to) {
  const std::int64_t wide = padded(rows);
  for (std::int64_t e = 0; e < width; ++e) {
    for (std::int64_t r = 0; r < wide; ++r) to[e * wide + r] = r < rows ? from[r * stride + e] : 0.0F;
  }
}

/// Where the parts of one (sequence, key head) lie, and the scratch they are packed into.
struct Problem {
  std::int64_t first_row, length, head_dim, row_stride, group, wide_keys, wide_head;
  const float *queries, *keys, *values;  // of the first row; queries of the group's first head
  float scale;

  Problem(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head) {
    first_row = attention.sequence_starts[sequence];
    length = attention.sequence_starts[sequence + 1] - first_row;
    head_dim = attention.head_dim;
    row_stride = (attention.num_heads + 2 * attention.num_kv_heads) * head_dim;
    group = attention.num_heads / attention.num_kv_heads;
    wide_keys = padded(length);
    wide_head = padded(head_dim);
    const float* row = attention.qkv_NC + first_row * row_stride;
    queries = row + kv_head * group * head_dim;
    keys = row + (attention.num_heads + kv_head) * head_dim;
    values = keys + attention.num_kv_heads * head_dim;
    scale = 1.0F / __builtin_sqrtf(static_cast<float>(head_dim));
  }
};

/// Hands out consecutive pieces of the scratch.
struct Arena {
  float* next;
  float* take(std::int64_t count) {
    float* piece = next;
    next += padded(count);
    return piece;
  }
};

std::size_t num_scratch_floats(std::int64_t length, std::int64_t head_dim) {
  const std::int64_t keys = padded(length), head = padded(head_dim);
  return static_cast<std::size_t>(2 * head * keys + 4 * keys * head + 2 * kMaxBlock * keys + 4 * kMaxBlock * head +
                                  256);
}

/// scores → probabilities e^(s·scale − max) of the keys ≤ position, zeros after; returns (max, sum).
struct SoftmaxRow {
  float most, sum;
};
SoftmaxRow softmax_row(float* scores, std::int64_t num_keys, std::int64_t wide_keys, float scale) {
  VecF most_lanes = splat(-kInfinity);
  std::int64_t t = 0;
  for (; t + kLanes <= num_keys; t += kLanes) most_lanes = max(load(scores + t, All{}), most_lanes);
  float most = reduce_max(most_lanes);
  for (; t < num_keys; ++t) most = scores[t] > most ? scores[t] : most;
  for (t = num_keys; t < wide_keys; ++t) scores[t] = -kInfinity;
  VecF sum = {};
  for (t = 0; t < wide_keys; t += kLanes) {
    const VecF p = exp((load(scores + t, All{}) - most) * scale);
    store(scores + t, p, All{});
    sum += p;
  }
  return {most * scale, reduce_add(sum)};
}

template <class T>
void forward(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head, T* out, float* lse,
             float* scratch) {
  const Problem p(attention, sequence, kv_head);
  Arena arena{scratch};
  float* keys_ET = arena.take(p.head_dim * p.wide_keys);
  float* values_TE = arena.take(p.length * p.wide_head);
  float* scores = arena.take(kMaxBlock * p.wide_keys);
  float* context = arena.take(kMaxBlock * p.wide_head);
  pack_transposed(p.keys, p.row_stride, p.length, p.head_dim, keys_ET);
  pack_rows(p.values, p.row_stride, p.length, p.head_dim, values_TE);
  const std::int64_t block = block_rows(p.length);
  for (std::int64_t g = 0; g < p.group; ++g) {
    const std::int64_t head = kv_head * p.group + g;
    for (std::int64_t first = 0; first < p.length; first += block) {
      const std::int64_t rows = p.length - first < block ? p.length - first : block;
      const std::int64_t num_keys = first + rows, wide = padded(num_keys);
      const Strided queries{p.queries + g * p.head_dim + first * p.row_stride, p.row_stride, 1};
      multiply(queries, keys_ET, p.wide_keys, rows, wide, p.head_dim, false, scores, p.wide_keys);
      float sums[kMaxBlock];
      for (std::int64_t r = 0; r < rows; ++r) {
        const SoftmaxRow row = softmax_row(scores + r * p.wide_keys, first + r + 1, wide, p.scale);
        sums[r] = row.sum;
        lse[(p.first_row + first + r) * attention.num_heads + head] = row.most + __builtin_logf(row.sum);
      }
      multiply({scores, p.wide_keys, 1}, values_TE, p.wide_head, rows, p.wide_head, num_keys, false, context,
               p.wide_head);
      for (std::int64_t r = 0; r < rows; ++r) {
        T* to = out + ((p.first_row + first + r) * attention.num_heads + head) * p.head_dim;
        for_vectors(p.head_dim, [&](std::int64_t e, auto lanes) {
          store(to + e, load(context + r * p.wide_head + e, All{}) / sums[r], lanes);
        });
      }
    }
  }
}

template <class T>
void backward(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head, const float* lse,
              const T* d_out, float* d_qkv, float* scratch) {
  const Problem p(attention, sequence, kv_head);
  Arena arena{scratch};
  float* keys_ET = arena.take(p.head_dim * p.wide_keys);
  float* values_ET = arena.take(p.head_dim * p.wide_keys);
  float* keys_TE = arena.take(p.length * p.wide_head);
  float* d_keys_TE = arena.take(p.length * p.wide_head);
  float* d_values_TE = arena.take(p.length * p.wide_head);
  float* probabilities = arena.take(kMaxBlock * p.wide_keys);
  float* d_scores = arena.take(kMaxBlock * p.wide_keys);
  float* queries_block = arena.take(kMaxBlock * p.wide_head);
  float* d_out_block = arena.take(kMaxBlock * p.wide_head);
  float* d_queries_block = arena.take(kMaxBlock * p.wide_head);
  pack_transposed(p.keys, p.row_stride, p.length, p.head_dim, keys_ET);
  pack_transposed(p.values, p.row_stride, p.length, p.head_dim, values_ET);
  pack_rows(p.keys, p.row_stride, p.length, p.head_dim, keys_TE);
  for (std::int64_t i = 0; i < p.length * p.wide_head; ++i) d_keys_TE[i] = d_values_TE[i] = 0;

  float* d_rows = d_qkv + p.first_row * p.row_stride;
  const std::int64_t block = block_rows(p.length);
  for (std::int64_t g = 0; g < p.group; ++g) {
    const std::int64_t head = kv_head * p.group + g;
    for (std::int64_t first = 0; first < p.length; first += block) {
      const std::int64_t rows = p.length - first < block ? p.length - first : block;
      const std::int64_t num_keys = first + rows, wide = padded(num_keys);
      const std::int64_t row = p.first_row + first;
      pack_rows(p.queries + g * p.head_dim + first * p.row_stride, p.row_stride, rows, p.head_dim, queries_block);
      pack_rows(d_out + (row * attention.num_heads + head) * p.head_dim, attention.num_heads * p.head_dim, rows,
                p.head_dim, d_out_block);
      multiply({queries_block, p.wide_head, 1}, keys_ET, p.wide_keys, rows, wide, p.head_dim, false, probabilities,
               p.wide_keys);
      multiply({d_out_block, p.wide_head, 1}, values_ET, p.wide_keys, rows, wide, p.head_dim, false, d_scores,
               p.wide_keys);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* prob = probabilities + r * p.wide_keys;
        float* d_score = d_scores + r * p.wide_keys;
        const float row_lse = lse[(row + r) * attention.num_heads + head];
        for (std::int64_t t = first + r + 1; t < wide; ++t) prob[t] = -kInfinity;
        VecF dot = {};
        for (std::int64_t t = 0; t < wide; t += kLanes) {
          const VecF value = exp(load(prob + t, All{}) * p.scale - row_lse);
          store(prob + t, value, All{});
          dot = fma(value, load(d_score + t, All{}), dot);
        }
        const float mean = reduce_add(dot);
        for (std::int64_t t = 0; t < wide; t += kLanes) {
          store(d_score + t, load(prob + t, All{}) * (load(d_score + t, All{}) - mean) * p.scale, All{});
        }
      }
      multiply({d_scores, p.wide_keys, 1}, keys_TE, p.wide_head, rows, p.wide_head, num_keys, false, d_queries_block,
               p.wide_head);
      multiply({d_scores, 1, p.wide_keys}, queries_block, p.wide_head, num_keys, p.wide_head, rows, true, d_keys_TE,
               p.wide_head);
      multiply({probabilities, 1, p.wide_keys}, d_out_block, p.wide_head, num_keys, p.wide_head, rows, true,
               d_values_TE, p.wide_head);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* to = d_rows + (first + r) * p.row_stride + head * p.head_dim;
        for (std::int64_t e = 0; e < p.head_dim; ++e) to[e] = d_queries_block[r * p.wide_head + e];
      }
    }
  }
  for (std::int64_t t = 0; t < p.length; ++t) {
    float* d_key = d_rows + t * p.row_stride + (attention.num_heads + kv_head) * p.head_dim;
    float* d_value = d_key + attention.num_kv_heads * p.head_dim;
    for (std::int64_t e = 0; e < p.head_dim; ++e) {
      d_key[e] = d_keys_TE[t * p.wide_head + e];
      d_value[e] = d_values_TE[t * p.wide_head + e];
    }
  }
}

void forward_any(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head, MixedArray out,
                 float* lse, float* scratch) {
  if (out.is_bf16) forward(attention, sequence, kv_head, static_cast<std::uint16_t*>(out.data), lse, scratch);
  else forward(attention, sequence, kv_head, static_cast<float*>(out.data), lse, scratch);
}

void backward_any(const VarlenAttention& attention, std::int64_t sequence, std::int64_t kv_head, const float* lse,
                  MixedArray d_out, float* d_qkv, float* scratch) {
  if (d_out.is_bf16) {
    backward(attention, sequence, kv_head, lse, static_cast<const std::uint16_t*>(d_out.data), d_qkv, scratch);
  } else {
    backward(attention, sequence, kv_head, lse, static_cast<const float*>(d_out.data), d_qkv, scratch);
  }
}

}  // namespace

const VarlenAttentionKernels kVarlenAttention{forward_any, backward_any, num_scratch_floats};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
