#include "emulation.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cuda/gemm/dequantized_gemms.h"
#include "cuda/gemm/gemm_sweep.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/streamed_gemm.h"
#include "tests/cuda/plain_gemm.h"

// Saves the callee-saved registers and the stack pointer at *save, then resumes where `load` was saved.
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
/// Stack tops that are whole pages apart would all map to the same few cache lines.
constexpr std::size_t kColors = 32, kColorBytes = 320;

enum class Waits : std::uint8_t { no, for_warp, for_block, done };

struct Copy {
  void* to;
  const void* from;  ///< null: zeros
  std::size_t num_bytes;
};

struct Fiber {
  void* stack_pointer = nullptr;
  Waits waits = Waits::no;
  int num_exchanges = 0;
  bool has_waited = false;   // for the previous kernel
  std::vector<Copy> copies;  // the oldest first
  /// Holds the end of each group in `copies`; later copies belong to no group yet.
  std::vector<std::size_t> group_ends;
};

/// Holds a lane's operands of a GEMM: a, then b.
using MmaWords = std::array<std::uint32_t, 6>;

/// Holds the block that runs now.
struct Block {
  std::vector<Fiber> fibers;
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<std::uint64_t> slots;  // two per thread, used alternately: one barrier per exchange suffices
  std::vector<MmaWords> operands;    // likewise
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

/// Returns the first thread of this warp that can run, from `thread` in the block's order; -1: none.
int next_in_warp(int thread) {
  const int step = block.order == Order::ascending ? 1 : -1, warp = thread / 32;
  for (; thread >= 0 && thread / 32 == warp; thread += step) {
    if (block.fibers[static_cast<std::size_t>(thread)].waits == Waits::no) return thread;
  }
  return -1;
}

/// Resumes the warp's next thread; after its last one, the scheduler.
void pause(Waits waits) {
  Fiber& fiber = current();
  fiber.waits = waits;
  const int next = next_in_warp(block.current);
  if (next >= 0) block.current = next;
  qrl_switch_fiber(&fiber.stack_pointer, next >= 0 ? current().stack_pointer : block.scheduler);
}

void fiber_main() {
  (*block.kernel)();
  pause(Waits::done);
  std::abort();  // a finished fiber is never resumed
}

void prepare(int thread) {
  const auto idx = static_cast<std::size_t>(thread);
  constexpr std::size_t kBytes = kStackBytes + kColors * kColorBytes;
  if (block.stacks.size() <= idx) block.stacks.push_back(std::make_unique<char[]>(kBytes));
  const auto end = reinterpret_cast<std::uintptr_t>(block.stacks[idx].get() + kBytes - idx % kColors * kColorBytes);
  const std::uintptr_t top = end & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top);
  words[-1] = nullptr;                               // in place of a return address
  words[-2] = reinterpret_cast<void*>(&fiber_main);  // six registers below it
  Fiber& fiber = block.fibers[idx];
  fiber.stack_pointer = words - 8;
  fiber.waits = Waits::no;
  fiber.num_exchanges = 0;
  fiber.has_waited = false;
  fiber.copies.clear();
  fiber.group_ends.clear();
}

/// Resumes the threads [begin, end) once all unfinished ones wait for `what`. Returns false if some do not.
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

/// Runs the threads of a warp until each waits or is done, then those that waited for each other. Returns false if none
/// could run.
bool run_warp(int first) {
  const int next = next_in_warp(block.order == Order::ascending ? first : first + 31);
  if (next >= 0) {
    block.current = next;
    qrl_switch_fiber(&block.scheduler, current().stack_pointer);
  }
  return release(first, first + 32, Waits::for_warp) || next >= 0;
}

void run_block(std::size_t shared_bytes) {
  block.fibers.resize(static_cast<std::size_t>(block.num_threads));
  block.slots.assign(2 * static_cast<std::size_t>(block.num_threads), ~std::uint64_t{0});
  block.operands.assign(2 * static_cast<std::size_t>(block.num_threads), MmaWords{});
  block.shared.assign(shared_bytes + 32, 0xff);
  for (int i = 0; i < block.num_threads; ++i) prepare(i);
  const int num_warps = block.num_threads / 32;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < num_warps; ++i) {
      const int warp = block.order == Order::ascending ? i : num_warps - 1 - i;
      while (run_warp(32 * warp)) moved = true;
    }
    moved = release(0, block.num_threads, Waits::for_block) || moved;
  }
  for (const Fiber& fiber : block.fibers) {
    QRL_INVARIANT(fiber.waits == Waits::done, "emulated kernel", "barriers that all threads reach",
                  "one that some do not");
    QRL_INVARIANT(fiber.has_waited, "emulated kernel", "threads that all wait for the kernel before",
                  "one that does not");
    QRL_INVARIANT(fiber.copies.empty(), "emulated kernel", "copies that are waited for", "one that is not");
  }
}

