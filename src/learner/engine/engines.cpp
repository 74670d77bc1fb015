#include "learner/engine/forward_engine.h"
#include "learner/engine/torch_engine.h"
#include "learner/forward/fused_ops.h"
#include "learner/tensors/cuda_library.h"

namespace qrl::learner {

namespace {

class FusedEngine final : public ForwardEngine {
 public:
  using ForwardEngine::ForwardEngine;

  ParameterOptions parameters() const override {
    ParameterOptions how = common_parameters();
    how.reads_layers = !numerics().quantized();
    how.packs_head = how.reads_layers || reads_own_head();
    return how;
  }

  TargetScores score(Parameters& parameters, const model::Snapshot* snapshot, const ForwardTask& task) override {
    const PolicyWeights& policy = task.policy != nullptr ? *task.policy : parameters.policy();
    const bool has_head = snapshot == nullptr || reads_own_head();
    const ops::PackedLinear& head = has_head ? parameters.policy().head : snapshot->lm_head();
    ForwardNumerics how = numerics();
    if (head.format == quant::Format::int8) how.lm_head = torch::kFloat32;  // the sampler quantizes fp32 rows
    const auto ops = std::make_shared<const FusedOps>(task.rows, config(), how, snapshot);
    return target_log_probs(hidden_states(policy, ops, forward_options(task)), policy.lm_head, head, task.targets,
                            numerics().lm_head, is_bitwise());
  }

  bool reads_in_place(const std::string& tensor) const override {
    return reads_snapshot() && !(tensor == "lm_head" && reads_own_head());
  }

 private:
  bool reads_own_head() const { return numerics().own_lm_head && !is_bitwise(); }
};

}  // namespace

std::unique_ptr<ForwardEngine> choose_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                             const dist::Collectives& world) {
  if (options.device == base::Device::cpu) return std::make_unique<FusedEngine>(config, options);
  check_torch_engine(config, options);
  require_gpu_kernels(config);
  const int number = load_cuda_library(world.local_rank());
  return make_torch_engine(config, options, {torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(number))});
}

}  // namespace qrl::learner
