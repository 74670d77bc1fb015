#include "ops/kernels/delta_net.h"
#include "ops/kernels/delta_rows.h"
#include "ops/kernels/kernels.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

void delta_backward(const DeltaSegment& segment, const DeltaStepGradients& step, float* scratch);
std::int64_t delta_backward_scratch(const DeltaShape& shape);

namespace {

void turn_taps(const DeltaShape& shape, const DeltaWeights& weights, std::int64_t key_head, float* taps) {
  const DeltaGroup group(shape, key_head);
  const std::int64_t columns[] = {group.q_column, group.k_column, group.v_column};
  const std::int64_t widths[] = {group.key_dim, group.key_dim, group.num_heads * group.value_dim};
  std::int64_t at = 0;
  for (int part = 0; part < 3; ++part) {
    for (std::int64_t i = 0; i < widths[part]; ++i, ++at) {
      for (std::int64_t t = 0; t < shape.conv_width; ++t)
        taps[t * group.channels() + at] = weights.taps_CT[(columns[part] + i) * shape.conv_width + t];
    }
  }
}

/// Holds a segment's rows of one head.
struct RuleRows {
  const float *q, *k, *v;  ///< [rows, dk], [rows, dk], [rows, dv]
  const float* q_dot_k;    ///< [rows]
  float* o;                ///< [rows, dv]
};

constexpr int kParts = 4;

/// Holds the sums Sᵀk and Sᵀq of some columns, in four parts by dk modulo 4.
template <int kVectors>
struct ColumnSums {
  VecF of_k[kParts][kVectors], of_q[kParts][kVectors];
  static VecF total(const VecF (&parts)[kParts][kVectors], int v) {
    return (parts[0][v] + parts[1][v]) + (parts[2][v] + parts[3][v]);
  }
};

/// Holds the update that S still lacks.
template <int kVectors>
struct LateUpdate {
  const float* k;
  float decay;
  VecF delta[kVectors];
};

static_assert(kDeltaDimMultiple % kLanes == 0);

/// Points to a vector of S's first row (DeltaHeadState). The next row is kDeltaDimMultiple floats on.
inline float* vector_of(float* state, std::int64_t dk, std::int64_t column) {
  return state + column / kDeltaDimMultiple * dk * kDeltaDimMultiple + column % kDeltaDimMultiple;
}

/// Reads S once: with kUpdates applies the late update and writes S back, then sums. `s`: the first vector; the others
/// are `apart` floats on.
template <bool kUpdates, int kVectors>
[[gnu::always_inline]] inline void read_columns(std::int64_t dk, std::int64_t apart, const LateUpdate<kVectors>& late,
                                                const float* k, const float* q, float* s, ColumnSums<kVectors>& sums) {
  sums = {};
  const VecF decay = splat(late.decay);
  for (std::int64_t i = 0; i < dk; i += kParts) {
    for (int part = 0; part < kParts; ++part, s += kDeltaDimMultiple) {
      const VecF k_i = splat(k[i + part]), q_i = splat(q[i + part]);
      for (int v = 0; v < kVectors; ++v) {
        VecF value = load(s + v * apart, All{});
        if constexpr (kUpdates) {
          value = fma(splat(late.k[i + part]), late.delta[v], value * decay);
          store(s + v * apart, value, All{});
        }
        sums.of_k[part][v] = fma(k_i, value, sums.of_k[part][v]);
        sums.of_q[part][v] = fma(q_i, value, sums.of_q[part][v]);
      }
    }
  }
}

/// Applies the delta rule to kVectors vectors of S's columns from `column` on, row after row.
template <int kVectors>
void advance_columns(const DeltaSegment& segment, const DeltaGates& gates, const RuleRows& rows, std::int64_t column,
                     bool applies_update, float* state, float* kept) {
  const std::int64_t dk = segment.shape->key_dim, dv = segment.shape->value_dim;
  const DeltaHeadState layout(*segment.shape);
  LateUpdate<kVectors> late = {state + layout.update_k, state[layout.update_decay], {}};
  for (int v = 0; v < kVectors; ++v) late.delta[v] = load(state + layout.update_delta + column + v * kLanes, All{});

  float* s = vector_of(state, dk, column);
  const std::int64_t apart = vector_of(state, dk, column + kLanes) - s;
  for (std::int64_t r = 0; r < segment.num_rows; ++r) {
    const float *k = rows.k + r * dk, *q = rows.q + r * dk;
    ColumnSums<kVectors> sums;
    if (applies_update || r > 0) read_columns<true>(dk, apart, late, k, q, s, sums);
    else read_columns<false>(dk, apart, late, k, q, s, sums);
    if (r == 0 && kept != nullptr) {
      for (std::int64_t i = 0; i < dk; ++i) {
        for (int v = 0; v < kVectors; ++v)
          store(kept + i * dv + column + v * kLanes, load(s + v * apart + i * kDeltaDimMultiple, All{}), All{});
      }
    }
    late.k = k;
    late.decay = gates.decay[r];
    for (int v = 0; v < kVectors; ++v) {
      const VecF value = load(rows.v + r * dv + column + v * kLanes, All{});
      late.delta[v] = gates.beta[r] * (value - late.decay * sums.total(sums.of_k, v));
      const VecF before = late.decay * sums.total(sums.of_q, v);
      store(rows.o + r * dv + column + v * kLanes, fma(splat(rows.q_dot_k[r]), late.delta[v], before), All{});
    }
  }
  for (int v = 0; v < kVectors; ++v) store(state + layout.update_delta + column + v * kLanes, late.delta[v], All{});
}

void advance(const DeltaSegment& segment, const DeltaGates& gates, const RuleRows& rows, const DeltaStep& step,
             std::int64_t head_of_group) {
  const std::int64_t dk = segment.shape->key_dim, dv = segment.shape->value_dim;
  const DeltaHeadState layout(*segment.shape);
  float* state = step.states + head_of_group * layout.size;
  float* kept = step.kept != nullptr ? step.kept + head_of_group * dk * dv : nullptr;
  if (step.begins) {
    for (std::int64_t i = 0; i < dk * dv; i += kLanes) store(state + i, VecF{}, All{});
  }
  const bool applies_update = step.applies_update && !step.begins;
#if defined(QRL_ISA_AVX512)
  constexpr int kVectors = 2;  // registers: 16 sums, 2 of S, 2 of δ, decay, 3 broadcasts: 24 of 32
#else
  constexpr int kVectors = 1;
#endif
  std::int64_t column = 0;
  for (; column + kVectors * kLanes <= dv; column += kVectors * kLanes)
    advance_columns<kVectors>(segment, gates, rows, column, applies_update, state, kept);
  for (; column < dv; column += kLanes) advance_columns<1>(segment, gates, rows, column, applies_update, state, kept);

  const std::int64_t last = segment.num_rows - 1;
  for (std::int64_t i = 0; i < dk; i += kLanes)
    store(state + layout.update_k + i, load(rows.k + last * dk + i, All{}), All{});
  state[layout.update_decay] = gates.decay[last];
}

/// Normalizes o, and multiplies it by the gain and silu(z).
template <class T, class Out>
void finish(const DeltaRows<T>& rows, const DeltaGroup& group, std::int64_t head_of_group, const float* o, Out* out) {
  const DeltaShape& shape = *rows.segment.shape;
  for (std::int64_t r = 0; r < rows.segment.num_rows; ++r) {
    const float* row = o + r * shape.value_dim;
    const float inverse = inverse_rms(row, shape.value_dim, shape.eps);
    const T* z = rows.at(r) + group.z_column + head_of_group * shape.value_dim;
    Out* to = out + r * shape.out_width() + (group.first_head + head_of_group) * shape.value_dim;
    for (std::int64_t i = 0; i < shape.value_dim; i += kLanes) {
      const VecF normed = load(row + i, All{}) * inverse * load(rows.segment.weights->gain_V + i, All{});
      store(to + i, normed * Silu::value(load(z + i, All{})), All{});
    }
  }
}

template <class T>
void forward_rows(const DeltaRows<T>& rows, const DeltaStep& step, float* scratch) {
  const DeltaSegment& segment = rows.segment;
  const DeltaShape& shape = *segment.shape;
  const DeltaGroup group(shape, segment.key_head);
  const std::int64_t n = segment.num_rows, dk = shape.key_dim, dv = shape.value_dim, stride = group.channels();
  float *q = scratch, *k = q + kDeltaChunk * dk, *v = k + kDeltaChunk * dk, *o = v + kDeltaChunk * dv;
  convolve(rows, group.q_column, dk, segment.taps, stride, q);
  convolve(rows, group.k_column, dk, segment.taps + dk, stride, k);
  apply_silu(q, n * dk, q);
  apply_silu(k, n * dk, k);
  alignas(64) float q_dot_k[kDeltaChunk];
  for (std::int64_t r = 0; r < n; ++r) {
    normalize(dk, query_scale(shape), q + r * dk);
    normalize(dk, 1, k + r * dk);
    VecF products = {};
    for (std::int64_t i = 0; i < dk; i += kLanes)
      products = fma(load(q + r * dk + i, All{}), load(k + r * dk + i, All{}), products);
    q_dot_k[r] = reduce_add(products);
  }
  DeltaGates gates;
  for (std::int64_t head = 0; head < group.num_heads; ++head) {
    convolve(rows, group.v_column + head * dv, dv, segment.taps + 2 * dk + head * dv, stride, v);
    apply_silu(v, n * dv, v);
    compute_gates(segment, group.first_head + head, padded_rows(n, kLanes), gates);
    advance(segment, gates, {q, k, v, q_dot_k, o}, step, head);
    if (step.out.is_bf16) finish(rows, group, head, o, static_cast<std::uint16_t*>(step.out.data));
    else finish(rows, group, head, o, static_cast<float*>(step.out.data));
  }
}

void forward(const DeltaSegment& segment, const DeltaStep& step, float* scratch) {
  with_rows(segment, [&](const auto& rows) { forward_rows(rows, step, scratch); });
}

std::int64_t forward_scratch(const DeltaShape& shape) { return kDeltaChunk * 2 * (shape.key_dim + shape.value_dim); }

}  // namespace

constinit const DeltaKernels kDeltaNet = {
    .turn_taps = turn_taps,
    .forward = forward,
    .backward = delta_backward,
    .forward_scratch = forward_scratch,
    .backward_scratch = delta_backward_scratch,
};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
