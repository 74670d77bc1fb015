#include "train/plan/settings.h"

#include <filesystem>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config/printer.h"
#include "model/gguf_model.h"
#include "state/hash.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"
#include "train/plan/recorded_recipe.h"
#include "train/recipe/automatic.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

namespace {

constexpr std::string_view kMode = "mode ";  // prefix of the origin of values that a mode sets
constexpr std::size_t kLabelWidth = 12;

std::string value_of(const LoadedRecipe& loaded, std::string_view key) { return printed_value(loaded.recipe, key); }

std::string line(std::string_view label, const std::string& text) {
  return std::string(label) + std::string(kLabelWidth - label.size(), ' ') + text;
}

std::string mark_of(const LoadedRecipe& loaded, std::string_view key) {
  const auto origin = loaded.origins.find(std::string(key));
  if (origin == loaded.origins.end()) return " (default)";
  if (origin->second.starts_with(kChosen)) return " (auto)";
  const bool is_shown = origin->second.starts_with(kMode) || origin->second == kFromCheckpoint;
  return is_shown ? " (" + origin->second + ")" : "";
}

/// Returns a text such as ", clip 0.2", or "" if the key is unset.
std::string option(const LoadedRecipe& loaded, const char* name, std::string_view key) {
  const std::string value = value_of(loaded, key);
  return value == "null" ? "" : ", " + std::string(name) + " " + value + mark_of(loaded, key);
}

void add_mode(const LoadedRecipe& loaded, std::vector<std::string>& lines) {
  const std::string word = loaded.recipe.mode.word();
  const auto& overrides = loaded.mode_overrides;
  if (word.empty()) {
    lines.push_back(line("mode", "none"));
    return;
  }
  lines.push_back(
      line("mode", word + (overrides.empty() ? ""
                                             : "; the recipe's own keys override " + std::to_string(overrides.size()) +
                                                   " of its values (--set KEY=VALUE overrides those):")));
  for (const config::ModeOverride& one : overrides) {
    lines.push_back(
        line("", one.key + " is " + one.own_value + " (" + one.place + "), the mode has " + one.mode_value));
  }
}

/// Returns ", NAME value" for each key SECTION.NAME whose value differs from its default.
std::string changed(const LoadedRecipe& loaded, std::string_view section,
                    std::initializer_list<std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    const std::string key = std::string(section) + std::string(name);
    const Keys& keys = *loaded.recipe.keys;
    if (value_of(loaded, key) == keys.find(key)->print(keys.defaults())) continue;
    text += option(loaded, std::string(name).c_str(), key);
  }
  return text;
}

std::string params_text(const LoadedRecipe& loaded, const config::Option& chosen) {
  std::string text;
  for (const config::Param& param : chosen.params)
    text += option(loaded, param.name.substr(param.name.rfind('.') + 1).c_str(), param.name);
  return text;
}

std::string loss_text(const LoadedRecipe& loaded) {
  std::string text =
      shown_setting(loaded, "algorithm.name") + option(loaded, "clip low", "algorithm.clip_ratio_low") +
      option(loaded, "high", "algorithm.clip_ratio_high") +
      params_text(loaded, *loaded.recipe.algorithm.name.option()) +
      option(loaded, "aggregation", "algorithm.loss_agg_mode") +
      changed(loaded, "algorithm.",
              {"off_policy_mask_threshold", "top_entropy_quantile", "clip_cov.ratio", "bound_moved_only"});
  if (loaded.recipe.algorithm.kl_loss_coef != 0)
    text += option(loaded, "KL", "algorithm.kl_loss_coef") + option(loaded, "by", "algorithm.kl_loss_type");
  return text;
}

std::string advantages_text(const LoadedRecipe& loaded) {
  const std::string text =
      changed(loaded, "algorithm.",
              {"adv_estimator", "positive_only", "teacher.path", "teacher.weights", "teacher.coef", "reward_coef"});
  return text.empty() ? text : text.substr(std::string_view(", ").size());
}

/// Says that tis by default has nothing to correct.
std::string idle_text(const Recipe& recipe) {
  const bool is_idle = recipe.rollout.bitwise && recipe.rollout_correction.method == "tis";
  return is_idle ? ", idle: with equal bits its weights are 1" : "";
}

/// Lists why keys set to `auto` have their values, a line each, in the order in which they were chosen.
void add_choices(const LoadedRecipe& loaded, std::vector<std::string>& lines) {
  std::string_view label = "chosen";
  const auto add = [&](std::string_view name) {
    const std::string key(name);
    const auto origin = loaded.origins.find(key);
    if (origin == loaded.origins.end() || !origin->second.starts_with(kChosen)) return;
    const std::string why = origin->second.substr(std::string_view(kChosen).size());
    lines.push_back(line(std::exchange(label, ""), key + " " + printed_value(loaded.recipe, key) + ": " + why));
  };
  for (const std::string_view name : kAutomaticKeys) add(name);
  add(kRotationKey);
}

