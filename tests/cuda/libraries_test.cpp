// Tests which versions of the driver and cuBLASLt are required and found. Runs on the host, where no cuBLASLt was
// loaded before.
#if defined(QRL_CUDA_EMULATED)
#include "cuda/runtime/libraries.h"

#include <filesystem>
#include <fstream>

#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
namespace fs = std::filesystem;

}  // namespace

TEST_CASE("CUDA driver: a missing or old one is named with the version wanted and the one found") {
  CHECK(target::driver_report(13000, 13000).fits);
  CHECK(target::driver_report(13010, 13000).fits);
  CHECK(target::driver_report(13000, 13010).fits);  // of the same major version
  CHECK(target::driver_report(14000, 13000).fits);
  CHECK_THROWS_WITH(
      base::require(target::driver_report(12040, 13000), "rollout.device: cuda"),
      Catch::Contains("rollout.device: cuda: expected NVIDIA's driver for CUDA 13.0 (driver 580) or newer") &&
          Catch::Contains("got a driver for CUDA 12.4"));
  CHECK_THROWS_WITH(base::require(target::driver_report(0, 13000), "x"), Catch::Contains("got none"));
}

TEST_CASE("cuBLASLt: searched beside LibTorch before the loader's own search") {
  const qrl::test::TempDir dir;
  const fs::path site = dir / "libtorch", of_setup = dir / "libtorch_cuda";
  const std::string cpu = (site / "torch/lib/libtorch_cpu.so").string();
  const auto put = [](const fs::path& folder) {
    fs::create_directories(folder / "nvidia/cu13/lib");
    std::ofstream(folder / "nvidia/cu13/lib/libcublasLt.so.13") << "no library";
    return (folder / "nvidia/cu13/lib/libcublasLt.so.13").string();
  };
  REQUIRE(base::loaded_library_path("libcublasLt.so.13").empty());
  CHECK(target::cublaslt_places("").front() == "libcublasLt.so.13");
  CHECK(target::cublaslt_places(cpu).front() == "libcublasLt.so.13");  // it has none
  const std::string fetched = put(of_setup);
  CHECK(target::cublaslt_places(cpu).front() == fetched);
  const std::string beside = put(site);
  const std::vector<std::string> places = target::cublaslt_places(cpu);
  REQUIRE(places.size() >= 3);
  CHECK(places[0] == beside);
  CHECK(places[1] == fetched);
  CHECK(places[2] == "libcublasLt.so.13");
}

TEST_CASE("cuBLASLt: a missing one or another version is named with the version wanted and the one found") {
  const target::CublasLtLibrary none = target::open_cublaslt({"libnowhere.so.13"}, 13);
  CHECK(none.handle == nullptr);
  CHECK_THROWS_WITH(base::require(none.report, "x"),
                    Catch::Contains("expected cuBLASLt 13, got none (libnowhere.so.13: cannot open"));
  const target::CublasLtLibrary other = target::open_cublaslt({"libm.so.6"}, 13);
  CHECK(other.handle == nullptr);
  CHECK_THROWS_WITH(base::require(other.report, "x"), Catch::Contains("got a library without a version at"));
  const std::string stand_in = QRL_CUBLASLT_STAND_IN;  // 12.4.2
  const target::CublasLtLibrary old = target::open_cublaslt({"libnowhere.so.13", stand_in}, 13);
  CHECK(old.handle == nullptr);
  CHECK(old.report.line() == "cuBLASLt: 13 wanted, found 12.4.2 at " + stand_in);
  const target::CublasLtLibrary fits = target::open_cublaslt({stand_in}, 12);
  CHECK(fits.handle != nullptr);
  CHECK(fits.report.path == stand_in);
  // A loaded library takes precedence over every search path.
  CHECK(base::loaded_library_path(fs::path(stand_in).filename().string()) == stand_in);
}
#endif
