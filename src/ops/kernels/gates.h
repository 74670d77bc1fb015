// Owns the activations of gated MLPs as vector functions, which decoder and learner share for equal bits.
#pragma once

#include "base/gate.h"
#include "ops/kernels/simd.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {

inline VecF sigmoid(VecF x) { return 1.0F / (1.0F + exp(-x)); }

/// Computes g · s with s = sigmoid(g). The derivative is s · rest.
struct Silu {
  static VecF value(VecF g) { return g / (1.0F + exp(-g)); }
  static VecF share(VecF g) { return sigmoid(g); }
  static VecF rest(VecF g, VecF s) { return 1.0F + g * (1.0F - s); }
};

/// Computes GELU's form with tanh, g/2 · (1 + tanh(z)), as g · s with s = sigmoid(2z) and z = √(2/π) · (g + 0.044715
/// g³). The derivative is s · rest.
struct GeluTanh {
  static constexpr float kFirst = 1.5957691216F, kThird = kFirst * 0.044715F;  // 2·√(2/π) and its share of g³
  static VecF twice_z(VecF g) { return g * (kFirst + kThird * (g * g)); }
  static VecF value(VecF g) { return g / (1.0F + exp(-twice_z(g))); }
  static VecF share(VecF g) { return sigmoid(twice_z(g)); }
  static VecF rest(VecF g, VecF s) { return 1.0F + g * (1.0F - s) * (kFirst + 3 * kThird * (g * g)); }
};

/// Calls body(Silu{}) or body(GeluTanh{}), outside the loop over elements.
template <class Body>
inline void with_gate(base::Gate gate, Body body) {
  if (gate == base::Gate::silu) body(Silu{});
  else body(GeluTanh{});
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
