#include "tick_estimate.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "cuda/bench/bench_plan.h"
#include "tick_limit.h"

namespace qrl::app {

namespace {

constexpr double kMultiprocessors = 132, kClock = 1.755e9, kLanesPerCycle = 128;  // lanes: 4 warps of 32
constexpr double kL2BytesPerS = 5.5e12, kMultiprocessorBytesPerS = 1e11;          // L2 reads of all SMs, and of one SM
/// Holds the share of the read bandwidth that a kernel reaches, and its fixed time.
struct Reach {
  double reads, fixed_s;
};
constexpr Reach kStreamed{0.93, 4.5e-6}, kStreamedInt4{0.93, 7.5e-6}, kCublasLt{0.94, 5e-6}, kCutlass{0.92, 6e-6},
    kScaled{0.75, 7e-6};
/// Shares of the tensor cores' peak that matmuls reach with mma.sync, cuBLASLt (bf16 and scaled e4m3), and CUTLASS
/// (int8, and e4m3 with sums promoted to fp32).
constexpr double kMmaSync = 0.6, kBf16Units = 0.92, kInt8Units = 0.8, kFp8Units = 0.66, kScaledUnits = 0.85;
/// kOwnKernel_s is the fixed time of a kernel that rearranges scales or dequantizes. The others are the shares of the
/// read bandwidth that dequantizing weights and rows reaches.
constexpr double kOwnKernel_s = 2e-6, kDequantizeReads = 0.92, kDequantizeRowsReads = 0.8;
/// Fixed times of attention, of a tile of lm_head, of sampling, and of each sampled row.
constexpr double kAttention_s = 8e-6, kHeadTile_s = 5e-6, kSample_s = 24e-6, kSampleRow_s = 6e-8;
/// Bandwidths for rows (mostly in L2) and for logits, as multiples of the read bandwidth.
constexpr double kRowReads = 1.45, kLogitReads = 3.2;
/// Attention splits rows only if rows × kv heads are fewer than kWhole. Partial results of split attention are combined
/// for kJoined pairs of row and query head at once.
constexpr double kJoined = 3168, kWhole = 2048;
constexpr std::int64_t kCutlassRows = 64, kCutlassOutputs = 128, kChunk = 256;

double up(std::int64_t count, std::int64_t divisor) { return static_cast<double>((count + divisor - 1) / divisor); }

/// Holds the thread instructions per weight in the streamed kernel's inner loop, for tiles of 8, 16, 32 and 64 rows.
/// They were counted in sm_90a code (commit ce0255e8, nvcc 13.0).
struct InnerLoop {
  quant::Format format;
  double of_tile[4];
};
constexpr InnerLoop kInnerLoops[] = {
    {quant::Format::bf16, {2.797, 4.281, 4.141, 7.438}},
    {quant::Format::int8, {1.641, 2.125, 2.133, 3.961}},
    {quant::Format::fp8_tensor, {2.203, 3.000, 2.578, 4.258}},
    {quant::Format::fp8_channel, {2.203, 3.000, 2.578, 4.258}},
    {quant::Format::fp8_block128, {3.438, 4.312, 3.836, 6.492}},
    {quant::Format::int4, {3.875, 4.953, 4.258, 6.406}},
    {quant::Format::int4_int8, {2.578, 2.641, 2.484, 4.156}},
    {quant::Format::int4_fp8, {3.406, 4.266, 3.750, 5.672}},
};

double instructions_of_weight(quant::Format format, std::int64_t tile_rows) {
  constexpr int kBitsOf8 = 4;
  return std::ranges::find(kInnerLoops, format, &InnerLoop::format)
      ->of_tile[std::bit_width(static_cast<std::uint64_t>(tile_rows)) - kBitsOf8];
}

struct MatmulEstimate {
  double seconds = 0;
  std::string bound;
};

/// Returns the share of issue slots that the streamed kernel uses. In the other slots, its warps wait for x from L2.
/// They wait longer with more rows, and less with scales per 128 inputs.
double issue_share(quant::Format format, std::int64_t tile_rows, double row_tiles) {
  const quant::FormatSpec& what = quant::spec(format);
  const bool x_is_bf16 = what.activations == quant::Element::bf16, x_has_chunks = what.activation_scale_inputs != 0;
  if (tile_rows <= 8) return 0.45;
  if (tile_rows <= 16) return x_is_bf16 ? 0.41 : x_has_chunks ? 0.36 : 0.25;
  if (tile_rows <= 32) return 0.33;
  return row_tiles >= 4 ? 0.30 : x_has_chunks ? 0.28 : x_is_bf16 ? 0.222 : 0.205;
}

double attention_reads(quant::KvFormat format) {
  return format == quant::KvFormat::bf16 ? 0.885 : format == quant::KvFormat::int8 ? 0.70 : 0.77;
}

MatmulEstimate largest(std::initializer_list<std::pair<const char*, double>> bounds) {
  MatmulEstimate estimate;
  for (const auto& [bound, seconds] : bounds) {
    if (seconds > estimate.seconds) estimate = {seconds, bound};
  }
  return estimate;
}

MatmulEstimate estimate_streamed(quant::Format format, const model::BlockMatrix& matrix, std::int64_t rows,
                                 const cuda::MatmulPlan& plan, const GpuFigures& gpu) {
  const quant::FormatSpec& what = quant::spec(format);
  const bool is_int8 = what.activations == quant::Element::int8, x_is_bf16 = what.activations == quant::Element::bf16;
  const Reach& reach = what.weights == quant::Element::int4 && x_is_bf16 ? kStreamedInt4 : kStreamed;
  const double weights = static_cast<double>(matrix.out()) * static_cast<double>(matrix.in);
  const double row_tiles = up(rows, plan.tile_rows), output_tiles = up(matrix.out(), plan.tile_outputs);
  const auto weight_bytes = static_cast<double>(cuda::matrix_bytes(format, matrix.out(), matrix.in));
  const double x_bytes = static_cast<double>(rows * matrix.in) * (x_is_bf16 ? 2 : 1);
  const double read =
      std::min(gpu.read_bytes_per_s * reach.reads, static_cast<double>(plan.num_blocks) * kMultiprocessorBytesPerS);
  const double issued = weights * row_tiles * instructions_of_weight(format, plan.tile_rows);
  const double operations = 2 * weights * row_tiles * static_cast<double>(plan.tile_rows);
  MatmulEstimate estimate = largest({{"memory", static_cast<double>(plan.num_bytes) / read},
                                     {"issue slots", issued / (kMultiprocessors * kLanesPerCycle * kClock *
                                                               issue_share(format, plan.tile_rows, row_tiles))},
                                     {"L2", (weight_bytes * row_tiles + x_bytes * output_tiles) / kL2BytesPerS},
                                     {"tensor cores", operations / (gpu.matmul_flops * (is_int8 ? 2 : 1) * kMmaSync)}});
  estimate.seconds += reach.fixed_s;
  return estimate;
}

MatmulEstimate estimate_matmul(quant::Format format, const model::BlockMatrix& matrix, std::int64_t rows,
                               const GpuFigures& gpu) {
  const cuda::MatmulPlan plan = cuda::plan_matmul(format, matrix.out(), matrix.in, rows);
  if (plan.kernel == cuda::GemmKernel::streamed) return estimate_streamed(format, matrix, rows, plan, gpu);
  const double row_tiles = up(rows, kCutlassRows);
  const double operations = 2 * static_cast<double>(matrix.out()) * static_cast<double>(matrix.in) * row_tiles *
                            static_cast<double>(kCutlassRows);
  const bool is_int8 = quant::spec(format).activations == quant::Element::int8;
  Reach reach = kCublasLt;
  double bytes = static_cast<double>(plan.num_bytes), units = kBf16Units, before_s = 0,
         most_bytes_per_s = gpu.read_bytes_per_s;
  if (plan.kernel == cuda::GemmKernel::cutlass_int8 || plan.kernel == cuda::GemmKernel::cutlass_fp8) {
    reach = kCutlass;
    units = 2 * (is_int8 ? kInt8Units : kFp8Units);
    most_bytes_per_s = row_tiles * up(matrix.out(), kCutlassOutputs) * kMultiprocessorBytesPerS;
  } else if (plan.kernel == cuda::GemmKernel::block_scaled || plan.kernel == cuda::GemmKernel::row_scaled) {
    reach = kScaled;
    units = 2 * kScaledUnits;
    if (plan.kernel == cuda::GemmKernel::block_scaled) before_s = kOwnKernel_s;  // rearranges scales
  } else if (plan.kernel == cuda::GemmKernel::dequantized) {                     // converts weights to bf16
    const auto quantized = static_cast<double>(cuda::matrix_bytes(format, matrix.out(), matrix.in)),
               bf16 = static_cast<double>(cuda::matrix_bytes(quant::Format::bf16, matrix.out(), matrix.in));
    before_s = (quantized + bf16) / (gpu.read_bytes_per_s * kDequantizeReads) + kOwnKernel_s;
    if (quant::spec(format).activations != quant::Element::bf16)
      before_s +=
          static_cast<double>(3 * rows * matrix.in) / (gpu.read_bytes_per_s * kDequantizeRowsReads) + kOwnKernel_s;
    bytes += bf16 - quantized;
  }
  MatmulEstimate estimate = largest({{"memory", bytes / std::min(gpu.read_bytes_per_s * reach.reads, most_bytes_per_s)},
                                     {"tensor cores", operations / (gpu.matmul_flops * units)}});
  estimate.seconds += before_s + reach.fixed_s;
  return estimate;
}

double estimate_attention(const cuda::TickSpeedTask& task, double kv_bytes, std::int64_t batch, std::int64_t context,
                          const GpuFigures& gpu) {
  const model::ModelConfig& config = task.options.model;
  const double heads = static_cast<double>(batch * config.num_attention_heads), chunks = up(context, kChunk);
  const double seconds = kAttention_s + kv_bytes / (gpu.read_bytes_per_s * attention_reads(task.options.kv_format));
  const bool is_split = chunks > 1 && static_cast<double>(batch * config.num_key_value_heads) < kWhole;
  if (!is_split) return seconds;
  const double partial_bytes = heads * chunks * static_cast<double>(config.head_dim) * sizeof(float);
  return seconds + gpu.small_kernel_s + 2e-6 * heads / kJoined + partial_bytes / gpu.read_bytes_per_s;
}

/// Estimates norms, rotation, SwiGLU and quantization. Each kernel takes a fixed time, and a time for the bytes of the
/// rows.
double estimate_row_kernels(const cuda::TickSpeedTask& task, std::int64_t rows, const GpuFigures& gpu) {
  const model::ModelConfig& config = task.options.model;
  const quant::Element element = quant::spec(task.format).activations;
  const bool is_bf16 = element == quant::Element::bf16;
  const std::int64_t quantized = is_bf16 ? 2 : 1;
  const std::int64_t row_bytes = 2 * config.hidden_size * (4 + 4 + 2 + quantized) +
                                 config.intermediate_size * (4 + quantized) +
                                 (config.q_size() + 2 * config.kv_size()) * 2 + config.q_size() * 4 +
                                 (is_bf16 ? 0 : config.q_size() * (4 + quantized));
  return (is_bf16 ? 4 : 5) * gpu.small_kernel_s +
         static_cast<double>(rows * row_bytes) / (gpu.read_bytes_per_s * kRowReads);
}

/// Estimates lm_head and sampling. A tile has 4 Mi logits (sample/lm_head.cpp).
double estimate_head(const cuda::TickSpeedTask& task, std::int64_t batch, const GpuFigures& gpu) {
  const model::ModelConfig& config = task.options.model;
  constexpr std::int64_t kSampleRows = 512, kTileLogits = std::int64_t{4} << 20;
  const model::BlockMatrix lm_head{"lm_head", {}, {{"lm_head", config.vocab_size}}, config.hidden_size};
  double seconds = 0;
  for (std::int64_t first = 0; first < batch; first += kSampleRows) {
    const std::int64_t rows = std::min(kSampleRows, batch - first);
    const auto logits = static_cast<double>(rows * config.vocab_size);
    seconds += estimate_matmul(task.head_format, lm_head, rows, gpu).seconds +
               kHeadTile_s * up(rows * config.vocab_size, kTileLogits) +
               4 * logits / (gpu.read_bytes_per_s * kLogitReads) + kSample_s + kSampleRow_s * static_cast<double>(rows);
  }
  return seconds;
}

}  // namespace

const char* const kHowEstimated =
    "a matmul takes the largest of bytes / read rate, counted instructions / issue slots, L2 and tensor cores, each at "
    "the share that kernels reached in an H100 trace on 2026-11-26; other kernels take a fixed time plus their bytes";

TickEstimate estimate_tick(const cuda::TickSpeedTask& task, std::int64_t batch, std::int64_t context,
                           const GpuFigures& gpu) {
  const model::ModelConfig& config = task.options.model;
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const bool of_8_bits = quant::spec(task.format).activations != quant::Element::bf16;
  TickEstimate estimate;
  std::int64_t largest = 0;
  for (const model::BlockMatrix& matrix : cuda::layer_matrices(config)) {
    const MatmulEstimate one = estimate_matmul(task.format, matrix, cuda::padded_rows(batch), gpu);
    estimate.matmul_s += layers * one.seconds;
    if (matrix.out() * matrix.in <= largest) continue;
    largest = matrix.out() * matrix.in;
    estimate.bound = one.bound;
  }
  const double head_s = estimate_head(task, batch, gpu);
  estimate.matmul_s += head_s;
  const DecodeTick tick{static_cast<double>(batch), static_cast<double>(context), task.options.kv_format,
                        task.options.page_size};
  const TickWork work = gpu_tick_work(config, task.format, task.head_format, tick);
  const double kv_bytes = attention_of_tick(config, tick).kv_bytes / layers;
  estimate.tick_s = estimate.matmul_s + layers * (estimate_attention(task, kv_bytes, batch, context, gpu) +
                                                  estimate_row_kernels(task, cuda::padded_rows(batch), gpu));
  estimate.limit_s =
      std::max(work.num_bytes / gpu.read_bytes_per_s, work.layer_operations / (gpu.matmul_flops * (of_8_bits ? 2 : 1)) +
                                                          work.other_operations / gpu.matmul_flops);
  return estimate;
}

}  // namespace qrl::app
