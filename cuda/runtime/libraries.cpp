#include "cuda/runtime/libraries.h"

#include <dlfcn.h>

#include <cstddef>
#include <filesystem>

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCublasLt = "libcublasLt.so.13";

/// Formats 130100 as "13.1.0".
std::string text_of(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::size_t version_of(void* handle) {
  const auto version = reinterpret_cast<std::size_t (*)()>(dlsym(handle, "cublasLtGetVersion"));
  return version != nullptr ? version() : 0;
}

}  // namespace

base::LibraryReport driver_report(int driver_version, int runtime_version) {
  const auto text = [](int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  };
  constexpr int kMajor = 1000;  // a driver runs programs of its CUDA major version or of an older one
  base::LibraryReport report;
  report.name = "NVIDIA's driver for CUDA";
  report.wanted = std::to_string(runtime_version / kMajor) + ".0 (driver 580) or newer";
  if (driver_version > 0) report.found = "a driver for CUDA " + text(driver_version);
  report.fits = driver_version / kMajor >= runtime_version / kMajor;
  report.what_to_do = "install a newer driver, or use rollout.device: cpu (and trainer.device: cpu) here";
  return report;
}

std::vector<std::string> cublaslt_places(const std::string& libtorch_cpu) {
  std::vector<std::string> places;
  if (const std::string loaded = base::loaded_library_path(kCublasLt); !loaded.empty()) places.push_back(loaded);
  if (!libtorch_cpu.empty()) {
    // libtorch_cpu is SITE/torch/lib/FILE.
    const fs::path site = fs::path(libtorch_cpu).parent_path().parent_path().parent_path();
    for (const fs::path& folder : {site, site.parent_path() / "libtorch_cuda"}) {
      const fs::path path = folder / "nvidia/cu13/lib" / kCublasLt;
      if (fs::exists(path)) places.push_back(path.string());
    }
  }
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda-13.0/lib64/"})
    places.push_back(std::string(folder) + kCublasLt);
  return places;
}

CublasLtLibrary open_cublaslt(const std::vector<std::string>& places, int major) {
  const base::SharedLibrary opened = base::open_shared_library(places);
  CublasLtLibrary library;
  base::LibraryReport& report = library.report;
  report.name = "cuBLASLt";
  report.wanted = std::to_string(major);
  report.path = opened.path;
  report.why = opened.why;
  report.what_to_do = "install CUDA's libcublas-" + std::to_string(major) + ", or add its folder to LD_LIBRARY_PATH";
  if (opened.handle == nullptr) return library;
  const std::size_t version = version_of(opened.handle);
  report.found = version > 0 ? text_of(version) : "a library without a version";
  report.fits = version / 10000 == static_cast<std::size_t>(major);
  if (report.fits) library.handle = opened.handle;
  return library;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
