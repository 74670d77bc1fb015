#include "train/checkpoint/checkpoint.h"

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
#include "train/files/shared_commit.h"
#include "train/policy/adapters.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kOptimizerStem = "optimizer";
constexpr const char* kInputs = "inputs";
constexpr const char* kBest = "best";
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
  if (context.base != nullptr) json[kBaseEntry] = {{"path", context.base->path}, {"weights", context.base->hash}};
  if (s.evaluation_due) json[kUnfinishedRow] = context.unfinished_row;
  return json;
}

model::ModelConfig masters_config(const model::ModelConfig& config) {
  model::ModelConfig wide = config;
  wide.dtype = base::DType::f32;
  return wide;
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
  if (context.world.is_first()) set_aside_copy(path);
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

LoadedState read_checkpoint_state(const fs::path& checkpoint) {
  require_sound_checkpoint(checkpoint, "use an older one");
  const std::string where = (checkpoint / kStateFile).string();
  const auto json = state::parse_json(state::read_text(where, kMaxCheckpointText_bytes), where);
  const auto at = [&](const char* key) -> const nlohmann::json& {
    QRL_REQUIRE(json.contains(key), where, std::string("the entry ") + key, "none",
                "another version of qrl-train wrote it: go on with that one, or export it and start from the model");
    return json.at(key);
  };
  LoadedState loaded{{}, state::read_text(checkpoint / kRecipeFile, kMaxCheckpointText_bytes),
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
    // Equal paths may be different folders on different hosts.
    const auto manifests = world.all_gather(manifest_text(checkpoint));
    for (std::size_t rank = 1; rank < manifests.size(); ++rank) {
      QRL_REQUIRE(manifests[rank] == manifests[0], checkpoint.string(), "one checkpoint that all ranks see",
                  "another checkpoint on rank " + std::to_string(rank), "put it where all hosts see it");
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

}  // namespace qrl::train
