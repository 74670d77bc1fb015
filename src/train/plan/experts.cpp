#include "train/plan/experts.h"

#include "base/error.h"

namespace qrl::train {

void require_cpu_for_experts(const config::Recipe& recipe, const model::ModelConfig& config) {
  if (!config.has_experts()) return;
  const auto require_cpu = [](bool on_gpu, const char* key) {
    QRL_REQUIRE(!on_gpu, key, "cpu for a mixture of experts (qwen3_moe)", "cuda", model::kExpertsLack);
  };
  require_cpu(config::learns_on_gpu(recipe), "trainer.device");
  require_cpu(config::samples_on_gpu(recipe), "rollout.device");
}

}  // namespace qrl::train
