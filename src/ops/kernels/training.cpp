#include "ops/kernels/training.h"

#include "ops/kernels/gates.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {
namespace {

using Bits = std::uint16_t;

template <class Body>
void with_types(MixedArray a, MixedArray b, const Body& body) {
  if (a.is_bf16 && b.is_bf16) body(static_cast<Bits*>(a.data), static_cast<Bits*>(b.data));
  else if (a.is_bf16) body(static_cast<Bits*>(a.data), static_cast<float*>(b.data));
  else if (b.is_bf16) body(static_cast<float*>(a.data), static_cast<Bits*>(b.data));
  else body(static_cast<float*>(a.data), static_cast<float*>(b.data));
}

float inverse_root(float mean_square) { return 1.0F / __builtin_sqrtf(mean_square); }

void add_rms_norm(const AddRmsNorm& args, std::int64_t begin, std::int64_t end) {
  const VecF factor = splat(args.factor);
  with_types(args.y, args.normed, [&](const auto* y, auto* normed) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = r * args.width;
      const float* row = args.x + at;
      VecF squares = {};
      if (y != nullptr) {
        for_vectors(args.width, [&](std::int64_t i, auto n) {
          VecF branch = load(y + at + i, n);
          if (args.y_bias != nullptr) branch += load(args.y_bias + i, n);
          const VecF sum = load(args.x + at + i, n) + branch * factor;
          store(args.sum + at + i, sum, n);
          squares = fma(sum, sum, squares);
        });
        row = args.sum + at;
      } else {
        for_vectors(args.width, [&](std::int64_t i, auto n) {
          const VecF x = load(row + i, n);
          squares = fma(x, x, squares);
        });
      }
      const float inverse = inverse_root(reduce_add(squares) / static_cast<float>(args.width) + args.eps);
      args.inverse_rms[r] = inverse;
      for_vectors(args.width, [&](std::int64_t i, auto n) {
        store(normed + at + i, load(row + i, n) * inverse * load(args.gain + i, n), n);
      });
    }
  });
}

void add_rms_norm_backward(const AddRmsNormBackward& args, std::int64_t begin, std::int64_t end) {
  const VecF factor = splat(args.factor);
  with_types(args.d_normed, args.dy, [&](const auto* d_normed, auto* dy) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = r * args.width;
      const float inverse = args.inverse_rms[r];
      VecF dot = {};
      for_vectors(args.width, [&](std::int64_t i, auto n) {
        const VecF x_hat = load(args.sum + at + i, n) * inverse;
        const VecF d = load(d_normed + at + i, n);
        store(args.d_gain + i, fma(d, x_hat, load(args.d_gain + i, n)), n);
        dot = fma(d * load(args.gain + i, n), x_hat, dot);
      });
      const float mean = reduce_add(dot) / static_cast<float>(args.width);
      for_vectors(args.width, [&](std::int64_t i, auto n) {
        const VecF x_hat = load(args.sum + at + i, n) * inverse;
        VecF dx = (load(d_normed + at + i, n) * load(args.gain + i, n) - x_hat * mean) * inverse;
        if (args.d_sum != nullptr) dx += load(args.d_sum + at + i, n);
        store(args.dx + at + i, dx, n);
        const VecF d_branch = dx * factor;
        if (args.d_y_bias != nullptr) store(args.d_y_bias + i, load(args.d_y_bias + i, n) + d_branch, n);
        if (dy != nullptr) store(dy + at + i, d_branch, n);
      });
    }
  });
}

inline VecF nearest_bf16(VecF x) {
  Bits half[kLanes];
  store(half, x, All{});
  return load(half, All{});
}

struct Head {
  bool turns;
  const float* gain;
  bool rounds;
};
inline Head head_at(const QkvTransform& args, std::int64_t head) {
  const bool is_query = head < args.num_heads, is_key = !is_query && head < args.num_heads + args.num_kv_heads;
  return {is_query || is_key, is_query ? args.q_gain : (is_key ? args.k_gain : nullptr),
          !is_query && args.round_kv_to_bf16};
}

