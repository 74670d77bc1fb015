#include "tick_estimate.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace qrl::app {

namespace {

constexpr double kMultiprocessors = 132, kClock = 1.98e9, kLanesPerCycle = 128;  // four warps of 32 issue in a cycle
constexpr double kL2BytesPerS = 5.5e12, kMultiprocessorBytesPerS = 1e11;         // the latter: what one draws at most
/// Shares of a limit that a kernel reaches: of reading (streamed, a library's, attention), of issue slots beside a
/// barrier a step, of wgmma's speed by mma.sync and by a library.
constexpr double kStreamedReads = 0.92, kLibraryReads = 0.85, kAttentionReads = 0.7;
constexpr double kIssues = 0.7, kMmaSync = 0.6, kLibraryMatrix = 0.8;
/// A library's kernel begins when the one before has ended, and so does the one behind it.
constexpr double kSeam_s = 1.2e-6;
constexpr std::int64_t kCutlassRows = 64, kCutlassOutputs = 128;
/// Of a layer: two norms, rotation, attention, its join, SwiGLU; quantized activations are quantized behind attention.
constexpr double kSmallKernels = 6;

double up(std::int64_t count, std::int64_t divisor) { return static_cast<double>((count + divisor - 1) / divisor); }

struct MatmulEstimate {
  double seconds = 0;
  std::string bound;
};

/// The largest of the bounds.
MatmulEstimate largest(std::initializer_list<std::pair<const char*, double>> bounds) {
  MatmulEstimate estimate;
  for (const auto& [bound, seconds] : bounds) {
    if (seconds > estimate.seconds) estimate = {seconds, bound};
  }
  return estimate;
}

MatmulEstimate estimate_streamed(quant::Format format, const cuda::LayerMatrix& matrix, std::int64_t rows,
                                 const cuda::MatmulPlan& plan, const InnerLoops& loops, const GpuFigures& gpu) {
  const auto loop = loops.find(plan.tile_rows);
  QRL_REQUIRE(loop != loops.end(), "qrl-bench ticks: --kernels",
              "the inner loop of a tile of " + std::to_string(plan.tile_rows) + " rows", "none",
              "make the file with this build's scripts/gpu/kernels --json");
  const bool is_int8 = quant::spec(format).activations == quant::Element::int8;
  const double weights = static_cast<double>(matrix.out) * static_cast<double>(matrix.in);
  const double row_tiles = up(rows, plan.tile_rows), output_tiles = up(matrix.out, plan.tile_outputs);
  const auto weight_bytes = static_cast<double>(cuda::matrix_bytes(format, matrix.out, matrix.in));
  const double x_bytes =
      static_cast<double>(rows * matrix.in) * (quant::spec(format).activations == quant::Element::bf16 ? 2 : 1);
  const double read =
      std::min(gpu.read_bytes_per_s * kStreamedReads, static_cast<double>(plan.num_blocks) * kMultiprocessorBytesPerS);
  const double issued = weights * row_tiles * loop->second;
  const double operations = 2 * weights * row_tiles * static_cast<double>(plan.tile_rows);
  return largest({{"memory", static_cast<double>(plan.num_bytes) / read},
                  {"issue slots", issued / (kMultiprocessors * kLanesPerCycle * kClock * kIssues)},
                  {"L2", (weight_bytes * row_tiles + x_bytes * output_tiles) / kL2BytesPerS},
                  {"matrix units", operations / (gpu.matmul_flops * (is_int8 ? 2 : 1) * kMmaSync)}});
}

MatmulEstimate estimate_matmul(quant::Format format, const cuda::LayerMatrix& matrix, std::int64_t rows,
                               const InnerLoops& loops, const GpuFigures& gpu) {
  const cuda::MatmulPlan plan = cuda::plan_matmul(format, matrix.out, matrix.in, rows);
  if (plan.kernel == cuda::MatmulKernel::streamed) return estimate_streamed(format, matrix, rows, plan, loops, gpu);
  const double row_tiles = up(rows, kCutlassRows);
  const double operations = 2 * static_cast<double>(matrix.out) * static_cast<double>(matrix.in) * row_tiles *
                            static_cast<double>(kCutlassRows);
  double bytes = static_cast<double>(plan.num_bytes), read = gpu.read_bytes_per_s * kLibraryReads, units = 1,
         before_s = 0;
  if (plan.kernel == cuda::MatmulKernel::cutlass) {
    units = 2;  // 8 bits
    read = std::min(read, row_tiles * up(matrix.out, kCutlassOutputs) * kMultiprocessorBytesPerS);
  } else if (plan.kernel ==
             cuda::MatmulKernel::dequantized) {  // read and written as bf16 first, by a kernel of its own
    const auto quantized = static_cast<double>(cuda::matrix_bytes(format, matrix.out, matrix.in)),
               bf16 = static_cast<double>(cuda::matrix_bytes(quant::Format::bf16, matrix.out, matrix.in));
    before_s = (quantized + bf16) / read + kSeam_s;
    bytes += bf16 - quantized;
  }
  MatmulEstimate estimate =
      largest({{"memory", bytes / read}, {"matrix units", operations / (gpu.matmul_flops * units * kLibraryMatrix)}});
  estimate.seconds += before_s + kSeam_s;
  return estimate;
}

}  // namespace

