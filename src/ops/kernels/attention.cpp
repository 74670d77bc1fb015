// Processes consecutive rows with common pages as one group, so that each common page is read once.
#include "ops/kernels/attention.h"

#include "ops/kernels/kernels.h"
#include "ops/kernels/kv_formats.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

#if defined(QRL_ISA_AVX512)
constexpr int kVectorsAtOnce = 4;  // vectors of positions (for keys) or of elements (for values) per step
#else
constexpr int kVectorsAtOnce = 2;
#endif
constexpr std::int64_t kSpan = kAttentionSpan;
constexpr std::int64_t kBlock = 16;  // positions per block; a block is contiguous in a page, or is gathered
constexpr std::int64_t kLine = 64;
constexpr std::int64_t kWordBytes = 4;

constexpr std::int64_t ceil_div(std::int64_t count, std::int64_t divisor) { return (count + divisor - 1) / divisor; }

/// Describes num_rows consecutive rows. Their first `shared` positions, a multiple of kSpan, are on the same pages. A
/// row with a window that hides positions is a group of its own.
struct RowGroup {
  const AttentionTask* tasks = nullptr;
  std::int64_t num_rows = 0, shared = 0;
};

struct Segment {
  const AttentionTask* tasks = nullptr;
  std::int64_t num_rows = 0, begin = 0, end = 0;

  std::int64_t first_page() const { return begin / tasks->page_size; }
  std::int64_t num_pages() const { return begin == end ? 0 : ceil_div(end, tasks->page_size) - first_page(); }
};

std::int64_t first_span(const AttentionTask& task) { return task.first_position / kSpan * kSpan; }

/// Segment 0 is the positions that all rows share. Segment i is the other positions of row i − 1.
Segment segment_of(const RowGroup& group, std::int64_t idx) {
  if (idx == 0) return {group.tasks, group.num_rows, first_span(*group.tasks), group.shared};
  const AttentionTask* task = group.tasks + idx - 1;
  return {task, 1, group.shared, task->num_positions};
}

class RowGroups {
 public:
  RowGroups(const AttentionTask* tasks, std::int64_t num_tasks) : next_(tasks), end_(tasks + num_tasks) {}
  bool next(RowGroup& group) {
    if (next_ == end_) return false;
    group = {next_, 1, next_->num_positions / kSpan * kSpan};
    while (group.num_rows < kAttentionRows && next_ + group.num_rows != end_) {
      const std::int64_t with_next = in_common(*next_, next_[group.num_rows], group.shared);
      // Stops unless sharing with another row saves more reads than the shorter shared part costs.
      if (with_next <= (group.num_rows - 1) * (group.shared - with_next)) break;
      group.shared = with_next;
      ++group.num_rows;
    }
    next_ += group.num_rows;
    return true;
  }

 private:
  static std::int64_t in_common(const AttentionTask& a, const AttentionTask& b, std::int64_t most) {
    if (a.keys != b.keys || a.num_heads != b.num_heads || a.first_position > 0 || b.first_position > 0) return 0;
    if (b.num_positions < most) most = b.num_positions;
    std::int64_t page = 0;
    while (page * a.page_size < most && a.page_table[page] == b.page_table[page]) ++page;
    return (page * a.page_size < most ? page * a.page_size : most) / kSpan * kSpan;
  }

  const AttentionTask *next_, *end_;
};

/// Prefetches the pages of all groups.
class Ahead {
 public:
  Ahead(const AttentionTask* tasks, std::int64_t num_tasks) : groups_(tasks, num_tasks) {
    next_lines();
    for (std::int64_t i = 0; i < kLines; ++i) ask_line();
  }
  template <int Vectors>
  void ask() {
    constexpr int kVectorsOfLine = static_cast<int>(kLine / kWordBytes) / kLanes;
    constexpr int kLinesRead = (Vectors + kVectorsOfLine - 1) / kVectorsOfLine;
    for (int i = 0; i < kLinesRead; ++i) __builtin_prefetch(at_ + i * kLine, 0, 2);  // an invalid address is harmless
    at_ += kLinesRead * step_;
    if (at_ >= lines_end_) next_lines();
  }
  /// Restores the prefetch distance, because ask() may have prefetched fewer lines than were read.
  void end_of(const Segment& segment) {
    const AttentionTask& task = *segment.tasks;
    passed_ += 2 * segment.num_pages() * ceil_div(task.num_heads * task.head_bytes, kLine);
    while (step_ > 0 && asked_ - (lines_end_ - at_) / kLine < passed_ + kLines) ask_line();
  }

 private:
  static constexpr std::int64_t kLines = 2048;      // prefetch distance in lines: 128 KiB, a small part of L2
  static constexpr std::int64_t kLongestPage = 64;  // longer pages may be largely unwritten, so they are not prefetched

