// Tests the kernels that process one row at a time, against the CPU's ops on the same values.
#include <cmath>
#include <limits>
#include <numeric>

#include "device.h"
#include "ops/linear.h"
#include "ops/transformer.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

constexpr quant::Format kFormats[] = {quant::Format::bf16, quant::Format::int8, quant::Format::fp8_channel,
                                      quant::Format::fp8_block128};
// Widths for one block per row and for several, of 256 threads and of 1,024; the last two exceed one load per thread.
constexpr std::int64_t kWidths[] = {7, 96, 257, 1000, 1029, 2100, 4096, 4099, 8200, 16390};
constexpr std::int64_t kRows = 5;

/// Returns ordinary rows, one of zeros, one with an infinity, one of very small and very large values.
std::vector<float> odd_rows(std::int64_t width) {
  std::vector<float> x = normal_values(kRows * width, 1, static_cast<std::uint64_t>(width));
  const auto row = [&](std::int64_t r) { return x.data() + r * width; };
  std::fill_n(row(1), width, 0.0F);
  row(2)[width / 2] = std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < width; ++i) row(3)[i] *= i % 2 == 0 ? 1e-30F : 1e4F;
  return x;
}

std::vector<float> dequantized_on_cpu(const ops::Activations& rows) {
  std::vector<float> values(static_cast<std::size_t>(kRows * rows.width));
  for (std::int64_t row = 0; row < kRows; ++row) ops::dequantize_row(rows, row, values.data() + row * rows.width);
  return values;
}

}  // namespace

TEST_CASE("device rows: quantized values and scales equal the CPU's, in every format, also for odd rows") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const quant::Format format : kFormats) {
    for (const std::int64_t width : kWidths) {
      const std::vector<float> x = odd_rows(width);
      ops::Activations want(format, kRows, width);
      base::Team alone = base::Team::solo();
      ops::quantize(alone, x.data(), {0, kRows}, want);
      const OnDevice<float> there(x);
      in_both_orders([&] {
        const QuantizedOnDevice got(format, kRows, width);
        target::quantize_rows({there.data(), got.rows}, kRows, stream);
        stream.wait();
        INFO(quant::name(format) << ", width " << width);
        CHECK(first_beyond(got.dequantized(), dequantized_on_cpu(want), 0, 0) == "");
      });
    }
  }
}

TEST_CASE("row kernels: blocks are wide from 4,096 columns on, for any number of rows") {
  CHECK(row_threads(4095) == 256);
  CHECK(row_threads(4096) == 1024);
  if (!find_device()) return;
  const target::Stream stream;
  // A row has the same bits alone and among others.
  constexpr std::int64_t kMany = 30;
  for (const std::int64_t width : {1029, 4099}) {
    const OnDevice<float> gain(normal_values(width, 1, 2));
    const std::vector<float> x = normal_values(kMany * width, 2, 1);
    const auto normed = [&](std::int64_t first, std::int64_t count) {
      const OnDevice<float> there(std::vector<float>(x.begin() + first * width, x.begin() + (first + count) * width));
      const QuantizedOnDevice rows(quant::Format::fp8_channel, count, width);
      target::norm_quantize({there.data(), {nullptr, 0, false}, nullptr, gain.data(), nullptr, 1e-6F, rows.rows}, count,
                            stream);
      stream.wait();
      return rows.dequantized();
    };
    const std::vector<float> all = normed(0, kMany);
    for (std::int64_t row = 0; row < kMany; ++row)
      CHECK((normed(row, 1) == std::vector<float>(all.begin() + row * width, all.begin() + (row + 1) * width)));
  }
}

