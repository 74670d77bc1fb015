// Kernels that take a row at a time, a block each: embedding, norm, activation, encoding; and the host's panels to
// rows.
#include "kernels.h"
#include "row_block.cuh"
#include "target.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// The scale of codes whose largest |value| has these bits: NaN when that is not finite, so that it shows.
QRL_DEVICE float scale_of(std::uint32_t magnitude, float max_code) {
  return magnitude < kInfinityBits ? float_of(magnitude) / max_code : float_of(kNanBits);
}

QRL_DEVICE void store_code(const EncodedRows& out, std::int64_t at, float value, float scale) {
  if (out.code == quant::Code::bf16) {
    static_cast<std::uint16_t*>(out.codes)[at] = bf16_of(value);
  } else if (out.code == quant::Code::fp8_e4m3) {
    static_cast<std::uint8_t*>(out.codes)[at] = scale == 0 ? 0 : fp8_of(value / scale);
  } else {
    // A scale that is zero or NaN has codes of zero.
    static_cast<std::int8_t*>(out.codes)[at] =
        scale > 0 ? int_code_of(value, scale, 127.0F) : static_cast<std::int8_t>(0);
  }
}

/// A block encodes out.width values of shared memory, all written and waited for, to row `row`.
QRL_DEVICE void encode_values(const float* values, const EncodedRows& out, std::int64_t row, float* exchange) {
  const std::int64_t first = row * out.stride;
  for (std::int64_t i = out.width + thread_idx(); i < out.stride; i += kThreads) {
    if (out.code == quant::Code::bf16) static_cast<std::uint16_t*>(out.codes)[first + i] = 0;
    else static_cast<std::uint8_t*>(out.codes)[first + i] = 0;
  }
  if (out.code == quant::Code::bf16) {
    for (std::int64_t i = thread_idx(); i < out.width; i += kThreads) store_code(out, first + i, values[i], 1);
    return;
  }
  const float max_code = out.code == quant::Code::int8 ? 127.0F : 448.0F;
  if (out.scale_run == out.width) {
    std::uint32_t largest = 0;
    for (std::int64_t i = thread_idx(); i < out.width; i += kThreads) {
      const std::uint32_t size = magnitude_of(values[i]);
      largest = size > largest ? size : largest;
    }
    const float scale = scale_of(block_max(largest, exchange), max_code);
    if (thread_idx() == 0) out.scales[row] = scale;
    for (std::int64_t i = thread_idx(); i < out.width; i += kThreads) store_code(out, first + i, values[i], scale);
    return;
  }
  const std::int64_t num_runs = out.num_scales();
  for (std::int64_t run = warp_idx(); run < num_runs; run += kWarps) {
    const std::int64_t begin = run * out.scale_run;
    const std::int64_t end = begin + out.scale_run < out.width ? begin + out.scale_run : out.width;
    std::uint32_t largest = 0;
    for (std::int64_t i = begin + lane_idx(); i < end; i += 32) {
      const std::uint32_t size = magnitude_of(values[i]);
      largest = size > largest ? size : largest;
    }
    const float scale = scale_of(warp_max(largest), max_code);
    if (lane_idx() == 0) out.scales[row * num_runs + run] = scale;
    for (std::int64_t i = begin + lane_idx(); i < end; i += 32) store_code(out, first + i, values[i], scale);
  }
}

/// Shared memory: kWarps floats to exchange, then a row of values.
QRL_DEVICE float* exchange_memory() { return reinterpret_cast<float*>(shared_memory()); }
QRL_DEVICE float* value_memory() { return reinterpret_cast<float*>(shared_memory()) + kWarps; }
std::size_t shared_bytes_of(std::int64_t width) { return (static_cast<std::size_t>(width) + kWarps) * sizeof(float); }