template <class T>
void qkv_rows(const QkvTransform& args, const T* in, float* out, float* inverse_rms, std::int64_t begin,
              std::int64_t end) {
  const std::int64_t half = args.rotary_dim / 2, num_turning = args.num_heads + args.num_kv_heads;
  const std::int64_t num_heads = num_turning + args.num_kv_heads;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* cosines = args.rope_table + args.positions[r] * args.rotary_dim;
    const float* sines = cosines + half;
    for (std::int64_t h = 0; h < num_heads; ++h) {
      const Head head = head_at(args, h);
      const T* x = in + (r * num_heads + h) * args.head_dim;
      const float* bias = args.bias != nullptr ? args.bias + h * args.head_dim : nullptr;
      float* y = out + (r * num_heads + h) * args.head_dim;
      VecF squares = {};
      for_vectors(args.head_dim, [&](std::int64_t i, auto n) {
        VecF value = load(x + i, n);
        if (bias != nullptr) value += load(bias + i, n);
        squares = fma(value, value, squares);
        store(y + i, value, n);
      });
      if (head.gain != nullptr) {
        const float inverse = inverse_root(reduce_add(squares) / static_cast<float>(args.head_dim) + args.eps);
        inverse_rms[r * num_turning + h] = inverse;
        for_vectors(args.head_dim, [&](std::int64_t i, auto n) {
          store(y + i, load(y + i, n) * inverse * load(head.gain + i, n), n);
        });
      }
      if (head.turns) {
        for_vectors(half, [&](std::int64_t i, auto n) {
          const VecF low = load(y + i, n), high = load(y + half + i, n);
          const VecF cosine = load(cosines + i, n), sine = load(sines + i, n);
          // Uses the same fused multiply-adds as the decoder, for equal bits.
          store(y + i, fma(low, cosine, -(high * sine)), n);
          store(y + half + i, fma(high, cosine, low * sine), n);
        });
      }
      if (head.rounds) {
        for_vectors(args.head_dim, [&](std::int64_t i, auto n) { store(y + i, nearest_bf16(load(y + i, n)), n); });
      }
    }
  }
}

/// Largest head_dim; ops/dispatch/training.cpp refuses more.
constexpr std::int64_t kMaxHeadDim = 1024;

template <class T>
void qkv_rows_backward(const QkvTransform& args, const T* in, const float* inverse_rms, const QkvGradients& gradients,
                       T* d_in, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = args.rotary_dim / 2, num_turning = args.num_heads + args.num_kv_heads;
  const std::int64_t num_heads = num_turning + args.num_kv_heads;
  alignas(64) float d[kMaxHeadDim];
  for (std::int64_t r = begin; r < end; ++r) {
    const float* cosines = args.rope_table + args.positions[r] * args.rotary_dim;
    const float* sines = cosines + half;
    for (std::int64_t h = 0; h < num_heads; ++h) {
      const Head head = head_at(args, h);
      const std::int64_t at = (r * num_heads + h) * args.head_dim;
      const float* d_out = gradients.d_out + at;
      if (head.turns) {
        for_vectors(half, [&](std::int64_t i, auto n) {
          const VecF low = load(d_out + i, n), high = load(d_out + half + i, n);
          const VecF cosine = load(cosines + i, n), sine = load(sines + i, n);
          store(d + i, low * cosine + high * sine, n);
          store(d + half + i, high * cosine - low * sine, n);
        });
      }
      const std::int64_t turned = head.turns ? args.rotary_dim : 0;
      for_vectors(args.head_dim - turned,
                  [&](std::int64_t i, auto n) { store(d + turned + i, load(d_out + turned + i, n), n); });
      const float* bias = args.bias != nullptr ? args.bias + h * args.head_dim : nullptr;
      if (head.gain != nullptr) {
        const float inverse = inverse_rms[r * num_turning + h];
        float* d_gain = h < args.num_heads ? gradients.d_q_gain : gradients.d_k_gain;
        VecF dot = {};
        const auto x_hat = [&](std::int64_t i, auto n) {
          VecF value = load(in + at + i, n);
          if (bias != nullptr) value += load(bias + i, n);
          return value * inverse;
        };
        for_vectors(args.head_dim, [&](std::int64_t i, auto n) {
          const VecF hat = x_hat(i, n), d_normed = load(d + i, n);
          store(d_gain + i, fma(d_normed, hat, load(d_gain + i, n)), n);
          dot = fma(d_normed * load(head.gain + i, n), hat, dot);
        });
        const float mean = reduce_add(dot) / static_cast<float>(args.head_dim);
        for_vectors(args.head_dim, [&](std::int64_t i, auto n) {
          store(d + i, (load(d + i, n) * load(head.gain + i, n) - x_hat(i, n) * mean) * inverse, n);
        });
      }
      for_vectors(args.head_dim, [&](std::int64_t i, auto n) {
        const VecF value = load(d + i, n);
        store(d_in + at + i, value, n);
        if (gradients.d_bias != nullptr) {
          float* d_bias = gradients.d_bias + h * args.head_dim + i;
          store(d_bias, load(d_bias, n) + value, n);
        }
      });
    }
  }
}

