// Attention of one row's query heads over the pages of their sequence: scores of all positions, softmax, weighted sum
// of the values. Positions are taken in blocks, and a block serves all heads while it is in cache: a slot holds the
// heads side by side. Every sum runs in the order of the absolute position, and the lane of a score is its position
// modulo kLanes, so nothing depends on how positions are spread over pages.
#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr int kQueriesAtOnce = 4;  // share one load of a key or value
#if defined(QRL_ISA_AVX512)
constexpr int kChunksAtOnce = 4;  // vectors of a value: 4·4 accumulators of 32 registers
#else
constexpr int kChunksAtOnce = 2;
#endif
constexpr int kValueBlock = 16;  // positions between which the accumulators of a head wait in memory

/// Walks a sequence's slots position by position.
template <class Element>
class Slots {
 public:
  Slots(const AttentionTask& task, const void* pages)
      : task_(task), pages_(static_cast<const Element*>(pages)), table_(task.page_table) {}
  const Element* next() {
    if (left_ == 0) {
      slot_ = pages_ + *table_++ * task_.page_size * task_.slot_stride;
      left_ = task_.page_size;
    }
    const Element* slot = slot_;
    slot_ += task_.slot_stride;
    --left_;
    return slot;
  }

 private:
  const AttentionTask& task_;
  const Element* pages_;
  const std::int32_t* table_;
  const Element* slot_ = nullptr;
  std::int64_t left_ = 0;
};

/// The slots of up to kMost positions in a row. Listing them asks for their memory: a block is listed while the one
/// before it is worked on, since pages lie anywhere and the processor's own prefetching stops at their ends.
template <class Element, int kMost>
struct Block {
  const Element* slots[kMost] = {};
  int count = 0;
  Block(const AttentionTask& task, Slots<Element>& walk, std::int64_t left) {
    constexpr std::int64_t kLine = 64 / sizeof(Element);
    const std::int64_t width = task.num_kv_heads * task.head_dim;
    for (; count < kMost && count < left; ++count) {
      slots[count] = walk.next();
      for (std::int64_t e = 0; e < width; e += kLine) __builtin_prefetch(slots[count] + e);
    }
  }
};

/// Calls body(position, block) for every block of a sequence's keys or values.
template <class Element, int kMost, class Body>
void for_blocks(const AttentionTask& task, const void* pages, Body body) {
  Slots<Element> walk(task, pages);
  Block<Element, kMost> next(task, walk, task.num_positions);
  for (std::int64_t position = 0; position < task.num_positions; position += kMost) {
    const Block<Element, kMost> block = next;
    next = Block<Element, kMost>(task, walk, task.num_positions - position - kMost);
    body(position, block);
  }
}

/// Calls body(first query, Count<n>) for a kv head's queries, at most kQueriesAtOnce together.
template <int n>
struct Count {
  static constexpr int value = n;
};
template <class Body>
void for_queries(std::int64_t num_queries, Body body) {
  std::int64_t query = 0;
  for (; query + kQueriesAtOnce <= num_queries; query += kQueriesAtOnce) body(query, Count<kQueriesAtOnce>{});
  switch (num_queries - query) {
    case 3:
      return body(query, Count<3>{});
    case 2:
      return body(query, Count<2>{});
    case 1:
      return body(query, Count<1>{});
    default:
      return;
  }
}

/// scores[n][0 … kLanes) = scale · q[n]·k for a block of positions; −inf behind its end.
template <int Queries, class Element>
void score(const AttentionTask& task, const float* q, const Block<Element, kLanes>& keys, std::int64_t head_offset,
           float* scores) {
  VecF products[Queries][kLanes];
  for (int i = 0; i < kLanes; ++i) {
    // Behind the end the last key stands in; its scores are replaced below.
    const Element* key = keys.slots[i < keys.count ? i : keys.count - 1] + head_offset;
    VecF dot[Queries] = {};
    for_vectors(task.head_dim, [&](std::int64_t e, auto lanes) {
      const VecF k = load(key + e, lanes);
      for (int n = 0; n < Queries; ++n) dot[n] = fma(load(q + n * task.head_dim + e, lanes), k, dot[n]);
    });
    for (int n = 0; n < Queries; ++n) products[n][i] = dot[n];
  }
  for (int n = 0; n < Queries; ++n) {
    const VecF sums = sums_of(products[n]) * task.scale;
    store(scores + n * task.scores_stride, kLaneIndex < keys.count ? sums : splat(-kInfinity), All{});
  }
}

