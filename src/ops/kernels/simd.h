// Owns the kernels' vector types and functions on them. kLanes depends on the instruction set.
//
// Kernel sources are compiled once per instruction set, in its namespace. They include no standard headers with code:
// the linker keeps one copy of an inline function, and an older processor might lack that copy's instructions.
#pragma once

// GCC 11 and 12 warn about operands that their AVX-512 intrinsics leave undefined on purpose (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

namespace qrl::ops::QRL_ISA_NAMESPACE {

#if defined(QRL_ISA_AVX512)
inline constexpr int kLanes = 16;
#define QRL_LANE_INDEX \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
#elif defined(QRL_ISA_AVX2)
inline constexpr int kLanes = 8;
#define QRL_LANE_INDEX \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#else
inline constexpr int kLanes = 4;
#define QRL_LANE_INDEX \
  { 0, 1, 2, 3 }
#endif

// GCC's vector extension: operators work per lane with IEEE rounding on every instruction set.
using VecF = float __attribute__((vector_size(4 * kLanes)));
using VecI = std::int32_t __attribute__((vector_size(4 * kLanes)));
using VecU = std::uint32_t __attribute__((vector_size(4 * kLanes)));
using VecI16 = std::int16_t __attribute__((vector_size(4 * kLanes)));
using VecU16 = std::uint16_t __attribute__((vector_size(4 * kLanes)));
using HalfU8 = std::uint8_t __attribute__((vector_size(2 * kLanes)));
using HalfU16 = std::uint16_t __attribute__((vector_size(2 * kLanes)));
using QuarterU8 = std::uint8_t __attribute__((vector_size(kLanes)));
using QuarterI8 = std::int8_t __attribute__((vector_size(kLanes)));

inline constexpr VecI kLaneIndex = QRL_LANE_INDEX;
#undef QRL_LANE_INDEX
inline constexpr float kInfinity = __builtin_inff();

inline VecI bits_of(VecF v) { return (VecI)v; }
inline VecF float_of_bits(VecI v) { return (VecF)v; }
inline VecF splat(float x) { return x - VecF{}; }
inline VecI splat(std::int32_t x) { return x - VecI{}; }

// Selects the valid lanes of a load or store: All, or the First few. Invalid lanes load as zero and are not stored;
// their memory is not accessed.
struct All {};
struct First {
  int count;
};

template <class Body>
inline void for_vectors(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, All{});
  if (i < n) body(i, First{static_cast<int>(n - i)});
}

template <class Vec, class Element>
inline Vec load_vector(const Element* from, All) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class Vec, class Element>
inline Vec load_vector(const Element* from, First lanes) {
  Element padded[kLanes] = {};
  for (int i = 0; i < lanes.count; ++i) padded[i] = from[i];
  return load_vector<Vec>(padded, All{});
}
template <class Vec, class Element>
inline void store_vector(Element* to, Vec v, All) {
  __builtin_memcpy(to, &v, sizeof v);
}
template <class Vec, class Element>
inline void store_vector(Element* to, Vec v, First lanes) {
  Element all[kLanes];
  store_vector(all, v, All{});
  for (int i = 0; i < lanes.count; ++i) to[i] = all[i];
}

#if defined(QRL_ISA_AVX512)
template <>
inline VecF load_vector<VecF, float>(const float* from, First lanes) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << lanes.count) - 1), from);
}
template <>
inline void store_vector<VecF, float>(float* to, VecF v, First lanes) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << lanes.count) - 1), v);
}
#endif

template <class Lanes>
inline VecF load(const float* from, Lanes lanes) {
  return load_vector<VecF>(from, lanes);
}
/// Zero-extend 16-bit lanes, or take the low 16 or 8 bits of each lane. Use intrinsics, because GCC 12 splits its own
/// vector conversions.
inline VecI widened(HalfU16 v) {
#if defined(QRL_ISA_AVX512)
  return (VecI)_mm512_cvtepu16_epi32((__m256i)v);
#else
  return __builtin_convertvector(v, VecI);
#endif
}
inline HalfU16 lowest16(VecI v) {
#if defined(QRL_ISA_AVX512)
  return (HalfU16)_mm512_cvtepi32_epi16((__m512i)v);
#else
  return __builtin_convertvector(v, HalfU16);
#endif
}
inline QuarterI8 lowest8(VecI v) {
#if defined(QRL_ISA_AVX512)
  return (QuarterI8)_mm512_cvtepi32_epi8((__m512i)v);
#elif defined(QRL_ISA_AVX2)
  const __m256i first = _mm256_set1_epi32(0x0c080400);
  const __m256i bytes = _mm256_shuffle_epi8((__m256i)v, first);
  const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  return (QuarterI8)_mm_cvtsi128_si64(both);
#else
  return __builtin_convertvector(v, QuarterI8);
#endif
}

