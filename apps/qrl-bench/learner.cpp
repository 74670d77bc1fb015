#include "learner/learner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "benchmarks.h"
#include "learner_work.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"
#include "train/policy/sampler.h"

namespace qrl::app {

namespace {

/// Gives each token the largest set of kept tokens that rollout.top_k allows.
void add_kept(const ModelBench& bench, types::Completion& completion) {
  const std::int64_t top_k = bench.loaded.recipe.rollout.top_k, vocab_size = bench.config.vocab_size;
  const std::int64_t most = std::min(top_k == -1 ? train::kMaxKeptTokens : top_k, vocab_size);
  std::vector<types::TokenId> kept(static_cast<std::size_t>(most));
  for (const types::TokenId token : completion.tokens) {
    std::iota(kept.begin(), kept.end(), static_cast<types::TokenId>(std::min<std::int64_t>(token, vocab_size - most)));
    completion.kept.add(kept);
  }
}

void bench_learner(const BenchArguments& arguments, dist::Collectives& world) {
  const ModelBench bench("learner", arguments, world);
  std::vector<types::Completion> completions;
  for (std::int64_t i = 0; i < arguments.prompts * arguments.n; ++i) {
    completions.push_back(
        {bench.random_tokens(static_cast<std::uint64_t>(1000 + i), arguments.new_tokens), {}, {}, {}});
    completions.back().sampler_logprobs.assign(static_cast<std::size_t>(arguments.new_tokens), -8.0F);
    if (train::sample_params(bench.loaded.recipe.rollout).cuts()) add_kept(bench, completions.back());
  }
  const LearnerWork work(bench, completions);
  learner::Learner learner(bench.config, bench.hf.weights, train::learner_options(bench.loaded.recipe), world);
  const train::Recipe& recipe = bench.loaded.recipe;
  // One of the two holds the weights for a quantized forward pass. On a GPU, low_bit needs `sampler`, because the
  // learner uses its device weights.
  std::optional<train::Sampler> sampler;
  std::optional<model::Snapshot> snapshot;
  const learner::LearnerForward forward = recipe.quant.learner.forward;
  if (forward == learner::LearnerForward::low_bit && train::learns_on_gpu(recipe))
    sampler.emplace(bench.config, recipe, world, arguments.prompt_tokens);
  else snapshot.emplace(bench.config, train::sampler_formats(recipe));
  double best_s = 0, best_forward_s = 0;
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    base::log_info("bench learner: round " + std::to_string(round + 1) + " of " + std::to_string(arguments.rounds));
    if (sampler) {
      learner.publish(sampler->snapshot, round, sampler->decoder.device_weights());
      if (round == 0) sampler->decoder.load(sampler->snapshot);
    } else if (forward != learner::LearnerForward::bf16) {
      learner.publish(*snapshot, round);
    }
    const double start_s = base::now_s();
    for (const types::MicroBatch& batch : work.batches)
      learner.score(batch, train::sample_params(bench.loaded.recipe.rollout));
    const double scored_s = base::now_s();
    learn(learner, work, bench.loaded.recipe, false);
    const double took_s = base::now_s() - scored_s, forward_s = scored_s - start_s;
    best_s = round == 0 ? took_s : std::min(best_s, took_s);
    best_forward_s = round == 0 ? forward_s : std::min(best_forward_s, forward_s);
  }
  nlohmann::ordered_json result = bench.facts();
  result["sequences"] = arguments.prompts * arguments.n;
  result["learner_s"] = best_s;
  result["forward_s"] = best_forward_s;  // includes log-probs; saves no activations
  add_learner_figures(result, bench, work, best_s);
  finish(result, arguments);
}

}  // namespace

void add_bench_learner(CLI::App& program, Action& action) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      add_model_bench(program, "learner", "forward, backward and update of prompts x n sequences", *arguments);
  add_sample_options(*command, *arguments);
  set_action(*command, action, arguments, bench_learner);
}

}  // namespace qrl::app
