// Tests that tensor memory is cached and reused, within the peak of memory in use.
#include "learner/tensors/memory.h"

#include "learner/learner.h"
#include "learner/support.h"
#include "learner/tensors/torch.h"
#include "support/catch.h"

namespace qrl {

TEST_CASE("tensor memory is reused, bounded by the peak, and given back on request") {
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

TEST_CASE("a learner gives back what it keeps for the next micro-batch when the KV cache wants the memory") {
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

}  // namespace qrl