template <class Lanes>
inline VecF load(const std::uint16_t* from, Lanes lanes) {
  return float_of_bits(widened(load_vector<HalfU16>(from, lanes)) << 16);
}
template <class Lanes>
inline void store(float* to, VecF v, Lanes lanes) {
  store_vector(to, v, lanes);
}
/// Returns the nearest bf16 (ties to even), as fp32; NaN becomes quiet. Keeps subnormals, unlike vcvtneps2bf16.
inline VecF rounded_to_bf16(VecF v) {
  const VecI bits = bits_of(v);
  const VecI rounded = (VecI)((VecU)bits + 0x7fff + (((VecU)bits >> 16) & 1));
  return float_of_bits(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x00400000 : rounded) & ~0xffff);
}
template <class Lanes>
inline void store(std::uint16_t* to, VecF v, Lanes lanes) {
  store_vector(to, lowest16(bits_of(rounded_to_bf16(v)) >> 16), lanes);
}
template <class Lanes>
inline void store(std::int8_t* to, VecI v, Lanes lanes) {
  store_vector(to, lowest8(v), lanes);
}

/// Computes a·b + c with one rounding. Without fma (portable), also rounds the product.
inline VecF fma(VecF a, VecF b, VecF c) {
#if defined(QRL_ISA_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(QRL_ISA_AVX2)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// Returns the second operand if either is NaN.
inline VecF min(VecF a, VecF b) {
#if defined(QRL_ISA_AVX512)
  return _mm512_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
inline VecF max(VecF a, VecF b) {
#if defined(QRL_ISA_AVX512)
  return _mm512_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
inline VecI max(VecI a, VecI b) { return a > b ? a : b; }

/// Reduce the lanes to their sum or largest value. Fold halves (lane i with i + n/2 …) in an order that is fixed per
/// instruction set.
inline float reduce_add(VecF v) {
  for (int half = kLanes / 2; half > 0; half /= 2) v = v + __builtin_shuffle(v, kLaneIndex ^ half);
  return v[0];
}
inline float reduce_max(VecF v) {
  for (int half = kLanes / 2; half > 0; half /= 2) v = max(__builtin_shuffle(v, kLaneIndex ^ half), v);
  return v[0];
}
inline std::int32_t reduce_add(VecI v) {
  for (int half = kLanes / 2; half > 0; half /= 2) v += __builtin_shuffle(v, kLaneIndex ^ half);
  return v[0];
}
inline std::int32_t reduce_max(VecI v) {
  for (int half = kLanes / 2; half > 0; half /= 2) v = max(v, __builtin_shuffle(v, kLaneIndex ^ half));
  return v[0];
}

// Adding this constant to x, |x| ≤ 2²², leaves x rounded to an integer (ties to even) in the significand's low bits.
inline constexpr float kRoundingShift = 0x1.8p23F;

inline VecI round_to_int(VecF v) {
  return (VecI)((VecU)bits_of(v + kRoundingShift) - (VecU)bits_of(splat(kRoundingShift)));
}

/// Returns exp(x) with an error of at most 2 ulp, or 2⁻¹⁴⁹ for subnormal results. The result is 0 below −104, +inf
/// above 89, and NaN for NaN. Method: x = n·ln 2 + r, |r| ≤ ln 2 / 2, and a Taylor polynomial of degree 7 with a
/// remainder below 6e-9.
inline VecF exp(VecF x) {
  x = min(splat(89.0F), max(splat(-105.0F), x));
  const VecF shifted = fma(x, splat(1.44269504F), splat(kRoundingShift));
  const VecF n = shifted - kRoundingShift;
  // Subtracts n·ln 2 in two parts; n times the larger part is exact.
  const VecF r = fma(n, splat(-1.42860677e-6F), fma(n, splat(-0.693145752F), x));
  VecF p = splat(1.0F / 5040);
  p = fma(p, r, splat(1.0F / 720));
  p = fma(p, r, splat(1.0F / 120));
  p = fma(p, r, splat(1.0F / 24));
  p = fma(p, r, splat(1.0F / 6));
  p = fma(p, r, splat(0.5F));
  p = fma(p * r, r, r) + 1.0F;
#if defined(QRL_ISA_AVX512)
  return _mm512_scalef_ps(p, n);
#else
  // Multiplies by 2ⁿ as two factors, neither of which overflows or underflows alone.
  const VecI exponent = (VecI)((VecU)bits_of(shifted) - (VecU)bits_of(splat(kRoundingShift)));
  const VecI half = exponent >> 1;
  const VecF first = float_of_bits((VecI)((VecU)(half + 127) << 23));
  const VecF second = float_of_bits((VecI)((VecU)(exponent - half + 127) << 23));
  return p * first * second;
#endif
}

/// Converts the two e4m3 bytes of each 16-bit half to bf16, exactly: low byte to bf16[0], high byte to bf16[1]. NaN
/// stays NaN.
inline void bf16_of_fp8(VecI quantized, VecI (&bf16)[2]) {
#if defined(QRL_ISA_AVX512)
  struct Tables {
    alignas(64) std::uint8_t high[128], low[128];
    constexpr Tables() : high(), low() {
      for (int m = 0; m < 128; ++m) {
        // Normal e4m3: extends the 3-bit significand to 7 bits, changes the exponent bias from 7 to 127. Subnormal: m ·
        // 2⁻⁹.
        constexpr int kSubnormal[8] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60};
        const int bits = m == 127 ? 0x7fc0 : m < 8 ? kSubnormal[m] : (m << 4) + (120 << 7);
        high[m] = static_cast<std::uint8_t>(bits >> 8);
        low[m] = static_cast<std::uint8_t>(bits & 0xff);
      }
    }
  };
  static constexpr Tables kTables;
  const auto look_up = [&](const std::uint8_t* table) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), (__m512i)quantized, _mm512_load_si512(table + 64));
  };
  const __m512i low = look_up(kTables.low);
  const __m512i high = _mm512_or_si512(look_up(kTables.high), (__m512i)(quantized & splat(std::int32_t(0x80808080))));
  bf16[0] = (VecI)_mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaU, low, _mm512_slli_epi16(high, 8));
  bf16[1] = (VecI)_mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaU, _mm512_srli_epi16(low, 8), high);
