#include "ops/training.h"

#include <cstring>

#include "ops/reference.h"

using namespace qrl;

TEST_CASE("logit gradients: the same bits in place of the logits as in a separate buffer") {
  const test::WithPath path(GENERATE(from_range(test::kernel_paths())));
  const bool is_bf16 = GENERATE(true, false);
  constexpr std::int64_t kRows = 3, kVocabulary = 45;
  CAPTURE(path.name(), is_bf16);
  std::vector<float> logits = test::normal_values(kRows * kVocabulary, 3.0F, 1);
  const std::vector<std::int32_t> targets{0, 40, 44};
  const std::vector<float> d_log_probs{0.5F, -1.0F, 2.0F}, d_entropy{0.0F, 0.25F, -0.5F};
  const ops::TokenDistribution what{kRows, kVocabulary, 0.7F, targets.data()};
  std::vector<float> log_probs(kRows), entropy(kRows), lse(kRows);
  ops::token_log_probs(what, logits.data(), log_probs.data(), entropy.data(), lse.data());

  ops::TokenGradients gradients{entropy.data(), lse.data(), d_log_probs.data(), d_entropy.data(), {}, kVocabulary};
  std::vector<float> beside(logits.size());
  gradients.d_logits = {beside.data(), is_bf16};
  ops::token_log_probs_backward(what, logits.data(), gradients);
  gradients.d_logits = {logits.data(), is_bf16};
  gradients.d_logits_stride = is_bf16 ? 2 * kVocabulary : kVocabulary;
  ops::token_log_probs_backward(what, logits.data(), gradients);

  const std::size_t bytes = kVocabulary * (is_bf16 ? 2 : 4);
  const auto* apart = reinterpret_cast<const char*>(beside.data());
  for (std::size_t row = 0; row < kRows; ++row)
    CHECK(std::memcmp(apart + row * bytes, logits.data() + row * kVocabulary, bytes) == 0);
}
