#include "train/run_plan.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/hub.h"
#include "base/limits.h"
#include "base/text.h"
#include "data/dataset_folder.h"
#include "learner/tensors/cuda_library.h"
#include "model/int8_profile.h"
#include "rollout/rollout.h"
#include "state/gguf.h"
#include "tasks/verifier.h"
#include "train/files/wandb_logger.h"
#include "train/metrics/held_out_names.h"
#include "train/plan/formats.h"
#include "train/plan/gpu_plan.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"
#include "train/plan/settings.h"
#include "train/policy/quantizer.h"
#include "train/prompts/conversations.h"
#include "train/prompts/text_options.h"

namespace qrl::train {

namespace fs = std::filesystem;

bool lacks_model(const Recipe& recipe) {
  std::error_code error;
  const fs::path model = base::local_model(recipe.model.path);
  return !model.empty() && !fs::exists(state::is_gguf(model) ? model : model / "config.json", error);
}

std::vector<std::string> absent_files(const Recipe& recipe, bool reads_adapters) {
  std::vector<std::string> absent;
  const auto need = [&](const char* key, const fs::path& file) {
    if (!fs::exists(file)) absent.push_back(file.string() + " (" + key + ")");
  };
  if (lacks_model(recipe)) {
    absent.push_back("model " + recipe.model.path + " (model.path)");
  } else if (!recipe.model.path.empty() && !state::is_gguf(recipe.model.path)) {
    const fs::path dir = base::model_folder(recipe.model.path);
    if (!fs::exists(dir / "model.safetensors.index.json")) need("model.path", dir / "model.safetensors");
    need("model.path", dir / "tokenizer.json");
  }
  if (const fs::path teacher = recipe.algorithm.teacher.path; !teacher.empty()) {
    if (!fs::exists(teacher / "model.safetensors.index.json"))
      need("algorithm.teacher.path", teacher / "model.safetensors");
    need("algorithm.teacher.path", teacher / "tokenizer.json");
  }
  if (reads_adapters) need("lora.path", fs::path(recipe.lora.path) / "adapter_config.json");
  if (!recipe.quant.profile.empty() && recipe.quant.profile != "auto")
    need("quant.rollout.profile", recipe.quant.profile);
  const auto need_all = [&](const char* key, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      for (const fs::path& file : data::find_data_files(name).files) need(key, file);
    }
  };
  need_all("data.train_files", recipe.data.train_files);
  need_all("data.val_files", recipe.data.val_files);
  need_all("sft.train_files", recipe.sft.train_files);
  need_all("sft.val_files", recipe.sft.val_files);
  if (!recipe.sft.from.empty()) need("sft.from", fs::path(recipe.sft.from) / "state.json");
  if (recipe.trainer.resume_from.mode == ResumeMode::path)
    need("--resume", fs::path(recipe.trainer.resume_from.path) / "state.json");
  return absent;
}

namespace {

void check_model(const LoadedRecipe& loaded, const model::ModelConfig& model) {
  require_positions(loaded, model);
  model::check_formats(model, snapshot_formats(loaded.recipe.quant));
  model::check_lora(model, loaded.recipe.lora);
}

/// Replaces `auto` keys for a learner on a GPU (decide_auto). A --dry-run without a GPU plans for 80 GiB.
void plan_gpu(RunOutline& outline, const PlanRequest& request, dist::Collectives& world) {
  LoadedRecipe& loaded = outline.loaded;
  if (!learns_on_gpu(loaded.recipe)) return;
  const PlannedGpu gpu = request.is_run ? PlannedGpu{learner::smallest_gpu_share(world.local_rank(), world), true}
                                        : gpu_to_plan_for(loaded.recipe);
  for (const std::string_view key : kAutoKeys) {
    if (printed_value(loaded.recipe, key) == "auto")
      outline.chosen_keys += (outline.chosen_keys.empty() ? "" : ", ") + std::string(key);
  }
  const AutoSettings recorded = recorded_settings(loaded.recipe, world);
  const bool is_resumed = recorded != AutoSettings{};
  outline.gpu_plan = decide_auto(recorded, outline.model, request.num_ranks, gpu.bytes, loaded);
  if (outline.gpu_plan.empty())
    outline.gpu_plan = describe_gpu_plan(loaded.recipe, outline.model, request.num_ranks, gpu.bytes);
  if (!gpu.is_here) outline.gpu_plan += "; this is an example, a run chooses by its own GPU";
  if (gpu.is_here) require_gpu_memory(loaded.recipe, outline.model, request.num_ranks, gpu.bytes, is_resumed);
}

void plan_memory(RunOutline& outline, const PlanRequest& request, std::optional<std::int64_t> held_out = {}) try {
  outline.memory = estimate_memory(outline.recipe(), outline.model, request.num_ranks, held_out);
  outline.memory_doubt =
      check_memory(outline.memory, outline.recipe().rollout.free_cache_engine, request.num_here, base::memory_limit());
} catch (const base::Error& error) {
  if (request.is_run) throw;
  outline.memory_fault = error.what();
}

std::int64_t largest_set(const std::vector<PromptSet>& held_out) {
  std::int64_t largest = 0;
  for (const PromptSet& set : held_out) largest = std::max(largest, static_cast<std::int64_t>(set.prompts.size()));
  return largest;
}

void require_known_score(const Recipe& recipe, const std::vector<PromptSet>& held_out,
                         const tasks::Verifier& verifier) {
  const std::string& wanted = recipe.trainer.keep_best;
  if (wanted.empty()) return;
  std::string known;
  bool found = false;
  for (const PromptSet& set : held_out) {
    const std::vector<std::string> names = held_out_names(set.data_source, recipe.eval.n, verifier);
    found = found || std::ranges::find(names, wanted) != names.end();
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  }
  QRL_REQUIRE(found, "trainer.keep_best", known.empty() ? "held-out data" : "one of " + known, base::quoted(wanted),
              known.empty() ? "set data.val_files or data.val_generator" : "");
}

}  // namespace

