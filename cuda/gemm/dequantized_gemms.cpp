#include "cuda/gemm/dequantized_gemms.h"

#include <algorithm>

#include "cuda/quantize/rows.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::int64_t kBf16Bytes = 2;

}  // namespace

void DequantizedGemms::reserve(const DeviceMatrix& w) {
  may_move_.is_reserved = true;
  fit(w);
}

void DequantizedGemms::fit(const DeviceMatrix& w) {
  constexpr const char* kWhat = "memory of dequantized operands";
  grow(weights_, w.at.rows * w.at.width * kBf16Bytes, may_move_, kWhat);
  if (quant::spec(w.format).activations != quant::Element::bf16)
    grow(rows_, rows_at_once_ * w.at.width * kBf16Bytes, may_move_, kWhat);
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
