// Tests that tensor memory is cached and reused, within the peak of memory in use.
#include "learner/tensors/memory.h"

#include <c10/core/AllocatorConfig.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "learner/learner.h"
#include "learner/support.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/torch.h"
#include "support/catch.h"

namespace qrl {

TEST_CASE("tensor memory: reused, bounded by the peak, and released on request") {
  learner::keep_tensor_memory();
  learner::release_tensor_memory();
  REQUIRE(learner::kept_tensor_memory_bytes() == 0);
  constexpr std::int64_t kFloats = 1 << 20;
  const void* first = nullptr;
  {
    const torch::Tensor tensor = torch::zeros({kFloats});
    first = tensor.data_ptr();
    CHECK(learner::kept_tensor_memory_bytes() == 0);
  }
  CHECK(learner::kept_tensor_memory_bytes() == 4 * kFloats);
  {
    const torch::Tensor same = torch::zeros({kFloats - 100});
    CHECK(same.data_ptr() == first);
    CHECK(learner::kept_tensor_memory_bytes() == 0);
  }
  {
    // Another size replaces the cached block: both together would exceed the peak.
    const torch::Tensor other = torch::zeros({kFloats / 2});
    CHECK(learner::kept_tensor_memory_bytes() == 0);
  }
  learner::release_tensor_memory();
  CHECK(learner::kept_tensor_memory_bytes() == 0);
}

TEST_CASE("learner memory: kept for the next micro-batch, and released when the KV cache needs it") {
  model::ModelConfig config = test::tiny_config();
  config.max_position_embeddings = 2048;
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), test::options(), *world);
  const types::MicroBatch batch = test::pack({test::random_sequence(1, 3, 1500, 37)});
  learner.accumulate(batch, test::count({batch}), {.kind = learner::LossKind::sft}, {1.0F});
  CHECK(learner::kept_tensor_memory_bytes() > 0);
  learner.release_memory();
  CHECK(learner::kept_tensor_memory_bytes() == 0);
}

// Hidden: the case below runs it in processes of its own, because LibTorch reads the settings once.
TEST_CASE("probe: segments of a GPU's memory can grow", "[.]") {
  learner::prefer_expandable_segments();
  CHECK(c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments());
}

TEST_CASE("GPU memory segments: can grow unless the user set either variable") {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto can_grow = [&](const std::string& settings) {
    const int status = std::system(("env -u PYTORCH_ALLOC_CONF -u PYTORCH_CUDA_ALLOC_CONF " + settings + " '" +
                                    program + "' \"probe: segments of a GPU's memory can grow\" > /dev/null 2>&1")
                                       .c_str());
    return WEXITSTATUS(status) == 0;
  };
  CHECK(can_grow(""));
  CHECK_FALSE(can_grow("PYTORCH_ALLOC_CONF=max_split_size_mb:512"));
  CHECK_FALSE(can_grow("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512"));
  CHECK(can_grow("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
}

}  // namespace qrl
