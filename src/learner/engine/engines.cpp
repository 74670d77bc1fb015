#include "learner/engine/engines.h"

#include "learner/engine/fused_engine.h"
#include "learner/engine/torch_engine.h"
#include "learner/tensors/cuda_library.h"

namespace qrl::learner {

std::unique_ptr<ForwardEngine> choose_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                             const dist::Collectives& world) {
  if (options.device == base::Device::cpu) return make_fused_engine(config, options);
  check_torch_engine(config, options);
  const int number = load_cuda_library(world.local_rank());
  return make_torch_engine(config, options, {torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(number))});
}

}  // namespace qrl::learner
