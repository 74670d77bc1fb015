// Causal attention of one family of sequences and one key head (with the H/K query heads that read it). The work is
// small matrix products over blocks of query rows; keys and values are packed once per call, so that every inner loop
// is a broadcast times contiguous lanes.
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

/// [T, E] to columns first … first + T − 1 of [E, wide], zeros in those behind them up to a whole vector.
void pack_transposed(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t width, std::int64_t first,
                     std::int64_t wide, float* to) {
  const std::int64_t end = padded(first + rows) - first;
  for (std::int64_t e = 0; e < width; ++e) {
    for (std::int64_t r = 0; r < end; ++r) to[e * wide + first + r] = r < rows ? from[r * stride + e] : 0.0F;
  }
}

/// Sizes and places that all members of a family share for one key head.
struct Heads {
  std::int64_t head_dim, wide_head, row_stride, group;
  const float* qkv;           ///< the query group's first head, in row 0
  std::int64_t keys, values;  ///< from there to the key and the value head
  float scale;

  Heads(const VarlenAttention& attention, std::int64_t kv_head)
      : head_dim(attention.head_dim),
        wide_head(padded(head_dim)),
        row_stride((attention.num_heads + 2 * attention.num_kv_heads) * head_dim),
        group(attention.num_heads / attention.num_kv_heads),
        qkv(attention.qkv_NC + kv_head * group * head_dim),
        keys((attention.num_heads + kv_head - kv_head * group) * head_dim),
        values(keys + attention.num_kv_heads * head_dim),
        scale(1.0F / __builtin_sqrtf(static_cast<float>(head_dim))) {}
  const float* row(std::int64_t index) const { return qkv + index * row_stride; }
};

/// A member of a family: its own rows, and how many of the prefix's come before them.
struct Member {
  std::int64_t first_row, length, num_before;
  bool is_prefix;
  std::int64_t num_keys() const { return num_before + length; }
};

/// Calls body(member) for those that continue the prefix, then for the prefix itself: so that what they add to its
/// gradients is there when it ends.
template <class Body>
void for_members(const VarlenAttention& attention, const Family& family, Body body) {
  const std::int32_t* starts = attention.sequence_starts;
  const std::int64_t first = family.first_sequence, prefix_length = starts[first + 1] - starts[first];
  for (std::int64_t s = first + 1; s < family.end_sequence; ++s) {
    body(Member{starts[s], starts[s + 1] - starts[s], prefix_length, false});
  }
  body(Member{starts[first], prefix_length, 0, true});
}

