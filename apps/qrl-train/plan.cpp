#include "plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "data/chat_template.h"
#include "dist/messages.h"
#include "train/checkpoint/resume.h"
#include "train/plan/disk_estimate.h"
#include "train/plan/options.h"
#include "train/plan/settings.h"
#include "train/prompts/conversations.h"
#include "train/prompts/text_options.h"
#include "train/run_plan.h"

namespace qrl::app {

namespace {

long long whole(std::int64_t value) { return value; }

std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void describe_model(const model::ModelConfig& config) {
  base::print(
      "model       %.2fM parameters: %lld layers of width %lld, %lld heads (%lld for keys and values) of width %lld, "
      "vocabulary %lld\n",
      static_cast<double>(model::num_parameters(config)) * 1e-6, whole(config.num_hidden_layers),
      whole(config.hidden_size), whole(config.num_attention_heads), whole(config.num_key_value_heads),
      whole(config.head_dim), whole(config.vocab_size));
}

void describe_batch(const train::Recipe& recipe) {
  const std::int64_t prompts = recipe.data.train_batch_size, n = recipe.rollout.n;
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  const std::int64_t updates = train::updates_per_step(recipe);
  base::print("step        %s x %s = %s of up to %s; %s of %s\n", counted(prompts, "prompt").c_str(),
              counted(n, "sample").c_str(), counted(prompts * n, "response").c_str(),
              counted(recipe.data.max_response_length, "token").c_str(), counted(updates, "update").c_str(),
              counted(train::prompts_per_update(recipe) * n, "response").c_str());
  const std::int64_t per_micro = recipe.actor.max_tokens_per_micro_batch / longest;
  base::print("micro-batch %lld tokens: %lld of the longest sequences (%lld tokens)\n",
              whole(recipe.actor.max_tokens_per_micro_batch), whole(per_micro), whole(longest));
  const std::int64_t pages = train::kv_pages(recipe);
  base::print("KV cache    %lld tokens: room for %lld of the longest sequences; up to %lld are decoded at once\n",
              whole(pages * recipe.rollout.page_size), whole(pages / train::pages_of_longest(recipe)),
              whole(recipe.rollout.max_num_seqs));
  if (train::has_environment(recipe))
    base::print("environment up to %s; up to %s open at once in a process, whose pages stay while they wait\n",
                counted(recipe.environment.max_turns, "turn").c_str(),
                counted(train::most_open_conversations(recipe), "conversation").c_str());
  const std::int64_t steps = recipe.trainer.total_training_steps;
  if (steps == 0 && recipe.trainer.total_epochs > 0)
    base::print("run         %s\n", counted(recipe.trainer.total_epochs, "epoch").c_str());
  else
    base::print("run         %s, %s in all\n", counted(steps, "step").c_str(),
                counted(steps * updates, "update").c_str());
  if (!recipe.sft.from.empty()) {
    base::print("cold start  taken from %s\n", recipe.sft.from.c_str());
  } else if (recipe.sft.steps > 0) {
    base::print("cold start  %s of %s\n", counted(recipe.sft.steps, "update").c_str(),
                counted(recipe.sft.batch_size, recipe.sft.train_files.empty() ? "demonstration" : "row").c_str());
  } else if (recipe.sft.epochs > 0) {
    base::print("cold start  %s, updates of %s\n", counted(recipe.sft.epochs, "epoch").c_str(),
                counted(recipe.sft.batch_size, "row").c_str());
  }
}

void describe_memory(const train::RunOutline& outline, int num_ranks, int num_here) {
  const train::Recipe& recipe = outline.recipe();
  const bool shared = recipe.trainer.zero_stage > 0 && num_ranks > 1;
  base::print("memory per device (%d %s, each with the whole model%s)\n", num_ranks,
              num_ranks == 1 ? "process" : "processes",
              shared ? " but only a share of masters and moments, here the largest" : "");
  if (shared && train::has_cold_start(recipe.sft))
    base::print("  only the first rank runs the cold start, with all masters and moments: plan it with one process\n");
  const std::vector<train::MemoryPart>& parts = outline.memory;
  for (const train::MemoryPart& part : parts)
    base::print("  %-28s %s%12s\n", part.name.c_str(), part.is_exact ? " " : "~",
                train::memory_amount(part.bytes).c_str());
  const bool take_turns = recipe.rollout.free_cache_engine;
  if (take_turns)
    base::print(
        "  (the KV cache and the learner's memory are not allocated at the same time: rollout.free_cache_engine)\n");
  const double total = train::peak_bytes(parts, false, take_turns);
  const double gpu_total = train::peak_bytes(parts, true, take_turns);
  const auto print_sum = [](const std::string& name, double bytes) {
    base::print("  %-28s ~%12s\n", name.c_str(), train::memory_amount(bytes).c_str());
  };
  print_sum("together", total);
  if (num_here > 1) print_sum("in the " + std::to_string(num_here) + " processes here", total * num_here);
  if (gpu_total > 0) print_sum("together on the GPU", gpu_total);
  const base::MemoryLimit limit = base::memory_limit();
  base::print("  %s: %s\n", limit.what.c_str(), train::memory_amount(static_cast<double>(limit.bytes)).c_str());
  for (const std::string& line : {outline.memory_fault, outline.memory_doubt}) {
    if (!line.empty()) base::print("  does not fit: %s\n", line.c_str());
  }
}

void describe_disk(const train::Recipe& recipe, const model::ModelConfig& config) {
  const train::DiskEstimate disk = train::estimate_disk(recipe, config);
  const auto kept = [](const train::CheckpointRoom& room) {
    return counted(room.most_kept, "checkpoint") + " of ~" + train::memory_amount(room.bytes_each);
  };
  std::string text = disk.rl.most_kept > 0 ? kept(disk.rl) : "0 checkpoints";
  if (disk.cold_start.most_kept > 0) text += ", and for the cold start " + kept(disk.cold_start);
  const bool replaces = disk.rl.replaces || (disk.rl.most_kept == 0 && disk.cold_start.replaces);
  base::print("disk        up to %s; ~%s in all%s\n", text.c_str(), train::memory_amount(disk.most_bytes()).c_str(),
              replaces ? ", including one being written" : "");
  const std::optional<train::FreeDisk> free = train::free_disk(recipe);
  if (free)
    base::print("            free in %s: %s\n", free->folder.c_str(), train::memory_amount(free->bytes).c_str());
  if (const std::string doubt = train::disk_doubt(recipe, config); !doubt.empty()) base::log_warning(doubt);
}

/// Returns a text such as `no a.jsonl (data.train_files), no GPU`.
std::string absent_text(const train::RunOutline& outline) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> absent;
  for (const std::string& file : outline.absent) absent.push_back("no " + file);
  if (!outline.missing_gpu.empty()) absent.insert(absent.begin(), "no GPU");
  const std::size_t more = absent.size() - std::min(absent.size(), kMostNamed);
  absent.resize(absent.size() - more);
  return base::joined(absent, ", ") + (more > 0 ? " and " + std::to_string(more) + " more (above)" : "");
}

std::string sources_of(const std::vector<types::Prompt>& prompts) {
  constexpr std::size_t kMaxNamed = 8;
  std::vector<std::pair<std::string, std::size_t>> sources;
  for (const types::Prompt& prompt : prompts) {
    auto source = std::ranges::find_if(sources, [&](const auto& each) { return each.first == prompt.data_source; });
    if (source == sources.end()) source = sources.insert(sources.end(), {prompt.data_source, 0});
    ++source->second;
  }
  if (sources.size() == 1) return sources[0].first;
  std::string text;
  for (std::size_t i = 0; i < std::min(sources.size(), kMaxNamed); ++i)
    text += (i > 0 ? ", " : "") + sources[i].first + " (" + std::to_string(sources[i].second) + ")";
  return text + (sources.size() > kMaxNamed ? " and " + std::to_string(sources.size() - kMaxNamed) + " more" : "");
}

std::string epoch_text(std::size_t num_prompts, double drawn) {
  const double steps = static_cast<double>(num_prompts) / drawn;
  return steps < 1 ? base::format("a step uses each %.1f times", 1 / steps)
                   : base::format("an epoch is %.1f steps", steps);
}

void describe_training_data(const train::Recipe& recipe, const train::PromptSet& set) {
  const auto batch = static_cast<double>(recipe.data.train_batch_size);
  const std::vector<double>& weights = recipe.data.train_weights;
  const std::string epoch = weights.empty() ? ": " + epoch_text(set.prompts.size(), batch) : "";
  base::print("training    %s from %s%s\n", counted(std::ssize(set.prompts), "prompt").c_str(),
              sources_of(set.prompts).c_str(), epoch.c_str());
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / total;
    const auto size = static_cast<std::size_t>(set.source_sizes[i]);
    base::print("            %5.1f %% of the draws from %s, %s: %s\n", 100 * share, recipe.data.train_files[i].c_str(),
                counted(set.source_sizes[i], "prompt").c_str(), epoch_text(size, share * batch).c_str());
  }
}

