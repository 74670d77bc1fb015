// Attention of one row's query heads over the pages of their kv head: scores of all positions, softmax, weighted sum
// of the values. Every sum runs in the order of the absolute position, and the lane of a score is its position modulo
// kLanes, so nothing depends on how positions are spread over pages.
#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

constexpr int kHeadsAtOnce = 4;   // queries that share one load of a key or value
#if defined(QRL_ISA_AVX512)
constexpr int kChunksAtOnce = 4;  // vectors of a value: 4·4 accumulators of 32 registers
#else
constexpr int kChunksAtOnce = 2;
#endif

/// Walks a kv head's slots position by position.
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

std::int64_t row_of_scores(const AttentionTask& task) { return (task.num_positions + 63) / 64 * 64; }

/// scores = exp(scale·q·k − max) for Heads queries; `sums` gets their totals.
template <class Element, int Heads>
void weigh(const AttentionTask& task, const float* q, float* scores, float (&sums)[Heads]) {
  const std::int64_t row = row_of_scores(task);
  Slots<Element> keys(task, task.keys);
  VecF largest[Heads];
  for (int h = 0; h < Heads; ++h) largest[h] = splat(-kInfinity);
  VecF partial[Heads][kLanes] = {};
  for (std::int64_t block = 0; block < task.num_positions; block += kLanes) {
    const std::int64_t left = task.num_positions - block;
    const int count = left < kLanes ? static_cast<int>(left) : kLanes;
    for (int i = 0; i < count; ++i) {
      const Element* key = keys.next();
      VecF dot[Heads] = {};
      for_vectors(task.head_dim, [&](std::int64_t e, auto lanes) {
        const VecF k = load(key + e, lanes);
        for (int h = 0; h < Heads; ++h) dot[h] = fma(load(q + h * task.head_dim + e, lanes), k, dot[h]);
      });
      for (int h = 0; h < Heads; ++h) partial[h][i] = dot[h];
    }
    for (int h = 0; h < Heads; ++h) {
      const VecF score = kLaneIndex < count ? sums_of(partial[h]) * task.scale : splat(-kInfinity);
      largest[h] = max(largest[h], score);
      store(scores + h * row + block, score, All{});
    }
  }
  for (int h = 0; h < Heads; ++h) {
    const VecF top = splat(reduce_max(largest[h]));
    VecF sum{};
    for (std::int64_t block = 0; block < task.num_positions; block += kLanes) {
      const VecF weight = exp(load(scores + h * row + block, All{}) - top);
      store(scores + h * row + block, weight, All{});
      sum = sum + weight;
    }
    sums[h] = reduce_add(sum);
  }
}

/// Columns e … of the context of Heads queries: Chunks vectors, the last one holding `lanes`.
template <class Element, int Heads, int Chunks, class Lanes>
void mix(const AttentionTask& task, const float* scores, const float (&sums)[Heads], std::int64_t e, float* context,
         Lanes lanes) {
  const std::int64_t row = row_of_scores(task);
  Slots<Element> values(task, task.values);
  VecF total[Heads][Chunks] = {};
  for (std::int64_t position = 0; position < task.num_positions; ++position) {
    const Element* value = values.next() + e;
    VecF chunk[Chunks];
    for (int c = 0; c < Chunks; ++c) chunk[c] = load(value + c * kLanes, lanes);
    for (int h = 0; h < Heads; ++h) {
      const VecF weight = splat(scores[h * row + position]);
      for (int c = 0; c < Chunks; ++c) total[h][c] = fma(weight, chunk[c], total[h][c]);
    }
  }
  for (int h = 0; h < Heads; ++h) {
    for (int c = 0; c < Chunks; ++c) {
      store(context + h * task.head_dim + e + c * kLanes, total[h][c] / splat(sums[h]), lanes);
    }
  }
}

template <class Element, int Heads>
void attend(const AttentionTask& task, std::int64_t first_head) {
  float* scores = task.scores + first_head * row_of_scores(task);
  float* context = task.context + first_head * task.head_dim;
  float sums[Heads];
  weigh<Element, Heads>(task, task.q + first_head * task.head_dim, scores, sums);
  std::int64_t e = 0;
  constexpr int kWide = kChunksAtOnce * kLanes;
  for (; e + kWide <= task.head_dim; e += kWide) {
    mix<Element, Heads, kChunksAtOnce>(task, scores, sums, e, context, All{});
  }
  for (; e + kLanes <= task.head_dim; e += kLanes) mix<Element, Heads, 1>(task, scores, sums, e, context, All{});
  if (e < task.head_dim) {
    mix<Element, Heads, 1>(task, scores, sums, e, context, First{static_cast<int>(task.head_dim - e)});
  }
}

template <class Element>
void attention(const AttentionTask& task) {
  std::int64_t head = 0;
  for (; head + kHeadsAtOnce <= task.num_queries; head += kHeadsAtOnce) attend<Element, kHeadsAtOnce>(task, head);
  switch (task.num_queries - head) {
    case 3: return attend<Element, 3>(task, head);
    case 2: return attend<Element, 2>(task, head);
    case 1: return attend<Element, 1>(task, head);
    default: return;
  }
}

}  // namespace

void attention_f32(const AttentionTask& task) { attention<float>(task); }
void attention_bf16(const AttentionTask& task) { attention<std::uint16_t>(task); }

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
