#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "ops/kernels/kernels.h"
#include "ops/linear.h"
#include "ops/ranges.h"
#include "ops/scratch.h"
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

RotateTask task_of(const quant::Rotation& rotation, const float* x, std::int64_t width, float* rotated) {
  return {x, width, rotation.block, scale_of(rotation), rotated};
}

float quantize_int8(const float* x, float amax, std::int64_t width, std::int8_t* quantized) {
  const float scale = std::isfinite(amax) ? quant::scale_of(Element::int8, amax) : std::nanf("");
  if (scale > 0) kernels().quantize_int(x, width, scale, -127.0F, 127.0F, quantized);
  else std::fill_n(quantized, width, std::int8_t{0});
  return scale;
}

}  // namespace

Activations::Activations(Format format_, std::int64_t num_rows, std::int64_t width_, quant::Rotation rotation_)
    : format(format_),
      rotation(rotation_),
      width(width_),
      stride(round_up(width_, 64)),
      quantized(activation_dtype(format_), {num_rows, stride}) {
  const FormatSpec& what = spec(format);
  QRL_INVARIANT(rotation.fits(width), "activations", "whole blocks of " + std::to_string(rotation.block),
                std::to_string(width) + " inputs");
  if (!what.has_activation_scales()) return;
  const std::int64_t per_scale = what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs;
  scales = Buffer(DType::f32, {num_rows, ceil_div(width, per_scale)});
}

Activations::Activations(const PackedLinear& layer, std::int64_t num_rows)
    : Activations(layer.format, num_rows, layer.in, layer.rotation) {}

void* Activations::row(std::int64_t row_idx) const {
  return static_cast<char*>(quantized.view().data) +
         row_idx * stride * static_cast<std::int64_t>(size_bytes(quantized.view().dtype));
}

void quantize_row(const float* x, std::int64_t row_idx, Activations& out) {
  const FormatSpec& what = spec(out.format);
  void* quantized = out.row(row_idx);
  float amax_of_rotated = 0;
  if (out.rotation) {
    thread_local Buffer memory;  // separate from scratch(), which may hold x
    float* rotated = grown(memory, out.width);
    amax_of_rotated = kernels().rotate(task_of(out.rotation, x, out.width, rotated));
    x = rotated;
  }
  switch (what.activations) {
    case Element::f32:
      std::memcpy(quantized, x, static_cast<std::size_t>(out.width) * sizeof(float));
      break;
    case Element::bf16:
      kernels().round_to_bf16(x, out.width, static_cast<std::uint16_t*>(quantized));
      break;
    case Element::int8:
      out.scales.as<float>()[row_idx] =
          out.rotation ? quantize_int8(x, amax_of_rotated, out.width, static_cast<std::int8_t*>(quantized))
                       : kernels().quantize_int8(x, out.width, static_cast<std::int8_t*>(quantized));
      break;
    default: {
      const std::int64_t per_scale = what.activation_scale_inputs == 0 ? out.width : what.activation_scale_inputs;
      auto* numbers = static_cast<std::uint16_t*>(quantized);
      float* scales = out.scales.as<float>() + row_idx * out.num_scales();
      for (std::int64_t begin = 0; begin < out.width; begin += per_scale) {
        const std::int64_t count = std::min(per_scale, out.width - begin);
        const bool is_known = out.rotation && count == out.width;
        const float amax = is_known ? amax_of_rotated : kernels().max_abs(x + begin, count);
        const float scale = std::isfinite(amax) ? amax / quant::kFp8Max : std::nanf("");
        scales[begin / per_scale] = scale;
        if (scale == 0) std::fill_n(numbers + begin, count, std::uint16_t{0});
        else kernels().round_fp8(x + begin, count, scale, numbers + begin);
      }
    }
  }
}

void quantize_product(const float* x, const float* factors, std::int64_t row_idx, Activations& out) {
  QRL_INVARIANT(out.format == Format::int8 && !out.rotation, "quantize_product", "int8 that is not rotated",
                std::string(name(out.format)));
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

void rotate_rows(const quant::Rotation& rotation, std::int64_t num_rows, std::int64_t width, float* x) {
  if (!rotation) return;
  QRL_INVARIANT(rotation.fits(width), "rotate_rows", "whole blocks of " + std::to_string(rotation.block),
                std::to_string(width) + " inputs");
  (void)kernels().rotate(task_of(rotation, x, num_rows * width, x));
}

}  // namespace qrl::ops
