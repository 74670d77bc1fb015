#include "cuda/bench/bench_operands.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/rng.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

using quant::Element;
using quant::KvFormat;

namespace {

void repeat(void* at, std::int64_t num_bytes, std::int64_t all_bytes, const Stream& stream) {
  for (; num_bytes < all_bytes; num_bytes *= 2) {
    copy_on_device(static_cast<std::uint8_t*>(at) + num_bytes, at,
                   static_cast<std::size_t>(std::min(num_bytes, all_bytes - num_bytes)), stream);
  }
  stream.wait();
}

}  // namespace

float unit_scale(Element element) {
  if (element == Element::f32 || element == Element::bf16) return 1;
  return quant::scale_of(element, element == Element::fp8_e4m3 ? 5.0F : 2.7F);
}

void fill_normal(Element element, float sigma, std::uint64_t seed, std::int64_t num_bytes, void* to,
                 const Stream& stream) {
  std::vector<std::uint8_t> bytes;
  const auto put = [&](auto value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  base::RandomStream random(seed, base::RandomPurpose::generator, 0);
  const auto next = [&] { return sigma / unit_scale(element) * random.normal(); };
  for (std::int64_t i = 0; i < std::min(kNormalPeriod, num_bytes); ++i) {
    if (element == Element::bf16) put(bf16_of(next()));
    else if (element == Element::int8) put(quantize_to_int(next(), 1, 127));
    else if (element == Element::fp8_e4m3) put(fp8_of(next()));
    else if (element == Element::int4)
      put(static_cast<std::uint8_t>((quantize_to_int(next(), 1, 7) & 15) | quantize_to_int(next(), 1, 7) << 4));
    else put(next());
  }
  const auto there = std::min(static_cast<std::int64_t>(bytes.size()), num_bytes);
  copy_to_device(to, bytes.data(), static_cast<std::size_t>(there), stream);
  repeat(to, there, num_bytes, stream);
}

Memory normal_memory(Element element, float sigma, std::uint64_t seed, std::int64_t num_bytes, const Stream& stream) {
  Memory memory(static_cast<std::size_t>(num_bytes));
  fill_normal(element, sigma, seed, num_bytes, memory.data(), stream);
  return memory;
}

void fill_floats(float value, std::int64_t count, float* to, const Stream& stream) {
  constexpr std::int64_t kBytes = sizeof value;
  if (count == 0) return;
  copy_to_device(to, &value, kBytes, stream);
  repeat(to, kBytes, count * kBytes, stream);
}

Element element_of(KvFormat format) {
  return format == KvFormat::int8 ? Element::int8 : format == KvFormat::fp8_e4m3 ? Element::fp8_e4m3 : Element::bf16;
}

void fill_pages(const KvPages& pages, std::int64_t num_pages, const Stream& stream) {
  constexpr std::uint64_t kKeySeed = 1, kValueSeed = 2;
  const Element element = element_of(pages.format);
  const std::int64_t num_slots = pages.at.slots(num_pages), num_bytes = pages.at.byte_at(num_slots);
  fill_normal(element, 1, kKeySeed, num_bytes, pages.keys, stream);
  fill_normal(element, 1, kValueSeed, num_bytes, pages.values, stream);
  if (pages.format != KvFormat::int8) return;
  fill_floats(unit_scale(element), num_slots, pages.key_slot_scales, stream);
  fill_floats(unit_scale(element), num_slots, pages.value_slot_scales, stream);
}

std::vector<std::int32_t> shuffled_pages(std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> pages(static_cast<std::size_t>(count));
  std::iota(pages.begin(), pages.end(), static_cast<std::int32_t>(first));
  base::RandomStream(1, base::RandomPurpose::data_shuffle, 0).shuffle(std::span(pages));
  return pages;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
