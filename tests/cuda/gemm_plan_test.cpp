// Tests the choice of a GEMM's kernel and tiles, and the choices that timing may make.
#include "cuda/gemm/gemm_plan.h"

#include <algorithm>

#include "cuda/gemm/gemm_sweep.h"
#include "gemm_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

}  // namespace

TEST_CASE("streamed GEMM plan: the smallest tile that fits, split while tiles are few") {
  const auto layout = [](std::int64_t out, std::int64_t in) { return matrix_layout(Format::int4, out, in); };
  // The number of splits depends only on the matrix.
  CHECK(num_splits(layout(4096, 4096)) == 4);
  CHECK(num_splits(layout(6144, 4096)) == 2);
  CHECK(num_splits(layout(28672, 4096)) == 1);
  CHECK(num_splits(layout(64, 100'000)) == kMaxSplits);
  CHECK(num_splits(layout(64, 1024)) == 2);
  CHECK(num_splits(layout(64, 256)) == 1);
  const DeviceLimits h100{227 << 10, 132}, a100{163 << 10, 108}, ada{99 << 10, 128};
  const auto rows_of = [&](Format format, std::int64_t rows, const DeviceLimits& device) {
    return plan_stream(format, layout(4096, 4096), rows, device).tile.rows;
  };
  for (const Format format : kStreamed) {
    const quant::FormatSpec& what = quant::spec(format);
    const bool has_small_groups = what.scale_inputs == 64 || what.scale_inputs == 32;
    const int largest = has_small_groups && what.activations != quant::Element::bf16 ? 32 : 64;
    for (const auto& [rows, want] : {std::pair(1, 8), {8, 8}, {9, 16}, {17, 32}, {33, 64}, {2048, 64}})
      CHECK(rows_of(format, rows, h100) == std::min(want, largest));
    CHECK(rows_of(format, 16, ada) == 16);
    for (const std::int64_t rows : {1, 20, 500}) {
      for (const DeviceLimits& device : {h100, a100, ada}) {
        const StreamPlan plan = plan_stream(format, layout(4096, 4096), rows, device);
        const int stages = num_stages(plan.tile, quant::spec(format).weight_bits);
        CHECK(stream_bytes(plan.tile, format).all(stages, true) <= device.shared_bytes);
      }
    }
  }
  CHECK(plan_stream(Format::int4, layout(4096, 4096), 64, h100).splits_apart);
  CHECK(plan_stream(Format::int4, layout(6144, 4096), 8, h100).splits_apart);
  CHECK(plan_stream(Format::int4, layout(4096, 4096), 128, h100).splits_apart);
  for (const std::int64_t rows : {192, 256, 320})
    CHECK_FALSE(plan_stream(Format::int4, layout(4096, 4096), rows, h100).splits_apart);
  CHECK_FALSE(plan_stream(Format::int4, layout(28672, 4096), 1, h100).splits_apart);
}

TEST_CASE("GEMM choice: library kernels where available, streamed for few rows") {
  const auto of = [](Format format, std::int64_t rows, bool y_is_f32, bool is_hopper) {
    return choose_gemm(format, rows, y_is_f32, is_hopper);
  };
  for (const bool is_hopper : {false, true}) CHECK(of(Format::bf16, 5, true, is_hopper) == GemmKernel::cublaslt);
  for (const Format format : kStreamed) {
    if (format == Format::bf16) continue;
    CHECK(of(format, 80, false, false) == GemmKernel::streamed);
    CHECK(of(format, 80, true, true) == (format == Format::int8 ? GemmKernel::cutlass_int8 : GemmKernel::streamed));
    CHECK(of(format, 1, false, true) == GemmKernel::streamed);
  }
  CHECK(of(Format::int8, kStreamedInt8Rows, false, true) == GemmKernel::streamed);
  CHECK(of(Format::int8, kStreamedInt8Rows + 1, false, true) == GemmKernel::cutlass_int8);
  // On Hopper without row_only_sums, the bits of an fp8 row change with the number of rows, as bf16's may.
  for (const Format format : {Format::fp8_tensor, Format::fp8_channel}) {
    CHECK(of(format, kStreamedFp8Rows, false, true) == GemmKernel::streamed);
    CHECK(of(format, kStreamedFp8Rows + 1, false, true) == GemmKernel::cutlass_fp8);
    CHECK(of(format, padded_rows(kStreamedFp8Rows), false, true) == GemmKernel::streamed);  // as ticks are padded
  }
  // cuBLASLt's row scales take the rows beyond CUTLASS's, but never with row_only_sums.
  for (const Format format : {Format::fp8_tensor, Format::fp8_channel, Format::int8, Format::fp8_block128}) {
    const bool has_them = format == Format::fp8_tensor || format == Format::fp8_channel;
    CHECK((of(format, kCutlassFp8Rows, false, true) == GemmKernel::cutlass_fp8) == has_them);
    CHECK((of(format, kCutlassFp8Rows + 1, false, true) == GemmKernel::row_scaled) == has_them);
    CHECK(padded_rows(kCutlassFp8Rows) == kCutlassFp8Rows);  // as ticks are padded
    for (const auto& [y_is_f32, is_hopper, row_only_sums] :
         {std::tuple{true, true, false}, {false, false, false}, {false, true, true}})
      CHECK(choose_gemm(format, 512, y_is_f32, is_hopper, row_only_sums) != GemmKernel::row_scaled);
  }
  for (const auto& [format, least] : {std::pair(Format::int4, 96), {Format::fp8_block128, 160}}) {
    CHECK(dequantized_rows(format) == least);
    CHECK(padded_rows(least) == least);  // as ticks are padded
    CHECK(of(format, least - 1, false, true) == GemmKernel::streamed);
    CHECK(of(format, least, false, true) == GemmKernel::dequantized);
  }
  CHECK(of(Format::int4_int8, 4096, false, true) == GemmKernel::streamed);
  // With row_only_sums, a library is used only for exact sums.
  for (const Format format : kStreamed) {
    for (const std::int64_t rows : {1, 17, 1000}) {
      const bool is_exact = format == Format::int8 && rows > kStreamedInt8Rows;
      CHECK(choose_gemm(format, rows, false, true, true) ==
            (is_exact ? GemmKernel::cutlass_int8 : GemmKernel::streamed));
      CHECK(choose_gemm(format, rows, true, true, true) == choose_gemm(format, rows, false, true, true));
      CHECK(choose_gemm(format, rows, false, false, true) == GemmKernel::streamed);
    }
  }
}

TEST_CASE("GEMM choices: only those with equal bits that fit the device, the rule's choice first") {
  const DeviceLimits h100{227 << 10, 132}, ada{99 << 10, 128};
  const MatrixLayout square = matrix_layout(Format::int8, 4096, 4096);
  const auto check = [&](Format format, std::int64_t rows, bool y_is_f32, const GemmRules& rules) {
    const DeviceLimits& device = rules.is_hopper ? h100 : ada;
    const MatrixLayout at = matrix_layout(format, 4096, 4096);
    const std::vector<GemmChoice> ways = gemm_choices(format, at, rows, y_is_f32, rules, device);
    INFO(quant::name(format) << ", " << rows << " rows");
    const GemmKernel rule = choose_gemm(format, rows, y_is_f32, rules.is_hopper, rules.row_only_sums);
    CHECK(ways[0].kernel == rule);
    if (rule == GemmKernel::streamed) CHECK(ways[0].plan == plan_stream(format, at, rows, device));
    const bool in_any_order = format == Format::int8;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      CHECK(std::count(ways.begin(), ways.end(), ways[i]) == 1);
      if (!in_any_order) CHECK(ways[i].kernel == rule);
      if (ways[i].kernel != GemmKernel::streamed) continue;
      CHECK(has_room(ways[i].plan.tile, format, device));
      CHECK(ways[i].plan.tile.rows < std::max<std::int64_t>(2 * rows, 9));
      if (ways[i].plan.splits_apart) CHECK(may_part(ways[i].plan.tile, format, at, rows));
    }
    const bool is_swept = rows <= kSweptRows && (rule == GemmKernel::streamed || rule == GemmKernel::cutlass_int8);
    CHECK((ways.size() > 1) == is_swept);
  };
  for (const Format format : kWeightFormats) {
    for (const std::int64_t rows : {1, 8, 24, 64, 128, 129, 4096}) {
      for (const bool y_is_f32 : {false, true}) {
        for (const GemmRules& rules : {GemmRules{false, false}, {false, true}, {true, false}, {true, true}})
          check(format, rows, y_is_f32, rules);
      }
    }
  }
  // int8 with one row: one tile, with separate splits or not, CUTLASS. With 64 rows: four tiles.
  CHECK(gemm_choices(Format::int8, square, 1, false, {true}, h100).size() == 3);
  CHECK(gemm_choices(Format::int8, square, 64, false, {true}, h100).size() == 9);
}

TEST_CASE("GEMM timing: never chooses between kernels with different bits") {
  const DeviceLimits h100{227 << 10, 132};
  // The alternatives have exact sums in any order, or are one kernel whose bits no plan changes (cases of streamed
  // GEMMs above).
  for (const Format format : kWeightFormats) {
    for (const std::int64_t out : {64, 4096, 28672}) {
      for (std::int64_t rows = 1; rows <= 4096; rows = rows < 160 ? rows + 1 : 2 * rows) {
        for (const bool y_is_f32 : {false, true}) {
          for (const GemmRules& rules : {GemmRules{false, false}, {false, true}, {true, false}, {true, true}}) {
            const std::vector<GemmChoice> ways =
                gemm_choices(format, matrix_layout(format, out, 4096), rows, y_is_f32, rules, h100);
            if (ways.size() == 1 || format == Format::int8) continue;
            const auto is_streamed = [](const GemmChoice& way) { return way.kernel == GemmKernel::streamed; };
            if (!std::ranges::all_of(ways, is_streamed)) FAIL(quant::name(format) << ", " << rows << " rows");
          }
        }
      }
    }
  }
  // CUTLASS's tile also follows from the shape.
  const MatrixLayout qkv = matrix_layout(Format::fp8_channel, 6144, 4096);
  CHECK(cutlass_tile_rows(qkv, 64, 132) == 64);
  CHECK(cutlass_tile_rows(qkv, 256, 132) == 64);  // 96 tiles of 128 rows
  CHECK(cutlass_tile_rows(qkv, 257, 132) == 128);
  CHECK(cutlass_tile_rows(matrix_layout(Format::fp8_channel, 28672, 4096), 65, 132) == 128);
  CHECK(cutlass_tile_rows(matrix_layout(Format::fp8_channel, 28672, 4096), 64, 132) == 64);
}

TEST_CASE("GEMM sweep: takes the fastest kernel, and times each shape once") {
  if (!find_device()) return;
  const DeviceLimits limits{160 << 10, 132};
  const MatrixLayout at = matrix_layout(Format::int4, 4096, 4096);
  const std::size_t fastest = 2;
  std::vector<GemmChoice> made;
  std::size_t num_timed = 0;
  const target::Stream stream;
  target::GemmSweep sweep({}, limits, [&](const std::function<void()>& launch, const target::Stream&) {
    launch();
    return num_timed++ == fastest ? 1.0 : 2.0;
  });
  const auto choose = [&](quant::Format format, std::int64_t rows, bool adds_to_y = false) {
    target::GemmTask task{};
    task.adds_to_y = adds_to_y;
    task.num_rows = rows;
    task.w.format = format;
    task.w.at = at;
    return sweep.choose(
        task, [&](const GemmChoice& choice) { made.push_back(choice); }, stream);
  };
  const std::vector<GemmChoice> ways = gemm_choices(Format::int4, at, 16, false, {}, limits);
  REQUIRE(ways.size() > fastest);
  CHECK(choose(Format::int4, 9) == ways[fastest]);
  CHECK(made == ways);
  for (const std::int64_t rows : {9, 16, 10}) CHECK(choose(Format::int4, rows) == ways[fastest]);  // all padded to 16
  CHECK(num_timed == ways.size());
  num_timed = fastest + 1;  // equal times: the rule decides
  CHECK(choose(Format::int4, 17) == gemm_choices(Format::int4, at, 24, false, {}, limits)[0]);
  made.clear();
  choose(Format::bf16, 9);
  choose(Format::int4, 500);
  for (const Format format : {Format::bf16, Format::int4}) {  // not the library: it rounds a product before adding it
    CHECK(choose(format, 30, true) == GemmChoice{GemmKernel::streamed, plan_stream(format, at, 32, limits)});
  }
  CHECK(made.empty());  // a GEMM that adds runs only once
}
