#include "train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/log.h"
#include "model/peft.h"
#include "model/weights.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"
#include "state/safetensors.h"
#include "train/adapters.h"
#include "train/shared_commit.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxText_bytes = std::uint64_t{64} << 20;
constexpr const char* kStateFile = "state.json";
constexpr const char* kRecipeFile = "recipe.yaml";
constexpr const char* kOptimizerStem = "optimizer";
constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kInputs = "inputs";
constexpr const char* kBest = "best";
constexpr const char* kBase = "base";
constexpr const char* kUnfinishedRow = "unfinished_row";

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.flush();
  QRL_INVARIANT(out.good(), file.string(), "a complete write", "an error (disk full?)");
}

nlohmann::ordered_json to_json(const RunState& s, const CheckpointContext& context) {
  nlohmann::ordered_json json = {{"cold_start", s.cold_start},
                                 {"sft_step", s.sft_step},
                                 {"step", s.step},
                                 {"num_updates", s.num_updates},
                                 {"policy_version", s.policy_version},
                                 {"prompts_drawn", s.prompts_drawn},
                                 {"non_finite_streak", s.non_finite_streak},
                                 {"uaq_scale", s.uaq_scale},
                                 {"metrics_bytes", s.metrics_bytes},
                                 {"sft_metrics_bytes", s.sft_metrics_bytes},
                                 {"export_dtype", context.config.dtype == base::DType::f32 ? "float32" : "bfloat16"}};
  json[kInputs] = {{"model", context.inputs.model},
                   {"train_prompts", context.inputs.train_prompts},
                   {"held_out_prompts", context.inputs.held_out_prompts}};
  if (!context.inputs.sft_rows.empty()) json[kInputs]["sft_rows"] = context.inputs.sft_rows;
  if (s.best_step >= 0) json[kBest] = {{"step", s.best_step}, {"score", s.best_score}};
  if (context.base != nullptr) json[kBase] = {{"path", context.base->path}, {"weights", context.base->hash}};
  if (s.evaluation_due) json[kUnfinishedRow] = context.unfinished_row;
  return json;
}

/// Orders checkpoints by name: cold-start steps before RL steps; nothing for other names.
std::optional<std::pair<int, std::int64_t>> age_of(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const auto& [prefix, phase] : {std::pair<std::string, int>{"sft_", 0}, {"step_", 1}}) {
    const std::string digits = name.substr(std::min(prefix.size(), name.size()));
    if (name.starts_with(prefix) && !digits.empty() && digits.size() <= 18 &&
        std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return std::pair{phase, static_cast<std::int64_t>(std::stoll(digits))};
    }
  }
  return std::nullopt;
}

std::string checkpoint_name(bool cold_start, std::int64_t sft_step, std::int64_t step) {
  return cold_start ? "sft_" + std::to_string(sft_step) : "step_" + std::to_string(step);
}

/// Returns the name in a folder's sound manifest if it differs from the folder's, as in a copy.
std::optional<std::string> other_name(const fs::path& path) try {
  const auto facts = state::parse_json(state::folder_facts(path), path.string());
  const auto sft_step = facts.at("sft_step").get<std::int64_t>(), step = facts.at("step").get<std::int64_t>();
  const std::string own = path.filename().string(), name = checkpoint_name(step == 0, sft_step, step);
  return own == name || own == checkpoint_name(false, sft_step, step) ? std::nullopt : std::optional(name);
} catch (const base::Error& error) {
  if (error.kind() != base::ErrorKind::input) throw;
  return std::nullopt;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

/// Lists checkpoints, newest first, and warns of copies under other names, which it omits.
std::vector<fs::path> list_checkpoints(const fs::path& dir) {
  std::vector<fs::path> found;
  if (!fs::is_directory(dir)) return found;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (!age_of(entry.path())) continue;
    const std::optional<std::string> other = other_name(entry.path());
    if (!other) found.push_back(entry.path());
    else
      base::log_once(entry.path().string(),
                     state::shown(entry.path()) + " is a copy of " + *other + ", by what is in it: it is left alone");
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) { return *age_of(a) > *age_of(b); });
  return found;
}

model::ModelConfig masters_config(const model::ModelConfig& config) {
  model::ModelConfig wide = config;
  wide.dtype = base::DType::f32;
  return wide;
}

/// Renames to NAME with `ending`, and a number if that is taken.
void set_aside(const fs::path& path, const std::string& ending) {
  std::string aside = path.string() + ending;
  for (int number = 2; fs::exists(fs::symlink_status(aside)); ++number)
    aside = path.string() + ending + "_" + std::to_string(number);
  fs::rename(path, aside);
  base::log_warning("set aside " + state::shown(path) + " as " + state::shown(aside));
}

