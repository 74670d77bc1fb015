#include "emulation.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "products.h"

// Saves the registers that a function must keep and its stack pointer at *save, goes on where `load` was saved.
extern "C" void qrl_switch_fiber(void** save, void* load);
asm(R"(
.text
.globl qrl_switch_fiber
.type qrl_switch_fiber, @function
qrl_switch_fiber:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size qrl_switch_fiber, .-qrl_switch_fiber
)");

namespace qrl::cuda::emulated {

namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

enum class Waits : std::uint8_t { no, for_warp, for_block, done };

struct Fiber {
  void* stack_pointer = nullptr;
  Waits waits = Waits::no;
  int num_exchanges = 0;
};

/// The block that runs now.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<std::uint64_t> slots;  // two a thread, used in turn: one barrier an exchange is enough
  std::vector<LaneWords> gathered;   // and so here
  std::vector<unsigned char> shared;
  void* scheduler = nullptr;
  const std::function<void()>* kernel = nullptr;
  int current = 0, num_threads = 0;
  std::int64_t x = 0, y = 0;
  Grid grid;
  Order order = Order::ascending;
};
Block block;

Fiber& current() { return block.fibers[static_cast<std::size_t>(block.current)]; }

void pause(Waits waits) {
  Fiber& fiber = current();
  fiber.waits = waits;
  qrl_switch_fiber(&fiber.stack_pointer, block.scheduler);
}

void fiber_main() {
  (*block.kernel)();
  pause(Waits::done);
  std::abort();  // nobody resumes a fiber that is done
}

void prepare(int thread) {
  const auto idx = static_cast<std::size_t>(thread);
  if (block.stacks.size() <= idx) block.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  auto top = reinterpret_cast<std::uintptr_t>(block.stacks[idx].get() + kStackBytes) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top);
  words[-1] = nullptr;                               // where a return address would be
  words[-2] = reinterpret_cast<void*>(&fiber_main);  // six registers below it
  block.fibers[idx] = {words - 8, Waits::no, 0};
}

/// Lets the threads [begin, end) go on when all that are not done wait for `what`.
bool release(int begin, int end, Waits what) {
  int num_waiting = 0, num_done = 0;
  for (int i = begin; i < end; ++i) {
    const Waits waits = block.fibers[static_cast<std::size_t>(i)].waits;
    num_waiting += waits == what ? 1 : 0;
    num_done += waits == Waits::done ? 1 : 0;
  }
  // A warp's exchange names all lanes, so none may be done.
  const bool all = num_waiting + (what == Waits::for_block ? num_done : 0) == end - begin;
  if (num_waiting == 0 || !all) return false;
  for (int i = begin; i < end; ++i) {
    Fiber& fiber = block.fibers[static_cast<std::size_t>(i)];
    if (fiber.waits == what) fiber.waits = Waits::no;
  }
  return true;
}

void run_block(std::size_t shared_bytes) {
  block.fibers.resize(static_cast<std::size_t>(block.num_threads));
  block.slots.assign(2 * static_cast<std::size_t>(block.num_threads), ~std::uint64_t{0});
  block.gathered.resize(2 * static_cast<std::size_t>(block.num_threads));
  block.shared.assign(shared_bytes + 32, 0xff);
  for (int i = 0; i < block.num_threads; ++i) prepare(i);
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < block.num_threads; ++i) {
      block.current = block.order == Order::ascending ? i : block.num_threads - 1 - i;
      if (current().waits != Waits::no) continue;
      qrl_switch_fiber(&block.scheduler, current().stack_pointer);
      moved = true;
    }
    for (int first = 0; first < block.num_threads; first += 32)
      moved = release(first, first + 32, Waits::for_warp) || moved;
    moved = release(0, block.num_threads, Waits::for_block) || moved;
  }
  for (const Fiber& fiber : block.fibers)
    QRL_INVARIANT(fiber.waits == Waits::done, "emulated kernel", "barriers that all threads reach",
                  "one that some do not");
}

