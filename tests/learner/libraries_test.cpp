// Tests which versions of LibTorch, its CUDA part and NCCL are required and found.
#include "learner/tensors/libraries.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "support/catch.h"

namespace qrl {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

TEST_CASE("LibTorch: another version is named with the version wanted and the one found") {
  CHECK_NOTHROW(learner::require_libtorch());
  constexpr std::uint64_t kMajor = std::uint64_t{2} << 56, kMinor = std::uint64_t{1} << 48;
  const base::LibraryReport fits = learner::libtorch_report(kMajor | 11 * kMinor, "/a/libtorch_cpu.so");
  CHECK(fits.fits);
  CHECK(fits.line() == "LibTorch: 2.11.0 wanted, found 2.11.0 at /a/libtorch_cpu.so");
  CHECK_THROWS_WITH(base::require(learner::libtorch_report(kMajor | 10 * kMinor, "/a/libtorch_cpu.so"), "torch"),
                    Contains("torch: expected LibTorch 2.11.0, got 2.10.0 at /a/libtorch_cpu.so"));
  CHECK_THROWS_WITH(base::require(learner::libtorch_report(0, ""), "torch"), Contains("got a version before 2.9"));
}

TEST_CASE("LibTorch's CUDA part: detected by the files beside it") {
  const test::TempDir dir;
  const fs::path library = dir / "torch/lib/libtorch_cuda.so";
  fs::create_directories(library.parent_path());
  const auto found = [&] { return learner::libtorch_cuda_report(library.string()); };
  CHECK(found().fits);  // no version is found: loading decides
  fs::create_directories(dir / "torch-2.10.0.dist-info");
  CHECK_FALSE(found().fits);
  CHECK(found().found == "2.10.0");
  fs::remove(dir / "torch-2.10.0.dist-info");
  fs::create_directories(dir / "torch-2.11.0.dist-info");
  CHECK(found().fits);
  const auto says = [&](const std::string& version) {
    std::ofstream(dir / "torch/version.py") << "from typing import Optional\n__version__ = '" << version << "'\n";
  };
  says("2.11.0+cu130");
  CHECK(found().fits);
  says("2.11.0+cu128");
  CHECK_THROWS_WITH(
      base::require(found(), "trainer.device: cuda"),
      Contains("expected LibTorch's CUDA part 2.11.0 for CUDA 13, got 2.11.0+cu128 at " + library.string()));
  CHECK_FALSE(learner::libtorch_cuda_report("libtorch_cuda.so").fits);
}

TEST_CASE("NCCL: another version is named with the version wanted and the one found") {
  base::SharedLibrary library;
  library.why = "libnccl.so.2: cannot open";
  CHECK(learner::nccl_report(0, library).line() == "NCCL: 2.4 or newer wanted, found none (libnccl.so.2: cannot open)");
  int anything = 0;
  library = {&anything, "/a/libnccl.so.2", {}};
  for (const auto& [version, text] : {std::pair{22809, "2.28.9"}, {2408, "2.4.8"}, {2804, "2.8.4"}, {20905, "2.9.5"}}) {
    CHECK(learner::nccl_report(version, library).fits);
    CHECK(learner::nccl_report(version, library).found == text);
  }
  for (const int version : {2304, 1370, 30000, 0}) CHECK_FALSE(learner::nccl_report(version, library).fits);
  CHECK(learner::nccl_report(2304, library).line() == "NCCL: 2.4 or newer wanted, found 2.3.4 at /a/libnccl.so.2");
}

TEST_CASE("LibTorch's GPU errors: become an error with the recipe's key") {
  const auto error = learner::gpu_error(
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 1.20 GiB is "
      "free.\nException raised from malloc at CUDACachingAllocator.cpp:1");
  REQUIRE(error);
  CHECK(error->exit_code() == 2);
  CHECK_THAT(error->what(), Contains("trainer.device: cuda: expected memory for the learner, got CUDA out of memory. "
                                     "Tried to allocate 2.00 GiB. GPU 0") &&
                                Contains("lower actor.max_tokens_per_micro_batch"));
  CHECK_THAT(error->what(), !Contains("Exception raised"));
  const auto no_order = learner::gpu_error(
      "cumsum_cuda_kernel does not have a deterministic implementation, but you set "
      "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation");
  REQUIRE(no_order);
  CHECK(no_order->exit_code() == 1);
  CHECK_THAT(no_order->what(), Contains("trainer.device: cuda: expected deterministic operations in LibTorch") &&
                                   Contains("got cumsum_cuda_kernel, which has no") && !Contains("torch.use"));
  CHECK_FALSE(learner::gpu_error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"));
}

}  // namespace qrl