TEST_CASE("device norm: the order of its sum depends only on the width") {
  if (!find_device()) return;
  const target::Stream stream;
  constexpr float kEps = 1e-6F;
  const auto warp_sum = [](const float* of) {
    float lanes[32];
    std::copy_n(of, 32, lanes);
    for (int mask = 16; mask > 0; mask /= 2) {
      for (int lane = 0; lane < mask; ++lane) lanes[lane] += lanes[lane + mask];
    }
    return lanes[0];
  };
  for (const std::int64_t width : {257, 1000, 2100, 4096, 4099, 8200}) {
    const std::vector<float> x = normal_values(kRows * width, 2, 31), gain = normal_values(width, 1, 32);
    std::vector<float> scales;  // all of their bits follow from the sum's
    for (std::int64_t row = 0; row < kRows; ++row) {
      const float* of_row = x.data() + row * width;
      std::vector<float> sums(static_cast<std::size_t>(row_threads(width))), of_warps;
      for (std::int64_t i = 0; i < width; ++i) {
        float& sum = sums[static_cast<std::size_t>(i / 4) % sums.size()];
        sum = std::fmaf(of_row[i], of_row[i], sum);
      }
      for (std::size_t first = 0; first < sums.size(); first += 32) of_warps.push_back(warp_sum(sums.data() + first));
      const float total =
          of_warps.size() == 32 ? warp_sum(of_warps.data()) : std::accumulate(of_warps.begin(), of_warps.end(), 0.0F);
      const float inverse = 1.0F / std::sqrt(total / static_cast<float>(width) + kEps);
      float most = 0;
      for (std::int64_t i = 0; i < width; ++i)
        most = std::max(most, std::fabs(of_row[i] * inverse * gain[static_cast<std::size_t>(i)]));
      scales.push_back(most / 448.0F);
    }
    const OnDevice<float> x_there(x), gain_there(gain);
    const QuantizedOnDevice got(quant::Format::fp8_channel, kRows, width);
    target::norm_quantize({x_there.data(), {nullptr, 0, false}, nullptr, gain_there.data(), nullptr, kEps, got.rows},
                          kRows, stream);
    stream.wait();
    std::vector<float> got_scales = got.scales.read();
    got_scales.resize(kRows);
    INFO("width " << width);
    CHECK(got_scales == scales);
  }
}

TEST_CASE("device norm: adds, norms and quantizes, with row_ids it selects rows and leaves x unchanged") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const std::int64_t width : kWidths) {
    const std::vector<float> x = normal_values(kRows * width, 2, 1), gain = normal_values(width, 1, 2);
    const std::int64_t added_stride = round_up(width, kOutputTile);
    std::vector<std::uint16_t> added;
    for (const float value : normal_values(kRows * added_stride, 1, 3)) added.push_back(bf16_of(value));
    const std::vector<float> bias = normal_values(width, 1, 4);
    const bool has_bias = width % 2 == 1;
    std::vector<float> sums = x;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        const float value = float_of_bf16(added[static_cast<std::size_t>(row * added_stride + i)]);
        sums[static_cast<std::size_t>(row * width + i)] += has_bias ? value + bias[static_cast<std::size_t>(i)] : value;
      }
    }
    ops::Activations want(quant::Format::f32, kRows, width);
    base::Team alone = base::Team::solo();
    ops::rms_norm(alone, sums.data(), gain.data(), 1e-6F, {0, kRows}, want);
    const std::vector<float> normed = dequantized_on_cpu(want);
    const OnDevice<std::uint16_t> added_there(added);
    const OnDevice<float> gain_there(gain), bias_there(bias);
    const float* added_bias = has_bias ? bias_there.data() : nullptr;
    in_both_orders([&] {
      INFO("width " << width);
      const OnDevice<float> x_there(x);
      const QuantizedOnDevice all(quant::Format::bf16, kRows, width);
      target::norm_quantize({x_there.data(), target::GemmRows{added_there.data(), added_stride, false}, added_bias,
                             gain_there.data(), nullptr, 1e-6F, all.rows},
                            kRows, stream);
      stream.wait();
      CHECK(first_beyond(x_there.read(), sums, 0, 0) == "");
      CHECK(first_beyond(all.dequantized(), normed, 0, 0x1p-8) == "");

      const OnDevice<float> again(x);
      const OnDevice<std::int32_t> ids(std::vector<std::int32_t>{4, 2});
      const QuantizedOnDevice some(quant::Format::bf16, 2, width);
      target::norm_quantize({again.data(), target::GemmRows{added_there.data(), added_stride, false}, added_bias,
                             gain_there.data(), ids.data(), 1e-6F, some.rows},
                            2, stream);
      stream.wait();
      CHECK(first_beyond(again.read(), x, 0, 0) == "");
      std::vector<float> chosen(normed.begin() + 4 * width, normed.begin() + 5 * width);
      chosen.insert(chosen.end(), normed.begin() + 2 * width, normed.begin() + 3 * width);
      CHECK(first_beyond(some.dequantized(), chosen, 0, 0x1p-8) == "");
    });
  }
}

