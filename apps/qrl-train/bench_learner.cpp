// bench learner and bench step: an update, and a whole step, beside what the machine can do.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "bench_corrections.h"
#include "bench_work.h"
#include "command.h"
#include "learner/cuda_library.h"
#include "rollout/rollout.h"
#include "train/gap_probe.h"
#include "train/quantizer.h"
#include "train/session.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

/// Packed micro-batches of prompts·n sequences with random tokens and advantages.
struct LearnerWork {
  LearnerWork(const Bench& bench, const std::vector<types::Completion>& completions) {
    const BenchArguments& args = bench.args;
    for (std::int64_t p = 0; p < args.prompts; ++p)
      prompts.push_back(bench.random_tokens(static_cast<std::uint64_t>(p), args.prompt_tokens));
    std::vector<rollout::PackItem> items;
    for (std::int64_t i = 0; i < args.prompts * args.n; ++i) {
      const auto& completion = completions[static_cast<std::size_t>(i)];
      items.push_back({prompts[static_cast<std::size_t>(i / args.n)], completion.tokens, completion.sampler_logprobs,
                       i % 2 == 0 ? 1.0F : -1.0F});
    }
    batches = rollout::pack(items, bench.loaded.recipe.actor.max_tokens_per_micro_batch);
    counts = rollout::count(batches);
  }
  std::vector<std::vector<types::TokenId>> prompts;
  std::vector<types::MicroBatch> batches;
  types::GlobalCounts counts;
};

/// With `sampled`, the log-probs in `work` are the sampler's at the learner's present weights: a bitwise learner then
/// checks that every one of them is its own, bit for bit, and throws where one is not.
learner::UpdateReport learn(learner::Learner& learner, const LearnerWork& work, const config::Recipe& recipe,
                            bool sampled) {
  learner::LossOptions loss = learner::policy_options(recipe);
  loss.at_sampling_weights = sampled;
  for (const types::MicroBatch& batch : work.batches) {
    learner.accumulate(batch, work.counts, loss, train::draw_params(recipe.rollout), &batch == &work.batches.back());
  }
  return learner.update();
}

void add_learner_figures(Json& result, const Bench& bench, const LearnerWork& work, double learner_s) {
  const auto sequences = static_cast<double>(bench.args.prompts * bench.args.n);
  const double tokens = sequences * static_cast<double>(bench.args.prompt_tokens + bench.args.new_tokens);
  const config::ComputeDType dtype = bench.loaded.recipe.model.dtype;
  double ceiling =
      dtype == config::ComputeDType::bf16 ? bench.ceilings.bf16_flops_per_s : bench.ceilings.f32_flops_per_s;
  if (config::learns_on_gpu(bench.loaded.recipe)) {
    ceiling = learner::measure_gpu_matmul_flops_per_s(dtype);
    result["ceiling_gpu_matmul_tflops"] = ceiling * 1e-12;
  }
  result["learner_tokens_per_s"] = tokens / learner_s;
  result["learner_response_tokens_per_s"] = sequences * static_cast<double>(bench.args.new_tokens) / learner_s;
  const double operations = train::learner_operations(bench.config, work.batches, work.counts.response_tokens);
  const double unshared = train::unshared_learner_operations(bench.config, bench.args.prompts * bench.args.n,
                                                             bench.args.prompt_tokens + bench.args.new_tokens);
  result["learner_share_of_limit"] = operations / learner_s / ceiling;
  result["learner_share_as_if_unshared"] = unshared / learner_s / ceiling;
}

}  // namespace

void bench_learner(const BenchArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "bench");
  const Bench bench("learner", arguments, world);
  std::vector<types::Completion> completions;
  for (std::int64_t i = 0; i < arguments.prompts * arguments.n; ++i) {
    completions.push_back(
        {bench.random_tokens(static_cast<std::uint64_t>(1000 + i), arguments.new_tokens), {}, {}, {}});
    completions.back().sampler_logprobs.assign(static_cast<std::size_t>(arguments.new_tokens), -8.0F);
  }
  const LearnerWork work(bench, completions);
  learner::Learner learner(bench.config, bench.hf.weights, train::learner_options(bench.loaded.recipe), world);
  const config::Recipe& recipe = bench.loaded.recipe;
  // What a quantized forward pass reads; on a GPU low_bit's products are a decoder's.
  std::optional<train::Sampler> sampler;
  std::optional<model::Snapshot> snapshot;
  const config::LearnerForward forward = recipe.quant.learner_forward;
  if (forward == config::LearnerForward::low_bit && config::learns_on_gpu(recipe))
    sampler.emplace(bench.config, recipe, world, arguments.prompt_tokens);
  else snapshot.emplace(bench.config, train::snapshot_formats(recipe.quant));
  double best_s = 0, best_forward_s = 0;
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    base::log_info("bench learner: round " + std::to_string(round + 1) + " of " + std::to_string(arguments.rounds));
    if (sampler) {
      learner.publish(sampler->snapshot, round, sampler->decoder.device_weights());
      if (round == 0) sampler->decoder.load(sampler->snapshot);
    } else if (forward != config::LearnerForward::bf16) {
      learner.publish(*snapshot, round);
    }
    const double start_s = base::now_s();
    for (const types::MicroBatch& batch : work.batches)
      learner.score(batch, train::draw_params(bench.loaded.recipe.rollout));
    const double scored_s = base::now_s();
    learn(learner, work, bench.loaded.recipe, false);
    const double took_s = base::now_s() - scored_s, forward_s = scored_s - start_s;
    best_s = round == 0 ? took_s : std::min(best_s, took_s);
    best_forward_s = round == 0 ? forward_s : std::min(best_forward_s, forward_s);
  }
  Json result = bench.facts();
  result["sequences"] = arguments.prompts * arguments.n;
  result["learner_s"] = best_s;
  result["forward_s"] = best_forward_s;  // and log-probs, without what a backward pass needs
  add_learner_figures(result, bench, work, best_s);
  finish(result, arguments);
}

void bench_step(const BenchArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "bench");
  const Bench bench("step", arguments, world);
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
  std::vector<types::SampleRequest> requests;
  for (const types::Prompt& prompt : prompts.prompts)
    requests.push_back({prompt.id, prompt.tokens, 0, static_cast<std::int32_t>(arguments.n)});
  const auto load = [&] {
    train::load_published(sampler, train::calibration_prompts(prompts, 0, 0), bench.loaded.recipe.quant, quantizer);
  };
  load();

  Json best;
  std::optional<LearnerWork> work;  // of the last round
  for (std::int64_t round = 0; round < arguments.rounds; ++round) {
    base::log_info("bench step: round " + std::to_string(round + 1) + " of " + std::to_string(arguments.rounds));
    sampler.decoder.reset_stats();
    const double start_s = base::now_s();
    const auto completions =
        sampler.decoder.complete(requests, bench.sampling(), {0, static_cast<std::uint32_t>(round)});
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
    best["gen_tokens_per_s"] =
        static_cast<double>(arguments.prompts * arguments.n * arguments.new_tokens) / (drawn_s - start_s);
    add_learner_figures(best, bench, *work, learnt_s - drawn_s);
    best["k3_kl"] = report.metrics.at("mismatch/k3_kl");
    if (bench.loaded.recipe.rollout.bitwise) {  // learn() has thrown otherwise
      best["bitwise_tokens_compared"] = work->counts.response_tokens;
      best["bitwise_tokens_differing"] = 0;
    }
  }
  add_correction_costs(best, work->batches, work->counts, best["step_s"].get<double>(), world);
  finish(best, arguments);
}

}  // namespace qrl::app
