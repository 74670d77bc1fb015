#include "train/checkpoint/checkpoint.h"

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "model/peft.h"
#include "model/weights.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"
#include "state/safetensors.h"
#include "train/files/shared_commit.h"
#include "train/metrics/held_out_names.h"
#include "train/plan/recorded_recipe.h"
#include "train/policy/adapters.h"
#include "train/signals.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptimizerStem = "optimizer";
constexpr const char* kInputs = "inputs";
constexpr const char* kRecipeFormEntry = "recipe_form";
constexpr const char* kBest = "best";
constexpr const char* kUnfinishedRow = "unfinished_row";

struct Commit {
  const RunContext& run;
  const RunState& state;
  const learner::Learner& learner;
  dist::Collectives& world;
  const Metrics& row;
  const QuantizerState& quantizer;

  model::ModelConfig masters_config() const {
    model::ModelConfig wide = run.plan.model;
    wide.dtype = base::DType::f32;
    return wide;
  }
};

nlohmann::ordered_json state_json(const Commit& commit) {
  const RunState& s = commit.state;
  const Inputs& inputs = commit.run.plan.inputs;
  nlohmann::ordered_json json;
  visit_members(s, [&](const char* name, const auto& value) { json[name] = value; });
  json[kRecipeFormEntry] = kRecipeForm;
  json["export_dtype"] = commit.run.plan.model.dtype == base::DType::f32 ? "float32" : "bfloat16";
  json[kInputs] = {
      {"model", inputs.model}, {"train_prompts", inputs.train_prompts}, {"held_out_prompts", inputs.held_out_prompts}};
  if (!inputs.sft_rows.empty()) json[kInputs]["sft_rows"] = inputs.sft_rows;
  if (s.best_step >= 0) json[kBest] = {{"step", s.best_step}, {"score", s.best_score}};
  if (const AdapterBase* base = commit.learner.has_adapters() ? commit.run.base : nullptr; base != nullptr)
    json[kBaseEntry] = {{"path", base->path}, {"weights", base->hash}};
  if (s.evaluation_due) json[kUnfinishedRow] = commit.row;
  return json;
}

void write_learner(const fs::path& dir, const Commit& commit) {
  const learner::Learner& learner = commit.learner;
  if (!learner.is_sharded() && !commit.world.is_first()) return;
  std::vector<state::NamedView> moments;
  for (const auto& [name, view] : learner.state().moments()) moments.push_back({name, view});
  const state::StagedRead staged = learner.state().staged_read();
  const auto write_moments = [&](const std::string& file) {
    state::write_safetensors(dir / file, moments, {{"format", "qrl-train optimizer"}}, staged);
  };
  const model::ModelConfig config = commit.masters_config();
  if (learner.has_adapters()) {
    model::write_config(dir, config);
    model::save_peft(dir, config, learner.lora(), commit.run.base->path, learner.state().masters(), staged);
    return write_moments(std::string(kOptimizerStem) + ".safetensors");
  }
  if (!learner.is_sharded()) {
    model::save_hf(dir, config, learner.state().masters(), model::kMaxShard_bytes, staged);
    return write_moments(std::string(kOptimizerStem) + ".safetensors");
  }
  if (learner.state().masters().empty()) return;
  const auto number = static_cast<std::size_t>(commit.world.rank() + 1);
  const auto count = static_cast<std::size_t>(commit.world.size());
  model::save_hf_shard(dir, config, learner.state().masters(), number, count, staged);
  // Each host must flush its own page cache.
  state::File::open(dir / model::shard_name("model", number, count)).sync();
  const std::string file = model::shard_name(kOptimizerStem, number, count);
  write_moments(file);
  state::File::open(dir / file).sync();
}

void write_neighbors(const fs::path& dir, const Commit& commit) {
  if (commit.learner.is_sharded()) model::finish_hf_shards(dir, commit.masters_config());
  commit.run.plan.policy.tokenizer.save(dir);
  state::File::create(dir / kStateFile).write(state_json(commit).dump(1) + "\n");
  state::File::create(dir / kRecipeFile).write(commit.run.plan.loaded.resolved_yaml);
  save_quantizer(dir, commit.quantizer);
}

