// Attention of the query heads that share one kv head, for one row, over its sequence's pages: scores of all positions,
// softmax, weighted sum of the values. Pages hold keys with the positions side by side and values with the elements
// side by side (ops/paged_attention.h), so that each inner loop is a broadcast times contiguous lanes, and a page is
// read once for all queries. Sums run in the order of the absolute position in blocks of kLanes, so nothing depends on
// how positions are spread over pages.
#include "ops/kernels/attention.h"

#include "ops/kernels/dot.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

#if defined(QRL_ISA_AVX512)
constexpr int kChunksAtOnce = 4;  // vectors of a value
constexpr int kSplit = 4;         // running sums a score: a dot product's latency is several of its throughputs
#else
constexpr int kChunksAtOnce = 2;
constexpr int kSplit = 2;
#endif
constexpr std::int64_t kMostLanes = 16;  // on any path: what scratch is padded to

// A format says how a block of keys, or of values, meets the queries; how queries and softmax weights are prepared for
// it; and what becomes of a sum. `Memory` is what the pages hold.

struct KvF32 : F32Dot {
  using Memory = float;
  static constexpr int kMaxQueries = 4, kParts = kSplit;
  static constexpr bool kRoundsToBf16 = false;
  static Weights load(const float* from) { return weights(from); }
  static Weights load(const float* from, First lanes) { return load_vector<VecF>(from, lanes); }
  static float prepare(const float* values, std::int64_t n, float* codes) {
    __builtin_memcpy(codes, values, static_cast<std::size_t>(n) * sizeof(float));
    return 1.0F;
  }
};

/// Queries and softmax weights are rounded to bf16; products are exact, sums fp32.
struct KvBf16Dot : Bf16Dot {
  static constexpr int kMaxQueries = 4, kParts = kSplit;
  static constexpr bool kRoundsToBf16 = true;
  /// A zero behind an odd end.
  static float prepare(const float* values, std::int64_t n, std::uint16_t* codes) {
    codes[n] = 0;
    for_vectors(n, [&](std::int64_t i, auto lanes) { store(codes + i, load_vector<VecF>(values + i, lanes), lanes); });
    return 1.0F;
  }
};

struct KvBf16 : KvBf16Dot {
  using Memory = std::uint16_t;
  static Weights load(const std::uint16_t* from) { return weights(from); }
  static Weights load(const std::uint16_t* from, First lanes) {
    std::int32_t words[kLanes] = {};
    __builtin_memcpy(words, from, static_cast<std::size_t>(lanes.count) * sizeof(std::int32_t));
    return weights(load_words(words));
  }
};

/// e4m3 codes become bf16, exactly; the scales of keys and values are the task's.
struct KvFp8 : KvBf16Dot {
  using Memory = std::uint8_t;
  static Weights load(const std::uint8_t* from) { return weights(bf16_of_fp8(from)); }
  static Weights load(const std::uint8_t* from, First lanes) {
    std::uint8_t codes[2 * kLanes] = {};
    __builtin_memcpy(codes, from, 2 * static_cast<std::size_t>(lanes.count));
    return weights(bf16_of_fp8(codes));
  }
};

/// Queries and softmax weights become two int8 terms, 254 · high + low, so that they keep 15 bits; sums are exact.
struct KvInt8 : Int8DotOffsetWeights {
  using Memory = std::int8_t;
  static constexpr int kMaxQueries = 3, kParts = 1;  // two terms a query are parts enough
  static constexpr bool kRoundsToBf16 = false;
  static Weights load(const std::int8_t* from) { return weights(load_words(from)); }
  static Weights load(const std::int8_t* from, First lanes) {
    std::int32_t words[kLanes] = {};
    __builtin_memcpy(words, from, static_cast<std::size_t>(lanes.count) * sizeof(std::int32_t));
    return weights(load_words(words));
  }
};

constexpr std::int64_t groups_of(std::int64_t count, std::int64_t group) { return (count + group - 1) / group; }
constexpr std::int64_t padded(std::int64_t count) { return (count + kMostLanes - 1) / kMostLanes * kMostLanes; }