  void ask_line() {
    __builtin_prefetch(at_, 0, 2);
    at_ += step_;
    if (at_ >= lines_end_) next_lines();
  }
  void next_lines() {
    while (page_ == pages_end_) {
      if (segment_idx_ > group_.num_rows) {
        segment_idx_ = 0;
        if (!groups_.next(group_)) return stop();
      }
      segment_ = segment_of(group_, segment_idx_++);
      page_ = segment_.first_page();
      pages_end_ = segment_.tasks->page_size > kLongestPage ? page_ : page_ + segment_.num_pages();
    }
    const AttentionTask& task = *segment_.tasks;
    at_ = (in_values_ ? task.values : task.keys) + task.page_table[page_] * task.page_bytes;
    lines_end_ = at_ + task.num_heads * task.head_bytes;
    asked_ += ceil_div(lines_end_ - at_, kLine);
    page_ += in_values_ ? 1 : 0;
    in_values_ = !in_values_;
  }
  /// Ends prefetching: later calls prefetch the same line again.
  void stop() {
    step_ = 0;
    at_ = reinterpret_cast<const std::byte*>(this);
    lines_end_ = at_ + 1;
  }

  RowGroups groups_;
  RowGroup group_;
  std::int64_t segment_idx_ = 1;
  Segment segment_;
  std::int64_t page_ = 0, pages_end_ = 0;
  const std::byte *at_ = nullptr, *lines_end_ = nullptr;
  std::int64_t step_ = kLine, passed_ = 0;
  std::int64_t asked_ = 0;
  bool in_values_ = false;
};

/// Locates one kv head's keys, values and scales for a span, in blocks of kBlock positions.
struct Span {
  std::int64_t count = 0;
  std::int64_t hidden = 0;  ///< positions before the window
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

/// Computes scores[n][position …], the scaled products q[n]·k, for Vectors vectors of positions. Positions after the
/// span's end and hidden ones get −inf.
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
      if (at < span.hidden)
        result = kLaneIndex < static_cast<std::int32_t>(span.hidden - at) ? splat(-kInfinity) : result;
      largest[n] = max(largest[n], result);
      store(scores + n * kSpan + at, result, All{});
    }
  }
}

/// A query head's running softmax: the largest score, and Σ exp(score − largest).
struct Running {
  float most, sum;
};

/// Factors that rescale the running sums and a span's sums before they are added.
struct Join {
  float before, now;
};

/// Merges a span's softmax into `running`. The first span overwrites `running`.
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

/// Computes Σ weight · value over a span for Vectors vectors of elements from `first` on. Merges the sums into each
/// query's context.
template <class Kv, int Queries, int Vectors, class Lanes>
void mix(const Span& span, const typename Kv::Operand* weights, const Join* joins, bool is_first, std::int64_t first,
         float* const* contexts, Lanes lanes, Ahead& ahead) {
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
    // Zeroes the last word's unwritten positions.
    std::int32_t last[kVectorsAtOnce * kLanes] = {};
    const std::int64_t left = span.head_dim - first, width = left < Vectors * kLanes ? left : Vectors * kLanes;
    __builtin_memcpy(last, values_at(whole), static_cast<std::size_t>(width * kWordBytes));
    const std::int32_t written = static_cast<std::int32_t>((std::uint32_t{1} << (rest * 32 / Kv::kWord)) - 1);
    for (std::int32_t& word : last) word &= written;
    add(reinterpret_cast<const std::byte*>(last), whole);
  }
  for (int n = 0; n < Queries; ++n) {
    for (int v = 0; v < Vectors; ++v) {
      float* to = contexts[n] + first + v * kLanes;
      const VecF sum = sums.finish(weights, n, v);
      store(to, is_first ? sum : fma(load(to, lanes), splat(joins[n].before), sum * joins[n].now), lanes);
    }
  }
}

template <class Kv, int Queries>
void attend_span(const Span& span, bool is_first, const typename Kv::Operand* queries, float* const* contexts,
                 Running* running, float* scores, std::byte* memory, Ahead& ahead) {
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
    mix<Kv, Queries, kVectorsAtOnce>(span, weights, joins, is_first, e, contexts, All{}, ahead);
  for (; e + kLanes <= span.head_dim; e += kLanes)
    mix<Kv, Queries, 1>(span, weights, joins, is_first, e, contexts, All{}, ahead);
  if (e < span.head_dim)
    mix<Kv, Queries, 1>(span, weights, joins, is_first, e, contexts, First{static_cast<int>(span.head_dim - e)}, ahead);
}

void find_blocks(const AttentionTask& task, std::int64_t begin, Span& span) {
  for (std::int64_t at = 0; at < span.count; at += kBlock) {
    const std::int64_t position = begin + at;
    span.blocks[at / kBlock] = {task.page_table[position / task.page_size] * task.page_bytes,
                                position % task.page_size};
  }
}

