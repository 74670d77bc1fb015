// Tests the gates of attention's output against fp64.
#include "ops/attention_gate.h"

#include <cmath>
#include <vector>

#include "base/bf16.h"
#include "ops/emulation/kernel_paths.h"
#include "ops/reference.h"
#include "support/catch.h"

using namespace qrl;
using ops::MixedArray;

namespace {

constexpr ops::GatedHeads kGated{3, 2, 6};

std::vector<float> gate_values(std::int64_t count, std::uint64_t seed) { return test::normal_values(count, 2, seed); }

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<base::bf16> rounded(const std::vector<float>& values) {
  std::vector<base::bf16> out;
  for (const float value : values) out.push_back(base::to_bf16(value));
  return out;
}

}  // namespace

TEST_CASE("attention gates: rows are split by heads and joined again, in both dtypes and for any team") {
  constexpr std::int64_t kRows = 21;
  const std::vector<float> whole = gate_values(kRows * kGated.row_width(), 1);
  std::vector<float> qkv(static_cast<std::size_t>(kRows * kGated.qkv_width())),
      gates(static_cast<std::size_t>(kRows * kGated.q_width()));
  base::parallel(3, [&](base::Team& team) {
    ops::split_gates(team, kGated, {0, kRows}, whole.data(), qkv.data(), gates.data());
  });
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto of = [&](const std::vector<float>& values, std::int64_t width, std::int64_t column) {
      return values[static_cast<std::size_t>(row * width + column)];
    };
    for (std::int64_t head = 0; head < 3; ++head) {
      for (std::int64_t i = 0; i < 6; ++i) {
        CHECK(of(qkv, 42, head * 6 + i) == of(whole, 60, head * 12 + i));
        CHECK(of(gates, 18, head * 6 + i) == of(whole, 60, head * 12 + 6 + i));
      }
    }
    for (std::int64_t i = 0; i < 24; ++i) CHECK(of(qkv, 42, 18 + i) == of(whole, 60, 36 + i));
  }
  std::vector<float> again(whole.size());
  ops::join_gates(kGated, kRows, {qkv.data()}, {gates.data()}, {again.data()});
  CHECK(again == whole);
  std::vector<base::bf16> narrow = rounded(whole), narrow_qkv(qkv.size()), narrow_gates(gates.size()),
                          narrow_again(whole.size());
  ops::split_gates(kGated, kRows, {narrow.data(), true}, {narrow_qkv.data(), true}, {narrow_gates.data(), true});
  CHECK(base::to_float(narrow_gates[0]) == base::to_float(base::to_bf16(gates[0])));
  ops::join_gates(kGated, kRows, {narrow_qkv.data(), true}, {narrow_gates.data(), true}, {narrow_again.data(), true});
  for (std::size_t i = 0; i < narrow.size(); ++i) CHECK(base::to_float(narrow_again[i]) == base::to_float(narrow[i]));
}

TEST_CASE("attention gates: output and gradients equal fp64, with equal bits of both forms") {
  constexpr std::int64_t kRows = 19, kWidth = 18;
  const std::vector<float> gates = gate_values(kRows * kWidth, 2), context = gate_values(kRows * kWidth, 3),
                           d_out = gate_values(kRows * kWidth, 4);
  test::on_every_path([&](const std::string& path) {
    INFO(path);
    const auto array = [](const std::vector<float>& values) { return MixedArray{const_cast<float*>(values.data())}; };
    std::vector<float> out(context.size()), in_place = context, d_context(context.size()), d_gates(context.size());
    ops::apply_gates(kRows, kWidth, array(gates), array(context), array(out));
    base::parallel(3, [&](base::Team& team) {
      ops::apply_gates(team, {3, 1, 6}, {0, kRows}, gates.data(), in_place.data());
    });
    CHECK(in_place == out);
    ops::apply_gates_backward(kRows, kWidth, array(gates), array(context), array(d_out), array(d_context),
                              array(d_gates));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double s = sigma(gates[i]), rest = s * (1 - s);
      CHECK(std::fabs(out[i] - context[i] * s) <= 4 * 0x1p-23 * std::fabs(out[i]) + 1e-30);
      CHECK(std::fabs(d_context[i] - d_out[i] * s) <= 4 * 0x1p-23 * std::fabs(d_context[i]) + 1e-30);
      CHECK(std::fabs(d_gates[i] - d_out[i] * context[i] * rest) <= 8 * 0x1p-23 * std::fabs(d_out[i] * context[i] * s));
    }
    std::vector<base::bf16> narrow = rounded(context), narrow_out(context.size());
    ops::apply_gates(kRows, kWidth, array(gates), {narrow.data(), true}, {narrow_out.data(), true});
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double want = base::to_float(narrow[i]) * sigma(gates[i]);
      CHECK(std::fabs(base::to_float(narrow_out[i]) - want) <= 0x1p-8 * std::fabs(want) + 1e-30);
    }
  });
}
