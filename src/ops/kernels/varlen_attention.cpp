// Computes causal attention of a prefix and its continuations (a family: ops/varlen_attention.h) for one key head and
// its query heads. Uses small matmuls over blocks of query rows. Right operands are packed once per call.
#include "ops/kernels/varlen_attention.h"

#include "ops/kernels/kernels.h"
#include "ops/kernels/small_matmuls.h"
#if defined(QRL_ISA_AMX)
#include "ops/kernels/amx/small_matmuls.h"
#endif

namespace qrl::ops::QRL_ISA_NAMESPACE {
namespace {

/// Maximum query rows per block. Larger blocks make matmuls more efficient; smaller blocks compute fewer masked scores.
#if defined(QRL_ISA_AMX)
constexpr std::int64_t kMaxBlock = 64;
#else
constexpr std::int64_t kMaxBlock = 48;
#endif
std::int64_t block_rows(std::int64_t length) { return length < 96 ? kMaxBlock / 2 : kMaxBlock; }

constexpr std::int64_t kAskedAhead = 4;

/// Converts rows [rows, width] of stride `stride` to the operands' type. Output rows are zero-padded to stride `wide`.
template <class Element, class T>
void pack_rows(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t width, std::int64_t wide,
               Element* to) {
  constexpr std::int64_t kLineElements = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* ahead = from + (r + kAskedAhead < rows ? r + kAskedAhead : rows - 1) * stride;
    for (std::int64_t e = 0; e < width; e += kLineElements) __builtin_prefetch(ahead + e);
    std::int64_t e = 0;
    for (; e + kLanes <= width; e += kLanes) store(to + r * wide + e, load(from + r * stride + e, All{}), All{});
    if (e < width) {
      store(to + r * wide + e, load(from + r * stride + e, First{static_cast<int>(width - e)}), All{});
      e += kLanes;
    }
    for (; e < wide; e += kLanes) store(to + r * wide + e, VecF{}, All{});
  }
}

/// Interleaves rows (`columns` numbers, stride `wide`) into zero-padded words [row groups][wide]. The first row becomes
/// row `at`. A word holds one column of adjacent rows. If `at` is odd, the first row completes the previous row's
/// words.
template <class Dot>
void interleave(const typename Dot::Element* from, std::int64_t rows, std::int64_t wide, std::int64_t columns,
                std::int64_t at, typename Dot::Element* to) {
  if constexpr (Dot::kGroup == 1) {
    __builtin_memcpy(to + at * wide, from, static_cast<std::size_t>(rows * wide) * sizeof(*to));
  } else {
    std::int64_t r = 0;
    if (at % 2 != 0 && rows > 0) {
      for (std::int64_t i = 0; i < columns; ++i) to[(at - 1) * wide + 2 * i + 1] = from[i];
      r = 1;
    }
    for (; r < rows; r += 2) {
      auto* pair = to + (at + r) * wide;
      for (std::int64_t i = 0; i < columns; i += kLanes) {
        const auto widened = [&](const std::uint16_t* row) {
          return __builtin_convertvector(load_vector<HalfU16>(row + i, All{}), VecI);
        };
        const VecI odd = r + 1 < rows ? widened(from + (r + 1) * wide) : VecI{};
        const VecI words = widened(from + r * wide) | (odd << 16);
        store_words(pair + 2 * i, words);
      }
    }
    for (r += at; r % SmallMatmuls<Dot>::kDepth != 0; r += 2) {
      for (std::int64_t i = 0; i < columns; i += kLanes) store_words(to + r * wide + 2 * i, VecI{});
    }
  }
}

/// Transposes rows of `width` numbers into words [width/group][wide]. A word holds adjacent numbers of a row. The first
/// row becomes column `at`. Zeroes columns at + rows to padded(at + rows) − 1.
template <class Dot>
void transpose_rows(const typename Dot::Element* from, std::int64_t width, std::int64_t rows, std::int64_t at,
                    std::int64_t wide, typename Dot::Element* to) {
  const std::int64_t groups = width / Dot::kGroup, end = padded(at + rows) - at;
  auto* words = reinterpret_cast<char*>(to);
  for (std::int64_t r = 0; r < end; ++r) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int32_t word = r < rows ? load_word(from + r * width + g * Dot::kGroup) : 0;
      __builtin_memcpy(words + (g * wide + at + r) * 4, &word, sizeof word);
    }
  }
}