#else
  constexpr std::uint16_t kSubnormal[8] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60};
  const VecU16 halves[2] = {(VecU16)quantized & 0xff, (VecU16)quantized >> 8};
  for (int i = 0; i < 2; ++i) {
    const VecU16 magnitude = halves[i] & std::uint16_t{0x7f};
    VecU16 bits = (magnitude << 4) + std::uint16_t{120 << 7};
    for (std::uint16_t m = 0; m < 8; ++m) bits = magnitude == m ? kSubnormal[m] - VecU16{} : bits;
    bits = magnitude == std::uint16_t{0x7f} ? std::uint16_t{0x7fc0} - VecU16{} : bits;
    bf16[i] = (VecI)(bits | ((halves[i] << 8) & std::uint16_t{0x8000}));
  }
#endif
}

/// Returns the nearest e4m3 number (ties to even), saturated beyond ±448; NaN stays NaN.
inline VecF rounded_to_fp8(VecF v) {
  const VecI bits = bits_of(v);
  const VecI magnitude = bits & 0x7fffffff;
  const VecF size = min(float_of_bits(magnitude), splat(448.0F));
  const VecI clamped = bits_of(size);
  const VecI normal = (VecI)((VecU)clamped + 0x7ffff + (((VecU)clamped >> 20) & 1)) & ~0xfffff;
  const VecF small = __builtin_convertvector(round_to_int(size * 512.0F), VecF) * 0x1p-9F;
  const VecI rounded = size < splat(0x1p-6F) ? bits_of(small) : normal;
  return float_of_bits(magnitude > 0x7f800000 ? bits : rounded | (bits & (VecI)(VecU{} + 0x80000000U)));
}

/// Returns the e4m3 bits of v: nearest even, saturated beyond ±448, NaN as 0x7f with its sign.
inline VecI fp8_of(VecF v) {
  const VecI bits = bits_of(v);
  const VecI magnitude = bits & 0x7fffffff;
  const VecF size = min(float_of_bits(magnitude), splat(448.0F));
  const VecI clamped = bits_of(size);
  // Normal: round at the third significand bit, exponent bias from 127 to 7. Below 2⁻⁶: round to multiples of 2⁻⁹.
  const VecI normal = (VecI)(((VecU)clamped + 0x7ffff + (((VecU)clamped >> 20) & 1)) >> 20) - (120 << 3);
  const VecI value = size < splat(0x1p-6F) ? round_to_int(size * 512.0F) : normal;
  return (magnitude > 0x7f800000 ? splat(std::int32_t{0x7f}) : value) | ((bits >> 24) & 0x80);
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
