#include "model/adapter.h"

#include <algorithm>

#include "ops/reference.h"

using namespace qrl;

TEST_CASE("an adapter added to some columns after others has the bits of one added at once") {
  const test::WithIsa isa(GENERATE(from_range(test::isa_paths())));
  const quant::Format format = GENERATE(quant::Format::bf16, quant::Format::f32);
  CAPTURE(name(ops::isa()), name(format));
  // The panels of v begin in the middle of the matrix's.
  const model::BlockMatrix matrix{"qkv", {}, {{"q", 100}, {"k", 70}, {"v", 150}}, 33, false};
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
  std::vector<float> at_once = before, in_turn = before;
  model::add_adapter(alone, adapter, x, {0, kRows}, products, at_once.data());

  model::multiply_by_a(adapter, x, {0, kRows}, products);
  for (std::int64_t first = 0; first < adapter.out; first += 128) {
    const std::int64_t end = std::min(adapter.out, first + 128);
    model::add_times_b(adapter, products, {0, kRows}, {first, end}, in_turn.data());
    for (std::int64_t row = 0; row < kRows; ++row) {  // what comes later is as it was
      for (std::int64_t i = row * adapter.out + end; i < (row + 1) * adapter.out; ++i)
        REQUIRE(in_turn[static_cast<std::size_t>(i)] == before[static_cast<std::size_t>(i)]);
    }
  }
  test::check_same_bits(in_turn, at_once);
}
