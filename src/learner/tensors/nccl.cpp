#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/shared_library.h"
#include "dist/deadline.h"
#include "learner/tensors/libraries.h"
#include "learner/tensors/rank_tensors.h"

namespace qrl::learner {

namespace {

// Declares the used part of nccl.h, which some builds lack. The ABI is unchanged since 2.4.
struct UniqueId {
  std::array<char, 128> bytes;
};
using Comm = void*;
using Stream = void*;
enum Type : int { kInt8 = 0, kFloat32 = 7 };
constexpr int kSum = 0, kSuccess = 0;

struct Library {
  explicit Library(const std::string& name) {
    const base::SharedLibrary opened = base::open_shared_library(std::span(&name, 1));
    handle = opened.handle;
    int version = 0;
    if (handle != nullptr) find(get_version, "ncclGetVersion");
    if (get_version != nullptr) (void)get_version(&version);
    base::require(nccl_report(version, opened), "trainer.device: cuda, several ranks");
    find(get_unique_id, "ncclGetUniqueId");
    find(comm_init_rank, "ncclCommInitRank");
    find(comm_destroy, "ncclCommDestroy");
    find(comm_abort, "ncclCommAbort");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(all_reduce, "ncclAllReduce");
    find(reduce, "ncclReduce");
    find(broadcast, "ncclBroadcast");
    find(get_async_error, "ncclCommGetAsyncError");
    find(error_string, "ncclGetErrorString");
  }
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
    QRL_REQUIRE(function != nullptr, "NCCL's library", std::string("the function ") + name, "a library without it");
  }
  void check(int result, const char* what) const {
    QRL_INVARIANT(result == kSuccess, std::string("NCCL, ") + what, "success",
                  std::string(error_string(result)) + " (set NCCL_DEBUG=WARN in the environment for details)");
  }

  void* handle = nullptr;  // never closed, because NCCL has its own threads
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*comm_init_rank)(Comm*, int num_ranks, UniqueId, int rank) = nullptr;
  int (*comm_destroy)(Comm) = nullptr;
  int (*comm_abort)(Comm) = nullptr;  // ends the communicator's kernels, which a lost rank leaves waiting
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t count, Type, int op, Comm, Stream) = nullptr;
  int (*reduce)(const void*, void*, std::size_t count, Type, int op, int root, Comm, Stream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t count, Type, int root, Comm, Stream) = nullptr;
  int (*get_async_error)(Comm, int* error) = nullptr;  // returns errors that follow a successful launch
  const char* (*error_string)(int) = nullptr;
};

class ByNccl final : public RankTensors {
 public:
  ByNccl(dist::Collectives& world, const torch::Device& device, const std::string& library)
      : world_(world), device_(device), nccl_(library) {
    UniqueId id{};
    if (world.is_first()) nccl_.check(nccl_.get_unique_id(&id), "the job's unique id");
    world.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    const dist::Deadline deadline = limit("connection");
    nccl_.check(nccl_.comm_init_rank(&comm_, world.size(), id, world.rank()), "connecting the ranks");
  }
  ~ByNccl() override {
    if (comm_ == nullptr) return;
    // After an exception other ranks may be in another call, and destroying would wait for them.
    if (std::uncaught_exceptions() == 0) (void)nccl_.comm_destroy(comm_);
    else abort();
  }
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }

  void begin_sum(const torch::Tensor& f32_values, std::span<const dist::Part> parts) override {
    auto* values = f32_values.data_ptr<float>();
    const auto count = static_cast<std::size_t>(f32_values.numel());
    begin("a sum", [&](Stream stream) {
      if (parts.empty()) check(nccl_.all_reduce(values, values, count, kFloat32, kSum, comm_, stream), "a sum");
      for (const dist::Part& part : parts) {
        float* mine = values + part.begin;
        check(nccl_.reduce(mine, mine, part.count, kFloat32, kSum, part.owner, comm_, stream), "a sum to owners");
      }
    });
  }
  void end_sums() override { end("sums"); }
  bool sums_during_backward() const override { return true; }
  void begin_copies(const torch::Tensor& values, std::span<const dist::Part> byte_parts) override {
    auto* bytes = static_cast<std::byte*>(values.data_ptr());
    begin("a copy", [&](Stream stream) {
      for (const dist::Part& part : byte_parts) {
        std::byte* mine = bytes + part.begin;
        check(nccl_.broadcast(mine, mine, part.count, kInt8, part.owner, comm_, stream), "copies from owners");
      }
    });
  }
  void end_copies() override { end("copies"); }
  bool copies_beside_work() const override { return true; }
  void broadcast(const torch::Tensor& values, int root) override {
    const dist::Part all{0, values.nbytes(), root};
    begin_copies(values, std::span(&all, 1));
    end_copies();
  }

 private:
  /// Throws unless the result is success. First aborts the communicator: kernels that wait for a lost rank would keep
  /// the device, and whatever waits for it, forever.
  void check(int result, const char* what) {
    if (result != kSuccess) abort();
    nccl_.check(result, what);
  }
  void require_connected(const char* what) const {
    QRL_INVARIANT(comm_ != nullptr, std::string("NCCL, ") + what, "connected ranks", "ranks that an error has parted");
  }
  void abort() {
    if (comm_ != nullptr) (void)nccl_.comm_abort(std::exchange(comm_, nullptr));
  }

  dist::Deadline limit(const char* what) const {
    const double seconds = world_.time_limit_s();
    return {seconds, "waited " + std::to_string(static_cast<std::int64_t>(seconds)) + " s for the other ranks' GPUs (" +
                         what + "): the job ends here (trainer.collective_timeout_s)"};
  }

  /// Calls body(stream). Work on this stream starts after the work that the device has queued so far.
  template <class Body>
  void begin(const char* what, const Body& body) {
    const dist::Deadline deadline = limit(what);  // limits the first launch, which connects the ranks
    Stream stream = nullptr;                      // null without a GPU (in tests)
    if (device_.is_cuda()) {
      if (!stream_) stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
      c10::Event there(device_.type());
      there.record(at::accelerator::getCurrentStream(device_.index()));
      there.block(*stream_);
      stream = stream_->native_handle();
    }
    require_connected(what);
    check(nccl_.group_start(), what);
    body(stream);
    check(nccl_.group_end(), what);
  }
  void end(const char* what) {
    const dist::Deadline deadline = limit(what);
    require_connected(what);
    for (bool is_done = false; !is_done; std::this_thread::yield()) {
      is_done = !stream_ || stream_->query();
      int met = kSuccess;
      check(nccl_.get_async_error(comm_, &met), what);
      check(met, what);
    }
  }

  dist::Collectives& world_;
  torch::Device device_;
  Library nccl_;
  Comm comm_ = nullptr;
  std::optional<c10::Stream> stream_;
};

}  // namespace

std::unique_ptr<RankTensors> ranks_by_nccl(dist::Collectives& world, const torch::Device& device,
                                           const std::string& library) {
  return std::make_unique<ByNccl>(world, device, library);
}

}  // namespace qrl::learner