std::string own_text(const LoadedRecipe& loaded) {
  std::string text;
  for (const config::Param& own : loaded.recipe.rollout_correction.method.option()->params) {
    if (loaded.recipe.own.value(own) == config::ParamValue(true))
      text += ", " + own.name.substr(own.name.rfind('.') + 1) + mark_of(loaded, own.name);
  }
  return text;
}

std::string sampler_text(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  const std::string format(quant::name(snapshot_formats(recipe.quant).linear));
  std::string text = shown_setting(loaded, "quant.rollout.weights") + " weights" +
                     (format == value_of(loaded, "quant.rollout.weights") ? "" : " (" + format + ")") + ", ";
  if (quant::spec(snapshot_formats(recipe.quant).linear).has_weight_scales())
    text += rotation_text(snapshot_formats(recipe.quant).rotation) + mark_of(loaded, "quant.rollout.rotation") + ", ";
  if (recipe.quant.lm_head != HeadFormat::automatic)
    text += shown_setting(loaded, "quant.rollout.lm_head") + " lm_head, ";
  text += std::string(quant::name(kv_format(recipe.quant))) + " KV cache" + mark_of(loaded, "quant.rollout.kv_cache");
  if (recipe.quant.queries == QueryFormat::fp8_e4m3) text += ", fp8_e4m3 queries";
  if (recipe.quant.noise.start > 0)
    text += ", noise on norms' gains from " + shown_setting(loaded, "quant.rollout.noise.start") + " to " +
            shown_setting(loaded, "quant.rollout.noise.end");
  return text + ", on " + (samples_on_gpu(recipe) ? "cuda" : "cpu");
}

std::string learner_text(const LoadedRecipe& loaded) {
  const QuantRecipe& quant = loaded.recipe.quant;
  const std::string dtype = value_of(loaded, "model.dtype");
  const bool plain = quant.learner.forward == learner::LearnerForward::bf16;
  const bool plain_backward = quant.learner.backward == learner::LearnerBackward::model_dtype;
  const std::string forward = shown_setting(loaded, "quant.learner.forward");
  return "forward " + (plain ? dtype : forward + ", the rest in " + dtype) + ", backward " +
         (plain_backward ? dtype : shown_setting(loaded, "quant.learner.backward")) + ", on " +
         (learns_on_gpu(loaded.recipe) ? "cuda" : "cpu");
}

std::string adapters_text(const LoadedRecipe& loaded) {
  return "rank " + shown_setting(loaded, "lora.rank") + option(loaded, "alpha", "lora.alpha") +
         (loaded.recipe.lora.rslora ? " (rslora)" : "") + option(loaded, "on", "lora.target_modules") +
         (loaded.recipe.lora.train_norms ? ", norms" : "") + option(loaded, "published as", "lora.publish");
}

/// Returns "; actor.mini_batch_size: 64 gives 0.2's 2 updates" where that default made several updates of a step.
std::string updates_note(const LoadedRecipe& loaded) {
  constexpr std::int64_t kFormerDefault = 64;
  const std::int64_t prompts = loaded.recipe.data.train_batch_size;
  const bool is_set = loaded.origins.contains("actor.mini_batch_size");
  if (is_set || prompts <= kFormerDefault || prompts % kFormerDefault != 0) return "";
  return "; actor.mini_batch_size: " + std::to_string(kFormerDefault) + " gives 0.2's " +
         std::to_string(prompts / kFormerDefault * loaded.recipe.actor.ppo_epochs) + " updates";
}

std::string optimizer_text(const LoadedRecipe& loaded) {
  const std::int64_t updates = updates_per_step(loaded.recipe);
  const std::string warm_up = loaded.recipe.optim.lr_warmup_ratio
                                  ? option(loaded, "warm-up ratio", "optim.lr_warmup_ratio")
                                  : option(loaded, "warm-up", "optim.lr_warmup_steps");
  return shown_setting(loaded, "optim.name") + ", lr " + shown_setting(loaded, "optim.lr") +
         option(loaded, "schedule", "optim.lr_scheduler") + warm_up + "; " + std::to_string(updates) +
         (updates == 1 ? " update" : " updates") + " per step" + updates_note(loaded);
}

