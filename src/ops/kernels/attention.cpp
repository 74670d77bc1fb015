// Attention of query heads and the kv heads they share, one row after the other, over the pages of their sequences.
// Positions are taken in spans, counted from position 0: scores of a span, its softmax, its weighted sum of the values,
// and that is joined with what the spans before gave. Pages hold keys with the positions side by side and values with
// the elements side by side (ops/paged_attention.h), so that each inner loop is a broadcast times contiguous lanes, and
// a page is read once for all queries. Nothing depends on how positions are spread over pages.
#include "ops/kernels/attention.h"

#include "ops/kernels/kv_formats.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

#if defined(QRL_ISA_AVX512)
constexpr int kVectorsAtOnce = 4;  // of positions, or of a value's elements
#else
constexpr int kVectorsAtOnce = 2;
#endif
constexpr std::int64_t kSpan = kAttentionSpan;
constexpr std::int64_t kBlock = 16;  // positions that lie together in a page, on any path
constexpr std::int64_t kLine = 64;
constexpr std::int64_t kWordBytes = 4;

constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) { return (count + divisor - 1) / divisor; }

/// Asks for the lines of all tasks' pages some microseconds before they are needed, one for each that is read. Pages
/// lie anywhere and are short, so the processor's own prefetching stops at their ends; all heads of a page in their
/// order in memory is what the memory is fastest at.
class Ahead {
 public:
  Ahead(const AttentionTask* tasks, std::int64_t num_tasks) : task_(tasks), end_(tasks + num_tasks) {
    next_run();
    for (std::int64_t i = 0; i < kLines; ++i) ask_line();
  }
  /// When `Vectors` neighbouring vectors of words are read.
  template <int Vectors>
  void ask() {
    constexpr int kVectorsOfLine = static_cast<int>(kLine / kWordBytes) / kLanes;
    constexpr int kLinesRead = (Vectors + kVectorsOfLine - 1) / kVectorsOfLine;
    for (int i = 0; i < kLinesRead; ++i) __builtin_prefetch(at_ + i * kLine, 0, 2);  // of any address
    at_ += kLinesRead * step_;
    if (at_ >= run_end_) next_run();
  }
  /// When a task is done: catches up with the lines that it read without asking.
  void end_of(const AttentionTask& task) {
    passed_ += 2 * ceil_div(task.num_positions, task.page_size) * ceil_div(task.num_heads * task.head_bytes, kLine);
    while (step_ > 0 && asked_ - (run_end_ - at_) / kLine < passed_ + kLines) ask_line();
  }

 private:
  static constexpr std::int64_t kLines = 2048;      // 128 KiB, a small part of a core's own cache
  static constexpr std::int64_t kLongestPage = 64;  // of a longer one too much may be unwritten

  void ask_line() {
    __builtin_prefetch(at_, 0, 2);
    at_ += step_;
    if (at_ >= run_end_) next_run();
  }
  void next_run() {
    while (task_ != end_ && (task_->page_size > kLongestPage || page_ * task_->page_size >= task_->num_positions)) {
      ++task_;
      page_ = 0;
    }
    if (task_ == end_) {
      step_ = 0;
      at_ = reinterpret_cast<const std::byte*>(this);
      run_end_ = at_ + 1;
      return;
    }
    at_ = (in_values_ ? task_->values : task_->keys) + task_->page_table[page_] * task_->page_bytes;
    run_end_ = at_ + task_->num_heads * task_->head_bytes;
    asked_ += ceil_div(run_end_ - at_, kLine);
    page_ += in_values_ ? 1 : 0;
    in_values_ = !in_values_;
  }

  const AttentionTask *task_, *end_;
  const std::byte *at_ = nullptr, *run_end_ = nullptr;
  std::int64_t step_ = kLine, page_ = 0, passed_ = 0;
  std::int64_t asked_ = 0;  // when the present run is
  bool in_values_ = false;
};

/// Where one kv head's codes and scales of a span's positions lie, in blocks of kBlock.
struct Span {
  std::int64_t count = 0;  ///< positions
  std::int64_t head_dim = 0, page_size = 0, scales = 0;
  const std::byte *keys = nullptr, *values = nullptr;
  struct Block {
    std::int64_t page_offset, slot;
  };
  Block blocks[kSpan / kBlock];

