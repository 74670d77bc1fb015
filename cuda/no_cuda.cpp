// Implements the CUDA backend without CUDA: every use of a device throws an input error.
#include "base/error.h"
#include "cuda/engine/decode_engine.h"
#include "cuda/train/training.h"

namespace qrl::cuda {

std::string version() { return "off"; }

namespace {
[[noreturn]] void fail(const char* key = "rollout.device") {
  base::fail_input(key, "cpu, as this program was built without CUDA", "cuda",
                   "build it on a machine with nvcc (cmake -DQRL_CUDA=on says what is missing)");
}
}  // namespace

std::unique_ptr<DecodeEngine> make_engine(const EngineOptions&) { fail(); }
std::unique_ptr<TrainingKernels> make_training_kernels(int) { fail("trainer.device"); }
DeviceIdentity identify_device(int) { fail("trainer.device"); }
std::vector<base::LibraryReport> find_libraries() { return {}; }

}  // namespace qrl::cuda