RunOutline outline_run(const LoadedRecipe& given, const PlanRequest& request, dist::Collectives& world) {
  RunOutline outline{.loaded = given, .model = model_config(given.recipe)};
  Recipe& recipe = outline.loaded.recipe;
  require_gpu_kernels(recipe, outline.model);
  take_recorded_keys(outline.loaded, world);
  resolve_automatic(outline.loaded, outline.model);
  choose_sequences_by_states(outline.model, base::memory_limit().bytes, outline.loaded);
  if (request.is_run) {
    require_gpu(recipe, world.local_rank());
    if (learns_on_gpu(recipe)) learner::require_nccl(world);
  }
  check_model(outline.loaded, outline.model);
  plan_gpu(outline, request, world);
  plan_memory(outline, request);
  if (recipe.trainer.total_epochs > 0) recipe.trainer.total_training_steps = 0;  // unknown without the data
  if (request.is_run) return outline;
  outline.absent = absent_files(recipe, reads_given_adapters(recipe));
  if (const std::string fault = recipe.trainer.wandb ? WandbLogger::fault() : ""; !fault.empty())
    outline.absent.push_back("W&B: " + fault + " (trainer.wandb)");
  outline.missing_gpu = missing_gpu(recipe, 0);
  return outline;
}

RunPlan plan_run(RunOutline outline, const PlanRequest& request, dist::Collectives& world) {
  (void)read_profile_file(outline.recipe(), outline.model);
  if (world.is_first() && reads_given_adapters(outline.recipe())) (void)given_adapters(outline.recipe(), outline.model);
  Policy policy = make_policy(outline.recipe());  // checks that every tensor exists and has its shape
  RunPlan plan{std::move(outline), std::move(policy)};
  Recipe& recipe = plan.loaded.recipe;
  plan.verifier = tasks::make_verifier(verifier_options(recipe));
  plan.prompts = load_train_prompts(recipe, plan.policy.tokenizer, *plan.verifier);
  plan.held_out = load_held_out_prompts(recipe, plan.policy.tokenizer, *plan.verifier);
  plan.conversations = conversation_settings(recipe, plan.policy.tokenizer, *plan.verifier);
  (void)rollout::FlatGroups(recipe.algorithm.filter_groups.metric, *plan.verifier);  // throws if the score is unknown
  plan_memory(plan, request, largest_set(plan.held_out));
  warn_of_shared_prompts(plan.prompts, plan.held_out);
  require_known_score(recipe, plan.held_out, *plan.verifier);
  plan.sft_rows = load_sft_rows(recipe, plan.policy.tokenizer);
  require_row_positions(plan.sft_rows, plan.model);
  recipe.trainer.total_training_steps = total_steps(recipe, std::ssize(plan.prompts.prompts));
  recipe.sft.steps = cold_start_updates(recipe, plan.sft_rows);
  plan.learner = learner_options(recipe);
  plan.loss = loss_options(recipe);
  plan.train_sampling = train_sampling(recipe, plan.model, plan.policy.tokenizer);
  plan.eval_sampling = eval_sampling(recipe, plan.model, plan.policy.tokenizer);
  if (request.is_run) plan.inputs = fingerprint(recipe, plan.policy, plan.prompts, plan.held_out, plan.sft_rows, world);
  return plan;
}

}  // namespace qrl::train
