// Tests GEMMs of fp8_block128 with scales in cuBLASLt's order; the plain GEMM replaces the library.
#include "cuda/gemm/block_scales.h"

#include <tuple>

#include "cuda/engine/weights.h"
#include "cuda/gemm/dequantized_gemms.h"
#include "gemm_fixtures.h"
#include "support/models.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;

std::vector<float> read_floats(const float* from, std::int64_t count, const target::Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  target::copy_to_host(values.data(), from, values.size() * sizeof(float), stream);
  stream.wait();
  return values;
}

/// Runs the task by the plain GEMM, after restoring its scales from the library's order.
void multiply_as_library(const target::BlockScaledTask& task, const target::Stream& stream) {
  const target::GemmTask& gemm = task.gemm;
  CHECK(gemm.num_rows % target::kBlockScaledMultiple == 0);
  const std::int64_t rows = gemm.num_rows, chunks = gemm.w.at.width / 128, padded_chunks = (chunks + 3) / 4 * 4;
  const std::vector<float> of_x = read_floats(task.x_scales, rows * chunks, stream),
                           of_w = read_floats(task.w_scales, (gemm.w.at.rows + 127) / 128 * padded_chunks, stream);
  std::vector<float> x_scales, w_scales;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      x_scales.push_back(of_x[static_cast<std::size_t>(chunk * rows + row)]);
  }
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::int64_t output = 0; output < gemm.w.at.rows; ++output)
      w_scales.push_back(of_w[static_cast<std::size_t>(output / 128 * padded_chunks + chunk)]);
  }
  const OnDevice<float> x_there(x_scales), w_there(w_scales);
  target::GemmTask plain = gemm;
  plain.x.scales = x_there.data();
  plain.w.scales = w_there.data();
  target::plain_gemm(plain, stream);
  stream.wait();
}

}  // namespace

TEST_CASE("block scales: the GEMM in the library's order equals the plain GEMM, in parts and for leftover rows") {
  if (!find_device()) return;
  // Outputs and inputs that end within a block; five chunks, so that those of W are padded.
  for (const Shape& shape : {Shape{70, 600, 200}, {69, 384, 128}, {3, 130, 60}}) {
    const GemmCase gemm(Format::fp8_block128, shape, normal_values(shape.rows * shape.in, 1, 71));
    const std::vector<float> plain = gemm.plain();
    for (const std::int64_t rows_at_once : {std::int64_t{16}, std::int64_t{4096}}) {
      target::BlockScaledGemms made(rows_at_once);
      std::int64_t num_by_library = 0, num_rest = 0;
      const auto by_library = [&](const target::BlockScaledTask& task) {
        num_by_library += task.gemm.num_rows;
        CHECK(task.gemm.num_rows <= rows_at_once);
        multiply_as_library(task, gemm.stream);
        return true;
      };
      const auto rest = [&](const target::GemmTask& task, GemmKernel kernel) {
        CHECK(kernel == GemmKernel::streamed);
        num_rest += task.num_rows;
        target::plain_gemm(task, gemm.stream);
      };
      INFO(shape.rows << " rows, " << rows_at_once << " at once");
      CHECK(gemm.run([&](const target::GemmTask& task) { made.multiply(task, by_library, rest, gemm.stream); }) ==
            plain);
      CHECK(num_by_library == shape.rows / 4 * 4);
      CHECK(num_rest == shape.rows % 4);
    }
  }
}

TEST_CASE("block scales: many rows that the library refuses are dequantized together") {
  if (!find_device()) return;
  constexpr std::int64_t kMostTaken = 100;
  const auto run = [&](std::int64_t num_rows, std::int64_t rows_at_once) {
    const GemmCase gemm(Format::fp8_block128, {num_rows, 256, 128}, normal_values(num_rows * 256, 1, 79));
    target::BlockScaledGemms made(rows_at_once);
    target::DequantizedGemms dequantized;
    std::vector<std::pair<GemmKernel, std::int64_t>> others;
    const auto by_library = [&](const target::BlockScaledTask& task) {
      if (task.gemm.num_rows > kMostTaken) return false;
      multiply_as_library(task, gemm.stream);
      return true;
    };
    const auto by_other = [&](const target::GemmTask& task, GemmKernel kernel) {
      others.emplace_back(kernel, task.num_rows);
      const auto by_plain = [&](const target::GemmTask& plain) { target::plain_gemm(plain, gemm.stream); };
      if (kernel == GemmKernel::dequantized) dequantized.multiply(task, by_plain, gemm.stream);
      else by_plain(task);
    };
    const std::vector<float> y =
        gemm.run([&](const target::GemmTask& task) { made.multiply(task, by_library, by_other, gemm.stream); });
    CHECK(gemm.first_beyond_exact(y, 0x1p-8 + 0x1p-18) == "");
    return others;
  };
  using Others = std::vector<std::pair<GemmKernel, std::int64_t>>;
  CHECK(run(201, 4096) == Others{{GemmKernel::dequantized, 201}});
  CHECK(run(120, 4096) == Others{{GemmKernel::streamed, 120}});  // fewer rows than dequantizing takes
  CHECK(run(402, 200) == Others{{GemmKernel::dequantized, 402}});
  CHECK(run(90, 4096) == Others{{GemmKernel::streamed, 2}});
}

