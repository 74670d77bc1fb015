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

/// What the driver says of the device in use.
struct DeviceFacts {
  std::string name;
  int major = 0, minor = 0;      ///< compute capability
  std::size_t shared_bytes = 0;  ///< that a block can have
  std::size_t total_bytes = 0;
  int number = 0, count = 1;  ///< which of the visible devices it is
  std::string uuid;           ///< 16 bytes that no other device has, visible or not
};

/// Which of `count` devices a process takes that asks for `number`: round-robin.
inline int take_device(int number, int count) { return number % count; }

/// Whether this program has kernels for a device: those of sm_80 run on all of 8.x, those of sm_90a on 9.0; for what is
/// newer its driver compiles compute_90's PTX when they are loaded.
inline bool has_kernels_for(int major) { return major >= 8; }
/// Whether code for sm_90a, CUTLASS's and FlashInfer's, runs on it: on 9.0 alone.
inline bool runs_hopper_code(const DeviceFacts& device) { return device.major == 9 && device.minor == 0; }

/// Makes the visible device take_device(number, their count) the one in use by this thread. Input errors: no driver, a
/// driver that is too old, no device, one that there are no kernels for.
DeviceFacts use_device(int number);
/// The same for another thread, of the device that use_device said it was.
void enter_device(const DeviceFacts& device);

std::size_t free_bytes();

/// An order of work on the device. Ends with everything in it done.
class Stream {
 public:
  Stream();
  /// Somebody else's (null: CUDA's default), which must outlive this, and whose work goes on.
  explicit Stream(void* handle) : handle_(handle), is_owned_(false) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Blocks until all is done; errors of anything before show here.
  void wait() const;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
  bool is_owned_ = true;
};

/// A place in a stream's order, which others may wait for.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Behind all that the stream was given; the last place is forgotten. Not while a graph is recorded.
  void record(const Stream& stream);
  /// Blocks until the stream has come there; at once when nothing was recorded. Errors of anything before show here.
  void wait() const;

 private:
  void* handle_ = nullptr;
};

/// What `record` gives to the stream (launches; copies between device and pinned memory), kept to be given again by one
/// call, in the same order. An argument of a launch stays what it was; memory is read anew each time, so whatever
/// varies must lie there, and stay where it is. What the work needs besides (a kernel's code, a library's plan) must
/// have been used before: `record` may neither make memory nor wait.
class Graph {
 public:
  Graph() = default;
  /// Does none of it. What `record` throws is thrown on, the stream as before.
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

/// Bytes on the device, 256-byte aligned; or on the host where the device can read them itself (pinned). Whoever reads
/// what was not written says so, and asks for zeroed ones: others may be full of NaN (poison.h).
class Memory {
 public:
  enum class Place : std::uint8_t { device, host };
  Memory() = default;
  /// Throws OutOfMemory when there is no more.
  explicit Memory(std::size_t num_bytes, Place place = Place::device) : Memory(num_bytes, place, new_memory_byte()) {}
  /// On the device, all zero.
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
  Memory(std::size_t num_bytes, Place place, int byte);  ///< full of that byte
  void swap(Memory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
    std::swap(place_, other.place_);
  }

  void* data_ = nullptr;
  std::size_t num_bytes_ = 0;
  Place place_ = Place::device;
};

// Copies are in the stream's order and return at once; host memory must stay as it is until the stream has done them.
// (Most systems read pageable memory before the call returns. Those whose GPU reads it itself need not.)
void copy_to_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void copy_to_host(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void copy_on_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream);
void fill_zero(void* to, std::size_t num_bytes, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
