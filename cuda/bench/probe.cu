// Finds out what a GPU and its driver do where the documentation is silent, before the backend is judged. A program of
// its own, without any of the backend's code. Prints one JSON object.   usage: gpu_probe [--dry-run]
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: %s: %s (%s)\n", what, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ? 4 : 1);
}
#define CHECK(call) check(call, #call)

constexpr int kChainSize = 1 << 22, kChainLaunches = 200, kChainGraphs = 50, kThreads = 256;
constexpr std::size_t kReadBytes = std::size_t{4} << 30;

__global__ void touch_shared(int* out) {
  extern __shared__ int words[];
  words[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x];
}

/// Adds 1 to values that other multiprocessors wrote in the kernel before, which has not ended when this one begins.
__global__ void link_of_chain(const int* from, int* to) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < kChainSize) to[i] = from[(i + kChainSize / 2 + 7) % kChainSize] + 1;
}

__device__ void keep(const uint4& sum, uint4* out) {
  if (sum.x == 1 && sum.y == 2) *out = sum;  // never; the compiler cannot know
}

/// Reads a row-major matrix as the streamed GEMM does: 64 rows a block, 128 bytes of each row a step.
__global__ void read_rows(const uint4* matrix, std::size_t row_16, int steps, uint4* out) {
  const uint4* at = matrix + (std::size_t{blockIdx.x} * 64 + threadIdx.x / 4) * row_16 + threadIdx.x % 4;
  uint4 sum{};
#pragma unroll 8
  for (int step = 0; step < steps; ++step) {
    const uint4 low = at[step * 8], high = at[step * 8 + 4];
    sum.x ^= low.x ^ high.y ^ low.z ^ high.w;
    sum.y ^= low.y ^ high.x ^ low.w ^ high.z;
  }
  keep(sum, out);
}

/// Reads the same bytes in contiguous tiles of 8 KiB.
__global__ void read_tiles(const uint4* matrix, int steps, uint4* out) {
  const uint4* at = matrix + std::size_t{blockIdx.x} * steps * 512 + threadIdx.x;
  uint4 sum{};
#pragma unroll 8
  for (int step = 0; step < steps; ++step) {
    const uint4 low = at[step * 512], high = at[step * 512 + 256];
    sum.x ^= low.x ^ high.y ^ low.z ^ high.w;
    sum.y ^= low.y ^ high.x ^ low.w ^ high.z;
  }
  keep(sum, out);
}

struct Graph {
  explicit Graph(cudaStream_t on) : stream(on) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  void instantiate() {
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
  }
  cudaStream_t stream;
  cudaGraphExec_t exec = nullptr;
};

void allow_shared(int kib) {
  CHECK(cudaFuncSetAttribute(touch_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, kib << 10));
}

/// Whether a graph's node keeps the shared memory it was captured with when the kernel's limit is lowered later.
bool graph_keeps_shared_memory(cudaStream_t stream) {
  int* out;
  CHECK(cudaMalloc(&out, 32 * sizeof(int)));
  Graph graph(stream);
  allow_shared(200);
  touch_shared<<<1, 32, 200 << 10, stream>>>(out);
  allow_shared(100);
  touch_shared<<<1, 32, 100 << 10, stream>>>(out);
  graph.instantiate();
  allow_shared(64);
  cudaError_t error = cudaGraphLaunch(graph.exec, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) std::fprintf(stderr, "graph with lowered shared memory: %s\n", cudaGetErrorName(error));
  return error == cudaSuccess;
}

/// Values that are wrong behind a chain of kernels that each begin while the one before is at work.
int wrong_in_chain(cudaStream_t stream) {
  const std::size_t bytes = kChainSize * sizeof(int);
  int *first, *second;
  CHECK(cudaMalloc(&first, bytes));
  CHECK(cudaMalloc(&second, bytes));
  CHECK(cudaMemset(first, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = kChainSize / kThreads;
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  Graph graph(stream);
  for (int i = 0; i < kChainLaunches / 2; ++i) {
    CHECK(cudaLaunchKernelEx(&config, link_of_chain, static_cast<const int*>(first), second));
    CHECK(cudaLaunchKernelEx(&config, link_of_chain, static_cast<const int*>(second), first));
  }
  graph.instantiate();
  for (int i = 0; i < kChainGraphs; ++i) CHECK(cudaGraphLaunch(graph.exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  std::vector<int> values(kChainSize);
  CHECK(cudaMemcpy(values.data(), first, bytes, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (const int value : values) wrong += value != kChainLaunches * kChainGraphs;
  CHECK(cudaFree(first));
  CHECK(cudaFree(second));
  return wrong;
}

/// TB/s of both orders over the same 4 GiB, rows of `row_bytes`; the better of three rounds each.
void read_speeds(cudaStream_t stream, uint4* matrix, std::size_t row_bytes, double& rows, double& tiles) {
  const std::size_t num_rows = kReadBytes / row_bytes / 64 * 64;
  const auto blocks = static_cast<unsigned>(num_rows / 64);
  const int steps = static_cast<int>(row_bytes / 128);
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  rows = tiles = 0;
  for (int round = 0; round < 6; ++round) {
    CHECK(cudaEventRecord(begin, stream));
    if (round % 2 == 0) read_rows<<<blocks, kThreads, 0, stream>>>(matrix, row_bytes / 16, steps, matrix);
    else read_tiles<<<blocks, kThreads, 0, stream>>>(matrix, steps, matrix);
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    double& best = round % 2 == 0 ? rows : tiles;
    const double speed = static_cast<double>(num_rows * row_bytes) / ms * 1e-9;
    if (speed > best) best = speed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t kRowBytes[] = {2048, 6144, 24576};  // int4 rows of an 8B model, and the longest row of int8
  if (argc > 2 || (argc == 2 && std::strcmp(argv[1], "--dry-run") != 0)) {
    std::fprintf(stderr, "usage: gpu_probe [--dry-run]\n");
    return 2;
  }
  if (argc == 2) {
    std::printf("{\"dry_run\": true, \"chain_values\": %d, \"read_bytes\": %zu}\n", kChainSize, kReadBytes);
    return 0;
  }
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const int wrong = wrong_in_chain(stream);
  uint4* matrix;
  CHECK(cudaMalloc(&matrix, kReadBytes));
  CHECK(cudaMemset(matrix, 7, kReadBytes));
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"chain_wrong\": %d, \"chain_values\": %d", wrong, kChainSize);
  for (const std::size_t row_bytes : kRowBytes) {
    double rows = 0, tiles = 0;
    read_speeds(stream, matrix, row_bytes, rows, tiles);
    std::printf(", \"rows%zu_tb_per_s\": %.3f, \"tiles%zu_tb_per_s\": %.3f", row_bytes, rows, row_bytes, tiles);
  }
  // Last, since a failure leaves the device with an error.
  std::printf(", \"graph_keeps_shared_memory\": %s}\n", graph_keeps_shared_memory(stream) ? "true" : "false");
  return 0;
}