/// Returns the words of all lanes of this thread's warp, starting with the first lane's.
const MmaWords* gather(const MmaWords& words) {
  const int turn = current().num_exchanges++ % 2, self = block.current;
  block.operands[static_cast<std::size_t>(turn * block.num_threads + self)] = words;
  pause(Waits::for_warp);
  return block.operands.data() + turn * block.num_threads + self / 32 * 32;
}

/// Computes one lane's four sums, each over ascending k. A word holds `per_word` numbers: a_at(word, i), b_at(word, i).
template <int per_word, class Sum, class AAt, class BAt>
void add_products(Sum (&c)[4], const MmaWords* lanes, AAt a_at, BAt b_at) {
  const int q = block.current % 32 / 4, t = block.current % 4;
  for (int half = 0; half < 2; ++half) {
    for (int lane = 0; lane < 4; ++lane) {
      const MmaWords& a = lanes[q * 4 + lane];
      const std::uint32_t low = a[static_cast<std::size_t>(2 * half)], high = a[static_cast<std::size_t>(2 * half + 1)];
      const std::uint32_t left = lanes[2 * t * 4 + lane][static_cast<std::size_t>(4 + half)];
      const std::uint32_t right = lanes[(2 * t + 1) * 4 + lane][static_cast<std::size_t>(4 + half)];
      for (int i = 0; i < per_word; ++i) {
        c[0] += a_at(low, i) * b_at(left, i);
        c[1] += a_at(low, i) * b_at(right, i);
        c[2] += a_at(high, i) * b_at(left, i);
        c[3] += a_at(high, i) * b_at(right, i);
      }
    }
  }
}

// Are objects, not functions: calls through pointers are not inlined.
constexpr auto bf16_at = [](std::uint32_t word, int i) {
  return float_of_bf16(static_cast<std::uint16_t>(word >> (16 * i)));
};
constexpr auto f16_at = [](std::uint32_t word, int i) {
  return float_of_f16(static_cast<std::uint16_t>(word >> (16 * i)));
};
constexpr auto uint8_at = [](std::uint32_t word, int i) -> std::int32_t {
  return static_cast<std::uint8_t>(word >> (8 * i));
};
constexpr auto int8_at = [](std::uint32_t word, int i) -> std::int32_t {
  return static_cast<std::int8_t>(word >> (8 * i));
};

/// Limits the bytes that count as device memory, so that a test can exhaust it.
constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;
constexpr std::size_t kKeptBackBytes = std::size_t{16} << 20;
std::size_t used_bytes = 0;
/// Returns the device memory that an allocation uses: a large one takes whole pages of 2 MiB, as with cudaMalloc.
std::size_t taken(std::size_t num_bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return num_bytes < kPage / 2 ? num_bytes : (num_bytes + kPage - 1) / kPage * kPage;
}

/// Few, so that GEMMs of the tests' sizes also have splits that one block sums.
constexpr DeviceLimits kLimits{std::int64_t{160} << 10, 4};

using Works = std::deque<std::function<void()>>;
struct Queue {
  Works works;
  bool is_recording = false;
};
/// Holds a graph's work, and how many of its launches have not ended.
struct Recorded {
  Works works;
  std::shared_ptr<std::int64_t> num_running;
};
constexpr std::size_t kGraphNodeBytes = 2048;  // device memory of a launch in a graph
std::int64_t ended_while_running = 0;

std::vector<Queue*> queues;  // of all streams
Queue& queue_of(const Stream& stream) {
  QRL_INVARIANT(std::ranges::find(queues, stream.handle()) != queues.end(), "emulated stream",
                "one that was not destroyed", "another");
  return *static_cast<Queue*>(stream.handle());
}

/// Runs the queue's work in order until it is empty or `enough` returns true.
template <class Enough>
void finish(Queue& queue, Enough enough) {
  QRL_INVARIANT(!queue.is_recording, "emulated stream", "no wait while a graph is recorded", "one");
  while (!queue.works.empty() && !enough()) {
    const std::function<void()> work = std::move(queue.works.front());
    queue.works.pop_front();
    work();
  }
}
void finish(Queue& queue) {
  finish(queue, [] { return false; });
}
bool any_records() {
  return std::ranges::any_of(queues, [](const Queue* queue) { return queue->is_recording; });
}