/// Gathers a head's span from pages of any size into one contiguous page of kSpan positions.
template <class Kv>
void put_together(const AttentionTask& task, std::int64_t begin, Span& span, std::byte* memory) {
  constexpr std::int64_t kValue = kWordBytes / Kv::kWord, kScale = sizeof(float);
  const std::int64_t side_bytes = ceil_div(task.head_dim, Kv::kWord) * Kv::kWord * kValue * kSpan;
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
      copy(values + ((t / Kv::kWord * task.head_dim + e) * Kv::kWord + t % Kv::kWord) * kValue,
           span.values + page + ((slot / Kv::kWord * task.head_dim + e) * Kv::kWord + slot % Kv::kWord) * kValue,
           kValue);
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

/// Holds a group's query heads and their running results, ordered by kv head, then row.
template <class Kv>
class GroupQueries {
 public:
  GroupQueries(const RowGroup& group, float* scratch)
      : group_(group), scores_(scratch), weights_(reinterpret_cast<std::byte*>(scores_ + 4 * kSpan)) {
    const std::int64_t head_dim = group.tasks->head_dim,
                       num_q = group.num_rows * group.tasks->num_heads * group.tasks->num_queries;
    pages_ = weights_ + 4 * attention_operand_bytes(kSpan);
    std::byte* quantized = pages_ + kSpan * (2 * (head_dim + 4) + 2) * 4;
    queries_ = reinterpret_cast<typename Kv::Operand*>(quantized + num_q * attention_operand_bytes(head_dim));
    contexts_ = reinterpret_cast<float**>(queries_ + num_q);
    running_ = reinterpret_cast<Running*>(contexts_ + num_q);
    for_each([&](const AttentionTask& task, std::int64_t head, std::int64_t n, std::int64_t idx) {
      const float key_scale = task.key_scales != nullptr ? task.key_scales[head] : 1.0F;
      queries_[idx] = Kv::prepare(task.q + n * head_dim, head_dim, task.softmax_scale * key_scale,
                                  quantized + idx * attention_operand_bytes(head_dim));
      contexts_[idx] = task.context + n * head_dim;
    });
  }

  void attend(const Segment& segment, Ahead& ahead) {
    const AttentionTask& task = *segment.tasks;
    Span span;
    span.head_dim = task.head_dim;
    for (std::int64_t begin = segment.begin; begin < segment.end; begin += kSpan) {
      span.count = segment.end - begin < kSpan ? segment.end - begin : kSpan;
      span.hidden = task.first_position > begin ? task.first_position - begin : 0;
      const bool in_blocks = task.page_size % kBlock == 0;
      if (in_blocks) find_blocks(task, begin, span);
      for (std::int64_t head = 0; head < task.num_heads; ++head) {
        span.page_size = task.page_size;
        span.scales = task.scales;
        span.keys = task.keys + head * task.head_bytes;
        span.values = task.values + head * task.head_bytes;
        if (!in_blocks) put_together<Kv>(task, begin, span, pages_);
        std::int64_t idx = index(segment.tasks - group_.tasks, head, 0);
        for (std::int64_t left = segment.num_rows * task.num_queries; left > 0; left -= Kv::kMaxQueries) {
          with_count<Kv::kMaxQueries>(left < Kv::kMaxQueries ? left : Kv::kMaxQueries, [&](auto count) {
            attend_span<Kv, decltype(count)::value>(span, begin == first_span(task), queries_ + idx, contexts_ + idx,
                                                    running_ + idx, scores_, weights_, ahead);
          });
          idx += Kv::kMaxQueries;
        }
      }
    }
    ahead.end_of(segment);
  }

  void finish() {
    for_each([&](const AttentionTask& task, std::int64_t head, std::int64_t n, std::int64_t idx) {
      const float value_scale = task.value_scales != nullptr ? task.value_scales[head] : 1.0F;
      const VecF factor = splat(value_scale / running_[idx].sum);
      float* context = contexts_[idx];
      for_vectors(task.head_dim,
                  [&](std::int64_t e, auto lanes) { store(context + e, load(context + e, lanes) * factor, lanes); });
      if (task.lse != nullptr) task.lse[n] = running_[idx].most + __builtin_logf(running_[idx].sum);
    });
  }

 private:
  std::int64_t index(std::int64_t row, std::int64_t head, std::int64_t query) const {
    return (head * group_.num_rows + row) * group_.tasks->num_queries + query;
  }
  template <class Body>
  void for_each(Body body) const {
    for (std::int64_t row = 0; row < group_.num_rows; ++row) {
      const AttentionTask& task = group_.tasks[row];
      for (std::int64_t n = 0; n < task.num_heads * task.num_queries; ++n)
        body(task, n / task.num_queries, n, index(row, n / task.num_queries, n % task.num_queries));
    }
  }

  const RowGroup& group_;
  float* scores_;
  std::byte *weights_, *pages_;
  typename Kv::Operand* queries_;
  float** contexts_;
  Running* running_;
};

template <class Kv>
void attention(const AttentionTask* tasks, std::int64_t num_tasks, float* scratch) {
  Ahead ahead(tasks, num_tasks);
  RowGroups groups(tasks, num_tasks);
  for (RowGroup group; groups.next(group);) {
    GroupQueries<Kv> queries(group, scratch);
    for (std::int64_t i = 0; i <= group.num_rows; ++i) queries.attend(segment_of(group, i), ahead);
    queries.finish();
  }
}

}  // namespace

constinit const AttentionKernels kAttention = {
    .f32 = attention<KvF32>, .bf16 = attention<KvBf16>, .int8 = attention<KvInt8>, .fp8 = attention<KvFp8>};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
