// Tests operations of an update, counted by hand for the quickstart's shape.
#include "train/plan/work_estimate.h"

#include "rollout/rollout.h"
#include "support/catch.h"

using namespace qrl;

namespace {

// 3 layers of 96: q 96 × 96, k and v 32 × 96, o 96 × 96, gate and up 256 × 96, down 96 × 256; a vocabulary of 259.
constexpr double kLayers = 3 * (96 * 96 + 2 * 32 * 96 + 96 * 96 + 3 * 96 * 256), kHead = 259 * 96;
constexpr double kQueries = 3 * 3 * 32;  // of one row, all layers
// Two groups of 2 samples: 8 prompt tokens, 7 of them computed once per group, and 4 new tokens.
constexpr double kRows = 2 * (7 + 2 * 5), kCounted = 2 * 2 * 4;
constexpr double kVisible = 2 * (7 * 8 / 2 + 2 * (5 * 6 / 2 + 5 * 7));

}  // namespace

TEST_CASE("update operations: a group's prompt once, logits of counted tokens, causal attention") {
  const model::ModelConfig config = model::read_config(QRL_SOURCE_DIR "/recipes/models/quickstart/config.json");
  // The mixture's route acts with 2 experts of 128, as wide as the dense 256, and a router of 8.
  const model::ModelConfig mixture = model::read_config(QRL_SOURCE_DIR "/recipes/models/quickstart-moe/config.json");
  CHECK(train::matmul_params(mixture).layers == kLayers + 3 * 8 * 96);
  CHECK(train::matmul_params(mixture).lm_head == kHead);
  const std::vector<std::vector<types::TokenId>> prompts = {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 8, 7, 6, 5, 4, 3, 2}};
  const std::vector<types::TokenId> response = {1, 2, 3, 4};
  std::vector<rollout::PackItem> items;
  for (const auto& prompt : prompts) {
    for (int sample = 0; sample < 2; ++sample) items.push_back({prompt, response, {}, 1});
  }
  const auto batches = rollout::pack(items, 1000);
  const std::int64_t counted = rollout::count(batches).response_tokens;
  CHECK(counted == kCounted);
  CHECK(train::learner_operations(config, batches, counted) ==
        6 * kLayers * kRows + 6 * kHead * kCounted + 12 * kVisible * kQueries);
}