/// Turns a query's scores into weights exp(score − max) and returns their sum.
float soften(float* scores, std::int64_t num_positions) {
  VecF largest = splat(-kInfinity), sum{};
  for (std::int64_t i = 0; i < num_positions; i += kLanes) largest = max(largest, load(scores + i, All{}));
  const VecF top = splat(reduce_max(largest));
  for (std::int64_t i = 0; i < num_positions; i += kLanes) {
    const VecF weight = exp(load(scores + i, All{}) - top);
    store(scores + i, weight, All{});
    sum = sum + weight;
  }
  return reduce_add(sum);
}

/// context[n][e …] += Σ weight · value over a block: Chunks vectors, of which `lanes` are real.
template <int Queries, int Chunks, class Element, class Lanes>
void mix(const AttentionTask& task, const float* weights, const Block<Element, kValueBlock>& values,
         std::int64_t offset, float* context, Lanes lanes) {
  VecF sums[Queries][Chunks];
  for (int n = 0; n < Queries; ++n) {
    for (int c = 0; c < Chunks; ++c) sums[n][c] = load(context + n * task.head_dim + c * kLanes, lanes);
  }
  for (int i = 0; i < values.count; ++i) {
    const Element* value = values.slots[i] + offset;
    VecF chunk[Chunks];
    for (int c = 0; c < Chunks; ++c) chunk[c] = load(value + c * kLanes, lanes);
    for (int n = 0; n < Queries; ++n) {
      const VecF weight = splat(weights[n * task.scores_stride + i]);
      for (int c = 0; c < Chunks; ++c) sums[n][c] = fma(weight, chunk[c], sums[n][c]);
    }
  }
  for (int n = 0; n < Queries; ++n) {
    for (int c = 0; c < Chunks; ++c) store(context + n * task.head_dim + c * kLanes, sums[n][c], lanes);
  }
}

template <int Queries, class Element>
void mix_head(const AttentionTask& task, const float* weights, const Block<Element, kValueBlock>& values,
              std::int64_t head_offset, float* context) {
  std::int64_t e = 0;
  for (; e + kChunksAtOnce * kLanes <= task.head_dim; e += kChunksAtOnce * kLanes) {
    mix<Queries, kChunksAtOnce>(task, weights, values, head_offset + e, context + e, All{});
  }
  for (; e + kLanes <= task.head_dim; e += kLanes) {
    mix<Queries, 1>(task, weights, values, head_offset + e, context + e, All{});
  }
  if (e < task.head_dim) {
    const First lanes{static_cast<int>(task.head_dim - e)};
    mix<Queries, 1>(task, weights, values, head_offset + e, context + e, lanes);
  }
}

template <class Element>
void attention(const AttentionTask& task) {
  const std::int64_t all_queries = task.num_kv_heads * task.num_queries;
  for_blocks<Element, kLanes>(task, task.keys, [&](std::int64_t position, const Block<Element, kLanes>& block) {
    for (std::int64_t head = 0; head < task.num_kv_heads; ++head) {
      for_queries(task.num_queries, [&](std::int64_t query, auto count) {
        const std::int64_t n = head * task.num_queries + query;
        score<decltype(count)::value>(task, task.q + n * task.head_dim, block, head * task.head_dim,
                                      task.scores + n * task.scores_stride + position);
      });
    }
  });
  // The last slot of a score row is its weights' sum: rows have room for it.
  for (std::int64_t n = 0; n < all_queries; ++n) {
    float* row = task.scores + n * task.scores_stride;
    row[task.scores_stride - 1] = soften(row, task.num_positions);
  }
  for (std::int64_t i = 0; i < all_queries * task.head_dim; ++i) task.context[i] = 0.0F;
  for_blocks<Element, kValueBlock>(
      task, task.values, [&](std::int64_t position, const Block<Element, kValueBlock>& block) {
        for (std::int64_t head = 0; head < task.num_kv_heads; ++head) {
          for_queries(task.num_queries, [&](std::int64_t query, auto count) {
            const std::int64_t n = head * task.num_queries + query;
            mix_head<decltype(count)::value>(task, task.scores + n * task.scores_stride + position, block,
                                             head * task.head_dim, task.context + n * task.head_dim);
          });
        }
      });
  for (std::int64_t n = 0; n < all_queries; ++n) {
    const VecF sum = splat(task.scores[n * task.scores_stride + task.scores_stride - 1]);
    float* row = task.context + n * task.head_dim;
    for_vectors(task.head_dim, [&](std::int64_t e, auto lanes) { store(row + e, load(row + e, lanes) / sum, lanes); });
  }
}

}  // namespace

void attention_f32(const AttentionTask& task) { attention<float>(task); }
void attention_bf16(const AttentionTask& task) { attention<std::uint16_t>(task); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
