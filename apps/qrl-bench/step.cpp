#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "benchmarks.h"
#include "learner/bench/policy_loss_speed.h"
#include "learner/learner.h"
#include "learner/objective/mini_batch.h"
#include "learner/tensors/cuda_library.h"
#include "learner_work.h"
#include "train/metrics/step_metrics.h"
#include "train/plan/options.h"
#include "train/policy/quantizer.h"
#include "train/policy/sampler.h"
#include "train/prompts/prompts.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/step/gap_probe.h"

namespace qrl::app {

namespace {

/// Adds loss_s, the seconds of a GRPO loss without correction. Adds each correction's extra time as a share of
/// `step_s`. Times are the best of several rounds.
void add_correction_costs(nlohmann::ordered_json& result, std::span<const types::MicroBatch> batches,
                          const types::GlobalCounts& counts, double step_s, dist::Collectives& world) {
  struct Way {
    std::string name;
    learner::LossOptions loss;
    double best_s = std::numeric_limits<double>::infinity();
  };
  std::vector<Way> ways;
  const auto add = [&](const std::string& name, const std::string& settings) {
    const train::Recipe recipe =
        train::parse_recipe(train::keys(), "rollout_correction: {" + settings + "}", "bench", {}, {}, false).recipe;
    ways.push_back({name, train::loss_options(recipe)});
  };
  for (const config::Option* one : train::keys().catalog().corrections.all()) {
    const std::string word(one->word);
    add(word, "method: " + word);
    if (word == "tis") add("acr", "method: tis, acr: true");
  }

  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    for (Way& way : ways) {
      way.best_s = std::min(way.best_s, learner::measure_policy_loss(batches, counts, way.loss, world));
    }
  }
  const double none_s = ways.front().best_s;
  result["loss_s"] = none_s;
  for (std::size_t i = 1; i < ways.size(); ++i)
    // Noise may make the difference negative.
    result["correction_" + ways[i].name + "_share"] = std::max(0.0, ways[i].best_s - none_s) / step_s;
}

/// Samples all answers of a round. With --shortest each has a length of its own, drawn for the round.
std::vector<types::Completion> draw(const ModelBench& bench, decoder::Decoder& decoder, const train::PromptSet& prompts,
                                    std::uint32_t round) {
  const BenchArguments& args = bench.args;
  const types::SampleKey key{0, round};
  const auto n = static_cast<std::int32_t>(args.n);
  std::vector<types::SampleRequest> requests;
  for (const types::Prompt& prompt : prompts.prompts) requests.push_back({prompt.id, prompt.tokens, 0, n});
  if (!args.shortest) return decoder.complete(requests, bench.sampling(), key);
  base::RandomStream random(round, base::RandomPurpose::generator, 1);
  std::map<decoder::RequestId, types::Completion> drawn;
  for (const types::SampleRequest& request : requests) {
    for (std::int32_t sample = 0; sample < n; ++sample) {
      types::SamplingParams params = bench.sampling();
      const auto span = static_cast<std::uint64_t>(args.new_tokens - *args.shortest + 1);
      params.max_new_tokens = static_cast<std::int32_t>(*args.shortest) + static_cast<std::int32_t>(random.below(span));
      drawn[decoder.submit(
          {request.prompt_id, {request.prompt_tokens.begin(), request.prompt_tokens.end()}, sample, 1, params, key})] =
          {};
    }
  }
  while (decoder.tick()) {
  }
  for (decoder::FinishedRequest& finished : decoder.take_finished())
    drawn.at(finished.id) = std::move(finished.completions.front());
  std::vector<types::Completion> completions;
  for (auto& [id, completion] : drawn) completions.push_back(std::move(completion));
  return completions;
}

/// Returns what a step left in memory, and how many of its decode ticks were CUDA graphs.
nlohmann::ordered_json facts_of_step(const ModelBench& bench, const decoder::DecoderStats& stats, double step_s) {
  nlohmann::ordered_json facts = {{"step_s", step_s}, {"host_gib", train::peak_memory_gib()}};
  if (bench.on_gpu()) {
    facts["graphs"] = stats.held_graphs;
    facts["graph_mib"] = static_cast<double>(stats.graph_bytes) / (1 << 20);
    facts["graph_share"] = stats.decode_ticks == 0 ? 0.0
                                                   : static_cast<double>(stats.decode_graph_ticks) /
                                                         static_cast<double>(stats.decode_ticks);
  }
  if (train::learns_on_gpu(bench.loaded.recipe))
    facts["gpu_gib"] = static_cast<double>(learner::gpu_bytes_in_use(0)) / (1 << 30);
  return facts;
}

void bench_step(const BenchArguments& arguments, dist::Collectives& world) {
  const ModelBench bench("step", arguments, world);
  train::Sampler sampler(bench.config, bench.loaded.recipe, world, arguments.prompt_tokens);
  learner::Learner learner(bench.config, bench.hf.weights, train::learner_options(bench.loaded.recipe), world);
  train::QuantizerState quantizer;
  const auto publish = [&](std::int64_t version) {
    learner.publish(sampler.snapshot, version, sampler.decoder.device_weights());
  };
  publish(0);
  train::PromptSet prompts;
  for (std::uint64_t p = 0; p < static_cast<std::uint64_t>(arguments.prompts); ++p) {
    prompts.prompts.push_back({.id = p,
                               .text = {},
                               .tokens = bench.random_tokens(p, arguments.prompt_tokens),
                               .ground_truth = {},
                               .data_source = {}});
  }
  const auto load = [&] {
    train::load_published(sampler, train::calibration_prompts(prompts, 0, 0), bench.loaded.recipe.quant, quantizer);
  };
  load();

  nlohmann::ordered_json best, steps = nlohmann::ordered_json::array();
  std::optional<LearnerWork> work;
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    base::log_info("bench step: round " + std::to_string(round + 1) + " of " + std::to_string(arguments.rounds));
    sampler.decoder.reset_stats();
    const double start_s = base::now_s();
    const auto completions = draw(bench, sampler.decoder, prompts, static_cast<std::uint32_t>(round));
    const decoder::DecoderStats drawn_stats = sampler.decoder.stats();
    if (bench.loaded.recipe.rollout.free_cache_engine) sampler.decoder.release_kv();
    const double drawn_s = base::now_s();
    work.emplace(bench, completions);
    const learner::UpdateReport report = learn(learner, *work, bench.loaded.recipe, true);
    if (bench.loaded.recipe.rollout.free_cache_engine) learner.release_memory();
    const double learnt_s = base::now_s();
    publish(round + 1);
    load();
    const double published_s = base::now_s();
    train::probe_gap(sampler, learner, train::probe_requests(prompts, 0), bench.loaded.recipe, bench.sampling());
    const double end_s = base::now_s();
    steps.push_back(facts_of_step(bench, drawn_stats, end_s - start_s));
    if (!best.is_null() && best["step_s"].get<double>() <= end_s - start_s) continue;
    best = bench.facts();
    best["sequences"] = arguments.prompts * arguments.n;
    best["step_s"] = end_s - start_s;
    best["gen_s"] = drawn_s - start_s;
    best["learner_s"] = learnt_s - drawn_s;
    best["publish_s"] = published_s - learnt_s;
    best["publish_share"] = (published_s - learnt_s) / (end_s - start_s);
    best["gap_probe_s"] = end_s - published_s;
    best["gap_probe_share"] = (end_s - published_s) / (end_s - start_s);
    best["gen_tokens_per_s"] = static_cast<double>(work->counts.response_tokens) / (drawn_s - start_s);
    add_learner_figures(best, bench, *work, learnt_s - drawn_s);
    best["k3_kl"] = report.metrics.at("mismatch/k3_kl");
    if (bench.loaded.recipe.rollout.bitwise) {  // learn() throws if a token differs
      best["bitwise_tokens_compared"] = work->counts.response_tokens;
      best["bitwise_tokens_differing"] = 0;
    }
  }
  add_correction_costs(best, work->batches, work->counts, best["step_s"].get<double>(), world);
  best["steps"] = steps;
  finish(best, arguments);
}

}  // namespace

void add_bench_step(CLI::App& program, Action& action) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command =
      add_model_bench(program, "step", "a whole GRPO step: sample, learn, publish, probe the gap", *arguments);
  add_sample_options(*command, *arguments);
  add_integer(*command, "--shortest", arguments->shortest, 1, kMaxBenchTokens,
              "draw each answer's length, from this to --new");
  set_action(*command, action, arguments, bench_step);
}

}  // namespace qrl::app