QRL_KERNEL void embed_kernel(EmbedTask task) {
  const std::int64_t row = block_x();
  std::int32_t token = task.tokens[row];
  if (token < 0) token = task.drawn[-1 - token];
  if (token < 0) token = 0;
  const std::uint16_t* from = task.table_VD + static_cast<std::int64_t>(token) * task.width;
  for (std::int64_t i = thread_idx(); i < task.width; i += kThreads)
    task.x[row * task.width + i] = float_of_bf16(from[i]);
}

QRL_KERNEL void norm_encode_kernel(NormTask task) {
  const std::int64_t row = block_x(), width = task.out.width;
  const std::int64_t source = task.row_ids == nullptr ? row : static_cast<std::int64_t>(task.row_ids[row]);
  float* x = task.x + source * width;
  float* values = value_memory();
  float squares = 0;
  for (std::int64_t i = thread_idx(); i < width; i += kThreads) {
    float value = x[i];
    if (task.added.values != nullptr) {
      const float added = task.added.at(source, i);
      value += task.added_bias != nullptr ? added + task.added_bias[i] : added;
      if (task.row_ids == nullptr) x[i] = value;
    }
    values[i] = value;
    squares = fmaf(value, value, squares);
  }
  const float mean = block_sum(squares, exchange_memory()) / static_cast<float>(width);
  const float inverse = 1.0F / sqrtf(mean + task.eps);
  for (std::int64_t i = thread_idx(); i < width; i += kThreads) values[i] = values[i] * inverse * task.gain[i];
  sync_block();
  encode_values(values, task.out, row, exchange_memory());
}

QRL_KERNEL void add_kernel(AddTask task) {
  const std::int64_t row = block_x();
  for (std::int64_t i = thread_idx(); i < task.width; i += kThreads)
    task.sums[row * task.width + i] = task.x[row * task.width + i] + task.added.at(row, i);
}

QRL_KERNEL void encode_kernel(EncodeTask task) {
  const std::int64_t row = block_x(), width = task.out.width;
  float* values = value_memory();
  for (std::int64_t i = thread_idx(); i < width; i += kThreads) values[i] = task.x[row * width + i];
  sync_block();
  encode_values(values, task.out, row, exchange_memory());
}

QRL_KERNEL void swiglu_encode_kernel(SwigluTask task) {
  const std::int64_t row = block_x(), width = task.out.width;
  float* values = value_memory();
  for (std::int64_t i = thread_idx(); i < width; i += kThreads) {
    const float g = task.gate_up.at(row, i);
    values[i] = g / (1.0F + expf(-g)) * task.gate_up.at(row, width + i);
  }
  sync_block();
  encode_values(values, task.out, row, exchange_memory());
}

/// A block a row of words; what no host word has is zero already.
QRL_KERNEL void repack_kernel(RepackTask task) {
  const std::int64_t row = block_x();
  for (std::int64_t w = thread_idx(); w < task.at.num_words; w += kThreads) {
    const std::uint32_t word = device_word(task.order, task.panels[host_word_at(row, w, task.at.num_words)]);
    reinterpret_cast<std::uint32_t*>(task.codes + row * task.at.row_bytes)[w] = word;
  }
}

}  // namespace

void embed(const EmbedTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(embed_kernel, {num_rows}, kThreads, 0, stream, task);
}
void norm_encode(const NormTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(norm_encode_kernel, {num_rows}, kThreads, shared_bytes_of(task.out.width), stream, task);
}
void add_rows(const AddTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(add_kernel, {num_rows}, kThreads, 0, stream, task);
}
void encode(const EncodeTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(encode_kernel, {num_rows}, kThreads, shared_bytes_of(task.out.width), stream, task);
}
void swiglu_encode(const SwigluTask& task, std::int64_t num_rows, const Stream& stream) {
  launch(swiglu_encode_kernel, {num_rows}, kThreads, shared_bytes_of(task.out.width), stream, task);
}
void repack(const RepackTask& task, const Stream& stream) {
  launch(repack_kernel, {task.at.out}, kThreads, 0, stream, task);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
