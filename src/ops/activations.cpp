// Quantizes rows of activations, what `linear` multiplies.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "ops/kernels/kernels.h"
#include "ops/linear.h"
#include "ops/ranges.h"
#include "quant/fp8.h"

namespace qrl::ops {

using base::Buffer;
using base::DType;
using quant::Element;
using quant::Format;
using quant::FormatSpec;

namespace {

DType activation_dtype(Format format) {
  const Element element = spec(format).activations;
  return element == Element::f32 ? DType::f32 : element == Element::int8 ? DType::i8 : DType::bf16;
}

}  // namespace

Activations::Activations(Format format_, std::int64_t num_rows, std::int64_t width_)
    : format(format_),
      width(width_),
      stride(round_up(width_, 64)),
      quantized(activation_dtype(format_), {num_rows, stride}) {
  const FormatSpec& what = spec(format);
  if (!what.has_activation_scales()) return;
  const std::int64_t per_scale = what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs;
  scales = Buffer(DType::f32, {num_rows, ceil_div(width, per_scale)});
}

void* Activations::row(std::int64_t row_idx) const {
  return static_cast<char*>(quantized.view().data) +
         row_idx * stride * static_cast<std::int64_t>(size_bytes(quantized.view().dtype));
}

void quantize_row(const float* x, std::int64_t row_idx, Activations& out) {
  const FormatSpec& what = spec(out.format);
  void* quantized = out.row(row_idx);
  switch (what.activations) {
    case Element::f32:
      std::memcpy(quantized, x, static_cast<std::size_t>(out.width) * sizeof(float));
      break;
    case Element::bf16:
      kernels().round_to_bf16(x, out.width, static_cast<std::uint16_t*>(quantized));
      break;
    case Element::int8:
      out.scales.as<float>()[row_idx] = kernels().quantize_int8(x, out.width, static_cast<std::int8_t*>(quantized));
      break;
    default: {
      const std::int64_t per_scale = what.activation_scale_inputs == 0 ? out.width : what.activation_scale_inputs;
      auto* numbers = static_cast<std::uint16_t*>(quantized);
      float* scales = out.scales.as<float>() + row_idx * out.num_scales();
      for (std::int64_t begin = 0; begin < out.width; begin += per_scale) {
        const std::int64_t count = std::min(per_scale, out.width - begin);
        const float amax = kernels().max_abs(x + begin, count);
        const float scale = std::isfinite(amax) ? amax / quant::kFp8Max : std::nanf("");
        scales[begin / per_scale] = scale;
        if (scale == 0) std::fill_n(numbers + begin, count, std::uint16_t{0});
        else kernels().round_fp8(x + begin, count, scale, numbers + begin);
      }
    }
  }
}

void quantize_product(const float* x, const float* factors, std::int64_t row_idx, Activations& out) {
  QRL_INVARIANT(out.format == Format::int8, "quantize_product", "int8", std::string(name(out.format)));
  out.scales.as<float>()[row_idx] =
      kernels().quantize_product_int8(x, factors, out.width, static_cast<std::int8_t*>(out.row(row_idx)));
}

void quantize(base::Team& team, const float* x, base::Range rows, Activations& out) {
  check_range(rows, out.max_rows(), "quantize");
  const base::Range mine = team.slice(rows.size());
  for (std::int64_t row = rows.begin + mine.begin; row < rows.begin + mine.end; ++row) {
    quantize_row(x + row * out.width, row, out);
  }
}

void dequantize_row(const Activations& quantized, std::int64_t row_idx, float* x) {
  check_range({row_idx, row_idx + 1}, quantized.max_rows(), "dequantize_row");
  const FormatSpec& what = spec(quantized.format);
  const auto width = static_cast<std::size_t>(quantized.width);
  if (what.activations == Element::f32) {
    std::memcpy(x, quantized.row(row_idx), width * sizeof(float));
  } else if (what.activations == Element::int8) {
    quant::dequantize_int8({static_cast<const std::int8_t*>(quantized.row(row_idx)), width},
                           quantized.scales.as<float>()[row_idx], {x, width});
  } else {
    kernels().widen_bf16(static_cast<const std::uint16_t*>(quantized.row(row_idx)), quantized.width, x);
    if (quantized.scales.empty()) return;
    const std::int64_t per_scale = what.activation_scale_inputs == 0 ? quantized.width : what.activation_scale_inputs;
    const float* scales = quantized.scales.as<float>() + row_idx * quantized.num_scales();
    for (std::int64_t k = 0; k < quantized.width; ++k) x[k] *= scales[k / per_scale];
  }
}

}  // namespace qrl::ops