class StoredLearner {
 public:
  explicit StoredLearner(const fs::path& checkpoint)
      : where_(checkpoint.string()), masters_(open_masters(checkpoint, specs_)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
      const std::string file = entry.path().filename().string();
      if (file.starts_with(kOptimizerStem) && file.ends_with(".safetensors")) moments_.emplace_back(entry.path());
    }
  }
  void read(const std::string& name, const base::View& to) const {
    const auto require_same = [&](const base::Shape& stored) {
      QRL_REQUIRE(stored == to.shape, where_ + ": " + name, to.shape.to_string(), stored.to_string());
    };
    if (const auto spec = specs_.find(name); spec != specs_.end()) {
      require_same(spec->second.shape);
      return masters_.read(spec->second, to.as<float>());
    }
    for (const state::SafetensorsFile& file : moments_) {
      const auto found = file.tensors().find(name);
      if (found == file.tensors().end()) continue;
      require_same(found->second.shape);
      return file.read_f32(name, 0, {to.as<float>(), static_cast<std::size_t>(to.numel())});
    }
    base::fail_input(where_, "a tensor " + name, "no such tensor");
  }

 private:
  using Specs = std::map<std::string, model::WeightSpec>;
  static model::WeightSource open_masters(const fs::path& checkpoint, Specs& specs) {
    const auto note = [&specs](const std::vector<model::WeightSpec>& all) {
      for (const model::WeightSpec& spec : all) specs.emplace(spec.name, spec);
    };
    if (model::is_peft(checkpoint)) {
      const model::ModelConfig config = model::read_config(checkpoint / "config.json");
      const model::PeftAdapter adapter = model::open_peft(checkpoint, config);
      note(model::adapter_specs(config, adapter.lora));
      return adapter.adapters;
    }
    const model::HfModel hf = model::open_hf(checkpoint);
    note(model::weight_specs(hf.config));
    return hf.weights;
  }

  std::string where_;
  Specs specs_;
  model::WeightSource masters_;
  std::vector<state::SafetensorsFile> moments_;
};

}  // namespace

LoadedState read_checkpoint_state(const fs::path& checkpoint) {
  require_sound_checkpoint(checkpoint, "use an older checkpoint");
  const std::string where = (checkpoint / kStateFile).string();
  const auto json = state::parse_json(state::read_text(where, kMaxCheckpointText_bytes), where);
  const auto at = [&](const char* key) -> const nlohmann::json& {
    QRL_REQUIRE(
        json.contains(key), where, std::string("the entry ") + key, "no such entry",
        "another version of qrl-train wrote it: continue with that version, or export it and start from the model");
    return json.at(key);
  };
  const int form = json.value(kRecipeFormEntry, 0);
  QRL_REQUIRE(form <= kRecipeForm, where, "a recipe of form " + std::to_string(kRecipeForm) + " or earlier",
              "form " + std::to_string(form), "a later version of qrl-train wrote it: continue with that version");
  LoadedState loaded{{}, state::read_text(checkpoint / kRecipeFile, kMaxCheckpointText_bytes),
                     {}, model::read_config(checkpoint / "config.json"),
                     {}, 1};
  RunState& s = loaded.state;
  visit_members(s, [&](const char* name, auto& value) { at(name).get_to(value); });
  const nlohmann::json& inputs = at(kInputs);
  loaded.inputs = {inputs.at("model").get<std::string>(), inputs.at("train_prompts").get<std::string>(),
                   inputs.at("held_out_prompts").get<std::string>(), inputs.value("sft_rows", std::string())};
  if (const auto best = json.find(kBest); best != json.end()) {
    s.best_step = best->at("step").get<std::int64_t>();
    s.best_score = best->at("score").get<double>();
  }
  s.evaluation_due = json.contains(kUnfinishedRow);
  if (s.evaluation_due) {
    // null: the value was not finite
    for (const auto& [name, value] : json.at(kUnfinishedRow).items())
      loaded.unfinished_row[name] = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  }
  loaded.world_size = state::parse_json(state::folder_facts(checkpoint), where).at("world_size").get<int>();
  loaded.config.dtype = at("export_dtype") == "float32" ? base::DType::f32 : base::DType::bf16;
  return loaded;
}