/// Records memory that Memory allocated: its end and its place.
struct Allocation {
  const std::byte* end;
  Memory::Place place;
};
std::map<const std::byte*, Allocation> allocations;  // by start address
bool may_be_the_devices = false;                     // memory that is in no allocation
std::function<void(const char*)> told_of_launch;     // or empty

/// Returns the allocation that contains `at`; null: memory allocated elsewhere.
const Allocation* allocation_of(const void* at) {
  const auto* byte = static_cast<const std::byte*>(at);
  const auto behind = allocations.upper_bound(byte);
  if (behind == allocations.begin()) return nullptr;
  const Allocation& found = std::prev(behind)->second;
  return byte < found.end ? &found : nullptr;
}
/// Returns whether a graph may refer to it as host memory.
bool is_pinned(const void* at) {
  const Allocation* found = allocation_of(at);
  return found != nullptr && found->place == Memory::Place::host;
}

/// Refuses memory of the other place, and bytes beyond an allocation.
void require_place(const void* at, std::size_t num_bytes, Memory::Place wanted, const char* what) {
  const Allocation* found = allocation_of(at);
  const auto name_of = [](Memory::Place place) { return place == Memory::Place::device ? "device" : "host"; };
  const bool is_right = found != nullptr ? found->place == wanted : wanted == Memory::Place::host || may_be_the_devices;
  QRL_INVARIANT(is_right, std::string("emulated ") + what, std::string(name_of(wanted)) + " memory",
                std::string(name_of(found != nullptr ? found->place : Memory::Place::host)) + " memory");
  if (found == nullptr) return;
  const auto room = static_cast<std::size_t>(found->end - static_cast<const std::byte*>(at));
  QRL_INVARIANT(num_bytes <= room, std::string("emulated ") + what,
                "at most the " + std::to_string(room) + " bytes left", std::to_string(num_bytes));
}

void add_copy(void* to, Memory::Place to_place, const void* from, Memory::Place from_place, std::size_t num_bytes,
              const Stream& stream) {
  if (num_bytes == 0) return;
  require_place(to, num_bytes, to_place, "copy, to");
  require_place(from, num_bytes, from_place, "copy, from");
  report_launch("own copy");
  add_work(stream, [=] { std::memcpy(to, from, num_bytes); });
}

/// Alternates between the kernels of a GEMM, whatever their time: none may change a bit.
class EmulatedGemms final : public Gemms {
 public:
  explicit EmulatedGemms(bool row_only_sums)
      : row_only_sums_(row_only_sums),
        sweep_({false, row_only_sums}, kLimits, [this](const std::function<void()>&, const Stream&) {
          num_timed_ = num_timed_ * 1664525 + 1013904223;  // Knuth and Lewis's generator
          return static_cast<double>(num_timed_ >> 8);
        }) {}
  void multiply(const GemmTask& task, const Stream& stream) override {
    const auto make = [&](const GemmChoice& choice) {
      const auto by_plain = [&](const GemmTask& bf16) {  // instead of cuBLASLt
        QRL_INVARIANT(!bf16.adds_to_y, "emulated cuBLASLt", "a GEMM that overwrites y", "one that adds");
        plain_gemm(bf16, stream);
      };
      if (choice.kernel == GemmKernel::streamed) streamed_.multiply(task, choice.plan, stream);
      else if (choice.kernel == GemmKernel::dequantized) dequantized_.multiply(task, by_plain, stream);
      else by_plain(task);
    };
    make(sweep_.choose(task, make, stream));
  }
  void reserve(const DeviceMatrix& w, std::int64_t num_rows) override {
    if (choose_gemm(w.format, num_rows, false, false, row_only_sums_) == GemmKernel::dequantized)
      dequantized_.reserve(w);
  }
  void set_recorded(bool is_recorded) override { dequantized_.set_fixed(is_recorded); }
  std::string describe() const override { return "bf16 plain, other formats streamed"; }