/// One query, or one query's softmax weights, as the format's dot product takes them.
template <class Kv>
struct Prepared {
  typename Kv::Element* codes;
  float unit;  ///< what a sum of codes is multiplied by
};
template <>
struct Prepared<KvInt8> {
  std::int8_t *high, *low;
  float unit;
  std::int32_t bias_high, bias_low;  ///< what the offset of the vector side adds to each sum
};

template <class Kv>
Prepared<Kv> prepare(const float* values, std::int64_t n, void* memory) {
  auto* codes = static_cast<typename Kv::Element*>(memory);
  return {codes, Kv::prepare(values, n, codes)};
}
/// NaN or infinity among the values makes the unit, and so every result, NaN.
template <>
Prepared<KvInt8> prepare<KvInt8>(const float* values, std::int64_t n, void* memory) {
  auto* high = static_cast<std::int8_t*>(memory);
  const std::int64_t room = padded(n + 1);
  auto* low = high + room;
  VecF most{};
  VecF poison{};
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    const VecF v = load(values + i, lanes);
    most = max(most, max(v, -v));
    poison = poison + v * 0.0F;
  });
  const float largest = reduce_max(most), bad = reduce_add(poison);
  const float scale = largest / 127, inverse = largest > 0 ? 127 / largest : 0.0F;
  VecI high_sum{}, low_sum{};
  for (std::int64_t i = 0; i < room; i += kLanes) {
    const std::int64_t left = n - i;
    VecF v{};
    if (left >= kLanes) v = load(values + i, All{});
    else if (left > 0) v = load(values + i, First{static_cast<int>(left)});
    const VecF scaled = v * inverse;
    const VecI h = round_to_int(scaled);
    const VecI l = round_to_int((scaled - __builtin_convertvector(h, VecF)) * 254.0F);
    store(high + i, h, All{});
    store(low + i, l, All{});
    high_sum += h;
    low_sum += l;
  }
  std::int32_t bias_high = 0, bias_low = 0;
  for (int i = 0; i < kLanes; ++i) {
    bias_high += high_sum[i];
    bias_low += low_sum[i];
  }
  return {high, low, scale / 254 + bad, KvInt8::kBias * bias_high, KvInt8::kBias * bias_low};
}

/// Sums of Queries queries against vectors of keys or values, started, fed and finished the same way for both.
template <class Kv, int Queries, int Chunks>
struct Sums {
  typename Kv::Accumulator sums[Queries][Chunks] = {};
  void add(const Prepared<Kv>* queries, std::int64_t word, const typename Kv::Weights (&vectors)[Chunks]) {
    for (int n = 0; n < Queries; ++n) {
      const auto input = Kv::input(queries[n].codes + word * Kv::kGroup);
      for (int c = 0; c < Chunks; ++c) sums[n][c] = Kv::dot(sums[n][c], input, vectors[c]);
    }
  }
  VecF finish(const Prepared<Kv>* queries, int n, int c) const { return sums[n][c] * queries[n].unit; }
};
template <int Queries, int Chunks>
struct Sums<KvInt8, Queries, Chunks> {
  VecI high[Queries][Chunks] = {}, low[Queries][Chunks] = {};
  void add(const Prepared<KvInt8>* queries, std::int64_t word, const KvInt8::Weights (&vectors)[Chunks]) {
    for (int n = 0; n < Queries; ++n) {
      const auto h = KvInt8::input(queries[n].high + word * 4), l = KvInt8::input(queries[n].low + word * 4);
      for (int c = 0; c < Chunks; ++c) {
        high[n][c] = KvInt8::dot(high[n][c], h, vectors[c]);
        low[n][c] = KvInt8::dot(low[n][c], l, vectors[c]);
      }
    }
  }
  VecF finish(const Prepared<KvInt8>* queries, int n, int c) const {
    const VecF h = __builtin_convertvector(high[n][c] - queries[n].bias_high, VecF);
    const VecF l = __builtin_convertvector(low[n][c] - queries[n].bias_low, VecF);
    return fma(h, splat(254.0F), l) * queries[n].unit;
  }
};

/// Calls body(Count<n>) for n = count ≤ 4.
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