  VecF scales_from(const std::byte* side, std::int64_t position) const {
    const Block& block = blocks[position / kBlock];
    return load(reinterpret_cast<const float*>(side + block.page_offset + scales) + block.slot + position % kBlock,
                All{});
  }
};

/// Calls body(Count<n>) for n = count ≤ kMost.
template <int n>
struct Count {
  static constexpr int value = n;
};
template <int kMost, class Body>
void with_count(std::int64_t count, Body body) {
  if constexpr (kMost > 0) {
    if (count == kMost) body(Count<kMost>{});
    else with_count<kMost - 1>(count, body);
  }
}

/// scores[n][position …] = q[n]·k, scaled, for Vectors vectors of positions; −inf behind the span's last one.
template <class Kv, int Queries, int Vectors>
void score(const Span& span, const typename Kv::Operand* queries, std::int64_t position, float* scores,
           VecF (&largest)[Queries], Ahead& ahead) {
  const std::byte* keys[Vectors];
  for (int v = 0; v < Vectors; ++v) {
    const std::int64_t at = position + v * kLanes;
    const Span::Block& block = span.blocks[at / kBlock];
    keys[v] = span.keys + block.page_offset + (block.slot + at % kBlock) * kWordBytes;
  }
  const std::int64_t num_words = ceil_div(span.head_dim, Kv::kWord), stride = span.page_size * kWordBytes;
  typename Kv::template Scores<Queries, Vectors> sums(queries);
  for (std::int64_t word = 0; word < num_words; ++word) {
    ahead.ask<Vectors>();
    VecI words[Vectors];
    for (int v = 0; v < Vectors; ++v) words[v] = load_words(keys[v] + word * stride);
    sums.add(queries, word, words);
  }
  for (int v = 0; v < Vectors; ++v) {
    const std::int64_t at = position + v * kLanes, left = span.count - at;
    VecF scales{};
    if constexpr (Kv::kTokenScales) scales = span.scales_from(span.keys, at);
    for (int n = 0; n < Queries; ++n) {
      VecF result = sums.finish(queries, n, v);
      if constexpr (Kv::kTokenScales) result = result * scales;
      if (left < kLanes) result = kLaneIndex < static_cast<std::int32_t>(left) ? result : splat(-kInfinity);
      largest[n] = max(largest[n], result);
      store(scores + n * kSpan + at, result, All{});
    }
  }
}

/// What a query head has of the spans so far: its largest score, and Σ exp(score − largest).
struct Running {
  float most, sum;
};

/// How a span's sums join the running ones.
struct Join {
  float before, now;
};

/// Takes a span's softmax into the running one; the running sums of a first span are of any content.
Join join(bool is_first, float most, float sum, Running& running) {
  if (is_first) {
    running = {most, sum};
    return {0, 1};
  }
  const float top = running.most > most ? running.most : most;
  const Join factors{exp(splat(running.most - top))[0], exp(splat(most - top))[0]};
  running = {top, running.sum * factors.before + sum * factors.now};
  return factors;
}

/// Σ weight · value over a span for elements first … of each query, Vectors vectors, joined with what `context` has.
template <class Kv, int Queries, int Vectors, class Lanes>
void mix(const Span& span, const typename Kv::Operand* weights, const Join* joins, bool is_first, std::int64_t first,
         float* context, Lanes lanes, Ahead& ahead) {
  typename Kv::template Mix<Queries, Vectors> sums(weights);
  const std::int64_t row = span.head_dim * kWordBytes, whole = span.count / Kv::kWord;
  const auto add = [&](const std::byte* values, std::int64_t word) {
    VecI words[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      if constexpr (__is_same(Lanes, All)) words[v] = load_words(values + v * kLanes * kWordBytes);
      else words[v] = load_vector<VecI>(reinterpret_cast<const std::int32_t*>(values), lanes);
    }
    sums.add(weights, word, words);
  };
  const auto values_at = [&](std::int64_t word) {
    const Span::Block& block = span.blocks[word * Kv::kWord / kBlock];
    const std::int64_t slot = block.slot + word * Kv::kWord % kBlock;
    return span.values + block.page_offset + slot / Kv::kWord * row + first * kWordBytes;
  };
  constexpr std::int64_t kWordsOfBlock = kBlock / Kv::kWord;
  for (std::int64_t word = 0; word < whole;) {
    const std::byte* values = values_at(word);
    const std::int64_t end = word + kWordsOfBlock < whole ? word + kWordsOfBlock : whole;
    for (; word < end; ++word, values += row) {
      ahead.ask<Vectors>();
      add(values, word);
    }
  }
  if (const std::int64_t rest = span.count - whole * Kv::kWord; rest > 0) {
    // The last word holds positions that nobody wrote: those become zero, whatever they are.
    std::int32_t last[kVectorsAtOnce * kLanes] = {};
    const std::int64_t left = span.head_dim - first, width = left < Vectors * kLanes ? left : Vectors * kLanes;
    __builtin_memcpy(last, values_at(whole), static_cast<std::size_t>(width * kWordBytes));
    const std::int32_t written = static_cast<std::int32_t>((std::uint32_t{1} << (rest * 32 / Kv::kWord)) - 1);
    for (std::int32_t& word : last) word &= written;
    add(reinterpret_cast<const std::byte*>(last), whole);
  }
  for (int n = 0; n < Queries; ++n) {
    for (int v = 0; v < Vectors; ++v) {
      float* to = context + n * span.head_dim + first + v * kLanes;
      const VecF sum = sums.finish(weights, n, v);
      store(to, is_first ? sum : fma(load(to, lanes), splat(joins[n].before), sum * joins[n].now), lanes);
    }
  }
}