struct Heads {
  std::int64_t head_dim, wide_head, row_stride, group;
  const float* qkv;           ///< row 0, first head of the query group
  std::int64_t keys, values;  ///< offsets from `qkv` to the key head and the value head
  float scale;

  Heads(const VarlenAttention& attention, std::int64_t kv_head)
      : head_dim(attention.head_dim),
        wide_head(padded(head_dim)),
        row_stride((attention.num_heads + 2 * attention.num_kv_heads) * head_dim),
        group(attention.num_heads / attention.num_kv_heads),
        qkv(attention.qkv_NC + kv_head * group * head_dim),
        keys((attention.num_heads + kv_head - kv_head * group) * head_dim),
        values(keys + attention.num_kv_heads * head_dim),
        scale(attention.score_scale > 0 ? attention.score_scale
                                        : 1.0F / __builtin_sqrtf(static_cast<float>(head_dim))) {}
  const float* row(std::int64_t index) const { return qkv + index * row_stride; }
};

/// Describes one sequence of a family: its rows, and the number of prefix rows before them.
struct Member {
  std::int64_t first_row, length, num_before;
  bool is_prefix;
  std::int64_t num_keys() const { return num_before + length; }
};

template <class Body>
void for_members(const VarlenAttention& attention, const Family& family, Body body) {
  const std::int32_t* starts = attention.sequence_starts;
  const std::int64_t first = family.first_sequence, prefix_length = starts[first + 1] - starts[first];
  for (std::int64_t s = first + 1; s < family.end_sequence; ++s) {
    body(Member{starts[s], starts[s + 1] - starts[s], prefix_length, false});
  }
  body(Member{starts[first], prefix_length, 0, true});
}

std::int64_t most_keys(const VarlenAttention& attention, const Family& family) {
  std::int64_t most = 0;
  for_members(attention, family,
              [&](const Member& member) { most = member.num_keys() > most ? member.num_keys() : most; });
  return most;
}

struct Arena {
  float* next;
  template <class T>
  T* take(std::int64_t count) {
    auto* piece = reinterpret_cast<T*>(next);
    next += padded(static_cast<std::int64_t>((static_cast<std::size_t>(count) * sizeof(T) + 3) / 4));
    return piece;
  }
};

std::size_t num_scratch_floats(std::int64_t length, std::int64_t head_dim) {
  const std::int64_t keys = padded(length), head = padded(head_dim);
  return static_cast<std::size_t>(6 * keys * head + 5 * kMaxBlock * keys + 6 * kMaxBlock * head + 512);
}

/// Sets the scores of keys that a query does not attend to to −inf. Its own key has the index num_keys − 1.
void hide_others(const VarlenAttention& attention, std::int64_t num_keys, std::int64_t wide_keys, float* scores) {
  const std::int64_t first = attention.window > 0 && num_keys > attention.window ? num_keys - attention.window : 0;
  for (std::int64_t t = 0; t < first; ++t) scores[t] = -kInfinity;
  for (std::int64_t t = num_keys; t < wide_keys; ++t) scores[t] = -kInfinity;
}

