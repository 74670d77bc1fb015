#include "learner/engines.h"

#include "learner/cuda_library.h"
#include "learner/fused_engine.h"
#include "learner/torch_engine.h"

namespace qrl::learner {

std::unique_ptr<ForwardEngine> choose_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                             const dist::Collectives& world) {
  if (options.device == base::Device::cpu) return make_fused_engine(config, options);
  check_torch_backward(options);
  const int number = load_cuda_library(world.local_rank());
  return make_torch_engine(config, options, {torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(number))});
}

}  // namespace qrl::learner