 private:
  bool row_only_sums_;
  StreamedGemms streamed_;
  DequantizedGemms dequantized_;
  std::uint32_t num_timed_ = 0;
  GemmSweep sweep_;
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

void wait_for_kernel_before() { current().has_waited = true; }
std::uint32_t count_up(std::uint32_t* counter) { return (*counter)++; }

void copy_async(void* to, const void* from, std::size_t num_bytes, bool valid) {
  QRL_INVARIANT(reinterpret_cast<std::uintptr_t>(to) % num_bytes == 0 &&
                    (!valid || reinterpret_cast<std::uintptr_t>(from) % num_bytes == 0),
                "emulated copy", "addresses aligned to " + std::to_string(num_bytes) + " bytes", "others");
  std::memset(to, 0xff, num_bytes);
  current().copies.push_back({to, valid ? from : nullptr, num_bytes});
}
void commit_copies() { current().group_ends.push_back(current().copies.size()); }
void wait_copies_but(std::size_t pending) {
  Fiber& fiber = current();
  if (fiber.group_ends.size() <= pending) return;
  const auto done = fiber.group_ends.end() - static_cast<std::ptrdiff_t>(pending);
  const std::size_t num_copies = *(done - 1);
  for (std::size_t i = 0; i < num_copies; ++i) {
    const Copy& copy = fiber.copies[i];
    if (copy.from != nullptr) std::memcpy(copy.to, copy.from, copy.num_bytes);
    else std::memset(copy.to, 0, copy.num_bytes);
  }
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<std::ptrdiff_t>(num_copies));
  fiber.group_ends.erase(fiber.group_ends.begin(), done);
  for (std::size_t& end : fiber.group_ends) end -= num_copies;
}

void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  add_products<2>(c, gather({a[0], a[1], a[2], a[3], b0, b1}), bf16_at, bf16_at);
}
void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  add_products<2>(c, gather({a[0], a[1], a[2], a[3], b0, b1}), f16_at, f16_at);
}
void mma(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  add_products<4>(c, gather({a[0], a[1], a[2], a[3], b0, b1}), int8_at, int8_at);
}
void mma_unsigned_b(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  add_products<4>(c, gather({a[0], a[1], a[2], a[3], b0, b1}), int8_at, uint8_at);
}
std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d = 0;
  for (int i = 0; i < 2; ++i)
    d |= static_cast<std::uint32_t>(bf16_of(std::fma(bf16_at(a, i), bf16_at(b, i), bf16_at(c, i)))) << (16 * i);
  return d;
}
std::uint32_t fma_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d = 0;
  for (int i = 0; i < 2; ++i)
    d |= static_cast<std::uint32_t>(f16_of(std::fma(f16_at(a, i), f16_at(b, i), f16_at(c, i)))) << (16 * i);
  return d;
}

void run_blocks(Grid grid, int threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
  QRL_INVARIANT(threads > 0 && threads <= 1024 && threads % 32 == 0 && grid.y <= 65535, "emulated kernel",
                "1 to 32 whole warps", std::to_string(threads) + " threads");
  block.kernel = &kernel;
  block.num_threads = threads;
  block.grid = grid;
  for (std::int64_t i = 0; i < grid.x * grid.y; ++i) {
    const std::int64_t idx = block.order == Order::ascending ? i : grid.x * grid.y - 1 - i;
    block.x = idx % grid.x;
    block.y = idx / grid.x;
    run_block(shared_bytes);
  }
}

DeviceFacts use_device(int number) {
  constexpr int kDevices = 2;  // two by number only; both are the host
  return {.name = "host",
          .major = 8,
          .minor = 0,
          .shared_bytes = static_cast<std::size_t>(kLimits.shared_bytes),
          .total_bytes = kDeviceBytes,
          .kept_back_bytes = kKeptBackBytes,
          .number = take_device(number, kDevices),
          .count = kDevices,
          .uuid = "host"};
}
std::size_t free_bytes() { return kDeviceBytes - used_bytes; }

void accept_callers_memory(bool accept) { may_be_the_devices = accept; }
void on_launch(std::function<void(const char*)> call) { told_of_launch = std::move(call); }
void report_launch(const char* name) {
  if (told_of_launch) told_of_launch(name);
}
std::string name_of_memory(const void* at) {
  const Allocation* found = allocation_of(at);
  const bool on_device = found != nullptr ? found->place == Memory::Place::device : may_be_the_devices;
  return on_device ? memory_name(0) : "host memory";
}

void enter_device(const DeviceFacts&) {}

Stream::Stream() : handle_(queues.emplace_back(new Queue)) {}
Stream::~Stream() {
  if (!is_owned_) return;
  Queue& queue = queue_of(*this);
  finish(queue);
  std::erase(queues, &queue);
  delete &queue;
}
void Stream::wait() const {
  if (handle_ != nullptr) finish(queue_of(*this));
}