void write_learner(const fs::path& dir, const learner::Learner& learner, const CheckpointContext& context) {
  if (!learner.is_sharded() && !context.world.is_first()) return;
  std::vector<state::NamedView> moments;
  for (const auto& [name, view] : learner.state().moments()) moments.push_back({name, view});
  const state::StagedRead staged = learner.state().staged_read();
  const auto write_moments = [&](const std::string& file) {
    state::write_safetensors(dir / file, moments, {{"format", "qrl-train optimizer"}}, staged);
  };
  const model::ModelConfig config = masters_config(context.config);
  if (learner.has_adapters()) {
    model::write_config(dir, config);
    model::save_peft(dir, config, learner.lora(), context.base->path, learner.state().masters(), staged);
    return write_moments(std::string(kOptimizerStem) + ".safetensors");
  }
  if (!learner.is_sharded()) {
    model::save_hf(dir, config, learner.state().masters(), model::kMaxShard_bytes, staged);
    return write_moments(std::string(kOptimizerStem) + ".safetensors");
  }
  if (learner.state().masters().empty()) return;  // more ranks than tensors
  const auto number = static_cast<std::size_t>(context.world.rank() + 1);
  const auto count = static_cast<std::size_t>(context.world.size());
  model::save_hf_shard(dir, config, learner.state().masters(), number, count, staged);
  // The first rank seals the folder, but each host must flush its own cache.
  state::File::open(dir / model::shard_name("model", number, count)).sync();
  const std::string file = model::shard_name(kOptimizerStem, number, count);
  write_moments(file);
  state::File::open(dir / file).sync();
}

void write_neighbors(const fs::path& dir, const RunState& state, const learner::Learner& learner,
                     const CheckpointContext& context) {
  if (learner.is_sharded()) model::finish_hf_shards(dir, masters_config(context.config));
  context.tokenizer.save(dir);
  write_text(dir / kStateFile, to_json(state, context).dump(1) + "\n");
  write_text(dir / kRecipeFile, context.resolved_recipe);
  save_quantizer(dir, context.quantizer);
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
    base::fail_input(where_, "a tensor " + name, "none of that name");
  }

 private:
  using Specs = std::map<std::string, model::WeightSpec>;
  /// Opens all weights, or the adapters if those were trained.
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

fs::path save_checkpoint(const fs::path& dir, const RunState& state, const learner::Learner& learner,
                         const CheckpointContext& context) {
  fs::path path = dir / checkpoint_name(state.cold_start, state.sft_step, state.step);
  if (context.world.is_first() && fs::exists(fs::symlink_status(path)) && other_name(path)) set_aside(path, ".copy");
  const nlohmann::ordered_json facts = {{"format", "qrl-train checkpoint 1"},
                                        {"step", state.step},
                                        {"sft_step", state.sft_step},
                                        {"world_size", context.world.size()}};
  commit_together(
      path, [&](const fs::path& tmp) { write_learner(tmp, learner, context); },
      [&](const fs::path& tmp) { write_neighbors(tmp, state, learner, context); }, facts.dump(), context.world);
  if (context.world.is_first()) base::log_info("committed " + path.string());
  return path;
}

void prune_checkpoints(const fs::path& dir, std::int64_t keep, std::int64_t final_sft_step,
                       std::int64_t best_step) try {
  const std::vector<fs::path> all = list_checkpoints(dir);
  if (all.empty()) return;
  std::int64_t kept[2] = {0, 0};
  std::vector<fs::path> surplus;
  for (const fs::path& path : all) {
    const auto [phase, step] = *age_of(path);
    if (step == (phase == 0 ? final_sft_step : best_step)) continue;
    if (++kept[phase] > keep) surplus.push_back(path);
  }
  if (surplus.empty()) return;
  if (const auto damage = state::verify_folder(all.front())) {
    base::log_warning(all.front().string() + ": " + *damage + "; older checkpoints are kept");
    return;
  }
  // The manifest goes first: an interrupted removal leaves plainly no checkpoint.
  for (const fs::path& path : surplus) {
    fs::remove(path / kManifestFile);
    fs::remove_all(path);
  }
} catch (const base::Error& error) {  // unreadable now: no reason to end a run
  base::log_warning(std::string(error.what()) + "; older checkpoints are kept");
}

std::optional<fs::path> newest_sound_checkpoint(const fs::path& dir) {
  for (const fs::path& path : list_checkpoints(dir)) {
    const auto damage = state::verify_folder(path);
    if (!damage) return path;
    base::log_warning("damaged checkpoint " + path.string() + ": " + *damage);
  }
  return std::nullopt;
}

void set_aside_damaged(const fs::path& dir, const std::optional<fs::path>& sound) {
  for (const fs::path& path : list_checkpoints(dir)) {
    if (sound && path == *sound) return;
    set_aside(path, ".damaged");
  }
}

std::optional<std::int64_t> rl_step_of(const fs::path& checkpoint) {
  std::error_code error;
  const auto age = age_of(fs::canonical(checkpoint, error));  // also resolves the link `best`
  return age && age->first == 1 ? std::optional(age->second) : std::nullopt;
}

bool is_checkpoint(const fs::path& path) { return fs::exists(path / kStateFile) || fs::exists(path / kManifestFile); }

