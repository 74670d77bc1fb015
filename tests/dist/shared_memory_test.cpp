// Tests messages in shared memory, with both ranks in one process; tests/dist/mpirun has them in several.
#include "dist/shared_memory.h"

#include <string>

#include "base/error.h"
#include "support/catch.h"

using namespace qrl::dist;

namespace {

std::string pattern(std::size_t count, char first) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(first + static_cast<char>(i % 251));
  return bytes;
}

std::span<const std::byte> sent(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }
std::span<std::byte> place(std::string& bytes) { return std::as_writable_bytes(std::span(bytes)); }

}  // namespace

TEST_CASE("shared memory: messages longer than the ring arrive whole and in order, in both directions") {
  const SharedMemory memory(2);
  SharedMessages first(memory, 0), second(memory, 1);
  const std::string one = pattern(3 * memory.ring_bytes() + 5, 'a'), two = pattern(7, 'b'), back = pattern(1000, 'c');
  std::string got_one(one.size(), '\0'), got_two(two.size(), '\0'), got_back(back.size(), '\0');
  // The first message leaves the ring's ends at byte 7, so that a long message wraps within each part.
  std::string got_early(two.size(), '\0');
  first.begin_send(sent(two), 1);
  second.begin_receive(place(got_early), 0);
  CHECK(first.poll() == Moved::all);
  CHECK(second.poll() == Moved::all);
  CHECK(got_early == two);
  first.begin_send(sent(one), 1);
  first.begin_send({}, 1);
  first.begin_send(sent(two), 1);
  first.begin_receive(place(got_back), 1);
  CHECK(first.poll() == Moved::some);
  CHECK(first.poll() == Moved::nothing);  // the ring is full, and nobody reads
  CHECK(first.waits_for(1));
  CHECK_FALSE(first.waits_for(0));

  second.begin_receive(place(got_one), 0);
  second.begin_receive(place(got_two), 0);
  second.begin_send(sent(back), 0);
  int polls = 0;
  for (Moved a = Moved::some, b = Moved::some; a != Moved::all || b != Moved::all; ++polls) {
    REQUIRE(polls < 100);
    b = second.poll();
    a = first.poll();
  }
  CHECK(polls >= 3);
  CHECK(got_one == one);
  CHECK(got_two == two);
  CHECK(got_back == back);
  CHECK_FALSE(first.waits_for(1));
}

TEST_CASE("shared memory: a rank that ends normally with the others announces it") {
  const SharedMemory memory(3);
  SharedMessages messages(memory, 1);
  CHECK(memory.end_of(1) == SharedMemory::End::none);
  messages.end(1);
  CHECK(memory.end_of(1) == SharedMemory::End::together);
  CHECK(memory.end_of(0) == SharedMemory::End::none);
}

TEST_CASE("shared memory: a ring has 16 KiB to 1 MiB, for any number of ranks") {
  CHECK(SharedMemory(2).ring_bytes() == std::size_t{1} << 20);
  CHECK(SharedMemory(16).ring_bytes() == std::size_t{256} << 10);
  CHECK(SharedMemory(kMaxLocalRanks).ring_bytes() == std::size_t{16} << 10);
}
