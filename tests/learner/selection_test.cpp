// Tests decisions over a whole mini-batch, against numpy (scripts/golden/selection.py).
#include "learner/objective/selection.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "choices.h"
#include "dist/collectives.h"
#include "learner/choices.h"
#include "learner/objective/mini_batch.h"
#include "learner/objective/policy_loss.h"
#include "learner/tensors/torch.h"
#include "ranks.h"
#include "support/catch.h"

namespace qrl {

namespace {

/// Returns sequences [first, last) of the golden file as a micro-batch, with a prompt token before each response.
types::MicroBatch micro_batch(const nlohmann::json& golden, std::size_t first, std::size_t last) {
  types::MicroBatch batch;
  batch.sequence_starts = {0};
  const auto add = [&](std::int64_t token) {
    const auto read = [&](const char* name) { return token < 0 ? 0.0F : golden[name][token].get<float>(); };
    batch.tokens.push_back(1);
    batch.targets.push_back(1);
    batch.loss_mask.push_back(token < 0 ? 0 : 1);
    batch.old_logprobs.push_back(read("old"));
    batch.sampler_logprobs.push_back(read("sampler"));
    batch.old_entropy.push_back(read("entropy"));
    batch.advantages.push_back(read("advantages"));
  };
  std::int64_t token = 0;
  for (std::size_t s = 0; s < last; ++s) {
    const auto length = golden["lengths"][s].get<std::int64_t>();
    if (s >= first) {
      add(-1);
      for (std::int64_t t = token; t < token + length; ++t) add(t);
      batch.sequence_starts.push_back(static_cast<std::int32_t>(batch.tokens.size()));
      batch.sequence_idx.push_back(static_cast<std::int64_t>(s));
    }
    token += length;
  }
  return batch;
}

/// Returns all tokens of the file with π_θ = π_old, so that the clip excludes no token.
learner::ObjectiveTokens selected_tokens(const nlohmann::json& golden) {
  const auto read = [&](const char* name) {
    return torch::tensor(golden[name].get<std::vector<double>>(), torch::kFloat64);
  };
  std::vector<std::int64_t> sequence;
  for (std::size_t s = 0; s < golden["lengths"].size(); ++s)
    sequence.insert(sequence.end(), golden["lengths"][s].get<std::size_t>(), static_cast<std::int64_t>(s));
  learner::ObjectiveTokens tokens{read("old"),
                                  {},
                                  read("old"),
                                  read("sampler"),
                                  {},
                                  read("advantages"),
                                  learner::Sequences(torch::tensor(sequence))};
  tokens.old_entropy = read("entropy");
  const types::MicroBatch whole = micro_batch(golden, 0, golden["lengths"].size());
  tokens.positions = torch::tensor(learner::positions_of(whole, learner::counted_rows(whole)));
  return tokens;
}

}  // namespace

TEST_CASE("top-entropy tokens, Clip-Cov tokens, mean weight: equal numpy's, from two parts") {
  std::ifstream file(test::shipped_data() / "golden" / "selection.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto cut = golden["in_first"].get<std::size_t>();
  const std::vector<types::MicroBatch> batches = {micro_batch(golden, 0, cut),
                                                  micro_batch(golden, cut, golden["lengths"].size())};
  const learner::ObjectiveTokens tokens = selected_tokens(golden);
  const torch::Tensor clipped = torch::zeros({tokens.sequences.num_tokens()}, torch::kBool);
  const auto world = dist::make_solo();
  for (const auto& item : golden["cases"]) {
    const std::string algorithm = item["algorithm"];
    CAPTURE(algorithm);
    learner::LossOptions options = test::policy_options(algorithm, "method: none");
    CHECK(learner::needs_old_entropy(options));
    (void)learner::prepare_mini_batch(learner::pointers_to(batches), options, *world);
    const learner::Selected selected = learner::select_tokens(tokens, clipped, {{}, options.selection});
    REQUIRE(selected.tokens.defined());
    const auto taught = item["taught"].get<std::vector<std::int64_t>>();
    CHECK(torch::equal(selected.tokens.to(torch::kInt64), torch::tensor(taught)));
    learner::LossOptions packed = test::policy_options(algorithm, "method: none");  // in another order of parts
    const types::MicroBatch* others[] = {&batches[1], &batches[0]};
    (void)learner::prepare_mini_batch(others, packed, *world);
    CHECK(torch::equal(learner::select_tokens(tokens, clipped, {{}, packed.selection}).tokens, selected.tokens));
    // Clip-Cov ignores the tokens that the clip already excludes.
    const learner::Selected all_clipped =
        learner::select_tokens(tokens, clipped.logical_not(), {{}, options.selection});
    if (all_clipped.covariant.defined()) CHECK_FALSE(all_clipped.covariant.any().item<bool>());
  }
  // Two ranks take the tied tokens that the last case cuts between: one of one, one of three.
  std::int64_t last_positions[2] = {};
  test::Ranks(2).run([&](dist::Collectives& rank) {
    learner::LossOptions options = test::policy_options(golden["cases"].back()["algorithm"], "method: none");
    const auto own = static_cast<std::size_t>(rank.rank());
    const types::MicroBatch* mine[] = {&batches[own]};
    (void)learner::prepare_mini_batch(mine, options, rank);
    last_positions[own] = options.selection.cov_last_position;
  });
  const auto position = [](std::int64_t sequence, std::int64_t token) { return (sequence << 32) + token; };
  CHECK(last_positions[0] == position(1, 4));
  CHECK(last_positions[1] == position(3, 5));
  learner::LossOptions options = test::policy_options("name: grpo", "method: tis, threshold: 2, batch_normalize: true");
  CHECK(learner::needs_whole_mini_batch(options));
  const learner::Metrics metrics = learner::prepare_mini_batch(learner::pointers_to(batches), options, *world);
  const auto scale = golden["weight_scale"]["scale"].get<double>();
  CHECK(test::close(options.weight_scale, scale, 0, 1e-9));
  CHECK(metrics.at("mismatch/weight_scale") == options.weight_scale);
  // Weights of whole responses have their mean over responses, as in veRL: over tokens long ones would count more.
  learner::LossOptions of_responses = test::policy_options("name: tbpo", "method: tbpo, batch_normalize: true");
  (void)learner::prepare_mini_batch(learner::pointers_to(batches), of_responses, *world);
  CHECK(test::close(of_responses.weight_scale, golden["weight_scale"]["scale_of_responses"].get<double>(), 0, 1e-9));
}

}  // namespace qrl