std::string verifier_text(const LoadedRecipe& loaded) {
  std::string text = shown_setting(loaded, "reward.verifier");
  text += params_text(loaded, *loaded.recipe.reward.verifier.option());
  const RewardRecipe& reward = loaded.recipe.reward;
  if (!reward.by_source.empty()) text += option(loaded, "by source", "reward.by_source");
  if (!reward.argv.empty()) text += option(loaded, "command", "reward.command");
  if (!reward.weights.empty()) text += option(loaded, "weights", "reward.weights");
  if (reward.aggregation != RewardAggregation::sum_then_normalize)
    text += option(loaded, "scores", "reward.aggregation");
  return text;
}

std::string sampling_text(const LoadedRecipe& loaded) {
  const RolloutRecipe& rollout = loaded.recipe.rollout;
  return shown_setting(loaded, "rollout.n") + " samples per prompt, temperature " +
         shown_setting(loaded, "rollout.temperature") +
         (rollout.top_p < 1 ? option(loaded, "top_p", "rollout.top_p") : "") +
         (rollout.top_k != -1 ? option(loaded, "top_k", "rollout.top_k") : "") + ", up to " +
         shown_setting(loaded, "data.max_response_length") + " tokens";
}

class IdleKeys {
 public:
  explicit IdleKeys(const LoadedRecipe& loaded) : loaded_(loaded) {}

  void add(std::string_view key) {
    if (is_set(key)) list(key);
  }
  /// Adds a key if the recipe changes it, or if the recipe sets algorithm.name and that loss changes the key's default.
  void add_of_loss(std::string_view key) {
    const config::Option& loss = *loaded_.recipe.algorithm.name.option();
    const config::Option& standard = *loaded_.recipe.keys->catalog().losses.default_option().option();
    const bool is_own = loss.default_of(key) != standard.default_of(key);
    if (is_set(key) || (is_own && is_set("algorithm.name"))) list(key);
  }
  void add_own(std::string_view key) {
    if (is_set(key) || is_set("algorithm.name")) list(key);
  }
  void warn(const std::string& why, const std::string& advice) const {
    if (!text_.empty()) base::log_warning(why + ", so these have no effect: " + text_ + "; " + advice);
  }

 private:
  /// Returns whether something gives the key a value that it would not have unset. A run's config.yaml has all keys.
  bool is_set(std::string_view name) const {
    if (loaded_.origins.count(std::string(name)) == 0) return false;
    const config::Key& key = *loaded_.recipe.keys->find(name);
    Recipe unset = loaded_.recipe;
    key.reset(unset);
    if (key.fill) key.fill(unset);
    return !key.equal(unset, loaded_.recipe);
  }
  void list(std::string_view key) {
    text_ += (text_.empty() ? "" : ", ") + std::string(key) + " " + shown_setting(loaded_, key);
  }

  const LoadedRecipe& loaded_;
  std::string text_;
};

void warn_of_one_update(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  // With behaviour_in_ratio, the ratio is relative to the sampler and is not 1.
  if (updates_per_step(recipe) > 1 || recipe.rollout_correction.behaviour_in_ratio) return;
  IdleKeys idle(loaded);
  const config::Option& loss = *recipe.algorithm.name.option();
  if (loss.needs_updates) idle.add("algorithm.name");
  for (const config::Param& own : loss.params)
    if (loss.needs_updates) idle.add(own.name);
  const auto add_clip = [&](std::string_view key) {
    // algorithm.name is already listed, so a key is listed only if the recipe sets it.
    if (loss.needs_updates) idle.add(key);
    else idle.add_of_loss(key);
  };
  add_clip("algorithm.clip_ratio_low");
  add_clip("algorithm.clip_ratio_high");
  if (recipe.algorithm.clip_ratio_c.value_or(0) != 0) add_clip("algorithm.clip_ratio_c");
  if (value_of(loaded, "rollout_correction.acr") == "true") idle.add("rollout_correction.acr");
  if (recipe.algorithm.router_replay == RouterReplay::old) idle.add("algorithm.router_replay");
  idle.warn("with one update per step the ratio to the old policy is 1",
            "set actor.mini_batch_size below data.train_batch_size, or actor.ppo_epochs above 1");
}

void warn_of_no_negatives(const LoadedRecipe& loaded) {
  const AlgorithmRecipe& algorithm = loaded.recipe.algorithm;
  // A teacher may still make a token's advantage negative.
  if (!algorithm.positive_only || !algorithm.teacher.path.empty()) return;
  IdleKeys idle(loaded);
  for (const config::Param& own : loaded.recipe.algorithm.name.option()->params) {
    if (own.of_negatives) idle.add_own(own.name);
  }
  idle.add("algorithm.clip_ratio_low");
  if (algorithm.clip_ratio_c.value_or(0) != 0) idle.add_of_loss("algorithm.clip_ratio_c");
  idle.warn("with algorithm.positive_only no advantage is negative",
            "set algorithm.positive_only: false, or remove them");
}

