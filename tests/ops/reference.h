// Owns the helpers of the ops tests: odd inputs, plain double-precision definitions of the ops, and a comparison that
// names the first wrong element.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "base/rng.h"
#include "base/threads.h"
#include "ops/emulation/kernel_paths.h"
#include "ops/linear.h"
#include "ops/paged_attention.h"
#include "ops/transformer.h"
#include "support/catch.h"

namespace qrl::test {

/// Returns normal values with standard deviation `sigma`; `stream` selects independent ones.
inline std::vector<float> normal_values(std::int64_t count, float sigma, std::uint64_t stream) {
  base::RandomStream random(11, base::RandomPurpose::test, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = sigma * random.normal();
  return values;
}

/// Compares element by element: |got − want| ≤ absolute[i]; NaN never passes. Reports the first bad index.
inline void check_close(const std::vector<float>& got, const std::vector<double>& want,
                        const std::function<double(std::size_t)>& bound) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (close(got[i], want[i], bound(i), 0)) continue;
    std::ostringstream text;
    text << "element " << i << ": got " << got[i] << ", want " << want[i] << ", bound " << bound(i);
    FAIL(text.str());
  }
}

/// Checks equal bits and reports the first index that differs.
inline void check_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i])) continue;
    std::ostringstream text;
    text << "element " << i << ": got " << std::hexfloat << got[i] << ", want " << want[i];
    FAIL(text.str());
  }
}

/// Returns rows of quantized activations as the numbers that a kernel multiplies.
inline std::vector<float> dequantized(const ops::Activations& x, std::int64_t rows) {
  const std::int64_t run =
      spec(x.format).activation_scale_inputs == 0 ? x.width : spec(x.format).activation_scale_inputs;
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t k = 0; k < x.width; ++k) {
      float value = 0;
      switch (spec(x.format).activations) {
        case quant::Element::f32:
          value = static_cast<const float*>(x.row(row))[k];
          break;
        case quant::Element::int8:
          value = static_cast<float>(static_cast<const std::int8_t*>(x.row(row))[k]);
          break;
        default:
          value = to_float(static_cast<const base::bf16*>(x.row(row))[k]);
      }
      if (!x.scales.empty()) value *= x.scales.as<float>()[row * x.scales.shape()[1] + k / run];
      values.push_back(value);
    }
  }
  return values;
}

/// x · gain / sqrt(mean(x²) + eps), rows of gain.size().
inline std::vector<double> rms_norm(const std::vector<float>& x, const std::vector<float>& gain, double eps) {
  const std::size_t width = gain.size();
  std::vector<double> y;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(static_cast<double>(x[row * width + i]), 2);
    const double root = std::sqrt(squares / static_cast<double>(width) + eps);
    for (std::size_t i = 0; i < width; ++i) y.push_back(static_cast<double>(x[row * width + i]) * gain[i] / root);
  }
  return y;
}

/// Returns silu(gate) · up, or gelu(gate) · up in its form with tanh, of rows [gate, up].
inline std::vector<double> swiglu(const std::vector<float>& gate_up, std::int64_t width,
                                  base::Gate activation = base::Gate::silu) {
  const auto gelu = [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  };
  std::vector<double> y;
  const auto columns = static_cast<std::size_t>(width);
  for (std::size_t row = 0; row < gate_up.size() / (2 * columns); ++row) {
    for (std::size_t i = 0; i < columns; ++i) {
      const double gate = gate_up[row * 2 * columns + i], up = gate_up[(row * 2 + 1) * columns + i];
      y.push_back((activation == base::Gate::silu ? gate / (1 + std::exp(-gate)) : gelu(gate)) * up);
    }
  }
  return y;
}

struct AttentionReference {
  std::vector<double> context;
  std::vector<double> bound;
  std::vector<double> lse, lse_bound;  ///< per row and head
};