/// One span of Queries query heads.
template <class Kv, int Queries>
void attend(const Span& span, bool is_first, const typename Kv::Operand* queries, float* context, Running* running,
            float* scores, std::byte* memory, Ahead& ahead) {
  VecF largest[Queries];
  for (VecF& vector : largest) vector = splat(-kInfinity);
  std::int64_t at = 0;
  for (; at + (kVectorsAtOnce - 1) * kLanes < span.count; at += kVectorsAtOnce * kLanes)
    score<Kv, Queries, kVectorsAtOnce>(span, queries, at, scores, largest, ahead);
  for (; at < span.count; at += kLanes) score<Kv, Queries, 1>(span, queries, at, scores, largest, ahead);

  typename Kv::Operand weights[Queries];
  Join joins[Queries];
  for (int n = 0; n < Queries; ++n) {
    const float most = reduce_max(largest[n]);
    float sum = 0;
    weights[n] = Kv::soften(
        scores + n * kSpan, span.count, most, [&](std::int64_t i) { return span.scales_from(span.values, i); },
        memory + n * attention_operand_bytes(kSpan), sum);
    joins[n] = join(is_first, most, sum, running[n]);
  }
  constexpr std::int64_t kElements = kVectorsAtOnce * kLanes;
  std::int64_t e = 0;
  for (; e + kElements <= span.head_dim; e += kElements)
    mix<Kv, Queries, kVectorsAtOnce>(span, weights, joins, is_first, e, context, All{}, ahead);
  for (; e + kLanes <= span.head_dim; e += kLanes)
    mix<Kv, Queries, 1>(span, weights, joins, is_first, e, context, All{}, ahead);
  if (e < span.head_dim)
    mix<Kv, Queries, 1>(span, weights, joins, is_first, e, context, First{static_cast<int>(span.head_dim - e)}, ahead);
}

/// The blocks of positions begin … begin + span.count − 1.
void find_blocks(const AttentionTask& task, std::int64_t begin, Span& span) {
  for (std::int64_t at = 0; at < span.count; at += kBlock) {
    const std::int64_t position = begin + at;
    span.blocks[at / kBlock] = {task.page_table[position / task.page_size] * task.page_bytes,
                                position % task.page_size};
  }
}