/// Rows that the longest member sees.
std::int64_t most_keys(const VarlenAttention& attention, const Family& family) {
  std::int64_t most = 0;
  for_members(attention, family,
              [&](const Member& member) { most = member.num_keys() > most ? member.num_keys() : most; });
  return most;
}

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
void forward(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, T* out, float* lse,
             float* scratch) {
  const Heads h(attention, kv_head);
  const std::int64_t most = most_keys(attention, family), wide_keys = padded(most);
  Arena arena{scratch};
  float* keys_ET = arena.take(h.head_dim * wide_keys);
  float* values_TE = arena.take(most * h.wide_head);
  float* scores = arena.take(kMaxBlock * wide_keys);
  float* context = arena.take(kMaxBlock * h.wide_head);
  const auto pack = [&](std::int64_t first_row, std::int64_t rows, std::int64_t at) {
    pack_transposed(h.row(first_row) + h.keys, h.row_stride, rows, h.head_dim, at, wide_keys, keys_ET);
    pack_rows(h.row(first_row) + h.values, h.row_stride, rows, h.head_dim, values_TE + at * h.wide_head);
  };
  const std::int32_t* starts = attention.sequence_starts + family.first_sequence;
  pack(starts[0], starts[1] - starts[0], 0);
  for_members(attention, family, [&](const Member& m) {
    if (!m.is_prefix) pack(m.first_row, m.length, m.num_before);
    const std::int64_t block = block_rows(m.num_keys());
    for (std::int64_t g = 0; g < h.group; ++g) {
      const std::int64_t head = kv_head * h.group + g;
      for (std::int64_t first = 0; first < m.length; first += block) {
        const std::int64_t rows = m.length - first < block ? m.length - first : block;
        const std::int64_t row = m.first_row + first;
        const std::int64_t num_keys = m.num_before + first + rows, wide = padded(num_keys);
        multiply({h.row(row) + g * h.head_dim, h.row_stride, 1}, keys_ET, wide_keys, rows, wide, h.head_dim, false,
                 scores, wide_keys);
        float sums[kMaxBlock];
        for (std::int64_t r = 0; r < rows; ++r) {
          const SoftmaxRow soft = softmax_row(scores + r * wide_keys, m.num_before + first + r + 1, wide, h.scale);
          sums[r] = soft.sum;
          lse[(row + r) * attention.num_heads + head] = soft.most + __builtin_logf(soft.sum);
        }
        multiply({scores, wide_keys, 1}, values_TE, h.wide_head, rows, h.wide_head, num_keys, false, context,
                 h.wide_head);
        for (std::int64_t r = 0; r < rows; ++r) {
          T* to = out + ((row + r) * attention.num_heads + head) * h.head_dim;
          for_vectors(h.head_dim, [&](std::int64_t e, auto lanes) {
            store(to + e, load(context + r * h.wide_head + e, All{}) / sums[r], lanes);
          });
        }
      }
    }
  });
}

