// Owns device memory, streams, copies and graphs. Knows nothing of what is computed. Two programs implement it: CUDA's
// (runtime.cpp, namespace `device`), and the tests' emulation on the host (tests/cuda/emulation/emulation.cpp,
// `emulated`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "cuda/runtime/out_of_memory.h"
#include "cuda/runtime/poison.h"

#if !defined(QRL_CUDA_TARGET)
#define QRL_CUDA_TARGET device
#endif

namespace qrl::cuda::QRL_CUDA_TARGET {

/// The device in use, as reported by the driver.
struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;      ///< compute capability
  std::size_t shared_bytes = 0;  ///< the most per block
  std::size_t total_bytes = 0;
  /// Memory that KV pages leave free for libraries, which load kernels and grow caches at their first use.
  std::size_t kept_back_bytes = 0;
  int number = 0, count = 1;  ///< index and number of visible devices
  std::string uuid;           ///< 16 bytes, unique to the device
};

/// Returns the device of `count` that a process uses when it requests `number`: round-robin.
inline int take_device(int number, int count) { return number % count; }

/// Returns whether this program has kernels for a device. sm_80's run on all of 8.x, and sm_90a's on 9.0. For newer
/// devices the driver compiles compute_90's PTX when kernels are loaded.
inline bool has_kernels_for(int major) { return major >= 8; }
/// Returns whether code for sm_90a (CUTLASS) runs on the device: only on 9.0.
inline bool runs_hopper_code(const DeviceFacts& device) { return device.major == 9 && device.minor == 0; }

/// Makes the visible device take_device(number, their count) current in this thread. Throws an input error for: no
/// driver, a driver that is too old, no device, or a device without kernels in this program.
DeviceFacts use_device(int number);
/// Makes the device that use_device returned current in another thread.
void enter_device(const DeviceFacts& device);

std::size_t free_bytes();

/// Names a device's memory in errors: "memory of device 0".
inline std::string memory_name(int device_number) { return "memory of device " + std::to_string(device_number); }
/// Names the memory that `at` points into: a device's, or "host memory".
std::string name_of_memory(const void* at);

/// A CUDA stream. The destructor of an owned stream waits for its work.
class Stream {
 public:
  Stream();
  /// Wraps a caller's stream (null: CUDA's default), which must outlive this. The destructor does not wait for it.
  explicit Stream(void* handle) : handle_(handle), is_owned_(false) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Blocks until all work is done. Throws errors of earlier work.
  void wait() const;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
  bool is_owned_ = true;
};

/// A point in a stream's order to wait for.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Moves the point after all work of the stream. Not allowed during a graph capture.
  void record(const Stream& stream);
  /// Blocks until the stream has reached the point; returns at once if none was recorded. Throws errors of earlier
  /// work.
  void wait() const;

 private:
  void* handle_ = nullptr;
};

/// A CUDA graph of the work that `record` enqueues: kernel launches, and copies between device and pinned memory. One
/// call launches it in the same order. A launch keeps the recorded arguments but reads memory anew, so whatever varies
/// must be in memory at a fixed address. `record` may neither allocate nor wait, so it must run once before the
/// capture, which loads kernels and makes libraries' plans.
class Graph {
 public:
  Graph() = default;
  /// Records without running. Rethrows an exception of `record`, and leaves the stream as before.
  Graph(const Stream& stream, const std::function<void()>& record);
  ~Graph();
  Graph(Graph&& other) noexcept { std::swap(handle_, other.handle_); }
  Graph& operator=(Graph&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  bool empty() const { return handle_ == nullptr; }
  void launch(const Stream& stream) const;

 private:
  void* handle_ = nullptr;
};

/// Owns bytes on the device, 256-byte aligned, or pinned on the host. Code that reads bytes before it writes them needs
/// `zeroed` memory; other memory may be full of NaN (poison.h).
class Memory {
 public:
  enum class Place : std::uint8_t { device, host };
  Memory() = default;
  /// Throws OutOfMemory if too little is free.
  explicit Memory(std::size_t num_bytes, Place place = Place::device) : Memory(num_bytes, place, new_memory_byte()) {}
  /// Allocates zeros on the device.
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
  Memory(std::size_t num_bytes, Place place, int byte);  ///< fills with `byte`
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
    std::swap(place_, other.place_);
  }

  void* data_ = nullptr;
  std::size_t num_bytes_ = 0;
  Place place_ = Place::device;
};

// Copies follow the stream's order and return at once. Host memory must not change until the stream has finished the
// copy. (Most systems read pageable memory before the call returns; those whose GPU reads it directly need not.)
void copy_to_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void copy_to_host(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void copy_on_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void fill_zero(void* to, std::size_t num_bytes, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