void qkv_transform(const QkvTransform& args, float* out, float* inverse_rms, std::int64_t begin, std::int64_t end) {
  if (args.in.is_bf16) qkv_rows(args, static_cast<const Bits*>(args.in.data), out, inverse_rms, begin, end);
  else qkv_rows(args, static_cast<const float*>(args.in.data), out, inverse_rms, begin, end);
}

void qkv_transform_backward(const QkvTransform& args, const float* inverse_rms, const QkvGradients& gradients,
                            std::int64_t begin, std::int64_t end) {
  if (args.in.is_bf16) {
    qkv_rows_backward(args, static_cast<const Bits*>(args.in.data), inverse_rms, gradients,
                      static_cast<Bits*>(gradients.d_in.data), begin, end);
  } else {
    qkv_rows_backward(args, static_cast<const float*>(args.in.data), inverse_rms, gradients,
                      static_cast<float*>(gradients.d_in.data), begin, end);
  }
}

void swiglu(base::Gate activation, std::int64_t width, MixedArray halves, MixedArray out, std::int64_t begin,
            std::int64_t end) {
  with_gate(activation, [&](auto act) {
    with_types(halves, out, [&](const auto* in, auto* to) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto* gate = in + r * 2 * width;
        for_vectors(width, [&](std::int64_t i, auto n) {
          store(to + r * width + i, act.value(load(gate + i, n)) * load(gate + width + i, n), n);
        });
      }
    });
  });
}

template <class Act>
void gate_backward(Act act, std::int64_t width, MixedArray halves, MixedArray d_out, MixedArray d_halves,
                   std::int64_t begin, std::int64_t end) {
  with_types(halves, d_out, [&](auto* in, const auto* d) {
    auto* d_in = static_cast<decltype(in)>(d_halves.data);
    for (std::int64_t r = begin; r < end; ++r) {
      const auto* gate = in + r * 2 * width;
      auto* d_gate = d_in + r * 2 * width;
      for_vectors(width, [&](std::int64_t i, auto n) {
        const VecF g = load(gate + i, n), up = load(gate + width + i, n), dy = load(d + r * width + i, n);
        const VecF s = act.share(g);
        store(d_gate + i, dy * up * s * act.rest(g, s), n);
        store(d_gate + width + i, dy * g * s, n);
      });
    }
  });
}

void swiglu_backward(base::Gate activation, std::int64_t width, MixedArray halves, MixedArray d_out,
                     MixedArray d_halves, std::int64_t begin, std::int64_t end) {
  with_gate(activation, [&](auto act) { gate_backward(act, width, halves, d_out, d_halves, begin, end); });
}

void apply_gates(std::int64_t width, MixedArray gates, MixedArray context, MixedArray out, std::int64_t begin,
                 std::int64_t end) {
  with_types(gates, context, [&](const auto* g, auto* x) {
    auto* to = static_cast<decltype(x)>(out.data);
    for_vectors((end - begin) * width, [&](std::int64_t i, auto n) {
      const std::int64_t at = begin * width + i;
      store(to + at, load(x + at, n) * sigmoid(load(g + at, n)), n);
    });
  });
}

void apply_gates_backward(std::int64_t width, MixedArray gates, MixedArray context, const GateGradients& gradients,
                          std::int64_t begin, std::int64_t end) {
  with_types(gates, context, [&](auto* g, auto* x) {
    const auto* d_out = static_cast<decltype(x)>(gradients.d_out.data);
    auto* d_context = static_cast<decltype(x)>(gradients.d_context.data);
    auto* d_gates = static_cast<decltype(g)>(gradients.d_gates.data);
    for_vectors((end - begin) * width, [&](std::int64_t i, auto n) {
      const std::int64_t at = begin * width + i;
      const VecF s = sigmoid(load(g + at, n)), d = load(d_out + at, n), value = load(x + at, n);
      store(d_gates + at, d * value * s * (1.0F - s), n);
      store(d_context + at, d * s, n);
    });
  });
}