/// Marks a piece of work that reports its completion.
struct Mark {
  Queue* queue = nullptr;
  std::shared_ptr<bool> is_reached;
};
Event::Event() : handle_(new Mark) {}
Event::~Event() { delete static_cast<Mark*>(handle_); }
void Event::record(const Stream& stream) {
  QRL_INVARIANT(!any_records(), "emulated event", "none while a graph is recorded", "one");
  auto& mark = *static_cast<Mark*>(handle_);
  mark = {&queue_of(stream), std::make_shared<bool>(false)};
  add_work(stream, [is_reached = mark.is_reached] { *is_reached = true; });
}
void Event::wait() const {
  const auto& mark = *static_cast<const Mark*>(handle_);
  if (mark.is_reached && !*mark.is_reached) finish(*mark.queue, [&] { return *mark.is_reached; });
}

Graph::Graph(const Stream& stream, const std::function<void()>& record) {
  Queue& queue = queue_of(stream);
  Works before = std::exchange(queue.works, {});
  queue.is_recording = true;
  const auto stop = [&] {
    queue.is_recording = false;
    return std::exchange(queue.works, std::move(before));
  };
  try {
    record();
  } catch (...) {
    stop();
    throw;
  }
  auto* recorded = new Recorded{stop(), std::make_shared<std::int64_t>(0)};
  handle_ = recorded;
  num_bytes_ = recorded->works.size() * kGraphNodeBytes;
  used_bytes += num_bytes_;
}
Graph::~Graph() {
  const auto* recorded = static_cast<const Recorded*>(handle_);
  if (recorded == nullptr) return;
  if (*recorded->num_running > 0) ++ended_while_running;
  used_bytes -= num_bytes_;
  delete recorded;
}
void Graph::launch(const Stream& stream) const {
  const auto* recorded = static_cast<const Recorded*>(handle_);
  ++*recorded->num_running;
  for (const auto& work : recorded->works) add_work(stream, work);
  add_work(stream, [num_running = recorded->num_running] { --*num_running; });
}
std::int64_t graphs_ended_while_running() { return ended_while_running; }

Memory::Memory(std::size_t num_bytes, Place place, int byte) : num_bytes_(num_bytes), place_(place) {
  QRL_INVARIANT(!any_records(), "emulated memory", "none made while a graph is recorded", "some");
  if (place == Place::device && taken(num_bytes) > free_bytes())
    throw OutOfMemory(num_bytes, "host, device 0", free_bytes());
  // Allocates exactly the requested bytes, so that AddressSanitizer detects any access beyond them.
  if (posix_memalign(&data_, 256, num_bytes == 0 ? 1 : num_bytes) != 0) throw std::bad_alloc();
  std::memset(data_, byte, num_bytes);
  if (place == Place::device) used_bytes += taken(num_bytes);
  allocations.emplace(as<std::byte>(), Allocation{as<std::byte>() + std::max<std::size_t>(num_bytes, 1), place});
}
/// Like cudaFree and cudaFreeHost, waits for all work in flight first.
Memory::~Memory() {
  if (data_ == nullptr) return;
  for (Queue* queue : queues) finish(*queue);
  if (place_ == Place::device) used_bytes -= taken(num_bytes_);
  allocations.erase(as<std::byte>());
  std::free(data_);
}

/// Work on the default stream runs at once, because callers that compute on the host in between use that stream.
void add_work(const Stream& stream, std::function<void()> work) {
  if (stream.handle() == nullptr) return work();
  queue_of(stream).works.push_back(std::move(work));
}

void copy_to_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream) {
  QRL_INVARIANT(num_bytes == 0 || is_pinned(from) || !any_records(), "emulated copy",
                "pinned memory while a graph is recorded", "other memory");
  add_copy(to, Memory::Place::device, from, Memory::Place::host, num_bytes, stream);
}
void copy_to_host(void* to, const void* from, std::size_t num_bytes, const Stream& stream) {
  add_copy(to, Memory::Place::host, from, Memory::Place::device, num_bytes, stream);
}
void copy_on_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream) {
  add_copy(to, Memory::Place::device, from, Memory::Place::device, num_bytes, stream);
}
void fill_zero(void* to, std::size_t num_bytes, const Stream& stream) {
  if (num_bytes == 0) return;
  require_place(to, num_bytes, Memory::Place::device, "fill");
  report_launch("own fill");
  add_work(stream, [=] { std::memset(to, 0, num_bytes); });
}

std::unique_ptr<Gemms> make_gemms(const DeviceFacts&, bool row_only_sums) {
  return std::make_unique<EmulatedGemms>(row_only_sums);
}

}  // namespace qrl::cuda::emulated