/// Writes the weights e^(s·scale − max) of the keys that a query attends to, rounded to the operands' type; writes
/// zeros for the others. Returns max (the largest s·scale) and the sum of the rounded weights.
struct SoftmaxRow {
  float most, sum;
};
template <class Element>
SoftmaxRow softmax_row(const VarlenAttention& attention, std::int64_t num_keys, std::int64_t wide_keys, float scale,
                       float* scores, Element* weights) {
  VecF most_lanes = splat(-kInfinity);
  hide_others(attention, num_keys, wide_keys, scores);
  std::int64_t t = 0;
  for (; t + kLanes <= num_keys; t += kLanes) most_lanes = max(load(scores + t, All{}), most_lanes);
  float most = reduce_max(most_lanes);
  for (; t < num_keys; ++t) most = scores[t] > most ? scores[t] : most;
  VecF sum = {};
  for (t = 0; t < wide_keys; t += kLanes) {
    const VecF p = exp((load(scores + t, All{}) - most) * scale);
    store(weights + t, p, All{});
    sum += load(weights + t, All{});
  }
  return {most * scale, reduce_add(sum)};
}

/// Holds one key head's keys or values in the layouts that matmuls read. The prefix's rows come first and are packed
/// once.
template <class Dot>
struct PackedHead {
  using Element = typename Dot::Element;
  const Heads& h;
  std::int64_t wide_keys;
  Element* rows;         ///< [length, wide_head]
  Element* by_position;  ///< words [wide_keys/group][wide_head], or null
  Element* by_element;   ///< words [wide_head/group][wide_keys], or null
  void add(std::int64_t first_row, std::int64_t count, std::int64_t offset, std::int64_t at) {
    pack_rows(h.row(first_row) + offset, h.row_stride, count, h.head_dim, h.wide_head, rows);
    if (by_position != nullptr) interleave<Dot>(rows, count, h.wide_head, h.wide_head, at, by_position);
    if (by_element != nullptr) transpose_rows<Dot>(rows, h.wide_head, count, at, wide_keys, by_element);
  }
};

