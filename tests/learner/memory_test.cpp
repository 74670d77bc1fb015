// Tensor memory is kept and reused, within the most that was ever in use.
#include "learner/memory.h"

#include "learner/torch.h"
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
    // Another size takes the place of the kept block: both together would exceed the peak.
    const torch::Tensor other = torch::zeros({kFloats / 2});
    CHECK(learner::kept_tensor_memory_bytes() == 0);
  }
  learner::release_tensor_memory();
  CHECK(learner::kept_tensor_memory_bytes() == 0);
}

}  // namespace qrl
