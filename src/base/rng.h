#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace qrl::base {

/// Streams of different purposes are independent.
enum class RandomPurpose : std::uint32_t {
  sampling = 1,
  model_init,
  data_shuffle,
  generator,
  demonstrations,
  test,
  calibration,
  probe,
  sft_shuffle,
  adapter_init,
  gain_noise,
  environment
};

/// Computes Philox4x32-10 (Salmon et al., SC'11).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Returns a uniform number in [0, 1), with 53 bits from two words.
double to_unit(std::uint32_t high, std::uint32_t low);

/// Returns random words that depend on (seed, purpose, counter) alone.
class RandomField {
 public:
  RandomField(std::uint64_t seed, RandomPurpose purpose);
  std::array<std::uint32_t, 4> words(std::array<std::uint32_t, 4> counter) const { return philox(counter, key_); }
  double uniform(std::array<std::uint32_t, 4> counter) const;  ///< like to_unit

 private:
  std::array<std::uint32_t, 2> key_;
};

/// Draws sequentially from stream `index` of a RandomField. A stream does not depend on the number of draws from other
/// streams.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index) : field_(seed, purpose), index_(index) {}
  std::uint32_t next();
  double uniform();                                           ///< like to_unit
  std::uint64_t below(std::uint64_t bound);                   ///< returns an unbiased number in [0, bound); bound > 0
  std::int64_t between(std::int64_t low, std::int64_t high);  ///< returns an integer in [low, high]
  float normal();                                             ///< mean 0, variance 1 (Box–Muller in fp64)
  template <class T>
  void shuffle(std::span<T> items) {  ///< Fisher–Yates
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  RandomField field_;
  std::uint64_t index_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int left_ = 0;
};

}  // namespace qrl::base