void describe_data(const train::RunPlan& plan) {
  const train::Recipe& recipe = plan.recipe();
  const data::Tokenizer& tokenizer = plan.policy.tokenizer;
  describe_training_data(recipe, plan.prompts);
  std::string first;
  for (const types::TokenId token : plan.prompts.prompts.front().tokens) first += tokenizer.bytes_of(token, true);
  base::print("prompts     chat template %s; first prompt: %s\n",
              data::choose_template(recipe.data, tokenizer).name.c_str(), base::readable(first, 1000).c_str());
  for (const train::PromptSet& set : plan.held_out)
    base::print("held out    %s from %s\n", counted(std::ssize(set.prompts), "prompt").c_str(),
                set.data_source.c_str());
  const train::SftRows& rows = plan.sft_rows;
  if (rows.train.empty()) return;
  const auto num_learned = [](const std::vector<train::SftRow>& of) {
    std::int64_t sum = 0;
    for (const train::SftRow& row : of) sum += std::ranges::count(row.learned, 1);
    return sum;
  };
  base::print("cold start  %s in all, from %s with %s in the loss; the longest row has %s\n",
              counted(recipe.sft.steps, "update").c_str(), counted(std::ssize(rows.train), "row").c_str(),
              counted(num_learned(rows.train), "token").c_str(), counted(rows.longest, "token").c_str());
  if (!rows.val.empty()) {
    base::print("            val/loss over %s with %s in the loss\n", counted(std::ssize(rows.val), "row").c_str(),
                counted(num_learned(rows.val), "token").c_str());
  }
}