TEST_CASE("device swiglu: takes gate and up from one row, for SiLU and GELU") {
  if (!find_device()) return;
  const target::Stream stream;
  std::vector<std::pair<std::int64_t, base::Gate>> cases;
  for (const std::int64_t width : kWidths) cases.emplace_back(width, base::Gate::silu);
  for (const std::int64_t width : {7, 96, 4099}) cases.emplace_back(width, base::Gate::gelu_tanh);
  for (const auto& [each_width, each_gate] : cases) {
    const std::int64_t width = each_width;
    const base::Gate gate = each_gate;
    const std::int64_t stride = round_up(2 * width, kOutputTile);
    std::vector<std::uint16_t> gate_up;
    for (const float value : normal_values(kRows * stride, 4, 5)) gate_up.push_back(bf16_of(value));
    std::vector<float> packed;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < 2 * width; ++i)
        packed.push_back(float_of_bf16(gate_up[static_cast<std::size_t>(row * stride + i)]));
    }
    ops::Activations want(quant::Format::f32, kRows, width);
    base::Team alone = base::Team::solo();
    ops::swiglu(alone, gate, packed.data(), {0, kRows}, want);
    const OnDevice<std::uint16_t> there(gate_up);
    in_both_orders([&] {
      const QuantizedOnDevice got(quant::Format::bf16, kRows, width);
      target::swiglu_quantize({{there.data(), stride, false}, got.rows, nullptr, gate}, kRows, stream);
      stream.wait();
      CHECK(first_beyond(got.dequantized(), dequantized_on_cpu(want), 1e-30, 0x1p-8) == "");
      // Quantized values equal the CPU's, except that one at a tie may be a neighbor.
      for (const quant::Format format :
           {quant::Format::int8, quant::Format::fp8_channel, quant::Format::fp8_block128}) {
        const std::vector<float> exact = dequantized_on_cpu(want);
        float most = 0;
        for (const float value : exact) most = std::max(most, std::fabs(value));
        const bool is_int8 = format == quant::Format::int8;
        const QuantizedOnDevice quantized(format, kRows, width);
        target::swiglu_quantize({{there.data(), stride, false}, quantized.rows, nullptr, gate}, kRows, stream);
        stream.wait();
        INFO(quant::name(format) << ", width " << width);
        CHECK(first_beyond(quantized.dequantized(), exact, most * (is_int8 ? 0.51 / 127 : 0x1p-18),
                           is_int8 ? 0 : 0x1.01p-4) == "");
      }
    });
  }
}

