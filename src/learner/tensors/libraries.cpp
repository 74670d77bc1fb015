#include "learner/tensors/libraries.h"

#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/shipped_files.h"
#include "cuda/train/training.h"

namespace qrl::learner {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLibTorchCpu = "libtorch_cpu.so";
constexpr const char* kLibTorchCuda = "libtorch_cuda.so";
constexpr const char* kNccl = "libnccl.so.2";
constexpr int kOldestNccl = 20400;  // 2.4, the first version with all functions that nccl.cpp calls

fs::path site_of(const fs::path& library) { return library.parent_path().parent_path().parent_path(); }

std::string version_beside(const fs::path& library) {
  constexpr std::string_view kKey = "__version__ = '", kBegin = "torch-", kEnd = ".dist-info";
  std::ifstream file(library.parent_path().parent_path() / "version.py");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) return line.substr(kKey.size(), line.rfind('\'') - kKey.size());
  }
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(site_of(library), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kBegin) && name.ends_with(kEnd))
      return name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  }
  return {};
}

}  // namespace

base::LibraryReport libtorch_report(std::uint64_t abi_version, const std::string& path) {
  base::LibraryReport report;
  report.name = "LibTorch";
  report.wanted = TORCH_VERSION;
  report.path = path;
  const auto part = [&](int shift) { return std::to_string(abi_version >> shift & 0xff); };
  report.found = abi_version == 0 ? "a version before 2.9" : part(56) + "." + part(48) + "." + part(40);
  report.fits = report.found == report.wanted;
  report.what_to_do = "remove the other torch's folder from LD_LIBRARY_PATH, or put the folder of torch " TORCH_VERSION
                      " for CUDA 13 first";
  return report;
}

void require_libtorch() {
  const auto version = reinterpret_cast<std::uint64_t (*)()>(dlsym(RTLD_DEFAULT, "aoti_torch_abi_version"));
  base::require(libtorch_report(version != nullptr ? version() : 0, base::loaded_library_path(kLibTorchCpu)), "torch");
}

std::string libtorch_cuda_path() {
  std::vector<fs::path> folders;
  if (const std::string loaded = base::loaded_library_path(kLibTorchCpu); !loaded.empty())
    folders = {fs::path(loaded).parent_path(), site_of(loaded).parent_path() / "libtorch_cuda/torch/lib"};
  const char* listed = std::getenv("LD_LIBRARY_PATH");
  std::istringstream search(listed != nullptr ? listed : "");
  for (std::string folder; std::getline(search, folder, ':');) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / kLibTorchCuda)) return (folder / kLibTorchCuda).string();
  }
  return kLibTorchCuda;
}

base::LibraryReport libtorch_cuda_report(const std::string& path) {
  base::LibraryReport report;
  report.name = "LibTorch's CUDA part";
  report.wanted = TORCH_VERSION " for CUDA 13";
  report.what_to_do =
      base::is_in_wheel()
          ? "run `pip install --force-reinstall torch==" TORCH_VERSION "`, which installs PyPI's build for CUDA 13"
          : "run `QRL_TORCH_CUDA=on scripts/setup`, which fetches it; or put the folder of a PyTorch " TORCH_VERSION
            " for CUDA 13 first in LD_LIBRARY_PATH";
  if (path.find('/') == std::string::npos) return report;
  report.path = path;
  const std::string version = version_beside(path);
  report.found = version.empty() ? "an unknown version" : version;
  const std::string plain = version.substr(0, version.find('+'));
  const std::string build = plain.size() < version.size() ? version.substr(plain.size() + 1) : "";
  report.fits = version.empty() || (plain == TORCH_VERSION && (build.empty() || build.starts_with("cu13")));
  return report;
}

base::LibraryReport nccl_report(int version, const base::SharedLibrary& library) {
  base::LibraryReport report;
  report.name = "NCCL";
  report.wanted = "2.4 or newer";
  report.path = library.path;
  report.why = library.why;
  report.what_to_do = std::string(base::is_in_wheel() ? "" : "run `QRL_TORCH_CUDA=on scripts/setup`, or ") +
                      "`pip install nvidia-nccl-cu13`";
  if (library.handle == nullptr) return report;
  // Before 2.9, the minor version has one digit.
  const int scale = version < 10000 ? 1000 : 10000;
  const auto text = [&](int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  };
  const int major = version / scale, minor = version % scale / 100, patch = version % 100;
  report.found = version <= 0 ? "another library" : text(major, minor, patch);
  report.fits = major == 2 && 10000 * major + 100 * minor + patch >= kOldestNccl;
  return report;
}

base::LibraryReport find_nccl() {
  const std::string libtorch_cuda = libtorch_cuda_path();
  std::vector<std::string> places = {kNccl};
  if (base::loaded_library_path(kNccl).empty() && libtorch_cuda.find('/') != std::string::npos)
    places.insert(places.begin(), (site_of(libtorch_cuda) / "nvidia/nccl/lib" / kNccl).string());
  const base::SharedLibrary nccl = base::open_shared_library(places);
  int version = 0;
  if (nccl.handle != nullptr) {
    const auto get = reinterpret_cast<int (*)(int*)>(dlsym(nccl.handle, "ncclGetVersion"));
    if (get != nullptr) (void)get(&version);
  }
  return nccl_report(version, nccl);
}

std::optional<base::Error> gpu_error(const std::string& what) {
  const std::size_t named = what.find(" does not have a deterministic implementation");
  if (named != std::string::npos) {
    const std::string operation = what.substr(0, named);
    return base::Error(base::ErrorKind::internal, "trainer.device: cuda", "deterministic operations in LibTorch",
                       operation.substr(operation.rfind('\n') + 1) + ", which has no deterministic implementation",
                       "use trainer.device: cpu");
  }
  const std::size_t begin = what.find("CUDA out of memory");
  if (begin == std::string::npos) return std::nullopt;
  const std::string line = what.substr(begin, what.find('\n', begin) - begin);
  return base::Error(base::ErrorKind::input, "trainer.device: cuda", "memory for the learner", line,
                     "lower actor.max_tokens_per_micro_batch, actor.logprob_chunk_tokens or "
                     "rollout.gpu_memory_utilization, or set actor.activation_checkpointing and "
                     "rollout.free_cache_engine");
}

std::vector<base::LibraryReport> gpu_libraries(bool learns) {
  std::vector<base::LibraryReport> all = cuda::find_libraries();
  if (learns) all.push_back(libtorch_cuda_report(libtorch_cuda_path()));
  return all;
}

}  // namespace qrl::learner