/// Prints what follows from the recipe alone, where the model's config.json is absent.
void describe_without_model(const train::LoadedRecipe& loaded) {
  for (const std::string& line : train::describe_settings(loaded)) base::print("%s\n", line.c_str());
  base::print("model       %s is absent: its shapes, and so memory and disk use, are unknown\n",
              loaded.recipe.model.path.c_str());
  describe_batch(loaded.recipe);
  base::print("run folder  %s\n", loaded.recipe.trainer.default_local_dir.c_str());
  for (const std::string& file : train::absent_files(loaded.recipe, !loaded.recipe.lora.path.empty()))
    base::print("absent      %s: needed by a run\n", file.c_str());
}

}  // namespace

void describe_run(const train::LoadedRecipe& loaded, const PlanOptions& options) {
  if (options.allow_absent && train::lacks_model(loaded.recipe)) {
    describe_without_model(loaded);
    return;
  }
  const std::unique_ptr<dist::Collectives> solo = dist::make_solo();
  const train::PlanRequest request{options.num_ranks, options.num_here, false};
  const train::RunOutline outline = train::outline_run(loaded, request, *solo);
  const std::string& fault = outline.memory_fault;
  std::optional<train::RunPlan> plan;  // precedes all printing, so that an error is the only output
  if (outline.absent.empty() && (fault.empty() || options.allow_absent))
    plan = train::plan_run(outline, request, *solo);
  const train::Recipe& recipe = plan ? plan->recipe() : outline.recipe();
  std::string resume;
  if (plan) {
    if (!options.allow_absent) train::check_run_folder(recipe.trainer.default_local_dir);
    const auto inputs = [&] {
      return train::fingerprint(recipe, plan->policy, plan->prompts, plan->held_out, plan->sft_rows, *solo);
    };
    resume = train::describe_resume(recipe, inputs, options.allow_change);
  }
  for (const std::string& line : train::describe_settings(outline.loaded)) base::print("%s\n", line.c_str());
  if (const std::string note = train::learning_rate_note(recipe, outline.model); !note.empty())
    base::print("note        %s\n", note.c_str());
  train::warn_of_settings(outline.loaded, outline.model);
  if (!outline.gpu_plan.empty()) base::print("GPU plan    %s\n", outline.gpu_plan.c_str());
  if (!outline.chosen_keys.empty())
    base::print("            chosen for keys set to auto: %s\n", outline.chosen_keys.c_str());
  describe_model(outline.model);
  describe_batch(recipe);
  describe_memory(plan ? *plan : outline, options.num_ranks, options.num_here);
  describe_disk(recipe, outline.model);
  if (plan) describe_data(*plan);
  base::print("run folder  %s\n", recipe.trainer.default_local_dir.c_str());
  if (!resume.empty()) base::print("start       %s\n", resume.c_str());
  for (const std::string& file : outline.absent) base::print("absent      %s: needed by a run\n", file.c_str());
  if (!outline.missing_gpu.empty()) base::print("absent      a GPU: %s\n", outline.missing_gpu.c_str());
  QRL_REQUIRE(fault.empty() || options.allow_absent, "--dry-run", "a plan that fits this machine's memory",
              "a plan that needs more memory (above)", "plan a run on another machine with --dry-run --allow-absent");
  const std::string lacking = absent_text(outline);
  QRL_REQUIRE(lacking.empty() || options.allow_absent, "--dry-run", "every file and GPU that a run needs", lacking,
              "add what is absent, or plan a run on another machine with --dry-run --allow-absent");
}

}  // namespace qrl::app