/// Computes causal attention of packed sequences (rows of q heads, k heads, v heads). Input is already rotated, with
/// keys and values as dequantized from the pages. Queries for bf16 and fp8 pages are rounded to bf16.
/// Bound, u = 2⁻²⁴. A score has error δ = (E + 4)·u·scale·max Σ|q·k|; int8 adds the error of a query quantized in
/// 254·127 steps of its largest element. A weight has twice that and exp's 4 u, sums of n terms n·u each; all are
/// multiplied by Σ p·|v|. Rounded weights add 2⁻⁸ each, twice because the sum changes as well (bf16, fp8), or half a
/// step in 65535 of the largest (int8). The log of the sum has error δ, its own rounding, and 2⁻⁸ for the rounded
/// weights.
inline AttentionReference attention(const ops::HeadShape& shape, const std::vector<float>& qkv,
                                    const std::vector<std::int64_t>& lengths, quant::KvFormat format) {
  const std::int64_t width = shape.head_dim, group = shape.num_heads / shape.num_kv_heads;
  const std::int64_t row_width = (shape.num_heads + 2 * shape.num_kv_heads) * width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const bool bf16_operands = format == quant::KvFormat::bf16 || format == quant::KvFormat::fp8_e4m3;
  const bool int8_operands = format == quant::KvFormat::int8;
  constexpr double kHalfStep = 0.5 / (127 * 254), kWeightHalfStep = 0.5 / 65535;
  const auto at = [&](std::int64_t index) -> double { return qkv[static_cast<std::size_t>(index)]; };
  const auto largest_of = [&](std::int64_t index) {
    double most = 0;
    for (std::int64_t e = 0; e < width; ++e) most = std::max(most, std::fabs(at(index + e)));
    return most;
  };
  AttentionReference out;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t h = 0; h < shape.num_heads; ++h) {
        const std::int64_t q = (first + t) * row_width + h * width;
        const std::int64_t k = (shape.num_heads + h / group) * width, v = k + shape.num_kv_heads * width;
        const auto row = [&](std::int64_t s) { return (first + s) * row_width; };
        std::vector<double> scores;
        double largest = 0, missed = 0;
        const std::int64_t start = shape.window > 0 ? std::max<std::int64_t>(0, t + 1 - shape.window) : 0;
        for (std::int64_t s = start; s <= t; ++s) {
          double dot = 0, magnitude = 0, keys = 0;
          for (std::int64_t e = 0; e < width; ++e) {
            const double query =
                bf16_operands ? base::to_float(base::to_bf16(qkv[static_cast<std::size_t>(q + e)])) : at(q + e);
            const double term = query * at(row(s) + k + e);
            dot += term;
            magnitude += std::fabs(term);
            keys += std::fabs(at(row(s) + k + e));
          }
          scores.push_back(dot * scale);
          largest = std::max(largest, magnitude * scale);
          if (int8_operands) missed = std::max(missed, keys * scale * largest_of(q) * kHalfStep);
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0, most_weight = 0;
        for (double& score : scores) sum += score = std::exp(score - top);
        out.lse.push_back(top + std::log(sum));
        out.lse_bound.push_back(
            ((static_cast<double>(width) + 4) * largest + static_cast<double>(t + 5) + 2 * std::fabs(out.lse.back())) *
                0x1p-24 +
            missed + (bf16_operands ? 0x1p-8 : 0.0));
        for (std::int64_t s = start; s <= t; ++s)
          most_weight =
              std::max(most_weight, scores[static_cast<std::size_t>(s - start)] / sum * largest_of(row(s) + v));
        const double relative =
            (2 * ((static_cast<double>(width) + 4) * largest + 4) + 2 * static_cast<double>(t + 5)) * 0x1p-24 +
            2 * missed + (bf16_operands ? 2 * 0x1p-8 : 0.0);
        for (std::int64_t e = 0; e < width; ++e) {
          double mixed = 0, magnitude = 0, rounding = 0;
          for (std::int64_t s = start; s <= t; ++s) {
            const double value = at(row(s) + v + e);
            const double term = scores[static_cast<std::size_t>(s - start)] / sum * value;
            mixed += term;
            magnitude += std::fabs(term);
            // A value's code is multiplied by the weight p · scale; scale is the value's largest element / 127.
            const double most_value = largest_of(row(s) + v);
            if (int8_operands && most_value > 0)
              rounding += most_weight * kWeightHalfStep * std::fabs(value) / most_value;
          }
          out.context.push_back(mixed);
          out.bound.push_back(relative * magnitude + rounding * (1 + relative));
        }
      }
    }
    first += length;
  }
  return out;
}

}  // namespace qrl::test