void restore_learner(const fs::path& checkpoint, const RunState& state, learner::Learner& learner,
                     dist::Collectives& world) {
  if (learner.is_sharded()) {
    // On different hosts, equal paths may be different folders.
    const auto manifests = world.all_gather(manifest_text(checkpoint));
    for (std::size_t rank = 1; rank < manifests.size(); ++rank) {
      QRL_REQUIRE(manifests[rank] == manifests[0], checkpoint.string(), "the same checkpoint on all ranks",
                  "a different checkpoint on rank " + std::to_string(rank), "put it where all hosts see it");
    }
  }
  std::optional<StoredLearner> stored;
  if (world.is_first() || learner.is_sharded()) stored.emplace(checkpoint);
  learner.state().restore(
      [&](const std::string& name, const base::View& to) {
        if (stored) stored->read(name, to);
        if (!learner.is_sharded()) world.broadcast({static_cast<std::byte*>(to.data), to.num_bytes()}, 0);
      },
      state.num_updates);
}

Checkpointer::Checkpointer(const RunContext& run, RunState& state, MetricsFile& metrics, MetricsFile& sft_metrics,
                           const QuantizerState& quantizer)
    : run_(run),
      state_(state),
      metrics_(metrics),
      sft_metrics_(sft_metrics),
      quantizer_(quantizer),
      saved_step_(state.step) {}

void Checkpointer::commit(const learner::Learner& learner, dist::Collectives& world, const Metrics& row) {
  state_.num_updates = learner.num_updates();
  state_.metrics_bytes = metrics_.sync();
  state_.sft_metrics_bytes = sft_metrics_.sync();
  const RunFolder* folder = run_.folder;
  if (folder != nullptr) {
    folder->keep_lock();
    folder->sync_steps();
  }
  const fs::path dir = folder != nullptr ? folder->checkpoints() : fs::path();
  const fs::path path = dir / checkpoint_name(state_.cold_start, state_.sft_step, state_.step);
  if (world.is_first()) set_aside_copy(path);
  const Commit commit{run_, state_, learner, world, row, quantizer_};
  const nlohmann::ordered_json facts = {{"format", "qrl-train checkpoint 1"},
                                        {"step", state_.step},
                                        {"sft_step", state_.sft_step},
                                        {"world_size", world.size()}};
  commit_together(
      path, [&](const fs::path& tmp) { write_learner(tmp, commit); },
      [&](const fs::path& tmp) { write_neighbors(tmp, commit); }, facts.dump(), world);
  if (world.is_first()) base::log_info("committed " + state::shown(path));
  const Recipe& recipe = run_.recipe();
  if (folder != nullptr) prune_checkpoints(dir, recipe.trainer.max_ckpt_to_keep, recipe.sft.steps, state_.best_step);
}

bool note_if_best(const Recipe& recipe, const learner::Metrics& row, RunState& state) {
  const auto score = row.find(recipe.trainer.keep_best);
  if (recipe.trainer.keep_best.empty() || score == row.end() || std::isnan(score->second)) return false;
  const double sign = lower_is_better(recipe.trainer.keep_best) ? -1 : 1;
  if (state.best_step >= 0 && sign * score->second <= sign * state.best_score) return false;
  state.best_step = state.step;
  state.best_score = score->second;
  return true;
}

double Checkpointer::save(const learner::Learner& learner, const Metrics& row) {
  double seconds = 0;
  if (state_.step != saved_step_) {
    const base::ScopedTimer timer(seconds);
    commit(learner, run_.world, row);
  }
  saved_step_ = state_.step;
  if (run_.folder != nullptr && state_.best_step == state_.step) name_best(run_.folder->checkpoints(), state_.step);
  return seconds;
}

void Checkpointer::stop_here() const {
  note_stop();
  const bool nothing_yet = state_.step == 0 && run_.recipe().sft.steps == 0;
  std::string where = std::string("stopped by ") + stop_reason();
  if (nothing_yet) where += " before the first checkpoint";
  else if (run_.folder != nullptr) where += "; the checkpoint is in " + run_.folder->checkpoints().string();
  throw base::Error(base::ErrorKind::stopped, where, "", "",
                    nothing_yet ? "the same command starts again" : "the same command resumes from there");
}

}  // namespace qrl::train
