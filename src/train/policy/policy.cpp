#include "train/policy/policy.h"

#include "base/error.h"
#include "base/hub.h"
#include "base/log.h"
#include "base/text.h"
#include "model/gguf_model.h"
#include "model/int8_profile.h"
#include "model/peft.h"
#include "state/file.h"
#include "train/files/checkpoint_folder.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

model::WeightSource init_from(const Recipe& recipe, const model::ModelConfig& config) {
  return model::new_weights(config, recipe.model.init_seed.value_or(recipe.trainer.seed));
}

void check_fit(const data::Tokenizer& tokenizer, const model::ModelConfig& config, const std::string& where) {
  require_end_token(tokenizer, where);
  QRL_REQUIRE(tokenizer.vocab_size() <= config.vocab_size, where,
              "vocab_size of at least the tokenizer's " + std::to_string(tokenizer.vocab_size()) + " ids",
              std::to_string(config.vocab_size));
}

/// Returns the folder that a PEFT folder names as its base. If it does not exist, returns a folder of that name next to
/// the PEFT folder, or else the model with that Hub name.
fs::path base_folder(const fs::path& dir) {
  const std::string named = model::peft_base(dir);
  const fs::path beside = fs::absolute(dir).lexically_normal().parent_path() / fs::path(named).filename();
  std::error_code error;
  if (!named.empty() && fs::is_directory(named, error)) return named;
  if (!named.empty() && fs::is_directory(beside, error)) {
    if (!is_checkpoint(dir)) {
      base::log_warning(state::shown(dir / "adapter_config.json") + ": base_model_name_or_path " + base::quoted(named) +
                        " is not a folder here; using the base " + state::shown(beside));
    }
    return beside;
  }
  QRL_REQUIRE(base::is_hub_name(named), state::shown(dir / "adapter_config.json") + ": base_model_name_or_path",
              "the base's folder on this machine, or OWNER/NAME", named.empty() ? "no name" : base::quoted(named),
              "put the base there, or name its folder in the file");
  return base::model_folder(named);
}

Policy load_whole_policy(const fs::path& path) {
  const model::HfModel whole = model::open_model(path);
  return {whole.config, whole.weights, data::Tokenizer::load(path)};
}

Policy load_adapted_policy(const fs::path& dir) {
  const fs::path base_dir = base_folder(dir);
  const model::HfModel base = model::open_hf(base_dir);
  const model::PeftAdapter adapter = model::open_peft(dir, base.config);
  if (const std::string trained_on = is_checkpoint(dir) ? checkpoint_base_hash(dir) : std::string();
      !trained_on.empty()) {
    const std::string hash = model::weights_hash(base.config, base.weights);
    QRL_REQUIRE(hash == trained_on, state::shown(base_dir),
                "the weights that the adapters of " + state::shown(dir) + " were trained on, hash " + trained_on,
                "weights with hash " + hash,
                "restore the adapters' base there, or name its folder in adapter_config.json");
  }
  const fs::path tokenizer = fs::exists(dir / "tokenizer.json") ? dir : base_dir;
  return {base.config, model::merged_weights(base.config, base.weights, adapter.lora, adapter.adapters),
          data::Tokenizer::load(tokenizer),
          PolicyAdapter{adapter.lora, base.weights, adapter.adapters, base_dir.string()}};
}

void require_no_run(const fs::path& dir) {
  QRL_REQUIRE(!fs::is_directory(dir / "checkpoints"), state::shown(dir), "a checkpoint or a model's folder",
              "a run's folder", "name a checkpoint in " + state::shown(dir / "checkpoints"));
}

/// Returns the folder or the GGUF file of model.path. Throws an input error unless it holds a model or adapters.
fs::path given_folder(const std::string& path) {
  const fs::path folder = base::model_folder(path);
  if (state::is_gguf(folder) && fs::is_regular_file(folder)) return folder;
  QRL_REQUIRE(!fs::is_regular_file(folder), "model.path", "a Hugging Face folder or a GGUF file on this machine",
              "the file " + state::shown(folder), "name its folder");
  QRL_REQUIRE(fs::is_directory(folder), "model.path", "a Hugging Face folder on this machine",
              "no folder at " + state::shown(folder),
              "nothing is downloaded: fetch it first (hf download NAME --local-dir DIR), and spell out ~");
  require_no_run(folder);
  QRL_REQUIRE(fs::exists(folder / "config.json") || model::is_peft(folder), "model.path", "a Hugging Face folder",
              state::shown(folder) + ", which has no config.json", "name the folder with the model's files");
  return folder;
}

}  // namespace

void require_end_token(const data::Tokenizer& tokenizer, const std::string& where) {
  QRL_REQUIRE(
      tokenizer.eos() >= 0, where,
      "a tokenizer_config.json that names an `eos_token`, or a generation_config.json whose `eos_token_id` is a "
      "special token",
      "neither", "add one of them: nothing else marks the end of a response");
}

model::ModelConfig model_config(const Recipe& recipe) {
  if (recipe.model.path.empty()) return model::read_config(recipe.model.init_config);
  const fs::path folder = given_folder(recipe.model.path);
  QRL_REQUIRE(state::is_gguf(folder) || fs::exists(folder / "config.json"), "model.path", "a whole model's folder",
              "adapters, " + state::shown(folder), "set lora.path to it, and model.path to its base");
  return model::read_model_config(folder);
}

data::Tokenizer make_tokenizer(const Recipe& recipe, const model::ModelConfig& config) {
  const bool is_new = recipe.model.path.empty();
  const fs::path dir =
      is_new ? fs::path(recipe.model.init_config).parent_path() : base::model_folder(recipe.model.path);
  data::Tokenizer tokenizer =
      is_new && !fs::exists(dir / "tokenizer.json") ? data::Tokenizer::byte_level() : data::Tokenizer::load(dir);
  check_fit(tokenizer, config, is_new ? recipe.model.init_config : dir.string());
  return tokenizer;
}

Policy make_policy(const Recipe& recipe) {
  if (!recipe.model.path.empty()) return load_policy(given_folder(recipe.model.path));
  const model::ModelConfig config = model_config(recipe);
  return {config, init_from(recipe, config), make_tokenizer(recipe, config)};
}

Policy load_policy(const std::filesystem::path& dir) {
  if (is_checkpoint(dir)) require_sound_checkpoint(dir, "use another checkpoint");
  require_no_run(dir);
  Policy policy = model::is_peft(dir) ? load_adapted_policy(dir) : load_whole_policy(dir);
  check_fit(policy.tokenizer, policy.config, dir.string());
  return policy;
}

}  // namespace qrl::train