const char* const kHowEstimated =
    "not measured: each matmul takes the largest of bytes / reading, counted instructions / issue slots, L2 and matrix "
    "units, each by the share of it that kernels reach; other kernels a fixed time; H200";

InnerLoops read_inner_loops(const std::string& file, const std::string& format) {
  std::ifstream stream(file);
  const std::string where = "qrl-bench ticks: --kernels " + file;
  QRL_REQUIRE(stream.good(), where, "a file", "none", "make it: scripts/gpu/kernels --json > " + file);
  const nlohmann::json facts = nlohmann::json::parse(stream, nullptr, false);
  InnerLoops loops;
  try {
    for (const auto& [rows, figures] : facts.at("inner_loops").at("sm_90a").at(format).items())
      loops[std::stoll(rows)] = figures.at("per_weight").get<double>();
  } catch (const std::exception&) {
    base::fail_input(where, "the JSON that scripts/gpu/kernels --json prints, with inner loops of " + format,
                     facts.is_discarded() ? "text that is no JSON" : "JSON without them",
                     "make it again: scripts/gpu/kernels --json > " + file);
  }
  return loops;
}

TickEstimate estimate_tick(const cuda::TickSpeedTask& task, std::int64_t batch, std::int64_t context,
                           const InnerLoops& loops, const GpuFigures& gpu) {
  const model::ModelConfig& config = task.options.model;
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const bool of_8_bits = quant::spec(task.format).activations != quant::Element::bf16;
  TickEstimate estimate;
  std::int64_t largest = 0;
  for (const cuda::LayerMatrix& matrix : cuda::layer_matrices(config)) {
    const MatmulEstimate one = estimate_matmul(task.format, matrix, batch, loops, gpu);
    estimate.matmul_s += layers * one.seconds;
    if (matrix.out * matrix.in <= largest) continue;
    largest = matrix.out * matrix.in;
    estimate.bound = one.bound;
  }
  const cuda::LayerMatrix lm_head{"lm_head", config.vocab_size, config.hidden_size};
  estimate.matmul_s += estimate_matmul(quant::Format::bf16, lm_head, batch, loops, gpu).seconds;
  const cuda::TickSpeed work = cuda::count_tick_work(task, batch, context),
                        without_kv = cuda::count_tick_work(task, batch, 0);
  const double kv_bytes = static_cast<double>(work.num_bytes - without_kv.num_bytes);
  estimate.tick_s = estimate.matmul_s + kv_bytes / (gpu.read_bytes_per_s * kAttentionReads) +
                    layers * (kSmallKernels + (of_8_bits ? 1 : 0)) * gpu.small_kernel_s;
  estimate.limit_s = std::max(
      static_cast<double>(work.num_bytes) / gpu.read_bytes_per_s,
      work.layer_operations / (gpu.matmul_flops * (of_8_bits ? 2 : 1)) + work.other_operations / gpu.matmul_flops);
  return estimate;
}

}  // namespace qrl::app
