#include "model/adapter.h"

#include <algorithm>

#include "ops/reference.h"

using namespace qrl;

TEST_CASE("adapter product: added to some columns it leaves the others, with the bits of the whole product") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const quant::Format format = GENERATE(quant::Format::bf16, quant::Format::f32);
  CAPTURE(path.name(), name(format));
  // The panels of v begin in the middle of the matrix's panels, or at the start of one.
  const std::int64_t q_rows = GENERATE(100, 128), k_rows = q_rows == 100 ? 70 : 64;
  const model::BlockMatrix matrix{"qkv", {}, {{"q", q_rows}, {"k", k_rows}, {"v", 150}}, 33, false};
  model::LoraConfig lora;
  lora.rank = 5;
  lora.target_modules = {"q", "v"};
  model::MatrixAdapter adapter = model::make_matrix_adapter(lora, "", matrix, format);
  base::Team alone = base::Team::solo();
  const std::vector<float> a = test::normal_values(10 * 33, 1.0F, 1);
  REQUIRE(ops::pack_rows(alone, a.data(), 10, 0, adapter.a));
  for (model::MatrixAdapter::Part& part : adapter.parts) {
    const std::vector<float> b = test::normal_values(part.b.out * 5, 1.0F, static_cast<std::uint64_t>(part.b.out));
    REQUIRE(ops::pack_rows(alone, b.data(), part.b.out, 0, part.b));
  }
  constexpr std::int64_t kRows = 7;
  ops::Activations x(format, kRows, 33);
  ops::quantize(alone, test::normal_values(kRows * 33, 1.0F, 2).data(), {0, kRows}, x);
  model::AdapterProducts products(format, kRows, 2, 5);
  const std::vector<float> before = test::normal_values(kRows * adapter.out, 1.0F, 3);
  model::multiply_by_a(adapter, x, {0, kRows}, products);
  std::vector<float> expected = before;
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const model::MatrixAdapter::Part& part = adapter.parts[i];
    ops::linear_into(alone, products.parts[i], part.b, {0, kRows}, true, expected.data() + part.first_output,
                     adapter.out);
  }
  for (const std::int64_t step : {1, 50, 64, 128, 320}) {
    CAPTURE(step);
    std::vector<float> in_turn = before;
    for (std::int64_t first = 0; first < adapter.out; first += step) {
      const std::int64_t end = std::min(adapter.out, first + step);
      model::add_times_b(adapter, products, {0, kRows}, {first, end}, in_turn.data());
      for (std::int64_t row = 0; row < kRows; ++row) {  // later outputs are unchanged
        for (std::int64_t i = row * adapter.out + end; i < (row + 1) * adapter.out; ++i)
          REQUIRE(in_turn[static_cast<std::size_t>(i)] == before[static_cast<std::size_t>(i)]);
      }
    }
    test::check_same_bits(in_turn, expected);
  }

  // Includes the preceding matmul: two members' column ranges give the bits of the whole.
  ops::PackedLinear weight = ops::make_packed_linear(format, adapter.out, 33, false);
  const std::vector<float> w = test::normal_values(adapter.out * 33, 1.0F, 4);
  REQUIRE(ops::pack_rows(alone, w.data(), adapter.out, 0, weight));
  std::vector<float> whole(before.size()), shared(before.size());
  ops::linear(alone, x, weight, {0, kRows}, false, whole.data());
  model::add_times_b(adapter, products, {0, kRows}, {0, adapter.out}, whole.data());
  model::multiply_adapted(weight, x, adapter, products, {0, kRows}, {0, 192}, false, shared.data());
  model::multiply_adapted(weight, x, adapter, products, {0, kRows}, {192, adapter.out}, false, shared.data());
  test::check_same_bits(shared, whole);
}
