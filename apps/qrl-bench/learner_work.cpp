#include "learner_work.h"

#include <nlohmann/json.hpp>

#include "learner/objective/mini_batch.h"
#include "learner/tensors/cuda_library.h"
#include "rollout/rollout.h"
#include "train/plan/options.h"
#include "train/plan/work_estimate.h"

namespace qrl::app {

LearnerWork::LearnerWork(const ModelBench& bench, const std::vector<types::Completion>& completions) {
  const BenchArguments& args = bench.args;
  for (std::int64_t p = 0; p < args.prompts; ++p)
    prompts.push_back(bench.random_tokens(static_cast<std::uint64_t>(p), args.prompt_tokens));
  std::vector<rollout::PackItem> items;
  for (std::int64_t i = 0; i < args.prompts * args.n; ++i) {
    const auto& completion = completions[static_cast<std::size_t>(i)];
    const float advantage = i % 2 == 0 ? 1.0F : -1.0F;
    items.push_back(rollout::sampled_item(prompts[static_cast<std::size_t>(i / args.n)], completion, advantage));
  }
  batches = rollout::pack(items, bench.loaded.recipe.actor.max_tokens_per_micro_batch);
  counts = rollout::count(batches);
}

learner::UpdateReport learn(learner::Learner& learner, const LearnerWork& work, const train::Recipe& recipe,
                            bool sampled) {
  learner::LossOptions loss = train::loss_options(recipe);
  loss.at_sampling_weights = sampled;
  for (const types::MicroBatch& batch : work.batches) {
    learner.accumulate(batch, work.counts, loss, train::sample_params(recipe.rollout), &batch == &work.batches.back());
  }
  return learner.update();
}

void add_learner_figures(nlohmann::ordered_json& result, const ModelBench& bench, const LearnerWork& work,
                         double learner_s) {
  const auto sequences = static_cast<double>(bench.args.prompts * bench.args.n);
  const auto new_tokens = static_cast<double>(work.counts.response_tokens);
  const double tokens = sequences * static_cast<double>(bench.args.prompt_tokens) + new_tokens;
  const learner::ComputeDType dtype = bench.loaded.recipe.model.dtype;
  double ceiling =
      dtype == learner::ComputeDType::bf16 ? bench.ceilings.bf16_flops_per_s : bench.ceilings.f32_flops_per_s;
  if (train::learns_on_gpu(bench.loaded.recipe)) {
    ceiling = learner::measure_gpu_matmul_flops_per_s(dtype);
    result["ceiling_gpu_matmul_tflops"] = ceiling * 1e-12;
  }
  result["learner_tokens_per_s"] = tokens / learner_s;
  result["learner_response_tokens_per_s"] = new_tokens / learner_s;
  const double operations = train::learner_operations(bench.config, work.batches, work.counts.response_tokens);
  result["learner_share_of_limit"] = operations / learner_s / ceiling;
  if (bench.args.shortest) return;  // the next figure is for answers of equal lengths
  const double unshared = unshared_learner_operations(bench.config, bench.args.prompts * bench.args.n,
                                                      bench.args.prompt_tokens + bench.args.new_tokens);
  result["learner_share_as_if_unshared"] = unshared / learner_s / ceiling;
}

}  // namespace qrl::app
