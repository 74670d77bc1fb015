// Owns the helpers of tests/cuda. The same sources make two programs. test_cuda runs the kernels on the host
// (emulation/emulation.h); test_cuda_device runs them on a GPU and skips every case without one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "cuda/attention/attention_task.h"
#include "cuda/attention/kv.h"
#include "cuda/engine/device_engine.h"
#include "cuda/gemm/block_scales.h"
#include "cuda/gemm/gemms.h"
#include "cuda/gemm/streamed_gemm.h"
#include "cuda/quantize/rows.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sample/sample.h"
#include "ops/linear.h"
#include "support/catch.h"
#if defined(QRL_CUDA_EMULATED)
#include "emulation.h"
#endif

namespace qrl::cuda::test {

namespace target = qrl::cuda::QRL_CUDA_TARGET;

/// Lists all formats that weights may have on a device.
inline constexpr quant::Format kWeightFormats[] = {
    quant::Format::bf16,          quant::Format::int8,          quant::Format::fp8_tensor,   quant::Format::fp8_channel,
    quant::Format::fp8_block128,  quant::Format::int4,          quant::Format::int4_int8,    quant::Format::int4_fp8,
    quant::Format::int4_g64,      quant::Format::int4_int8_g64, quant::Format::int4_fp8_g64, quant::Format::int4_g32,
    quant::Format::int4_int8_g32, quant::Format::int4_fp8_g32};

/// Returns this program's device. If a GPU is required and missing, returns nothing and marks the case as skipped.
inline std::optional<target::DeviceFacts> find_device() {
#if defined(QRL_CUDA_EMULATED)
  return target::use_device(0);
#else
  // Checks once: after an earlier case has left the device in error, it still counts as a device, and the other cases
  // fail.
  static const std::string reason = [] {
    try {
      (void)target::use_device(0);
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::input) throw;
      return std::string(error.what());
    }
    return std::string();
  }();
  if (reason.empty()) return target::use_device(0);
  qrl::test::skip(reason);
  return std::nullopt;
#endif
}

/// Returns the bound on a GEMM's error against fp32 sums, before rounding: `usual`, or that of Hopper's tensor core
/// with fp8. The tensor core adds 32 products at a time and keeps 13 bits of the sum, assumed as large as the results.
inline double gemm_error(quant::Format format, std::int64_t num_rows, std::int64_t in, const std::vector<float>& want,
                         double usual) {
  const bool is_hopper = find_device()->major == 9;
  const GemmKernel kernel = choose_gemm(format, num_rows, false, is_hopper, false, is_hopper);
  const bool of_unit =
      kernel == GemmKernel::cutlass_fp8 || kernel == GemmKernel::row_scaled || kernel == GemmKernel::block_scaled;
  if (!of_unit) return usual;
  double squares = 0;
  for (const float value : want) squares += static_cast<double>(value) * value;
  const double additions = std::ceil(static_cast<double>(in) / 32);
  return additions * 0x1p-13 * std::sqrt(squares / static_cast<double>(want.size()));
}

/// Runs `body` in both orders of a block's threads: a result that depends on the order lacks a barrier. On a GPU it
/// runs once.
template <class Body>
void in_both_orders(Body body) {
#if defined(QRL_CUDA_EMULATED)
  for (const auto order : {target::Order::descending, target::Order::ascending}) {
    target::set_thread_order(order);
    body();
  }
#else
  body();
#endif
}

/// Holds values on the device.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()), memory_(values.size() * sizeof(T) + 16) {
    const target::Stream stream;
    target::copy_to_device(memory_.data(), values.data(), values.size() * sizeof(T), stream);
    stream.wait();
  }
  explicit OnDevice(std::size_t count) : OnDevice(std::vector<T>(count)) {}
  T* data() const { return memory_.as<T>(); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    const target::Stream stream;
    target::copy_to_host(values.data(), memory_.data(), count_ * sizeof(T), stream);
    stream.wait();
    return values;
  }

 private:
  std::size_t count_;
  target::Memory memory_;
};

inline std::vector<float> normal_values(std::int64_t count, float sigma, std::uint64_t index) {
  base::RandomStream random(17, base::RandomPurpose::test, index);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = sigma * random.normal();
  return values;
}