/// Where a kv head's keys and values of a run of kLanes positions lie.
struct Place {
  std::int64_t page, slot;
};
Place place_of(const AttentionTask& task, std::int64_t position) {
  return {task.page_table[position / task.page_size], position % task.page_size};
}

/// The scales of int8 keys or values in a page.
const float* scales_of(const AttentionTask& task, const std::byte* side, Place place) {
  return reinterpret_cast<const float*>(side + place.page * task.page_bytes + task.scales);
}

/// Asks for memory some microseconds before it is needed: of the values that follow these scores, and of the keys of
/// the task after this one. Pages lie anywhere, so the processor's own prefetching stops at their ends.
template <class Kv>
void prefetch(const AttentionTask& task, std::int64_t position) {
  if (position % task.page_size != 0) return;
  constexpr std::int64_t kLine = 64;
  const std::int64_t num_bytes =
      task.head_dim * task.page_size * static_cast<std::int64_t>(sizeof(typename Kv::Memory));
  const auto ask = [&](const std::byte* from) {
    for (std::int64_t i = 0; i < num_bytes; i += kLine) __builtin_prefetch(from + i, 0, 2);
  };
  ask(task.values + place_of(task, position).page * task.page_bytes);
  if (position < task.next_positions)
    ask(task.next_keys + task.next_page_table[position / task.page_size] * task.page_bytes);
}

/// scores[n][position …] = scale · q[n]·k for a block of kLanes positions; −inf behind the last one seen.
template <class Kv, int Queries>
void score_block(const AttentionTask& task, const Prepared<Kv>* queries, std::int64_t position, float* scores,
                 std::int64_t stride) {
  using Memory = typename Kv::Memory;
  const Place place = place_of(task, position);
  const auto* keys =
      reinterpret_cast<const Memory*>(task.keys + place.page * task.page_bytes) + place.slot * Kv::kGroup;
  const std::int64_t words = groups_of(task.head_dim, Kv::kGroup), word_stride = task.page_size * Kv::kGroup;
  Sums<Kv, Queries, 1> parts[Kv::kParts];
  std::int64_t word = 0;
  for (; word + Kv::kParts <= words; word += Kv::kParts) {
    for (int s = 0; s < Kv::kParts; ++s) {
      const typename Kv::Weights block[1] = {Kv::load(keys + (word + s) * word_stride)};
      parts[s].add(queries, word + s, block);
    }
  }
  for (; word < words; ++word) {
    const typename Kv::Weights block[1] = {Kv::load(keys + word * word_stride)};
    parts[0].add(queries, word, block);
  }
  VecF scale = splat(task.scale);
  if (task.scales != 0) scale = scale * load(scales_of(task, task.keys, place) + place.slot, All{});
  const std::int64_t left = task.num_positions - position;
  for (int n = 0; n < Queries; ++n) {
    VecF sum = parts[0].finish(queries, n, 0);
    for (int s = 1; s < Kv::kParts; ++s) sum = sum + parts[s].finish(queries, n, 0);
    sum = sum * scale;
    if (left < kLanes) sum = kLaneIndex < static_cast<std::int32_t>(left) ? sum : splat(-kInfinity);
    store(scores + n * stride + position, sum, All{});
  }
}

/// Turns a query's scores into weights exp(score − max), returns their sum and leaves the maximum in `most`; int8
/// values' scales go into the weights. Weights that will meet bf16 are rounded before they are summed, so that they
/// still sum to one.
template <class Kv>
float soften(const AttentionTask& task, float* scores, float& most) {
  VecF largest = splat(-kInfinity), sum{};
  for (std::int64_t i = 0; i < task.num_positions; i += kLanes) largest = max(largest, load(scores + i, All{}));
  most = reduce_max(largest);
  const VecF top = splat(most);
  for (std::int64_t i = 0; i < task.num_positions; i += kLanes) {
    VecF weight = exp(load(scores + i, All{}) - top);
    if constexpr (Kv::kRoundsToBf16) weight = rounded_to_bf16(weight);
    sum = sum + weight;
    if (task.scales != 0) {
      const Place place = place_of(task, i);
      const VecF scales = load(scales_of(task, task.values, place) + place.slot, All{});
      // Behind the last position nothing is known of the scales: a weight of 0 must stay 0.
      weight = kLaneIndex < static_cast<std::int32_t>(task.num_positions - i) ? weight * scales : VecF{};
    }
    store(scores + i, weight, All{});
  }
  return reduce_add(sum);
}

