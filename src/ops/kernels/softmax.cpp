#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

/// Computes weights; lanes that are not valid get 0.
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