void require_sound_checkpoint(const fs::path& path, const std::string& what_to_do) {
  QRL_REQUIRE(is_checkpoint(path), path.string(), "a checkpoint folder (with state.json)", "none there",
              "they lie in RUN/checkpoints: step_N, and sft_N of a cold start");
  if (const auto damage = state::verify_folder(path)) {
    base::fail_input(path.string(), "a sound checkpoint", *damage, what_to_do);
  }
}

void copy_checkpoint(const fs::path& from, const fs::path& to) {
  state::commit_folder(
      to,
      [&](const fs::path& tmp) {
        for (const auto& entry : fs::directory_iterator(from)) {
          if (entry.path().filename() != kManifestFile) fs::copy(entry.path(), tmp / entry.path().filename());
        }
      },
      state::folder_facts(from));
  QRL_REQUIRE(same_checkpoint(from, to), to.string(), "a true copy of " + from.string(), "other bytes",
              "remove it and check the disk");
}

bool same_checkpoint(const fs::path& a, const fs::path& b) {
  return fs::exists(a / kManifestFile) && fs::exists(b / kManifestFile) &&
         state::read_text(a / kManifestFile, kMaxText_bytes) == state::read_text(b / kManifestFile, kMaxText_bytes);
}

LoadedState read_checkpoint_state(const fs::path& checkpoint) {
  require_sound_checkpoint(checkpoint, "use an older one");
  const std::string where = (checkpoint / kStateFile).string();
  const auto json = state::parse_json(state::read_text(where, kMaxText_bytes), where);
  const auto at = [&](const char* key) -> const nlohmann::json& {
    QRL_REQUIRE(json.contains(key), where, std::string("the entry ") + key, "none",
                "another version of qrl-train wrote it: go on with that one, or export it and start from the model");
    return json.at(key);
  };
  LoadedState loaded{{}, state::read_text(checkpoint / kRecipeFile, kMaxText_bytes),
                     {}, model::read_config(checkpoint / "config.json"),
                     {}, 1};
  RunState& s = loaded.state;
  s.cold_start = at("cold_start").get<bool>();
  s.sft_step = at("sft_step").get<std::int64_t>();
  s.step = at("step").get<std::int64_t>();
  s.num_updates = at("num_updates").get<std::int64_t>();
  s.policy_version = at("policy_version").get<std::int64_t>();
  s.prompts_drawn = at("prompts_drawn").get<std::int64_t>();
  s.non_finite_streak = at("non_finite_streak").get<std::int64_t>();
  s.uaq_scale = at("uaq_scale").get<double>();
  s.metrics_bytes = at("metrics_bytes").get<std::int64_t>();
  s.sft_metrics_bytes = at("sft_metrics_bytes").get<std::int64_t>();
  const nlohmann::json& inputs = at(kInputs);
  loaded.inputs = {inputs.at("model").get<std::string>(), inputs.at("train_prompts").get<std::string>(),
                   inputs.at("held_out_prompts").get<std::string>(), inputs.value("sft_rows", std::string())};
  if (const auto best = json.find(kBest); best != json.end()) {
    s.best_step = best->at("step").get<std::int64_t>();
    s.best_score = best->at("score").get<double>();
  }
  s.evaluation_due = json.contains(kUnfinishedRow);
  if (s.evaluation_due) {
    // null: a value that was not finite
    for (const auto& [name, value] : json.at(kUnfinishedRow).items())
      loaded.unfinished_row[name] = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
  }
  loaded.world_size = state::parse_json(state::folder_facts(checkpoint), where).at("world_size").get<int>();
  loaded.config.dtype = at("export_dtype") == "float32" ? base::DType::f32 : base::DType::bf16;
  return loaded;
}

std::string checkpoint_base_hash(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kStateFile;
  const auto json = state::parse_json(state::read_text(file, kMaxText_bytes), file.string());
  return json.contains(kBase) ? json.at(kBase).at("weights").get<std::string>() : std::string();
}

void restore_learner(const fs::path& checkpoint, const RunState& state, learner::Learner& learner,
                     dist::Collectives& world) {
  if (learner.is_sharded()) {
    // A path may be another folder on another host; a manifest names every byte.
    const auto manifests = world.all_gather(state::read_text(checkpoint / kManifestFile, kMaxText_bytes));
    for (std::size_t rank = 1; rank < manifests.size(); ++rank) {
      QRL_REQUIRE(manifests[rank] == manifests[0], checkpoint.string(), "one checkpoint that all ranks see",
                  "another one on rank " + std::to_string(rank), "put it where all hosts see it");
    }
  }
  // The first rank reads the files, with shards every rank.
  std::optional<StoredLearner> stored;
  if (world.is_first() || learner.is_sharded()) stored.emplace(checkpoint);
  learner.state().restore(
      [&](const std::string& name, const base::View& to) {
        if (stored) stored->read(name, to);
        if (!learner.is_sharded()) world.broadcast({static_cast<std::byte*>(to.data), to.num_bytes()}, 0);
      },
      state.num_updates);
}

}  // namespace qrl::train
