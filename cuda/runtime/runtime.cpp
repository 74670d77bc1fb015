// Implements runtime.h with the statically linked CUDA runtime, which finds the driver at run time.
#include "cuda/runtime/runtime.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include "base/error.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/kept_back.h"
#include "cuda/runtime/libraries.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

cudaStream_t stream_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle()); }

/// Frees memory and ignores errors; the next CUDA call reports them.
void free_quietly(void* data, Memory::Place place) {
  if (data == nullptr) return;
  (void)(place == Memory::Place::device ? cudaFree(data) : cudaFreeHost(data));
}

[[noreturn]] void fail_memory(std::size_t num_bytes, Memory::Place place) {
  if (place == Memory::Place::host) throw OutOfMemory(num_bytes, "the host, pinned", "no memory that can be pinned");
  int number = 0;
  cudaDeviceProp properties{};
  QRL_CUDA_CHECK(cudaGetDevice(&number));
  QRL_CUDA_CHECK(cudaGetDeviceProperties(&properties, number));
  throw OutOfMemory(num_bytes, std::string(properties.name) + ", device " + std::to_string(number), free_bytes());
}

}  // namespace

DeviceFacts use_device(int number) {
  int driver_version = 0, count = 0;
  (void)cudaDriverGetVersion(&driver_version);  // stays 0 without a driver
  base::require(driver_report(driver_version, CUDART_VERSION), "rollout.device: cuda");
  const cudaError_t result = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  QRL_REQUIRE(result == cudaSuccess && count > 0, "rollout.device: cuda", "an NVIDIA GPU",
              result == cudaSuccess ? "no device" : cudaGetErrorString(result),
              "use trainer.device: cpu and rollout.device: cpu here; CUDA_VISIBLE_DEVICES must name a device");
  const int device = take_device(number, count);
  QRL_CUDA_CHECK(cudaSetDevice(device));
  cudaDeviceProp properties{};
  QRL_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  QRL_REQUIRE(has_kernels_for(properties.major), "rollout.device: cuda", "a GPU of compute capability 8.0 or newer",
              std::string(properties.name) + " with " + std::to_string(properties.major) + "." +
                  std::to_string(properties.minor));
  return {properties.name,
          properties.major,
          properties.minor,
          properties.sharedMemPerBlockOptin,
          properties.totalGlobalMem,
          kKeptBackBytes,
          device,
          count,
          std::string(properties.uuid.bytes, sizeof properties.uuid.bytes)};
}

void enter_device(const DeviceFacts& device) { QRL_CUDA_CHECK(cudaSetDevice(device.number)); }

std::size_t free_bytes() {
  std::size_t free_now = 0, total = 0;
  QRL_CUDA_CHECK(cudaMemGetInfo(&free_now, &total));
  return free_now;
}

std::string name_of_memory(const void* at) {
  cudaPointerAttributes found{};
  QRL_CUDA_CHECK(cudaPointerGetAttributes(&found, at));
  const bool on_device = found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
  return on_device ? memory_name(found.device) : "host memory";
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  QRL_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  handle_ = stream;
}
Stream::~Stream() {
  if (!is_owned_) return;
  (void)cudaStreamSynchronize(stream_of(*this));
  (void)cudaStreamDestroy(stream_of(*this));
}
void Stream::wait() const { QRL_CUDA_CHECK(cudaStreamSynchronize(stream_of(*this))); }

Event::Event() {
  cudaEvent_t event = nullptr;
  QRL_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  handle_ = event;
}
Event::~Event() { (void)cudaEventDestroy(static_cast<cudaEvent_t>(handle_)); }
void Event::record(const Stream& stream) {
  QRL_CUDA_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(handle_), stream_of(stream)));
}
void Event::wait() const { QRL_CUDA_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(handle_))); }

Graph::Graph(const Stream& stream, const std::function<void()>& record) {
  cudaGraph_t graph = nullptr;
  // Captures only this thread's calls: CUDA calls of other threads (in libraries) must not disturb the capture.
  QRL_CUDA_CHECK(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
  try {
    record();
  } catch (...) {
    (void)cudaStreamEndCapture(stream_of(stream), &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  QRL_CUDA_CHECK(cudaStreamEndCapture(stream_of(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  const std::size_t free_before = free_bytes();
  const cudaError_t result = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  QRL_CUDA_CHECK(result);
  handle_ = executable;
  QRL_CUDA_CHECK(cudaGraphUpload(executable, stream_of(stream)));  // takes the memory now, not at the first launch
  const std::size_t free_after = free_bytes();
  num_bytes_ = free_before > free_after ? free_before - free_after : 0;
}
Graph::~Graph() {
  if (handle_ != nullptr) (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_));
}
void Graph::launch(const Stream& stream) const {
  QRL_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), stream_of(stream)));
}

Memory::Memory(std::size_t num_bytes, Place place, int byte) : num_bytes_(num_bytes), place_(place) {
  if (num_bytes == 0) return;
  const cudaError_t result = place == Place::device ? cudaMalloc(&data_, num_bytes) : cudaMallocHost(&data_, num_bytes);
  if (result == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    fail_memory(num_bytes, place);
  }
  QRL_CUDA_CHECK(result);
  try {
    // Waits for the fill, because it runs on the default stream, for which other streams do not wait.
    if (place == Place::device) {
      QRL_CUDA_CHECK(cudaMemset(data_, byte, num_bytes));
      QRL_CUDA_CHECK(cudaStreamSynchronize(nullptr));
    } else {
      std::memset(data_, byte, num_bytes);
    }
  } catch (...) {
    free_quietly(data_, place_);
    throw;
  }
}
Memory::~Memory() { free_quietly(data_, place_); }

void copy_to_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream) {
  if (num_bytes > 0) QRL_CUDA_CHECK(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyHostToDevice, stream_of(stream)));
}
void copy_to_host(void* to, const void* from, std::size_t num_bytes, const Stream& stream) {
  if (num_bytes > 0) QRL_CUDA_CHECK(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
}
void copy_on_device(void* to, const void* from, std::size_t num_bytes, const Stream& stream) {
  if (num_bytes > 0) QRL_CUDA_CHECK(cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, stream_of(stream)));
}
void fill_zero(void* to, std::size_t num_bytes, const Stream& stream) {
  if (num_bytes > 0) QRL_CUDA_CHECK(cudaMemsetAsync(to, 0, num_bytes, stream_of(stream)));
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
