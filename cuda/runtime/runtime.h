// Owns device memory, streams, copies and graphs. tests/cuda/emulation emulates them on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cuda/runtime/out_of_memory.h"

#if !defined(QRL_CUDA_TARGET)
#define QRL_CUDA_TARGET device
#endif

namespace qrl::cuda {

/// Returns the byte that fills new memory: 0, or 0xff with QRL_CUDA_POISON=1 in the environment. 0xff bytes are NaN in
/// every floating-point format, which exposes reads before the first write.
inline int new_memory_byte() {
  static const bool poisons = [] {
    const char* value = std::getenv("QRL_CUDA_POISON");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return poisons ? 0xff : 0;
}

namespace QRL_CUDA_TARGET {

struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;      ///< compute capability
  std::size_t shared_bytes = 0;  ///< largest shared memory per block
  std::size_t total_bytes = 0;
  std::size_t kept_back_bytes = 0;
  int number = 0, count = 1;  ///< index, and number of visible devices
  std::string uuid;           ///< 16 bytes
};

inline int take_device(int number, int count) { return number % count; }

/// Returns whether this program has kernels for compute capability `major`.x: sm_80 code for 8.x, sm_90a code for 9.0,
/// compute_90 PTX for newer devices.
inline bool has_kernels_for(int major) { return major >= 8; }
/// Returns whether sm_90a code (CUTLASS) runs on the device.
inline bool runs_hopper_code(const DeviceFacts& device) { return device.major == 9 && device.minor == 0; }

/// Calls cudaSetDevice for device `number` modulo the number of visible devices. Throws an input error if no device is
/// visible, if the driver is missing or too old, or if this program has no kernels for the device.
DeviceFacts use_device(int number);
void enter_device(const DeviceFacts& device);

std::size_t free_bytes();

inline std::string memory_name(int device_number) { return "memory of device " + std::to_string(device_number); }
/// Returns the name of the memory that `at` points to: memory_name(), or "host memory".
std::string name_of_memory(const void* at);

/// Owns or wraps a CUDA stream. The destructor waits for an owned stream's work.
class Stream {
 public:
  Stream();
  /// Wraps a caller's stream (null: CUDA's default stream), which must outlive this object.
  explicit Stream(void* handle) : handle_(handle), is_owned_(false) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Blocks until all work is done; throws errors of that work.
  void wait() const;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
  bool is_owned_ = true;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Records the event after all work enqueued on the stream. Not allowed during a graph capture.
  void record(const Stream& stream);
  /// Blocks until the stream has reached the event, if it was recorded. Throws errors of earlier work.
  void wait() const;

 private:
  void* handle_ = nullptr;
};

/// Owns a CUDA graph of what `record` enqueues: kernel launches, and copies between device and pinned memory. A launch
/// reuses the recorded arguments, but reads memory anew. `record` may neither allocate nor wait. Run `record` once
/// before the capture, to load kernels and plan libraries' GEMMs.
class Graph {
 public:
  Graph() = default;
  /// Records without running. If `record` throws, ends the capture and rethrows.
  Graph(const Stream& stream, const std::function<void()>& record);
  ~Graph();
  Graph(Graph&& other) noexcept { swap(other); }
  Graph& operator=(Graph&& other) noexcept {
    Graph taken(std::move(other));  // destroys the graph that was here
    swap(taken);
    return *this;
  }
  bool empty() const { return handle_ == nullptr; }
  void launch(const Stream& stream) const;
  /// Returns by how much making this graph lowered the device's free memory.
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  void swap(Graph& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(num_bytes_, other.num_bytes_);
  }

  void* handle_ = nullptr;
  std::size_t num_bytes_ = 0;
};

/// Owns 256-byte aligned memory on the device, or pinned memory on the host. Unless made by `zeroed`, it may be full of
/// NaN (new_memory_byte).
class Memory {
 public:
  enum class Place : std::uint8_t { device, host };
  Memory() = default;
  /// Throws OutOfMemory if too little is free.
  explicit Memory(std::size_t num_bytes, Place place = Place::device) : Memory(num_bytes, place, new_memory_byte()) {}
  static Memory zeroed(std::size_t num_bytes) { return Memory(num_bytes, Place::device, 0); }
  ~Memory();
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t num_bytes() const { return num_bytes_; }
  bool empty() const { return data_ == nullptr; }

 private:
  Memory(std::size_t num_bytes, Place place, int byte);
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
    std::swap(place_, other.place_);
  }

  void* data_ = nullptr;
  std::size_t num_bytes_ = 0;
  Place place_ = Place::device;
};

// Enqueue the copy (or fill) on the stream and return at once. Host memory must not change until the copy has finished.
void copy_to_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void copy_to_host(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void copy_on_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void fill_zero(void* to, std::size_t num_bytes, const Stream& stream);

/// Says whether memory may move when it grows. It may not if it is reserved and recorded graphs contain its address.
struct MayMove {
  bool is_reserved = false, is_recorded = false;
  explicit operator bool() const { return !is_reserved || !is_recorded; }
};

/// Grows `memory` to at least num_bytes; growing loses the contents. Throws an internal error that names `what` if the
/// memory must not move.
inline void grow(Memory& memory, std::int64_t num_bytes, const MayMove& may_move, const char* what) {
  const auto has_bytes = static_cast<std::int64_t>(memory.num_bytes());
  if (has_bytes >= num_bytes) return;
  QRL_INVARIANT(may_move || memory.empty(), std::string(what) + ", used by recorded ticks",
                "at most the " + std::to_string(has_bytes) + " bytes reserved at upload", std::to_string(num_bytes));
  memory = Memory();  // first, so that old and new memory never coexist
  memory = Memory(static_cast<std::size_t>(num_bytes));
}

}  // namespace QRL_CUDA_TARGET

}  // namespace qrl::cuda
