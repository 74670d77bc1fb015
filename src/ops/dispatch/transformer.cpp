#include "ops/transformer.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/kernels/kernels.h"
#include "ops/ranges.h"
#include "ops/scratch.h"

namespace qrl::ops {

namespace {

using base::DType;

base::Range share(const base::Team& team, base::Range rows) {
  const base::Range mine = team.slice(rows.size());
  return {rows.begin + mine.begin, rows.begin + mine.end};
}

}  // namespace

void embed(base::Team& team, const base::View& table_VD, const std::int32_t* tokens, base::Range rows, float* x_ND,
           float factor) {
  QRL_INVARIANT(table_VD.shape.rank() == 2 && (table_VD.dtype == DType::f32 || table_VD.dtype == DType::bf16), "embed",
                "an fp32 or bf16 table [V, D]", std::string(name(table_VD.dtype)) + " " + table_VD.shape.to_string());
  const std::int64_t width = table_VD.shape[1];
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    QRL_INVARIANT(0 <= tokens[row] && tokens[row] < table_VD.shape[0], "embed, row " + std::to_string(row),
                  "a token below " + std::to_string(table_VD.shape[0]), std::to_string(tokens[row]));
  }
  const base::Range mine = share(team, rows);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const std::int64_t first = tokens[row] * width;
    float* x = x_ND + row * width;
    if (table_VD.dtype == DType::f32) {
      std::memcpy(x, table_VD.as<float>() + first, static_cast<std::size_t>(width) * sizeof(float));
    } else {
      kernels().widen_bf16(static_cast<const std::uint16_t*>(table_VD.data) + first, width, x);
    }
    if (factor == 1) continue;
    for (std::int64_t i = 0; i < width; ++i) x[i] *= factor;
  }
}

void add_branch(base::Team& team, const BranchSum& sum, const float* y_ND, base::Range rows, float* x_ND) {
  const base::Range mine = share(team, rows);
  float* normed = scratch(sum.width);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const float* y = y_ND + row * sum.width;
    if (sum.gain != nullptr) kernels().rms_norm(y, sum.gain, sum.eps, sum.width, normed);
    kernels().add_scaled(sum.gain != nullptr ? normed : y, sum.factor, sum.width, x_ND + row * sum.width);
  }
}

void rms_norm(base::Team& team, const float* x_ND, const float* gain_D, float eps, base::Range rows, Activations& out,
              Activations* also) {
  check_range(rows, out.max_rows(), "rms_norm");
  const base::Range mine = share(team, rows);
  float* normed = scratch(out.width);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    kernels().rms_norm(x_ND + row * out.width, gain_D, eps, out.width, normed);
    quantize_row(normed, row, out);
    if (also != nullptr) quantize_row(normed, row, *also);
  }
}

void swiglu(base::Team& team, base::Gate activation, const float* halves_N2F, base::Range rows, Activations& out,
            Activations* also) {
  check_range(rows, out.max_rows(), "swiglu");
  const base::Range mine = share(team, rows);
  float* product = scratch(out.width);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const float* gate = halves_N2F + row * 2 * out.width;
    kernels().swiglu(activation, gate, gate + out.width, out.width, product);
    quantize_row(product, row, out);
    if (also != nullptr) quantize_row(product, row, *also);
  }
}

base::Buffer make_rope_table(std::int64_t max_positions, std::int64_t head_dim, double theta) {
  QRL_INVARIANT(head_dim > 0 && head_dim % 2 == 0, "rope table", "an even head_dim", std::to_string(head_dim));
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i)
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  return make_rope_table(max_positions, frequencies, 1);
}

base::Buffer make_rope_table(std::int64_t max_positions, std::span<const double> inverse_frequencies, double scale) {
  const auto half = static_cast<std::int64_t>(inverse_frequencies.size());
  base::Buffer table(DType::f32, {max_positions, 2 * half});
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = inverse_frequencies[static_cast<std::size_t>(i)];
    for (std::int64_t position = 0; position < max_positions; ++position) {
      float* row = table.as<float>() + position * 2 * half;
      row[i] = static_cast<float>(scale * std::cos(static_cast<double>(position) * frequency));
      row[half + i] = static_cast<float>(scale * std::sin(static_cast<double>(position) * frequency));
    }
  }
  return table;
}

}  // namespace qrl::ops