void warn_of_no_experts(const LoadedRecipe& loaded, const model::ModelConfig& model) {
  if (model.has_experts() || loaded.recipe.algorithm.router_replay == RouterReplay::none) return;
  IdleKeys idle(loaded);
  idle.add("algorithm.router_replay");
  idle.warn("the model is dense", "use a mixture of experts, or remove them");
}

void warn_of_wide_gap(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  if (recipe.model.path.empty() || recipe.quant.weights != WeightFormat::int4) return;
  if (recipe.quant.learner.forward != learner::LearnerForward::bf16) return;
  base::log_warning("quant.learner.forward " + shown_setting(loaded, "quant.learner.forward") +
                    " beside INT4 rollouts: on SmolLM2-135M (dequantized from 4 bits) the gap k3 was 5 to 94, and " +
                    "0.0003 with quant.learner.forward: low_bit (docs/science/real-weights.md)");
}

}  // namespace

std::string shown_setting(const LoadedRecipe& loaded, std::string_view key) {
  return value_of(loaded, key) + mark_of(loaded, key);
}

std::vector<std::string> describe_settings(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  std::vector<std::string> lines;
  add_mode(loaded, lines);
  if (state::is_gguf(recipe.model.path) && std::filesystem::is_regular_file(recipe.model.path))
    lines.push_back(line("model file", model::describe_gguf(recipe.model.path)));
  lines.push_back(line("loss", loss_text(loaded)));
  if (const std::string text = advantages_text(loaded); !text.empty()) lines.push_back(line("advantages", text));
  lines.push_back(line("correction", shown_setting(loaded, "rollout_correction.method") + idle_text(recipe) +
                                         option(loaded, "threshold", "rollout_correction.threshold") +
                                         option(loaded, "low", "rollout_correction.threshold_low") + own_text(loaded) +
                                         changed(loaded, "rollout_correction.",
                                                 {"rs", "rs_stat", "rs_threshold", "rs_threshold_low",
                                                  "token_veto_threshold", "batch_normalize"})));
  lines.push_back(line("sampler", sampler_text(loaded)));
  lines.push_back(line("learner", learner_text(loaded)));
  add_choices(loaded, lines);
  if (trains_adapters(recipe)) lines.push_back(line("adapters", adapters_text(loaded)));
  lines.push_back(line("optimizer", optimizer_text(loaded)));
  lines.push_back(line("verifier", verifier_text(loaded)));
  lines.push_back(line("sampling", sampling_text(loaded)));
  return lines;
}

std::string learning_rate_note(const Recipe& recipe, const model::ModelConfig& model) {
  // Measured with AdamW and all weights of SmolLM2-135M-Instruct. Larger models and adapters have not been measured.
  constexpr std::int64_t kLargest = 150'000'000;
  constexpr double kStill = 1e-6, kMoves = 2e-5;
  const bool is_like_it = recipe.optim.name == learner::OptimName::adamw && !trains_adapters(recipe) &&
                          model::num_parameters(model) <= kLargest;
  if (!is_like_it || recipe.optim.lr > kStill || recipe.trainer.total_training_steps == 0) return "";
  return base::format(
      "optim.lr %g did not move a model of 135M parameters in 30 steps, %g did (docs/howto/reward-does-not-rise.md)",
      recipe.optim.lr, kMoves);
}

void warn_of_settings(const LoadedRecipe& loaded, const model::ModelConfig& model) {
  warn_of_wide_gap(loaded);
  warn_of_one_update(loaded);
  warn_of_no_negatives(loaded);
  warn_of_no_experts(loaded, model);
}

void require_positions(const LoadedRecipe& loaded, const model::ModelConfig& config) {
  const DataRecipe& data = loaded.recipe.data;
  const std::int64_t longest = data.max_prompt_length + data.max_response_length;
  QRL_REQUIRE(longest <= config.max_position_embeddings, "data.max_prompt_length + data.max_response_length",
              "at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              shown_setting(loaded, "data.max_prompt_length") + " + " +
                  shown_setting(loaded, "data.max_response_length") + " = " + std::to_string(longest),
              "lower one of them");
}

void require_row_positions(const SftRows& rows, const model::ModelConfig& config) {
  QRL_REQUIRE(rows.longest <= config.max_position_embeddings, "sft.train_files and sft.val_files",
              "rows of at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(rows.longest) + " tokens", "lower sft.max_length, with sft.overlong: filter or truncate");
}

std::string recipe_hash(const LoadedRecipe& loaded) {
  state::Hash hash;
  hash.add(loaded.resolved_yaml);
  return hash.hex();
}

}  // namespace qrl::train