void token_log_probs(const TokenDistribution& args, const float* logits, float* log_probs, float* entropy, float* lse,
                     std::int64_t begin, std::int64_t end) {
  const float scale = args.inverse_temperature;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* row = logits + r * args.vocab_size;
    VecF most_lanes = splat(-kInfinity);
    std::int64_t whole = args.vocab_size / kLanes * kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) most_lanes = max(load(row + i, All{}) * scale, most_lanes);
    float most = reduce_max(most_lanes);
    for (std::int64_t i = whole; i < args.vocab_size; ++i) most = row[i] * scale > most ? row[i] * scale : most;
    // Entropy = log Σ e^z − Σ e^z·z / Σ e^z, with z = scaled logit − max.
    VecF sum = {}, weighted = {};
    const auto add = [&](VecF z, VecF p) {
      sum += p;
      weighted = fma(p, z > -87.0F ? z : splat(-87.0F), weighted);
    };
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      const VecF z = load(row + i, All{}) * scale - most;
      add(z, exp(z));
    }
    float rest = 0, rest_weighted = 0;
    if (whole < args.vocab_size) {
      const VecF z = load(row + whole, First{static_cast<int>(args.vocab_size - whole)}) * scale - most, p = exp(z);
      for (std::int64_t i = 0; i < args.vocab_size - whole; ++i) {
        rest += p[i];
        rest_weighted += p[i] * (z[i] > -87.0F ? z[i] : -87.0F);
      }
    }
    const float total = reduce_add(sum) + rest, log_total = __builtin_logf(total);
    lse[r] = most + log_total;
    log_probs[r] = row[args.targets[r]] * scale - most - log_total;
    entropy[r] = log_total - (reduce_add(weighted) + rest_weighted) / total;
  }
}

template <class T>
void token_rows_backward(const TokenDistribution& args, const float* logits, const TokenGradients& gradients, T* out,
                         std::int64_t begin, std::int64_t end) {
  const float scale = args.inverse_temperature;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* row = logits + r * args.vocab_size;
    T* to = out + r * gradients.d_logits_stride;
    const float lse = gradients.lse[r], entropy = gradients.entropy[r];
    const float d_log_prob = gradients.d_log_probs[r], d_entropy = gradients.d_entropy[r];
    // ∂ log p_target/∂z_j = [j = target] − p_j; ∂ entropy/∂z_j = −p_j (log p_j + entropy).
    const auto slope = [&](VecF logit) {
      const VecF log_p = logit * scale - lse, p = exp(log_p);
      const VecF bounded = log_p > -87.0F ? log_p : splat(-87.0F);
      return -p * (d_log_prob + d_entropy * (bounded + entropy)) * scale;
    };
    const std::int64_t target = args.targets[r];
    const VecF at_target = slope(splat(row[target])) + d_log_prob * scale;  // read before the logit is overwritten
    for_vectors(args.vocab_size, [&](std::int64_t i, auto n) { store(to + i, slope(load(row + i, n)), n); });
    store(to + target, at_target, First{1});
  }
}

void token_log_probs_backward(const TokenDistribution& args, const float* logits, const TokenGradients& gradients,
                              std::int64_t begin, std::int64_t end) {
  if (gradients.d_logits.is_bf16) {
    token_rows_backward(args, logits, gradients, static_cast<Bits*>(gradients.d_logits.data), begin, end);
  } else {
    token_rows_backward(args, logits, gradients, static_cast<float*>(gradients.d_logits.data), begin, end);
  }
}

double sum_of_squares(const float* values, std::int64_t count) {
  // A segment's squares are summed in fp32, the segments' sums in fp64.
  constexpr std::int64_t kSegment = 64 * kLanes;
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kSegment) {
    VecF squares = {};
    for_vectors(count - first < kSegment ? count - first : kSegment, [&](std::int64_t i, auto n) {
      const VecF x = load(values + first + i, n);
      squares = fma(x, x, squares);
    });
    total += static_cast<double>(reduce_add(squares));
  }
  return total;
}

inline VecF square_root(VecF x) {
#if defined(QRL_ISA_AVX512)
  return _mm512_maskz_sqrt_ps(0xffff, x);
#elif defined(QRL_ISA_AVX2)
  return _mm256_sqrt_ps(x);
#else
  return _mm_sqrt_ps(x);
#endif
}

void adamw_step(const AdamW& args, std::int64_t count, float* weights, float* gradients, float* exp_avg,
                float* exp_avg_sq) {
  const float keep = 1.0F - args.lr * args.weight_decay, rate = args.lr * args.first_correction;
  for_vectors(count, [&](std::int64_t i, auto n) {
    const VecF g = load(gradients + i, n) * args.gradient_scale;
    const VecF m = load(exp_avg + i, n) * args.beta1 + g * (1.0F - args.beta1);
    const VecF v = load(exp_avg_sq + i, n) * args.beta2 + g * g * (1.0F - args.beta2);
    const VecF root = square_root(v * args.second_correction) + args.eps;
    store(exp_avg + i, m, n);
    store(exp_avg_sq + i, v, n);
    store(weights + i, load(weights + i, n) * keep - m * rate / root, n);
    store(gradients + i, VecF{}, n);
  });
}

}  // namespace

const TrainingKernels kTraining{add_rms_norm,    add_rms_norm_backward,    qkv_transform,  qkv_transform_backward,
                                swiglu,          swiglu_backward,          apply_gates,    apply_gates_backward,
                                token_log_probs, token_log_probs_backward, sum_of_squares, adamw_step};

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