/// Bytes that are counted as the device's, so that a test can have too few of them.
constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;
std::size_t used_bytes = 0;

class PlainProducts final : public Products {
 public:
  void multiply(const ProductTask& task, const Stream& stream) override { plain_product(task, stream); }
  std::string describe() const override { return "all plain"; }
};

}  // namespace

int thread_idx() { return block.current; }
int num_threads() { return block.num_threads; }
std::int64_t block_x() { return block.x; }
std::int64_t block_y() { return block.y; }
std::int64_t num_blocks_x() { return block.grid.x; }
void sync_block() { pause(Waits::for_block); }
void sync_warp() { pause(Waits::for_warp); }
unsigned char* shared_memory() {
  const auto at = reinterpret_cast<std::uintptr_t>(block.shared.data());
  return block.shared.data() + (32 - at % 32) % 32;
}
void set_thread_order(Order order) { block.order = order; }

std::uint64_t exchange(std::uint64_t value, int mask) {
  const int turn = current().num_exchanges++ % 2;
  const auto slot = [turn](int thread) { return static_cast<std::size_t>(2 * thread + turn); };
  const int self = block.current;
  block.slots[slot(self)] = value;
  pause(Waits::for_warp);
  return block.slots[slot(self ^ mask)];
}

const LaneWords* gather(const LaneWords& words) {
  const int turn = current().num_exchanges++ % 2, self = block.current;
  LaneWords* of_turn = block.gathered.data() + static_cast<std::ptrdiff_t>(turn) * block.num_threads;
  of_turn[self] = words;
  pause(Waits::for_warp);
  return of_turn + self / 32 * 32;
}

void run_blocks(Grid grid, int threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
  QRL_INVARIANT(threads > 0 && threads <= 1024 && threads % 32 == 0 && grid.y <= 65535, "emulated kernel",
                "1 to 32 whole warps", std::to_string(threads) + " threads");
  block.kernel = &kernel;
  block.num_threads = threads;
  block.grid = grid;
  for (block.y = 0; block.y < grid.y; ++block.y) {
    for (block.x = 0; block.x < grid.x; ++block.x) run_block(shared_bytes);
  }
}

DeviceFacts use_device(int number) {
  constexpr int kDevices = 2;  // as far as their numbers go
  return {"host", 8, 0, std::size_t{160} << 10, kDeviceBytes, take_device(number, kDevices), kDevices};
}
std::size_t free_bytes() { return kDeviceBytes - used_bytes; }

Stream::Stream() = default;
Stream::~Stream() = default;
void Stream::wait() const {}

Memory::Memory(std::size_t num_bytes, Place place) : num_bytes_(num_bytes), place_(place) {
  if (place == Place::device && num_bytes > free_bytes()) throw std::bad_alloc();
  // Not one byte more than asked, so that AddressSanitizer sees what goes beyond.
  if (posix_memalign(&data_, 256, num_bytes == 0 ? 1 : num_bytes) != 0) throw std::bad_alloc();
  std::memset(data_, 0, num_bytes);
  if (place == Place::device) used_bytes += num_bytes;
}
Memory::~Memory() {
  if (data_ != nullptr && place_ == Place::device) used_bytes -= num_bytes_;
  std::free(data_);
}

void copy_to_device(void* to, const void* from, std::size_t num_bytes, const Stream&) {
  if (num_bytes > 0) std::memcpy(to, from, num_bytes);
}
void copy_to_host(void* to, const void* from, std::size_t num_bytes, const Stream&) {
  if (num_bytes > 0) std::memcpy(to, from, num_bytes);
}
void fill_zero(void* to, std::size_t num_bytes, const Stream&) { std::memset(to, 0, num_bytes); }

std::unique_ptr<Products> make_products(const DeviceFacts&) { return std::make_unique<PlainProducts>(); }

}  // namespace qrl::cuda::emulated