TEST_CASE("device embedding: rows belong to given or just sampled tokens") {
  if (!find_device()) return;
  const target::Stream stream;
  std::vector<std::uint16_t> table;
  for (const float value : normal_values(11 * 1300, 1, 7)) table.push_back(bf16_of(value));
  const OnDevice<std::uint16_t> table_there(table);
  const OnDevice<std::int32_t> tokens({10, 0, 3, 3, -1, -3, -2}), sampled({7, -1, 9});
  const OnDevice<float> x(7 * 1300);
  target::embed({table_there.data(), tokens.data(), sampled.data(), 1300, x.data()}, 7, stream);
  stream.wait();
  std::vector<float> want;
  for (const std::int32_t token : {10, 0, 3, 3, 7, 9, 0}) {  // 0 for the row that could not be sampled
    for (std::int32_t i = 0; i < 1300; ++i)
      want.push_back(float_of_bf16(table[static_cast<std::size_t>(token * 1300 + i)]));
  }
  CHECK(first_beyond(x.read(), want, 0, 0) == "");
  target::embed({table_there.data(), tokens.data(), sampled.data(), 1300, x.data(), 2.5F}, 7, stream);
  stream.wait();
  for (float& value : want) value *= 2.5F;
  CHECK(first_beyond(x.read(), want, 0, 0) == "");
}

TEST_CASE("device branches: are normed and multiplied as on the CPU, and a norm without a gain only quantizes") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const std::int64_t width : kWidths) {
    const std::int64_t stride = round_up(width, kOutputTile);
    std::vector<std::uint16_t> y;
    for (const float value : normal_values(kRows * stride, 2, 41)) y.push_back(bf16_of(value));
    const std::vector<float> gain = normal_values(width, 1, 42), bias = normal_values(width, 1, 43),
                             x = normal_values(kRows * width, 1, 44);
    std::vector<float> biased;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < width; ++i)
        biased.push_back(float_of_bf16(y[static_cast<std::size_t>(row * stride + i)]) +
                         bias[static_cast<std::size_t>(i)]);
    }
    const OnDevice<std::uint16_t> y_there(y);
    const OnDevice<float> gain_there(gain), bias_there(bias);
    base::Team alone = base::Team::solo();
    for (const bool has_gain : {true, false}) {
      INFO("width " << width << (has_gain ? ", normed" : ""));
      std::vector<float> want(biased.size());
      ops::add_branch(alone, {width, has_gain ? gain.data() : nullptr, 1e-6F, 0.7F}, biased.data(), {0, kRows},
                      want.data());
      in_both_orders([&] {
        const OnDevice<float> branch(biased.size());
        target::branch_rows({{y_there.data(), stride, false},
                             bias_there.data(),
                             has_gain ? gain_there.data() : nullptr,
                             1e-6F,
                             0.7F,
                             width,
                             branch.data()},
                            kRows, stream);
        stream.wait();
        CHECK(first_beyond(branch.read(), want, 1e-6, 1e-6) == "");

        const OnDevice<float> x_there(x);
        const QuantizedOnDevice all(quant::Format::bf16, kRows, width);
        target::norm_quantize(
            {x_there.data(), {branch.data(), width, true}, nullptr, nullptr, nullptr, 1e-6F, all.rows}, kRows, stream);
        stream.wait();
        std::vector<float> sums = x;
        const std::vector<float> added = branch.read();
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i];
        CHECK(first_beyond(x_there.read(), sums, 0, 0) == "");
        CHECK(first_beyond(all.dequantized(), sums, 0, 0x1p-8) == "");
      });
    }
    // Roots of whole projections: the first 2/3 of a row, and the rest.
    const std::int64_t q = width - width / 3, k = width / 3;
    const OnDevice<float> inverse(2 * kRows);
    target::projection_rms({{y_there.data(), stride, false}, bias_there.data(), q, k, 1e-6F, inverse.data()}, kRows,
                           stream);
    stream.wait();
    std::vector<float> want;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (const auto& [first, count] : {std::pair(std::int64_t{0}, q), {q, k}}) {
        double squares = 0;
        for (std::int64_t i = first; i < first + count; ++i)
          squares += std::pow(static_cast<double>(biased[static_cast<std::size_t>(row * width + i)]), 2);
        want.push_back(static_cast<float>(1 / std::sqrt(squares / static_cast<double>(count) + 1e-6)));
      }
    }
    CHECK(first_beyond(inverse.read(), want, 0, 1e-5) == "");
  }
}