template <class Dot, class T>
void forward(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, T* out, float* lse,
             float* scratch) {
  using Element = typename Dot::Element;
  constexpr int kGroup = Dot::kGroup;
  const SmallMatmuls<Dot> products;
  const Heads h(attention, kv_head);
  const std::int64_t most = most_keys(attention, family), wide_keys = padded(most);
  Arena arena{scratch};
  auto* rows_TE = arena.take<Element>(most * h.wide_head);
  PackedHead<Dot> keys{h, wide_keys, rows_TE, nullptr, arena.take<Element>(h.wide_head * wide_keys)};
  PackedHead<Dot> values{h, wide_keys, rows_TE, arena.take<Element>(h.wide_head * wide_keys), nullptr};
  auto* queries = arena.take<Element>(kMaxBlock * h.wide_head);
  auto* scores = arena.take<float>(kMaxBlock * wide_keys);
  auto* weights = arena.take<Element>(kMaxBlock * wide_keys);
  auto* context = arena.take<float>(kMaxBlock * h.wide_head);
  const auto pack = [&](std::int64_t first_row, std::int64_t rows, std::int64_t at) {
    keys.add(first_row, rows, h.keys, at);
    values.add(first_row, rows, h.values, at);
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
        pack_rows(h.row(row) + g * h.head_dim, h.row_stride, rows, h.head_dim, h.wide_head, queries);
        products.multiply({queries, h.wide_head, kGroup}, {keys.by_element, wide_keys}, rows, wide, h.head_dim, false,
                          scores, wide_keys);
        float sums[kMaxBlock];
        for (std::int64_t r = 0; r < rows; ++r) {
          const SoftmaxRow soft = softmax_row(attention, m.num_before + first + r + 1, wide, h.scale,
                                              scores + r * wide_keys, weights + r * wide_keys);
          sums[r] = soft.sum;
          lse[(row + r) * attention.num_heads + head] = soft.most + __builtin_logf(soft.sum);
        }
        products.multiply({weights, wide_keys, kGroup}, {values.by_position, h.wide_head}, rows, h.wide_head, num_keys,
                          false, context, h.wide_head);
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

void write_turned(const float* from, std::int64_t wide, std::int64_t rows, const Heads& h, float* to) {
  for (std::int64_t t = 0; t < rows; t += kLanes) {
    for (std::int64_t e = 0; e < h.head_dim; e += kLanes) {
      VecI square[kLanes];
      for (int i = 0; i < kLanes; ++i) square[i] = load_words(from + (e + i) * wide + t);
      transpose(square);
      const std::int64_t width = h.head_dim - e;
      for (int r = 0; r < kLanes && t + r < rows; ++r) {
        float* row = to + (t + r) * h.row_stride + e;
        if (width >= kLanes) store(row, float_of_bits(square[r]), All{});
        else store(row, float_of_bits(square[r]), First{static_cast<int>(width)});
      }
    }
  }
}

template <class Dot, class T>
void backward(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, const float* lse,
              const T* d_out, float* d_qkv, float* scratch) {
  using Element = typename Dot::Element;
  constexpr int kGroup = Dot::kGroup;
  const SmallMatmuls<Dot> products;
  const Heads h(attention, kv_head);
  const std::int64_t most = most_keys(attention, family), wide_keys = padded(most);
  Arena arena{scratch};
  auto* rows_TE = arena.take<Element>(most * h.wide_head);
  auto* keys_by_position = arena.take<Element>(h.wide_head * wide_keys);
  PackedHead<Dot> keys{h, wide_keys, rows_TE, keys_by_position, arena.take<Element>(h.wide_head * wide_keys)};
  PackedHead<Dot> values{h, wide_keys, rows_TE, nullptr, arena.take<Element>(h.wide_head * wide_keys)};
  auto* d_keys_ET = arena.take<float>(h.wide_head * wide_keys);
  auto* d_values_ET = arena.take<float>(h.wide_head * wide_keys);
  auto* scores = arena.take<float>(kMaxBlock * wide_keys);
  auto* d_weights = arena.take<float>(kMaxBlock * wide_keys);
  // Row-major operands of one block; `interleaved` to `turned_head` repack them for matmuls that sum over its rows.
  auto* weights = arena.take<Element>(kMaxBlock * wide_keys);
  auto* d_scores = arena.take<Element>(kMaxBlock * wide_keys);
  auto* queries = arena.take<Element>(kMaxBlock * h.wide_head);
  auto* d_out_rows = arena.take<Element>(kMaxBlock * h.wide_head);
  auto* interleaved = arena.take<Element>(kMaxBlock * wide_keys);
  auto* interleaved_head = arena.take<Element>(kMaxBlock * h.wide_head);
  auto* turned_head = arena.take<Element>(SmallMatmuls<Dot>::turned_size(h.wide_head, kMaxBlock));
  auto* d_queries = arena.take<float>(kMaxBlock * h.wide_head);
  const auto pack = [&](std::int64_t first_row, std::int64_t rows, std::int64_t at) {
    keys.add(first_row, rows, h.keys, at);
    values.add(first_row, rows, h.values, at);
    const auto columns = static_cast<std::size_t>(padded(at + rows) - at);
    for (std::int64_t e = 0; e < h.wide_head; ++e) {
      __builtin_memset(d_keys_ET + e * wide_keys + at, 0, columns * sizeof(float));
      __builtin_memset(d_values_ET + e * wide_keys + at, 0, columns * sizeof(float));
    }
  };
  const auto by_rows = [](const Element* from, std::int64_t rows, std::int64_t wide, std::int64_t columns,
                          Element* memory) {
    if constexpr (kGroup == 1) return from;
    interleave<Dot>(from, rows, wide, columns, 0, memory);
    return static_cast<const Element*>(memory);
  };
  // Adds headᵀ · across, summed over a block's rows, to d_ET, the transposed gradients of keys or values.
  const auto add_turned = [&](const Element* head, const Element* across, std::int64_t rows, std::int64_t wide,
                              float* d_ET) {
    const Element* words = by_rows(head, rows, h.wide_head, h.wide_head, interleaved_head);
    products.multiply(products.turned(words, h.wide_head, rows, turned_head),
                      {by_rows(across, rows, wide_keys, wide, interleaved), wide_keys}, h.wide_head, wide, rows, true,
                      d_ET, wide_keys);
  };
  float* d_rows = d_qkv + kv_head * h.group * h.head_dim;
  const std::int32_t* starts = attention.sequence_starts + family.first_sequence;
  // The prefix's keys, values and their gradients stay at the front; each continuation overwrites the rest.
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
        pack_rows(h.row(row) + g * h.head_dim, h.row_stride, rows, h.head_dim, h.wide_head, queries);
        pack_rows(d_out + (row * attention.num_heads + head) * h.head_dim, attention.num_heads * h.head_dim, rows,
                  h.head_dim, h.wide_head, d_out_rows);
        products.multiply({queries, h.wide_head, kGroup}, {keys.by_element, wide_keys}, rows, wide, h.head_dim, false,
                          scores, wide_keys);
        products.multiply({d_out_rows, h.wide_head, kGroup}, {values.by_element, wide_keys}, rows, wide, h.head_dim,
                          false, d_weights, wide_keys);
        for (std::int64_t r = 0; r < rows; ++r) {
          float* score = scores + r * wide_keys;
          const float* d_weight = d_weights + r * wide_keys;
          const float row_lse = lse[(row + r) * attention.num_heads + head];
          hide_others(attention, m.num_before + first + r + 1, wide, score);
          VecF dot = {};
          for (std::int64_t t = 0; t < wide; t += kLanes) {
            const VecF value = exp(load(score + t, All{}) * h.scale - row_lse);
            store(score + t, value, All{});
            store(weights + r * wide_keys + t, value, All{});
            dot = fma(value, load(d_weight + t, All{}), dot);
          }
          const float mean = reduce_add(dot);
          for (std::int64_t t = 0; t < wide; t += kLanes) {
            store(d_scores + r * wide_keys + t, load(score + t, All{}) * (load(d_weight + t, All{}) - mean) * h.scale,
                  All{});
          }
        }
        products.multiply({d_scores, wide_keys, kGroup}, {keys.by_position, h.wide_head}, rows, h.wide_head, num_keys,
                          false, d_queries, h.wide_head);
        add_turned(queries, d_scores, rows, wide, d_keys_ET);
        add_turned(d_out_rows, weights, rows, wide, d_values_ET);
        for (std::int64_t r = 0; r < rows; ++r) {
          float* to = d_rows + (row + r) * h.row_stride + g * h.head_dim;
          for (std::int64_t e = 0; e < h.head_dim; ++e) to[e] = d_queries[r * h.wide_head + e];
        }
      }
    }
    float* d_member = d_rows + m.first_row * h.row_stride;
    write_turned(d_keys_ET + m.num_before, wide_keys, m.length, h, d_member + h.keys);
    write_turned(d_values_ET + m.num_before, wide_keys, m.length, h, d_member + h.values);
  });
}

template <class Body>
void with_types(MatmulType type, MixedArray array, const Body& body) {
  if (type == MatmulType::bf16) {
    if (array.is_bf16) body(Bf16Dot{}, static_cast<std::uint16_t*>(array.data));
    else body(Bf16Dot{}, static_cast<float*>(array.data));
  } else {
    if (array.is_bf16) body(F32Dot{}, static_cast<std::uint16_t*>(array.data));
    else body(F32Dot{}, static_cast<float*>(array.data));
  }
}

void forward_any(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, MixedArray out,
                 float* lse, float* scratch) {
  with_types(attention.products, out,
             [&]<class Dot>(Dot, auto* to) { forward<Dot>(attention, family, kv_head, to, lse, scratch); });
}

void backward_any(const VarlenAttention& attention, const Family& family, std::int64_t kv_head, const float* lse,
                  MixedArray d_out, float* d_qkv, float* scratch) {
  with_types(attention.products, d_out, [&]<class Dot>(Dot, const auto* from) {
    backward<Dot>(attention, family, kv_head, lse, from, d_qkv, scratch);
  });
}

}  // namespace

const VarlenAttentionKernels kVarlenAttention{forward_any, backward_any, num_scratch_floats};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
