#include "ops/kernels/kernels.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

namespace {

template <int kStep>
inline VecF butterfly_of_lanes(VecF v) {
  const VecI minus = (VecI)((VecU)(kLaneIndex & kStep) * (0x80000000U / kStep));
  return __builtin_shuffle(v, kLaneIndex ^ kStep) + float_of_bits(bits_of(v) ^ minus);
}

template <int kStep = 1>
inline VecF butterflies_of_lanes(VecF v) {
  if constexpr (kStep == kLanes) return v;
  else return butterflies_of_lanes<2 * kStep>(butterfly_of_lanes<kStep>(v));
}

template <int kVectors>
inline void butterflies_of_vectors(VecF (&v)[kVectors]) {
  for (int step = 1; step < kVectors; step *= 2) {
    for (int group = 0; group < kVectors; group += 2 * step) {
      for (int i = group; i < group + step; ++i) {
        const VecF a = v[i], b = v[i + step];
        v[i] = a + b;
        v[i + step] = a - b;
      }
    }
  }
}

template <int kBlock>
float rotate_blocks(const float* x, std::int64_t n, float scale, float* turned) {
  constexpr int kVectors = kBlock / kLanes;
  VecI largest{};
  for (std::int64_t first = 0; first < n; first += kBlock) {
    VecF v[kVectors];
    for (int i = 0; i < kVectors; ++i) v[i] = butterflies_of_lanes(load(x + first + i * kLanes, All{}));
    butterflies_of_vectors(v);
    for (int i = 0; i < kVectors; ++i) {
      const VecF value = v[i] * scale;
      largest = max(largest, bits_of(value) & 0x7fffffff);
      store(turned + first + i * kLanes, value, All{});
    }
  }
  return float_of_bits(splat(reduce_max(largest)))[0];
}

}  // namespace

float rotate(const RotateTask& task) {
  switch (task.block) {
    case 32:
      return rotate_blocks<32>(task.x, task.n, task.scale, task.turned);
    case 64:
      return rotate_blocks<64>(task.x, task.n, task.scale, task.turned);
    default:
      return rotate_blocks<128>(task.x, task.n, task.scale, task.turned);
  }
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