/// The last word of values may hold positions that nobody wrote: those become zero, whatever they are.
template <class Kv>
void clear_behind(const typename Kv::Memory* from, std::int64_t num_real, std::int64_t width, typename Kv::Memory* to) {
  for (std::int64_t e = 0; e < width; ++e) {
    for (std::int64_t i = 0; i < Kv::kGroup; ++i)
      to[e * Kv::kGroup + i] = i < num_real ? from[e * Kv::kGroup + i] : typename Kv::Memory{};
  }
}

/// context[n][first …] = Σ weight · value / sum over all positions, Chunks vectors of elements.
template <class Kv, int Queries, int Chunks, class Lanes>
void mix(const AttentionTask& task, const Prepared<Kv>* weights, const float* sums, std::int64_t first, float* context,
         Lanes lanes) {
  using Memory = typename Kv::Memory;
  constexpr int kGroup = Kv::kGroup;
  const auto load_values = [&](const Memory* from) {
    if constexpr (__is_same(Lanes, All)) return Kv::load(from);
    else return Kv::load(from, lanes);
  };
  Sums<Kv, Queries, Chunks> total;
  const auto add = [&](const Memory* values, std::int64_t word) {
    typename Kv::Weights vectors[Chunks];
    for (int c = 0; c < Chunks; ++c) vectors[c] = load_values(values + c * kLanes * kGroup);
    total.add(weights, word, vectors);
  };
  const std::int64_t row = task.head_dim * kGroup, whole = task.num_positions / kGroup;
  for (std::int64_t word = 0; word < whole;) {
    const Place place = place_of(task, word * kGroup);
    const auto* values = reinterpret_cast<const Memory*>(task.values + place.page * task.page_bytes) + first * kGroup;
    const std::int64_t in_page = task.page_size / kGroup, end = word + in_page < whole ? word + in_page : whole;
    for (; word < end; ++word, values += row) add(values, word);
  }
  if (const std::int64_t rest = task.num_positions - whole * kGroup; rest > 0) {
    const Place place = place_of(task, whole * kGroup);
    const auto* values = reinterpret_cast<const Memory*>(task.values + place.page * task.page_bytes) +
                         place.slot * task.head_dim + first * kGroup;
    Memory last[kChunksAtOnce * kMostLanes * kGroup] = {};
    const std::int64_t width = task.head_dim - first < Chunks * kLanes ? task.head_dim - first : Chunks * kLanes;
    clear_behind<Kv>(values, rest, width, last);
    add(last, whole);
  }
  for (int n = 0; n < Queries; ++n) {
    for (int c = 0; c < Chunks; ++c) {
      const VecF value = total.finish(weights, n, c) * task.value_scale / sums[n];
      store(context + n * task.head_dim + first + c * kLanes, value, lanes);
    }
  }
}

template <class Kv, int Queries>
void attend(const AttentionTask& task, const float* q, float* context, float* lse, float* scores, std::byte* prepared) {
  const std::int64_t stride = padded(task.num_positions);
  const std::int64_t prepared_bytes = attention_prepared_bytes(stride > task.head_dim ? stride : task.head_dim);
  Prepared<Kv> queries[Queries];
  for (int n = 0; n < Queries; ++n)
    queries[n] = prepare<Kv>(q + n * task.head_dim, task.head_dim, prepared + n * prepared_bytes);
  for (std::int64_t position = 0; position < task.num_positions; position += kLanes) {
    prefetch<Kv>(task, position);
    score_block<Kv, Queries>(task, queries, position, scores, stride);
  }
  float sums[Queries];
  for (int n = 0; n < Queries; ++n) {
    float most;
    sums[n] = soften<Kv>(task, scores + n * stride, most);
    if (lse != nullptr) lse[n] = most + __builtin_logf(sums[n]);
    queries[n] = prepare<Kv>(scores + n * stride, task.num_positions, prepared + n * prepared_bytes);
  }
  std::int64_t e = 0;
  for (; e + kChunksAtOnce * kLanes <= task.head_dim; e += kChunksAtOnce * kLanes)
    mix<Kv, Queries, kChunksAtOnce>(task, queries, sums, e, context, All{});
  for (; e + kLanes <= task.head_dim; e += kLanes) mix<Kv, Queries, 1>(task, queries, sums, e, context, All{});
  if (e < task.head_dim)
    mix<Kv, Queries, 1>(task, queries, sums, e, context, First{static_cast<int>(task.head_dim - e)});
}

