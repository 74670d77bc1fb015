#include "train/plan/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/limits.h"
#include "base/threads.h"
#include "learner/learner.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/libraries.h"
#include "ops/peak_rates.h"

namespace qrl::train {

namespace {

/// Returns the number of usable processors. With several ranks, first undoes the launcher's CPU binding.
int usable_processors(const dist::Collectives& world) {
  if (world.size() > 1) {
    const long configured = std::clamp<long>(sysconf(_SC_NPROCESSORS_CONF), 1, CPU_SETSIZE);
    cpu_set_t all;
    CPU_ZERO(&all);
    for (long cpu = 0; cpu < configured; ++cpu) CPU_SET(cpu, &all);
    sched_setaffinity(0, sizeof all, &all);
  }
  return base::usable_processors();
}

}  // namespace

void set_threads(const Recipe& recipe, const dist::Collectives& world) {
  const int processors = usable_processors(world);
  const auto asked = static_cast<int>(recipe.trainer.threads);
  base::set_num_threads(asked > 0 ? asked : std::max(1, processors / world.local_size()));
}

int all_local_threads(const Recipe& recipe, const dist::Collectives& world) {
  const auto asked = static_cast<int>(recipe.trainer.threads);
  return asked > 0 ? asked * world.local_size() : usable_processors(world);
}

std::string missing_gpu(const Recipe& recipe, int device_number) {
  const bool learns_there = learns_on_gpu(recipe);
  if (!learns_there && !samples_on_gpu(recipe)) return {};
  const std::string fault = learner::gpu_fault(device_number);
  return fault.empty() ? "" : std::string(learns_there ? "trainer.device" : "rollout.device") + ": cuda: " + fault;
}

void require_gpu(const Recipe& recipe, int device_number) {
  const bool learns_there = learns_on_gpu(recipe);
  if (!learns_there && !samples_on_gpu(recipe)) return;
  if (const std::string missing = missing_gpu(recipe, device_number); !missing.empty())
    throw base::Error(base::ErrorKind::input, missing, "", "");
  if (learns_there) (void)learner::load_cuda_library(device_number);
  const std::string where = std::string(learns_there ? "trainer" : "rollout") + ".device: cuda";
  for (const base::LibraryReport& library : learner::gpu_libraries(false)) base::require(library, where);
}

void require_gpu_kernels(const Recipe& recipe, const model::ModelConfig& config) {
  const std::string missing = model::missing_on_gpu(config);
  if (missing.empty()) return;
  const auto require_cpu = [&](bool on_gpu, const char* key) {
    QRL_REQUIRE(!on_gpu, key, "cpu for a model with " + missing, "cuda",
                config.has_experts() ? model::kExpertsLack : "no kernels for GPUs compute them yet");
  };
  require_cpu(learns_on_gpu(recipe), "trainer.device");
  require_cpu(samples_on_gpu(recipe), "rollout.device");
}

double learner_ceiling(const Recipe& recipe) {
  const learner::ComputeDType dtype = recipe.model.dtype;
  if (learns_on_gpu(recipe)) return learner::measure_gpu_matmul_flops_per_s(dtype);
  return dtype == learner::ComputeDType::bf16 ? ops::measure_bf16_flops_per_s() : ops::measure_f32_flops_per_s();
}

}  // namespace qrl::train