/// Returns "" or the first place where |got − want| exceeds the bound. NaN and infinities count, unless both are NaN.
inline std::string first_beyond(const std::vector<float>& got, const std::vector<float>& want, double absolute,
                                double relative) {
  if (got.size() != want.size()) return "sizes " + std::to_string(got.size()) + ", " + std::to_string(want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double difference = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(difference <= absolute + relative * std::fabs(static_cast<double>(want[i]))))
      return "[" + std::to_string(i) + "] " + std::to_string(got[i]) + ", not " + std::to_string(want[i]);
  }
  return "";
}

/// Allocates quantized rows, filled with bytes that every kernel should overwrite, and dequantizes them.
struct QuantizedOnDevice {
  QuantizedOnDevice(quant::Format format, std::int64_t num_rows_, std::int64_t width)
      : num_rows(num_rows_),
        stride(round_up(width, kInputChunk)),
        quantized(std::vector<std::uint8_t>(static_cast<std::size_t>(2 * num_rows * stride), 0x5a)),
        scales(std::vector<float>(static_cast<std::size_t>(num_rows * ceil_div(width, kInputChunk)), -1.0F)) {
    const quant::FormatSpec& what = quant::spec(format);
    rows = {what.activations,
            quantized.data(),
            what.has_activation_scales() ? scales.data() : nullptr,
            stride,
            width,
            what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs};
  }
  /// Returns fp32 [rows, width]; bytes between width and stride must be zero.
  std::vector<float> dequantized() const {
    const std::vector<std::uint8_t> bytes = quantized.read();
    const std::vector<float> of_rows = scales.read();
    std::vector<float> values;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t i = 0; i < stride; ++i) {
        const auto at = static_cast<std::size_t>(row * stride + i);
        float value = 0;
        if (rows.element == quant::Element::bf16)
          value = float_of_bf16(static_cast<std::uint16_t>(bytes[2 * at] | bytes[2 * at + 1] << 8));
        else if (rows.element == quant::Element::int8) value = static_cast<std::int8_t>(bytes[at]);
        else value = float_of_fp8(bytes[at]);
        if (i >= rows.width) {
          if (value != 0) FAIL("padding of row " << row << " is not zero at " << i);
          continue;
        }
        if (rows.scales != nullptr)
          value *= of_rows[static_cast<std::size_t>(row * rows.num_scales() + i / rows.scale_group)];
        values.push_back(value);
      }
    }
    return values;
  }
  std::int64_t num_rows, stride;
  OnDevice<std::uint8_t> quantized;
  OnDevice<float> scales;
  target::QuantizedRows rows;
};

/// Holds a packed matrix on the device.
struct Uploaded {
  target::Memory panels, quantized, scales, block_scales;
  target::DeviceMatrix view;
};

/// Uploads one matrix as Weights does, but separately, so that a test can inspect it.
inline Uploaded upload(const ops::PackedLinear& w, const target::Stream& stream) {
  Uploaded to;
  const MatrixLayout at = matrix_layout(w.format, w.out, w.in);
  to.panels = target::Memory(w.panels.num_bytes());
  to.quantized = target::Memory::zeroed(static_cast<std::size_t>(at.num_bytes()));
  target::copy_to_device(to.panels.data(), w.panels.view().data, w.panels.num_bytes(), stream);
  target::repack({to.panels.as<std::uint32_t>(), word_order(w.format), at, to.quantized.as<std::uint8_t>()}, stream);
  std::vector<float> scales;
  if (at.num_scales > 0) {
    const std::int64_t count = at.num_scales * at.rows;
    REQUIRE(w.scales.shape().numel() == count);
    for (std::int64_t i = 0; i < count; ++i)
      scales.push_back(w.scales.view().dtype == base::DType::f32 ? w.scales.as<float>()[i]
                                                                 : to_float(w.scales.as<base::bf16>()[i]));
    to.scales = target::Memory(scales.size() * sizeof(float));
    target::copy_to_device(to.scales.data(), scales.data(), scales.size() * sizeof(float), stream);
  }
  stream.wait();
  to.view = {w.format, at, to.quantized.as<std::uint8_t>(), at.num_scales > 0 ? to.scales.as<float>() : nullptr};
  if (w.format == quant::Format::fp8_block128) {
    to.block_scales = target::Memory(static_cast<std::size_t>(target::num_arranged_scales(at)) * sizeof(float));
    target::arrange_weight_scales({to.view, to.block_scales.as<float>()}, stream);
    stream.wait();
    to.view.block_scales = to.block_scales.as<float>();
  }
  return to;
}

}  // namespace qrl::cuda::test