/// Pages of any size as one page of all positions, a multiple of kMostLanes: the same numbers in the same order.
template <class Kv>
AttentionTask in_one_page(const AttentionTask& task, std::byte* memory) {
  using Memory = typename Kv::Memory;
  static constexpr std::int32_t kFirstPage = 0;
  constexpr int kGroup = Kv::kGroup;
  AttentionTask whole = task;
  whole.page_size = padded(task.num_positions);
  whole.page_table = &kFirstPage;
  whole.next_positions = 0;
  const std::int64_t side_bytes =
      groups_of(task.head_dim, kGroup) * kGroup * whole.page_size * static_cast<std::int64_t>(sizeof(Memory));
  const std::int64_t scales_bytes = whole.page_size * static_cast<std::int64_t>(sizeof(float));
  whole.keys = memory;
  whole.values = memory + side_bytes + scales_bytes;
  whole.scales = task.scales != 0 ? side_bytes : 0;
  auto* keys = reinterpret_cast<Memory*>(memory);
  auto* values = reinterpret_cast<Memory*>(memory + side_bytes + scales_bytes);
  for (std::int64_t t = 0; t < task.num_positions; ++t) {
    const Place place = place_of(task, t);
    const auto* key = reinterpret_cast<const Memory*>(task.keys + place.page * task.page_bytes);
    const auto* value = reinterpret_cast<const Memory*>(task.values + place.page * task.page_bytes);
    for (std::int64_t e = 0; e < task.head_dim; ++e) {
      keys[(e / kGroup * whole.page_size + t) * kGroup + e % kGroup] =
          key[(e / kGroup * task.page_size + place.slot) * kGroup + e % kGroup];
      values[(t / kGroup * task.head_dim + e) * kGroup + t % kGroup] =
          value[(place.slot / kGroup * task.head_dim + e) * kGroup + place.slot % kGroup];
    }
    if (task.scales == 0) continue;
    reinterpret_cast<float*>(memory + side_bytes)[t] = scales_of(task, task.keys, place)[place.slot];
    reinterpret_cast<float*>(memory + 2 * side_bytes + scales_bytes)[t] =
        scales_of(task, task.values, place)[place.slot];
  }
  return whole;
}

template <class Kv>
void attention(const AttentionTask& task) {
  const std::int64_t stride = padded(task.num_positions);
  float* scores = task.scratch;
  auto* prepared = reinterpret_cast<std::byte*>(scores + 4 * stride);
  const std::int64_t prepared_bytes = attention_prepared_bytes(stride > task.head_dim ? stride : task.head_dim);
  const AttentionTask paged =
      task.page_size % kMostLanes == 0 ? task : in_one_page<Kv>(task, prepared + 4 * prepared_bytes);
  for (std::int64_t n = 0; n < task.num_queries; n += Kv::kMaxQueries) {
    const std::int64_t count = task.num_queries - n < Kv::kMaxQueries ? task.num_queries - n : Kv::kMaxQueries;
    with_count<Kv::kMaxQueries>(count, [&](auto queries) {
      attend<Kv, decltype(queries)::value>(paged, task.q + n * task.head_dim, task.context + n * task.head_dim,
                                           task.lse != nullptr ? task.lse + n : nullptr, scores, prepared);
    });
  }
}

}  // namespace

constinit const AttentionKernels kAttention = {
    .f32 = attention<KvF32>, .bf16 = attention<KvBf16>, .int8 = attention<KvInt8>, .fp8 = attention<KvFp8>};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