TEST_CASE("fp8_block128 GEMMs with bf16 results: every kernel equals the plain GEMM") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const std::unique_ptr<target::Gemms> gemms = target::make_gemms(*device);
  // Rows for the streamed kernel, then for the library: a multiple, and with a remainder of one to three.
  for (const std::int64_t rows : {5, 17, 40, 71}) {
    const GemmCase gemm(Format::fp8_block128, {rows, 600, 256}, normal_values(rows * 600, 1, 73));
    const std::vector<float> want = gemm.plain();
    const OnDevice<std::uint16_t> y(
        std::vector<std::uint16_t>(static_cast<std::size_t>(rows * gemm.w.view.at.rows), 0x7fc0));
    gemms->multiply({gemm.quantized.rows, rows, gemm.w.view, y.data(), gemm.w.view.at.rows, false}, gemm.stream);
    gemm.stream.wait();
    std::vector<float> got;
    for (const std::uint16_t bits : y.read()) got.push_back(float_of_bf16(bits));
    float most = 0;
    for (const float value : want) most = std::max(most, std::fabs(value));
    INFO(rows << " rows; " << gemms->describe());
    const double error = gemm_error(Format::fp8_block128, rows, 600, want, 1e-6 * static_cast<double>(most));
    CHECK(first_beyond(got, want, error, 1.0 / 256) == "");
  }
}

TEST_CASE("block scales: their memory does not move while recorded ticks use it") {
  if (!find_device()) return;
  const auto matrix = [](std::int64_t out, std::int64_t in) {
    return target::DeviceMatrix{Format::fp8_block128, matrix_layout(Format::fp8_block128, out, in), nullptr, nullptr};
  };
  target::BlockScaledGemms gemms(16);
  gemms.reserve(matrix(256, 512));
  gemms.set_fixed(true);
  gemms.reserve(matrix(200, 500));
  CHECK_THROWS_WITH(gemms.reserve(matrix(256, 1024)), Catch::Matchers::Contains("reserved at upload"));
  gemms.set_fixed(false);
  gemms.reserve(matrix(256, 1024));
}

TEST_CASE("block scales: reordered for the library on upload and rewrite, not in a tick") {
  if (!find_device()) return;
  cuda::EngineOptions options;
  options.model = qrl::test::model_config(model::Family::qwen3, {0, 200, 1, 3, 1, 40, 300});
  options.max_positions = 16;
  const std::vector<float> gain(512, 1.0F);
  const ops::PackedLinear down = packed(Format::fp8_block128, {0, 300, 200});
  cuda::HostWeights host;
  host.layers.resize(1);
  model::visit_block(
      options.model, 0, [&](const model::BlockGain&, const auto& of) { of(host.layers[0]) = gain.data(); },
      [&](const model::BlockMatrix& matrix, const auto& of) {
        cuda::HostMatrix& to = of(host.layers[0]);
        to = {Format::fp8_block128, matrix.out(), matrix.in, nullptr, nullptr, 0, nullptr};
        if (matrix.name != "down") return;
        to.panels = down.panels.view().data;
        to.scales = down.scales.view().data;
        to.scale_stride = matrix_layout(to.format, to.out, to.in).rows;
      });
  host.lm_head = {Format::bf16, options.model.vocab_size, options.model.hidden_size, nullptr, nullptr, 0, nullptr};
  target::Weights weights(options);
  const target::Stream stream;
  weights.upload(host, stream);
  const auto arranged = [&] {
    const target::DeviceMatrix& w = weights.layer(0).down.view;
    REQUIRE(w.block_scales != nullptr);
    const std::vector<float> found = read_floats(w.block_scales, target::num_arranged_scales(w.at), stream),
                             scales = read_floats(w.scales, w.at.num_scales * w.at.rows, stream);
    const std::int64_t chunks = w.at.width / 128, padded = round_up(chunks, 4);
    std::vector<float> want;
    for (std::int64_t block = 0; block < ceil_div(w.at.rows, 128); ++block) {
      for (std::int64_t chunk = 0; chunk < padded; ++chunk)
        want.push_back(chunk < chunks ? scales[static_cast<std::size_t>(chunk * w.at.rows + block * 128)] : 0.0F);
    }
    CHECK(found == want);
    return found;
  };
  const std::vector<float> uploaded = arranged();
  const OnDevice<float> master(normal_values(200 * 300, 5, 83));
  CHECK(weights.rewrite(std::vector<cuda::Master>{{master.data(), {"down", 0}, 0, 200}}, stream) == -1);
  CHECK(arranged() != uploaded);
}

TEST_CASE("block scales: the library computes bf16 results of more than 16 rows, for tensors of whole blocks") {
  const DeviceLimits h100{227 << 10, 132};
  MatrixLayout whole = matrix_layout(Format::fp8_block128, 512, 256), ragged = whole;
  ragged.has_whole_blocks = false;
  const auto kernel = [&](Format format, const MatrixLayout& at, std::int64_t rows, bool y_is_f32,
                          const GemmRules& rules) {
    return gemm_choices(format, at, rows, y_is_f32, rules, h100)[0].kernel;
  };
  const GemmRules rules{true, false, true}, bitwise{true, true, true}, without{true, false, false};
  for (const std::int64_t rows : {17, 64, 512, 4096}) {
    CHECK(kernel(Format::fp8_block128, whole, rows, false, rules) == GemmKernel::block_scaled);
    for (const auto& [at, y_is_f32, of] :
         {std::tuple(ragged, false, rules), {whole, true, rules}, {whole, false, without}})
      CHECK(kernel(Format::fp8_block128, at, rows, y_is_f32, of) ==
            (rows >= dequantized_rows(Format::fp8_block128) ? GemmKernel::dequantized : GemmKernel::streamed));
    CHECK(kernel(Format::fp8_block128, whole, rows, false, bitwise) == GemmKernel::streamed);
    CHECK(kernel(Format::fp8_channel, whole, rows, false, rules) ==
          (rows > kCutlassFp8Rows ? GemmKernel::row_scaled : GemmKernel::cutlass_fp8));
  }
  CHECK(kernel(Format::fp8_block128, whole, 16, false, rules) == GemmKernel::streamed);
}
