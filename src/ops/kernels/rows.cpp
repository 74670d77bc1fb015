#include "ops/kernels/gates.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

void rms_norm(const float* x, const float* gain, float eps, std::int64_t n, float* y) {
  VecF squares{};
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    const VecF v = load(x + i, lanes);
    squares = fma(v, v, squares);
  });
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const VecF inverse = splat(1.0F / __builtin_sqrtf(mean + eps));
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    store(y + i, load(x + i, lanes) * inverse * load(gain + i, lanes), lanes);
  });
}

void swiglu(base::Gate activation, const float* gate, const float* up, std::int64_t n, float* y) {
  with_gate(activation, [&](auto act) {
    for_vectors(n, [&](std::int64_t i, auto lanes) {
      store(y + i, act.value(load(gate + i, lanes)) * load(up + i, lanes), lanes);
    });
  });
}

void rope(const RopeTask& task) {
  const std::int64_t half = task.rotary_dim / 2;
  const float* gain = task.norms_whole ? nullptr : task.gain;
  if (task.norms_whole) rms_norm(task.heads, task.gain, task.eps, task.num_heads * task.head_dim, task.heads);
  for (std::int64_t h = 0; h < task.num_heads; ++h) {
    float* first = task.heads + h * task.head_dim;
    float* second = first + half;
    if (gain != nullptr) rms_norm(first, gain, task.eps, task.head_dim, first);
    for_vectors(half, [&](std::int64_t i, auto lanes) {
      const VecF a = load(first + i, lanes), b = load(second + i, lanes);
      const VecF cosine = load(task.rope + i, lanes), sine = load(task.rope + half + i, lanes);
      store(first + i, fma(a, cosine, -(b * sine)), lanes);
      store(second + i, fma(b, cosine, a * sine), lanes);
    });
  }
}

void add_scaled(const float* y, float factor, std::int64_t n, float* x) {
  for_vectors(
      n, [&](std::int64_t i, auto lanes) { store(x + i, load(x + i, lanes) + load(y + i, lanes) * factor, lanes); });
}

namespace {

VecF weights_of(const float* x, VecF max, VecF inverse, All) { return exp((load(x, All{}) - max) * inverse); }
VecF weights_of(const float* x, VecF max, VecF inverse, First lanes) {
  return kLaneIndex < lanes.count ? exp((load(x, lanes) - max) * inverse) : VecF{};
}

VecF largest_of(const float* x, VecF largest, All) { return max(largest, load(x, All{})); }
VecF largest_of(const float* x, VecF largest, First lanes) {
  return kLaneIndex < lanes.count ? max(largest, load(x, lanes)) : largest;
}

}  // namespace

float max_value(const float* x, std::int64_t n) {
  VecF largest = splat(-kInfinity);
  for_vectors(n, [&](std::int64_t i, auto lanes) { largest = largest_of(x + i, largest, lanes); });
  return reduce_max(largest);
}

float exp_weights(const float* x, std::int64_t n, float max, float inverse_temperature, float* weights) {
  VecF sum{};
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    const VecF w = weights_of(x + i, splat(max), splat(inverse_temperature), lanes);
    store(weights + i, w, lanes);
    sum = sum + w;
  });
  return reduce_add(sum);
}

float exp_sum(const float* x, std::int64_t n, float max, float inverse_temperature) {
  VecF sum{};
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    sum = sum + weights_of(x + i, splat(max), splat(inverse_temperature), lanes);
  });
  return reduce_add(sum);
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
