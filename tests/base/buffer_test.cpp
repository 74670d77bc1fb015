#include "base/buffer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "support/catch.h"

namespace qrl {

namespace {

using base::Buffer;
using base::DType;

std::int64_t resident_bytes() {
  std::int64_t total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::int64_t num_set(const Buffer& buffer) {
  const auto* bytes = buffer.as<std::uint8_t>();
  return static_cast<std::int64_t>(buffer.num_bytes()) - std::count(bytes, bytes + buffer.num_bytes(), 0);
}

}  // namespace

TEST_CASE("buffers: zeroed and aligned to cache lines, on the heap and in an arena") {
  base::Arena arena;
  for (const std::int64_t count : {1, 64, 1000, 3'000'000}) {
    for (base::Arena* where : {static_cast<base::Arena*>(nullptr), &arena}) {
      const Buffer buffer(DType::u8, {count}, where);
      CAPTURE(count, where == nullptr);
      CHECK(num_set(buffer) == 0);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.as<std::uint8_t>()) % Buffer::kAlignment_bytes == 0);
      std::fill_n(buffer.as<std::uint8_t>(), count, std::uint8_t{255});  // must not be another buffer's memory
    }
  }
}

TEST_CASE("buffers: untouched pages of an arena take no memory, and a buffer outlives its arena") {
  constexpr std::int64_t kCount = std::int64_t{1} << 28;
  const std::int64_t before = resident_bytes();
  Buffer buffer;
  {
    base::Arena arena;
    buffer = Buffer(DType::u8, {kCount}, &arena);
  }
  CHECK(resident_bytes() - before < kCount / 16);
  std::fill_n(buffer.as<std::uint8_t>(), kCount, std::uint8_t{1});
  CHECK(resident_bytes() - before > kCount / 2);
  CHECK(num_set(buffer) == kCount);
  buffer = Buffer();
  CHECK(resident_bytes() - before < kCount / 16);
}

}  // namespace qrl