template <class T>
void backward(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, const float* lse,
              const T* d_out, float* d_qkv, float* scratch) {
  const Heads h(attention, kv_head);
  const std::int64_t most = most_keys(attention, family), wide_keys = padded(most);
  Arena arena{scratch};
  float* keys_ET = arena.take(h.head_dim * wide_keys);
  float* values_ET = arena.take(h.head_dim * wide_keys);
  float* keys_TE = arena.take(most * h.wide_head);
  float* d_keys_TE = arena.take(most * h.wide_head);
  float* d_values_TE = arena.take(most * h.wide_head);
  float* probabilities = arena.take(kMaxBlock * wide_keys);
  float* d_scores = arena.take(kMaxBlock * wide_keys);
  float* queries_block = arena.take(kMaxBlock * h.wide_head);
  float* d_out_block = arena.take(kMaxBlock * h.wide_head);
  float* d_queries_block = arena.take(kMaxBlock * h.wide_head);
  const auto pack = [&](std::int64_t first_row, std::int64_t rows, std::int64_t at) {
    pack_transposed(h.row(first_row) + h.keys, h.row_stride, rows, h.head_dim, at, wide_keys, keys_ET);
    pack_transposed(h.row(first_row) + h.values, h.row_stride, rows, h.head_dim, at, wide_keys, values_ET);
    pack_rows(h.row(first_row) + h.keys, h.row_stride, rows, h.head_dim, keys_TE + at * h.wide_head);
  };
  const auto clear = [&](std::int64_t rows, std::int64_t at) {
    for (std::int64_t i = at * h.wide_head; i < (at + rows) * h.wide_head; ++i) d_keys_TE[i] = d_values_TE[i] = 0;
  };
  float* d_rows = d_qkv + kv_head * h.group * h.head_dim;
  const std::int32_t* starts = attention.sequence_starts + family.first_sequence;
  // The prefix's keys, and the gradients that all members add to them, stay in front while the members change.
  pack(starts[0], starts[1] - starts[0], 0);
  clear(starts[1] - starts[0], 0);
  for_members(attention, family, [&](const Member& m) {
    if (!m.is_prefix) {
      pack(m.first_row, m.length, m.num_before);
      clear(m.length, m.num_before);
    }
    const std::int64_t block = block_rows(m.num_keys());
    for (std::int64_t g = 0; g < h.group; ++g) {
      const std::int64_t head = kv_head * h.group + g;
      for (std::int64_t first = 0; first < m.length; first += block) {
        const std::int64_t rows = m.length - first < block ? m.length - first : block;
        const std::int64_t row = m.first_row + first;
        const std::int64_t num_keys = m.num_before + first + rows, wide = padded(num_keys);
        pack_rows(h.row(row) + g * h.head_dim, h.row_stride, rows, h.head_dim, queries_block);
        pack_rows(d_out + (row * attention.num_heads + head) * h.head_dim, attention.num_heads * h.head_dim, rows,
                  h.head_dim, d_out_block);
        multiply({queries_block, h.wide_head, 1}, keys_ET, wide_keys, rows, wide, h.head_dim, false, probabilities,
                 wide_keys);
        multiply({d_out_block, h.wide_head, 1}, values_ET, wide_keys, rows, wide, h.head_dim, false, d_scores,
                 wide_keys);
        for (std::int64_t r = 0; r < rows; ++r) {
          float* prob = probabilities + r * wide_keys;
          float* d_score = d_scores + r * wide_keys;
          const float row_lse = lse[(row + r) * attention.num_heads + head];
          for (std::int64_t t = m.num_before + first + r + 1; t < wide; ++t) prob[t] = -kInfinity;
          VecF dot = {};
          for (std::int64_t t = 0; t < wide; t += kLanes) {
            const VecF value = exp(load(prob + t, All{}) * h.scale - row_lse);
            store(prob + t, value, All{});
            dot = fma(value, load(d_score + t, All{}), dot);
          }
          const float mean = reduce_add(dot);
          for (std::int64_t t = 0; t < wide; t += kLanes) {
            store(d_score + t, load(prob + t, All{}) * (load(d_score + t, All{}) - mean) * h.scale, All{});
          }
        }
        multiply({d_scores, wide_keys, 1}, keys_TE, h.wide_head, rows, h.wide_head, num_keys, false, d_queries_block,
                 h.wide_head);
        multiply({d_scores, 1, wide_keys}, queries_block, h.wide_head, num_keys, h.wide_head, rows, true, d_keys_TE,
                 h.wide_head);
        multiply({probabilities, 1, wide_keys}, d_out_block, h.wide_head, num_keys, h.wide_head, rows, true,
                 d_values_TE, h.wide_head);
        for (std::int64_t r = 0; r < rows; ++r) {
          float* to = d_rows + (row + r) * h.row_stride + g * h.head_dim;
          for (std::int64_t e = 0; e < h.head_dim; ++e) to[e] = d_queries_block[r * h.wide_head + e];
        }
      }
    }
    for (std::int64_t t = 0; t < m.length; ++t) {
      float* d_row = d_rows + (m.first_row + t) * h.row_stride;
      const std::int64_t from = (m.num_before + t) * h.wide_head;
      for (std::int64_t e = 0; e < h.head_dim; ++e) {
        d_row[h.keys + e] = d_keys_TE[from + e];
        d_row[h.values + e] = d_values_TE[from + e];
      }
    }
  });
}

void forward_any(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, MixedArray out,
                 float* lse, float* scratch) {
  if (out.is_bf16) forward(attention, family, kv_head, static_cast<std::uint16_t*>(out.data), lse, scratch);
  else forward(attention, family, kv_head, static_cast<float*>(out.data), lse, scratch);
}

void backward_any(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, const float* lse,
                  MixedArray d_out, float* d_qkv, float* scratch) {
  if (d_out.is_bf16) {
    backward(attention, family, kv_head, lse, static_cast<const std::uint16_t*>(d_out.data), d_qkv, scratch);
  } else {
    backward(attention, family, kv_head, lse, static_cast<const float*>(d_out.data), d_qkv, scratch);
  }
}

}  // namespace

const VarlenAttentionKernels kVarlenAttention{forward_any, backward_any, num_scratch_floats};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
