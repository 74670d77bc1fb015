#include "cuda/quantize/dequantized_gemms.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/quantize/dequantize.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::int64_t kBf16Bytes = 2;

}  // namespace

void DequantizedGemms::grow(Memory& memory, std::int64_t num_bytes) const {
  const auto has_bytes = static_cast<std::int64_t>(memory.num_bytes());
  if (has_bytes >= num_bytes) return;
  QRL_INVARIANT(!is_fixed_ || !is_reserved_ || memory.empty(),
                "memory of dequantized operands, which recorded ticks name",
                "at most the " + std::to_string(has_bytes) + " bytes reserved at upload", std::to_string(num_bytes));
  memory = Memory();  // not both at once
  memory = Memory(static_cast<std::size_t>(num_bytes));
}

void DequantizedGemms::reserve(const DeviceMatrix& w) {
  is_reserved_ = true;
  fit(w);
}

void DequantizedGemms::fit(const DeviceMatrix& w) {
  grow(weights_, w.at.rows * w.at.width * kBf16Bytes);
  if (quant::spec(w.format).activations != quant::Element::bf16) grow(rows_, rows_at_once_ * w.at.width * kBf16Bytes);
}

void DequantizedGemms::multiply(const GemmTask& task, const Bf16Gemm& multiply_bf16, const Stream& stream) {
  fit(task.w);
  dequantize_matrix(task.w, weights_.as<std::uint16_t>(), stream);
  GemmTask bf16 = task;
  bf16.w = {quant::Format::bf16, matrix_layout(quant::Format::bf16, task.w.at.out, task.w.at.in),
            weights_.as<std::uint8_t>(), nullptr};
  if (task.x.element == quant::Element::bf16) return multiply_bf16(bf16);
  const std::int64_t y_bytes = task.y_stride * (task.y_is_f32 ? 4 : 2);
  for (std::int64_t first = 0; first < task.num_rows; first += rows_at_once_) {
    bf16.num_rows = std::min(rows_at_once_, task.num_rows - first);
    QuantizedRows x = task.x;
    x.quantized = static_cast<std::uint8_t*>(x.quantized) + first * x.stride;
    x.scales += first * x.num_scales();
    dequantize_rows(x, bf16.num_rows, rows_.as<std::uint16_t>(), stream);
    bf16.x = {quant::Element::bf16, rows_.data(), nullptr, x.stride, x.width, x.width};
    bf16.y = static_cast<std::uint8_t*>(task.y) + first * y_bytes;
    multiply_bf16(bf16);
  }
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
