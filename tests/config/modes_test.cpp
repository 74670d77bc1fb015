// Tests modes: their defaults rank below everything that a recipe sets, and a resolved recipe names each value's
// origin.
#include "config/modes/modes.h"

#include <fstream>

#include "support.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;

namespace {

const std::vector<const config::Option*>& all_modes() { return train::keys().catalog().modes.all(); }

/// Returns whether the recipe switches on the correction's own flag.
bool has_acr(const train::Recipe& recipe) {
  return recipe.keys->find("rollout_correction.acr")->print(recipe) == "true";
}

/// Returns the origin of a key in a recipe's annotated text.
std::string origin(const std::string& yaml, const std::string& key, const std::vector<std::string>& overrides = {}) {
  const std::string text = train::parse_recipe(train::keys(), yaml, "r.yaml", "/d", overrides, false).annotated_yaml;
  const std::string last = key.substr(key.rfind('.') + 1) + ": ";
  const std::size_t section = text.find(key.substr(0, key.find('.')) + ":");
  const std::size_t line = text.find(last, section), end = text.find('\n', line);
  return text.substr(text.find("# ", line) + 2, end - text.find("# ", line) - 2);
}

void write_file(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

TEST_CASE("modes: each alone is a valid recipe, and its defaults are keys with allowed values") {
  for (const config::Option* mode : all_modes()) {
    const std::string yaml = "mode: " + std::string(mode->word);
    CAPTURE(yaml);
    const train::Recipe recipe = read(yaml);
    CHECK(recipe.mode == mode->word);
    REQUIRE(!mode->defaults.empty());
    for (const config::KeyDefault& one : mode->defaults) {
      CAPTURE(one.key);
      const config::Key* key = train::keys().find(one.key);
      REQUIRE(key != nullptr);
      CHECK((one.with.empty() || train::keys().find(one.with) != nullptr));
      // Setting the value by hand gives the same value.
      CHECK(key->print(recipe) == key->print(read(yaml, {std::string(one.key) + "=" + std::string(one.value)})));
    }
  }
}

TEST_CASE("modes: values equal those of the papers") {
  const auto qurl = read("mode: qurl");
  CHECK(qurl.quant.uaq_scale == 1.5);
  CHECK(has_acr(qurl));
  CHECK(qurl.algorithm.kl_loss_coef == 1e-3);
  CHECK(qurl.data.train_batch_size == 4 * train::prompts_per_update(qurl));
  const auto qarl = read("mode: qarl");
  CHECK(qarl.quant.weights == train::WeightFormat::int4);
  CHECK(qarl.quant.learner.forward == learner::LearnerForward::low_bit);
  CHECK(qarl.algorithm.name == "tbpo");
  CHECK(qarl.rollout_correction.method == "tbpo");
  CHECK(qarl.optim.name == learner::OptimName::muon);
  CHECK(qarl.optim.weight_decay == 0.01);
  CHECK(read("mode: qarl", {"quant.rollout.activations=int8"}).quant.kv_cache == train::KvCache::bf16);
  const auto fp8rl = read("mode: fp8rl");
  CHECK(fp8rl.quant.granularity == train::Granularity::block128);
  CHECK(fp8rl.quant.kv_cache == train::KvCache::fp8_e4m3);
  CHECK(fp8rl.algorithm.name == "dapo");
  CHECK(fp8rl.data.train_batch_size == train::prompts_per_update(fp8rl));
  const auto ais = read("mode: ais");
  CHECK(ais.rollout_correction.method == "ais");
  CHECK(ais.algorithm.norm_adv_by_std == false);
  CHECK(ais.optim.betas == std::vector<double>{0.9, 0.99});
  CHECK(ais.data.train_batch_size * ais.rollout.n == 128);
  CHECK(ais.rollout.temperature == 0.9);
  CHECK(ais.optim.lr_warmup_ratio == 0.05);
  CHECK_FALSE(read("mode: ais", {"optim.lr_warmup_steps=3"}).optim.lr_warmup_ratio);
  const auto qerl = read("mode: qerl");
  CHECK(qerl.quant.weights == train::WeightFormat::int4);
  CHECK(qerl.quant.learner.forward == learner::LearnerForward::low_bit);
  CHECK(qerl.quant.noise.start == 1e-2);
  CHECK(qerl.quant.noise.end == 1e-4);
  CHECK(qerl.quant.noise.stages == 10);
  CHECK(qerl.lora.rank == 16);
  CHECK(qerl.lora.train_norms);
  CHECK(qerl.rollout_correction.method == "none");
  CHECK_FALSE(read("mode: qerl", {"lora.rank=0"}).lora.train_norms);
  CHECK(read("mode: bf16").rollout_correction.method == "none");
  CHECK(read("mode: flashrl").quant.weights == train::WeightFormat::int8);
}

TEST_CASE("modes: overridden by files, includes and arguments, wherever the mode is written") {
  const TempDir dir;
  write_file(dir / "base.yaml", "mode: qurl\noptim: {lr: 0.5}\n");
  write_file(dir / "top.yaml", "include: base.yaml\nquant: {uaq_scale: 1.25}\n");
  const auto load = [&](std::vector<std::string> overrides) {
    return train::load_recipe(train::keys(), dir / "top.yaml", overrides, false).recipe;
  };
  CHECK(load({}).optim.lr == 0.5);
  CHECK(load({}).quant.uaq_scale == 1.25);
  CHECK(has_acr(load({})));
  const train::Recipe other = load({"mode=ais"});
  CHECK(other.rollout_correction.method == "ais");
  CHECK(other.optim.grad_clip == 0.2);
  CHECK(other.optim.lr == 0.5);
  CHECK_FALSE(has_acr(other));
  CHECK(load({"mode=null"}).rollout_correction.method == "tis");
  CHECK(load({"rollout_correction.threshold=null"}).rollout_correction.threshold == 2.0);
}

TEST_CASE("modes: values tied to a format, loss or method are dropped when another is chosen") {
  CHECK(read("mode: fp8rl", {"quant.rollout.weights=int8"}).quant.granularity == train::Granularity::automatic);
  CHECK(read("mode: fp8rl", {"quant.rollout.weights=bf16"}).quant.kv_cache.is_auto);
  CHECK(read("mode: fp8rl", {"quant.rollout.weights=fp8_e4m3"}).quant.granularity == train::Granularity::block128);
  const train::Recipe icepop = read("mode: qurl", {"rollout_correction.method=icepop"});
  CHECK_FALSE(has_acr(icepop));
  CHECK(icepop.rollout_correction.threshold == 5.0);
  const auto dapo = read("mode: qurl", {"algorithm.name=dapo"});
  CHECK(dapo.algorithm.kl_loss_coef == 0);
  CHECK(has_acr(dapo));
  CHECK(read("mode: qarl", {"quant.rollout.weights=int8"}).quant.activations == train::ActivationFormat::automatic);
  CHECK(read("mode: ais", {"algorithm.name=dapo"}).algorithm.loss_agg_mode == learner::LossAggMode::token_mean);
  // A real contradiction names the mode as its origin.
  CHECK(holds(
      fault("mode: qurl", {"algorithm.name=gspo"}),
      "mode qurl: rollout_correction.acr: expected rollout_correction.acr false with algorithm.name gspo, got true"));
}

TEST_CASE("resolved recipe: names the origin of each value, and reads back equal") {
  const std::string yaml = "mode: qurl\noptim:\n  betas: [0.9, 0.95]\n";
  CHECK(origin(yaml, "mode") == "r.yaml:1");
  CHECK(origin(yaml, "optim.betas") == "r.yaml:3");
  CHECK(origin(yaml, "optim.lr") == "mode qurl");
  CHECK(origin(yaml, "optim.lr", {"optim.lr=2"}) == "--set optim.lr");
  CHECK(origin(yaml, "optim.eps") == "default");
  CHECK(origin(yaml, "algorithm.clip_ratio_low") == "default");
  CHECK(origin(yaml, "trainer.default_local_dir") == "default");
  // Null means the default, even if a recipe sets it.
  CHECK(origin("algorithm: {name: dapo, clip_ratio_c: null}", "algorithm.clip_ratio_c") == "default");
  CHECK(origin("algorithm: {name: dapo, clip_ratio_c: 0}", "algorithm.clip_ratio_c") == "r.yaml:1");
  for (const config::Option* mode : all_modes()) {
    const train::LoadedRecipe first =
        train::parse_recipe(train::keys(), "mode: " + std::string(mode->word), "r.yaml", "/d", {}, false);
    const train::LoadedRecipe second =
        train::parse_recipe(train::keys(), first.annotated_yaml, "r.yaml", "/d", {}, false);
    CHECK(first.recipe == second.recipe);
    CHECK(first.resolved_yaml == second.resolved_yaml);
  }
}
