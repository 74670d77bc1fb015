// Tests streams and graphs of the device's runtime.
#include <set>
#include <stdexcept>

#include "device.h"

namespace {

using namespace qrl::cuda;
using namespace qrl::cuda::test;

}  // namespace

TEST_CASE("CUDA graph: repeats what was recorded on current memory, and runs nothing while recording") {
  if (!find_device()) return;
  constexpr std::int64_t kWidth = 3;
  const OnDevice<std::uint16_t> table({0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0});  // 1, 2, 3 and 4, 5, 6
  const OnDevice<float> x(std::vector<float>(kWidth, -1.0F));
  const target::Memory token = target::Memory::zeroed(sizeof(std::int32_t)),
                       seen(kWidth * sizeof(float), target::Memory::Place::host);
  const target::Stream stream;
  const auto launch = [&] {
    target::embed({table.data(), token.as<std::int32_t>(), nullptr, kWidth, x.data()}, 1, stream);
    target::copy_to_host(seen.data(), x.data(), kWidth * sizeof(float), stream);
  };
  const auto choose = [&](std::int32_t row) {
    target::copy_to_device(token.data(), &row, sizeof row, stream);
    stream.wait();
  };
  launch();  // prepares what a kernel's first launch needs
  choose(1);
  target::Graph graph;
  CHECK(graph.empty());
  CHECK_THROWS_AS(target::Graph(stream,
                                [&] {
                                  launch();
                                  throw std::runtime_error("while it is recorded");
                                }),
                  std::runtime_error);
  graph = target::Graph(stream, launch);
  stream.wait();
  CHECK(x.read() == std::vector<float>{1, 2, 3});
  for (const std::int32_t row : {1, 0, 1}) {
    choose(row);
    graph.launch(stream);
    stream.wait();
    const float first = row == 0 ? 1.0F : 4.0F;
    CHECK(std::vector<float>(seen.as<float>(), seen.as<float>() + kWidth) ==
          std::vector<float>{first, first + 1, first + 2});
  }
}

TEST_CASE("GPU support: one without kernels in this program is detected") {
  for (const int major : {8, 9, 10, 12}) CHECK(target::has_kernels_for(major));
  CHECK_FALSE(target::has_kernels_for(7));
}

TEST_CASE("GPU support: newer than 9.0 uses streamed and cuBLASLt GEMMs, never CUTLASS") {
  using qrl::quant::Format;
  const auto kernels_on = [](int major, int minor) {
    target::DeviceFacts device;
    device.major = major;
    device.minor = minor;
    std::set<GemmKernel> kernels;
    for (const bool row_only_sums : {false, true}) {
      const GemmRules rules = target::gemm_rules(device, row_only_sums);
      for (const Format format : kWeightFormats) {
        for (const std::int64_t num_rows : {1, 16, 64, 100, 4096}) {
          for (const GemmChoice& choice : gemm_choices(format, matrix_layout(format, 4096, 4096), num_rows, false,
                                                       rules, {std::int64_t{227} << 10, 132}))
            kernels.insert(choice.kernel);
        }
      }
    }
    return kernels;
  };
  const std::set<GemmKernel> everywhere = {GemmKernel::cublaslt, GemmKernel::streamed, GemmKernel::dequantized};
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 1}, {10, 0}, {10, 3}, {12, 0}})
    CHECK(kernels_on(major, minor) == everywhere);
  std::set<GemmKernel> hopper = everywhere;
  hopper.insert({GemmKernel::cutlass_int8, GemmKernel::cutlass_fp8, GemmKernel::row_scaled});
  CHECK(kernels_on(9, 0) == hopper);
}
