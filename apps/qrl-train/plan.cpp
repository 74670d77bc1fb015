#include "plan.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/readable.h"
#include "base/text.h"
#include "config/hub.h"
#include "data/chat_template.h"
#include "data/dataset_folder.h"
#include "dist/join.h"
#include "rollout/rollout.h"
#include "tasks/by_source.h"
#include "tasks/verifier.h"
#include "train/checkpoint/best_checkpoint.h"
#include "train/checkpoint/resume.h"
#include "train/plan/decoder_fit.h"
#include "train/plan/disk_estimate.h"
#include "train/plan/formats.h"
#include "train/plan/gpu_plan.h"
#include "train/plan/machine.h"
#include "train/plan/memory_estimate.h"
#include "train/plan/options.h"
#include "train/plan/rotation.h"
#include "train/plan/settings.h"
#include "train/policy/adapters.h"
#include "train/policy/inputs.h"
#include "train/policy/policy.h"
#include "train/policy/quantizer.h"
#include "train/prompts/prompts.h"

namespace qrl::app {

namespace {

namespace fs = std::filesystem;

long long whole(std::int64_t value) { return value; }

/// Returns e.g. "1 prompt" or "2 prompts".
std::string counted(std::int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Returns the files, each with its key, that a run would read and that are absent.
std::vector<std::string> absent_files(const config::Recipe& recipe, bool reads_adapters) {
  std::vector<std::string> absent;
  const auto need = [&](const char* key, const fs::path& file) {
    if (!fs::exists(file)) absent.push_back(file.string() + " (" + key + ")");
  };
  if (!recipe.model.path.empty()) {
    const fs::path dir = config::model_folder(recipe.model.path);
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
  if (recipe.trainer.resume_mode == config::ResumeMode::path)
    need("--resume", fs::path(recipe.trainer.resume_path) / "state.json");
  return absent;
}

void describe_model(const model::ModelConfig& config) {
  base::print(
      "model       %.2fM parameters: %lld layers of %lld, %lld heads (%lld for keys and values) of %lld, vocabulary "
      "%lld\n",
      static_cast<double>(model::num_parameters(config)) * 1e-6, whole(config.num_hidden_layers),
      whole(config.hidden_size), whole(config.num_attention_heads), whole(config.num_key_value_heads),
      whole(config.head_dim), whole(config.vocab_size));
}

void describe_batch(const config::Recipe& recipe) {
  const std::int64_t prompts = recipe.data.train_batch_size, n = recipe.rollout.n;
  const std::int64_t longest = recipe.data.max_prompt_length + recipe.data.max_response_length;
  const std::int64_t updates = train::updates_per_step(recipe);
  base::print("step        %s x %s = %s of up to %s; %s of %s\n", counted(prompts, "prompt").c_str(),
              counted(n, "sample").c_str(), counted(prompts * n, "response").c_str(),
              counted(recipe.data.max_response_length, "token").c_str(), counted(updates, "update").c_str(),
              counted(recipe.actor.mini_batch_size * n, "response").c_str());
  const std::int64_t per_micro = recipe.actor.max_tokens_per_micro_batch / longest;
  base::print("micro-batch %lld tokens: %lld of the longest sequences (%lld tokens)\n",
              whole(recipe.actor.max_tokens_per_micro_batch), whole(per_micro), whole(longest));
  const std::int64_t tokens = train::kv_pages(recipe) * recipe.rollout.page_size;
  base::print("KV cache    %lld tokens: %lld of the longest sequences, of up to %lld decoded at once\n", whole(tokens),
              whole(tokens / longest), whole(recipe.rollout.max_num_seqs));
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

struct MemoryFit {
  std::string fault;  ///< the reason why it cannot run; "" if it can
  std::string doubt;  ///< the reason why it may fail
};

MemoryFit memory_fit(const config::Recipe& recipe, const model::ModelConfig& config, int num_ranks, int num_here) try {
  return {"", train::check_memory(train::estimate_memory(recipe, config, num_ranks), recipe.rollout.free_cache_engine,
                                  num_here, base::memory_limit())};
} catch (const base::Error& error) {
  return {error.what(), ""};
}

void describe_memory(const config::Recipe& recipe, const model::ModelConfig& config, int num_ranks,
                     const MemoryFit& fit) {
  const bool shared = recipe.trainer.zero_stage > 0 && num_ranks > 1;
  base::print("memory per device (%d %s, each with the whole model%s)\n", num_ranks,
              num_ranks == 1 ? "process" : "processes",
              shared ? " except for its share of masters and moments: here the largest share" : "");
  if (shared && config::has_cold_start(recipe.sft))
    base::print("  the cold start is the first rank's alone, with all masters and moments: plan it with one process\n");
  const std::vector<train::MemoryPart> parts = train::estimate_memory(recipe, config, num_ranks);
  for (const train::MemoryPart& part : parts)
    base::print("  %-28s %s%12s\n", part.name.c_str(), part.is_exact ? " " : "~",
                train::memory_amount(part.bytes).c_str());
  const bool take_turns = recipe.rollout.free_cache_engine;
  if (take_turns)
    base::print("  (the KV cache and what learning takes are not there at once: rollout.free_cache_engine)\n");
  const double gpu_total = train::peak_bytes(parts, true, take_turns);
  base::print("  %-28s ~%12s\n", "together", train::memory_amount(train::peak_bytes(parts, false, take_turns)).c_str());
  if (gpu_total > 0) base::print("  %-28s ~%12s\n", "together on the GPU", train::memory_amount(gpu_total).c_str());
  const base::MemoryLimit limit = base::memory_limit();
  base::print("  %s: %s\n", limit.what.c_str(), train::memory_amount(static_cast<double>(limit.bytes)).c_str());
  for (const std::string& line : {fit.fault, fit.doubt}) {
    if (!line.empty()) base::print("  does not fit: %s\n", line.c_str());
  }
}

/// Prints checkpoints' disk space, and warns if the run folder's disk has less.
void describe_disk(const config::Recipe& recipe, const model::ModelConfig& config) {
  const train::DiskEstimate disk = train::estimate_disk(recipe, config);
  const auto kept = [](const train::CheckpointRoom& room) {
    return counted(room.most_kept, "checkpoint") + " of ~" + train::memory_amount(room.bytes_each);
  };
  std::string text = disk.rl.most_kept > 0 ? kept(disk.rl) : "no checkpoint";
  if (disk.cold_start.most_kept > 0) text += ", of the cold start " + kept(disk.cold_start);
  const bool replaces = disk.rl.replaces || (disk.rl.most_kept == 0 && disk.cold_start.replaces);
  base::print("disk        up to %s; ~%s in all%s\n", text.c_str(), train::memory_amount(disk.most_bytes()).c_str(),
              replaces ? ", with one that is being written" : "");
  fs::path folder = fs::absolute(recipe.trainer.default_local_dir);
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, error);
  if (error) return;
  base::print("            free in %s: %s\n", folder.c_str(),
              train::memory_amount(static_cast<double>(space.available)).c_str());
  if (static_cast<double>(space.available) < disk.most_bytes())
    base::log_warning(
        "the checkpoints need more disk than is free: lower trainer.max_ckpt_to_keep, or set another "
        "trainer.default_local_dir");
}

/// Sets the keys at `auto` and prints them, for this machine's GPU or one of 80 GiB.
void plan_gpu(config::Recipe& recipe, const model::ModelConfig& config, int num_ranks) {
  const auto [bytes, is_here] = train::gpu_to_plan_for(recipe);
  std::string chosen;
  for (const std::string_view key : train::kAutoKeys)
    if (recipe.keys->find(key)->print(recipe) == "auto") chosen += (chosen.empty() ? "" : ", ") + std::string(key);
  const auto resumed = train::settings_of_checkpoint(recipe);
  train::set_auto(resumed ? *resumed : train::choose_settings(recipe, config, num_ranks, bytes), recipe);
  base::print("GPU plan    %s%s%s\n", train::describe_gpu_plan(recipe, config, num_ranks, bytes).c_str(),
              is_here ? "" : " of an example: a run chooses by its own GPU",
              resumed ? ", as the checkpoint has it" : "");
  if (!chosen.empty()) base::print("            chosen here, as they are auto: %s\n", chosen.c_str());
  if (is_here) train::require_gpu_memory(recipe, config, num_ranks, bytes);
}

struct Data {
  train::Policy policy;
  data::Tokenizer tokenizer;
  train::PromptSet prompts;
  std::vector<train::PromptSet> held_out;
  train::SftRows sft_rows;
};

Data load_data(const config::Recipe& recipe, const model::ModelConfig& config) {
  const data::Tokenizer tokenizer = train::make_tokenizer(recipe, config);
  const auto verifier = tasks::make_verifier(recipe);
  Data data{train::make_policy(recipe),  // checks that every tensor exists and has the right shape
            tokenizer, train::load_train_prompts(recipe, tokenizer, *verifier),
            train::load_held_out_prompts(recipe, tokenizer, *verifier), train::load_sft_rows(recipe, tokenizer)};
  (void)rollout::FlatGroups(recipe.algorithm.filter_groups.metric, *verifier);  // rejects an unknown score
  train::require_row_positions(data.sft_rows, config);
  train::warn_of_shared_prompts(data.prompts, data.held_out);
  return data;
}

/// Returns the prompts' sources in order: "a (80), b (40)".
std::string sources_of(const std::vector<types::Prompt>& prompts) {
  constexpr std::size_t kMaxNamed = 8;
  std::vector<std::pair<std::string, std::size_t>> sources;
  for (const types::Prompt& prompt : prompts) {
    auto source = std::find_if(sources.begin(), sources.end(),
                               [&](const auto& each) { return each.first == prompt.data_source; });
    if (source == sources.end()) source = sources.insert(sources.end(), {prompt.data_source, 0});
    ++source->second;
  }
  if (sources.size() == 1) return sources[0].first;
  std::string text;
  for (std::size_t i = 0; i < std::min(sources.size(), kMaxNamed); ++i)
    text += (i > 0 ? ", " : "") + sources[i].first + " (" + std::to_string(sources[i].second) + ")";
  return text + (sources.size() > kMaxNamed ? " and " + std::to_string(sources.size() - kMaxNamed) + " more" : "");
}

/// Returns how often each of `num_prompts` prompts is used if a step draws `drawn`.
std::string epoch_text(std::size_t num_prompts, double drawn) {
  const double steps = static_cast<double>(num_prompts) / drawn;
  char text[64];
  if (steps < 1) std::snprintf(text, sizeof text, "a step takes each %.1f times", 1 / steps);
  else std::snprintf(text, sizeof text, "an epoch is %.1f steps", steps);
  return text;
}

void describe_training_data(const config::Recipe& recipe, const train::PromptSet& set) {
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

void describe_data(const config::Recipe& recipe, const Data& data) {
  describe_training_data(recipe, data.prompts);
  std::string first;
  for (const types::TokenId token : data.prompts.prompts.front().tokens) first += data.tokenizer.bytes_of(token, true);
  base::print("prompts     chat template %s; the first one: %s\n",
              data::choose_template(recipe.data, data.tokenizer).name.c_str(), base::readable(first, 1000).c_str());
  for (const train::PromptSet& set : data.held_out)
    base::print("held out    %s from %s\n", counted(std::ssize(set.prompts), "prompt").c_str(),
                set.data_source.c_str());
  const train::SftRows& rows = data.sft_rows;
  if (rows.train.empty()) return;
  const auto num_learned = [](const std::vector<train::SftRow>& of) {
    std::int64_t sum = 0;
    for (const train::SftRow& row : of) sum += std::count(row.learned.begin(), row.learned.end(), 1);
    return sum;
  };
  base::print("cold start  %s in all, from %s of %s to learn; the longest row has %s\n",
              counted(train::cold_start_updates(recipe, rows), "update").c_str(),
              counted(std::ssize(rows.train), "row").c_str(), counted(num_learned(rows.train), "token").c_str(),
              counted(rows.longest, "token").c_str());
  if (!rows.val.empty()) {
    base::print("            val/loss over %s of %s\n", counted(std::ssize(rows.val), "row").c_str(),
                counted(num_learned(rows.val), "token").c_str());
  }
}

}  // namespace

void describe_run(const config::LoadedRecipe& given, const PlanOptions& options) {
  const auto [num_ranks, num_here, allow_absent, allow_change] = options;
  config::LoadedRecipe loaded = given;
  const model::ModelConfig config = train::model_config(loaded.recipe);
  train::resolve_rotation(loaded, config, *dist::make_solo());
  config::Recipe recipe = loaded.recipe;
  train::require_positions(loaded, config);
  (void)train::learner_options(recipe);
  model::check_formats(config, train::snapshot_formats(recipe.quant));
  model::check_lora(config, train::lora_config(recipe.lora));
  const bool reads_adapters = train::reads_given_adapters(recipe, train::finds_checkpoint(recipe));
  const std::vector<std::string> absent = absent_files(recipe, reads_adapters);
  if (absent.empty()) (void)train::read_profile_file(recipe, config);
  if (absent.empty() && reads_adapters) (void)train::given_adapters(recipe, config);
  std::optional<Data> data;  // loaded before printing: an error is the only output
  const MemoryFit fit = memory_fit(recipe, config, num_ranks, num_here);
  if (absent.empty() && (fit.fault.empty() || allow_absent)) data = load_data(recipe, config);
  if (data) train::require_known_score(recipe, data->held_out);
  std::string resume;
  if (data) {
    recipe.trainer.total_training_steps = train::total_steps(recipe, std::ssize(data->prompts.prompts));
    config::Recipe known = recipe;
    known.sft.steps = train::cold_start_updates(recipe, data->sft_rows);
    const auto solo = dist::make_solo();
    const auto inputs = [&] {
      return train::fingerprint(known, data->policy, data->prompts, data->held_out, data->sft_rows, *solo);
    };
    resume = train::describe_resume(known, inputs, allow_change);
  } else if (recipe.trainer.total_epochs > 0) {
    recipe.trainer.total_training_steps = 0;  // unknown without the data
  }
  for (const std::string& line : train::describe_settings(loaded)) base::print("%s\n", line.c_str());
  train::warn_of_idle_settings(loaded);
  if (config::learns_on_gpu(recipe)) plan_gpu(recipe, config, num_ranks);
  describe_model(config);
  describe_batch(recipe);
  describe_memory(recipe, config, num_ranks, fit);
  describe_disk(recipe, config);
  if (data) describe_data(recipe, *data);
  base::print("run folder  %s\n", recipe.trainer.default_local_dir.c_str());
  if (!resume.empty()) base::print("start       %s\n", resume.c_str());
  for (const std::string& file : absent) base::print("absent      %s: a run needs it\n", file.c_str());
  const std::string missing_gpu = train::missing_gpu(recipe, 0);
  if (!missing_gpu.empty()) base::print("absent      a GPU: %s\n", missing_gpu.c_str());
  const std::size_t num_absent = absent.size() + (missing_gpu.empty() ? 0 : 1);
  QRL_REQUIRE(fit.fault.empty() || allow_absent, "--dry-run", "a plan that this machine's memory can hold",
              "one that it cannot (above)", "plan a run on another machine with --dry-run --allow-absent");
  QRL_REQUIRE(num_absent == 0 || allow_absent, "--dry-run", "all that a run needs on this machine",
              std::to_string(num_absent) + " absent (above)",
              "get it; or plan a run on another machine with --dry-run --allow-absent");
}

}  // namespace qrl::app
