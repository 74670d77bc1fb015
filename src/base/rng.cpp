#include "base/rng.h"

#include <cmath>
#include <numbers>

namespace qrl::base {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k = {k[0] + 0x9E3779B9U, k[1] + 0xBB67AE85U};
  }
  return c;
}

namespace {

/// Applies SplitMix64's finalizer.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

double to_unit(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * 0x1.0p-53;
}

RandomField::RandomField(std::uint64_t seed, RandomPurpose purpose) {
  const std::uint64_t key = mix(mix(seed) ^ static_cast<std::uint64_t>(purpose));
  key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

double RandomField::uniform(std::array<std::uint32_t, 4> counter) const {
  const auto w = words(counter);
  return to_unit(w[0], w[1]);
}

std::uint32_t RandomStream::next() {
  if (left_ == 0) {
    words_ = field_.words({static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32),
                           static_cast<std::uint32_t>(index_), static_cast<std::uint32_t>(index_ >> 32)});
    ++block_;
    left_ = 4;
  }
  return words_[static_cast<std::size_t>(4 - left_--)];
}

double RandomStream::uniform() {
  const std::uint32_t high = next();
  return to_unit(high, next());
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  const std::uint64_t reject_from = std::uint64_t{0} - (std::uint64_t{0} - bound) % bound;  // 2^64 − (2^64 mod bound)
  for (;;) {
    const std::uint64_t high = next();
    const std::uint64_t draw = (high << 32) | next();
    if (reject_from == 0 || draw < reject_from) return draw % bound;
  }
}

std::int64_t RandomStream::between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
}

float RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform()));
}

}  // namespace qrl::base