/// Pages of any size: the span's positions of one head as one page of kSpan, with the same codes.
template <class Kv>
void put_together(const AttentionTask& task, std::int64_t begin, Span& span, std::byte* memory) {
  constexpr std::int64_t kCode = kWordBytes / Kv::kWord, kScale = sizeof(float);
  const std::int64_t side_bytes = ceil_div(task.head_dim, Kv::kWord) * Kv::kWord * kCode * kSpan;
  std::byte *keys = memory, *values = memory + side_bytes + kSpan * kScale;
  for (std::int64_t t = 0; t < span.count; ++t) {
    const std::int64_t page = task.page_table[(begin + t) / task.page_size] * task.page_bytes;
    const std::int64_t slot = (begin + t) % task.page_size;
    const auto copy = [](std::byte* to, const std::byte* from, std::int64_t num_bytes) {
      __builtin_memcpy(to, from, static_cast<std::size_t>(num_bytes));
    };
    for (std::int64_t word = 0; word * Kv::kWord < task.head_dim; ++word)
      copy(keys + (word * kSpan + t) * kWordBytes, span.keys + page + (word * task.page_size + slot) * kWordBytes,
           kWordBytes);
    for (std::int64_t e = 0; e < task.head_dim; ++e)
      copy(values + ((t / Kv::kWord * task.head_dim + e) * Kv::kWord + t % Kv::kWord) * kCode,
           span.values + page + ((slot / Kv::kWord * task.head_dim + e) * Kv::kWord + slot % Kv::kWord) * kCode, kCode);
    if constexpr (Kv::kTokenScales) {
      copy(keys + side_bytes + t * kScale, span.keys + page + task.scales + slot * kScale, kScale);
      copy(values + side_bytes + t * kScale, span.values + page + task.scales + slot * kScale, kScale);
    }
  }
  for (std::int64_t at = 0; at < span.count; at += kBlock) span.blocks[at / kBlock] = {0, at};
  span.keys = keys;
  span.values = values;
  span.page_size = kSpan;
  span.scales = side_bytes;
}

template <class Kv>
void attend_row(const AttentionTask& task, float* scratch, Ahead& ahead) {
  const std::int64_t num_q = task.num_heads * task.num_queries;
  const std::int64_t query_bytes = attention_operand_bytes(task.head_dim);
  float* scores = scratch;
  auto* weights = reinterpret_cast<std::byte*>(scores + 4 * kSpan);
  std::byte* pages = weights + 4 * attention_operand_bytes(kSpan);
  std::byte* codes = pages + kSpan * (2 * (task.head_dim + 4) + 2) * 4;
  auto* queries = reinterpret_cast<typename Kv::Operand*>(codes + num_q * query_bytes);
  auto* running = reinterpret_cast<Running*>(queries + num_q);

  for (std::int64_t n = 0; n < num_q; ++n) {
    const float key_scale = task.key_scales != nullptr ? task.key_scales[n / task.num_queries] : 1.0F;
    queries[n] =
        Kv::prepare(task.q + n * task.head_dim, task.head_dim, task.softmax_scale * key_scale, codes + n * query_bytes);
  }
  Span span;
  span.head_dim = task.head_dim;
  for (std::int64_t begin = 0; begin < task.num_positions; begin += kSpan) {
    span.count = task.num_positions - begin < kSpan ? task.num_positions - begin : kSpan;
    const bool in_blocks = task.page_size % kBlock == 0;
    if (in_blocks) find_blocks(task, begin, span);
    for (std::int64_t head = 0; head < task.num_heads; ++head) {
      span.page_size = task.page_size;
      span.scales = task.scales;
      span.keys = task.keys + head * task.head_bytes;
      span.values = task.values + head * task.head_bytes;
      if (!in_blocks) put_together<Kv>(task, begin, span, pages);
      for (std::int64_t i = 0; i < task.num_queries; i += Kv::kMaxQueries) {
        const std::int64_t n = head * task.num_queries + i, left = task.num_queries - i;
        with_count<Kv::kMaxQueries>(left < Kv::kMaxQueries ? left : Kv::kMaxQueries, [&](auto count) {
          attend<Kv, decltype(count)::value>(span, begin == 0, queries + n, task.context + n * task.head_dim,
                                             running + n, scores, weights, ahead);
        });
      }
    }
  }
  for (std::int64_t n = 0; n < num_q; ++n) {
    const float value_scale = task.value_scales != nullptr ? task.value_scales[n / task.num_queries] : 1.0F;
    const VecF factor = splat(value_scale / running[n].sum);
    float* context = task.context + n * task.head_dim;
    for_vectors(task.head_dim,
                [&](std::int64_t e, auto lanes) { store(context + e, load(context + e, lanes) * factor, lanes); });
    if (task.lse != nullptr) task.lse[n] = running[n].most + __builtin_logf(running[n].sum);
  }
  ahead.end_of(task);
}

template <class Kv>
void attention(const AttentionTask* tasks, std::int64_t num_tasks, float* scratch) {
  Ahead ahead(tasks, num_tasks);
  for (std::int64_t i = 0; i < num_tasks; ++i) attend_row<Kv>(tasks[i], scratch, ahead);
}

}  // namespace

constinit const AttentionKernels kAttention = {
    .f32 = attention<KvF32>, .bf16 = attention<KvBf16>, .int8 = attention<KvInt8>, .fp8 = attention<KvFp8>};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
