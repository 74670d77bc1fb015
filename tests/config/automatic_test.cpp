// Tests what `auto` means for quant.learner.forward, rollout.bitwise and quant.rollout.kv_cache, before and after a
// decision for matched forward passes.
#include "train/recipe/automatic.h"

#include <filesystem>
#include <string>
#include <vector>

#include "config/modes/modes.h"
#include "support.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;
using learner::LearnerForward;
using train::KvCache;
using train::MatchedForward;

namespace {

train::Keys keys_with(const MatchedForward& decided) { return train::Keys(train::keys().catalog(), decided); }

/// Returns the values of the three keys, as in "low_bit true int8".
std::string values(const train::Keys& keys, const std::string& yaml, const Overrides& overrides = {},
                   train::RecipeUse use = train::RecipeUse::training) {
  train::Recipe recipe = train::parse_recipe(keys, yaml, "r.yaml", "/d", overrides, false, use).recipe;
  (void)train::resolve_automatic(recipe);
  std::string text;
  for (const std::string_view key : train::kAutomaticKeys)
    text += (text.empty() ? "" : " ") + keys.find(key)->print(recipe);
  return text;
}

const std::string kGpu = "trainer: {device: cuda}";
const std::string kMixed = "trainer: {device: cuda}\nrollout: {device: cpu}";

std::string weights(const std::string& format) { return "quant: {rollout: {weights: " + format + "}}"; }

}  // namespace

TEST_CASE("automatic keys: without a decision the learner is bf16 and nothing has equal bits") {
  const train::Keys keys = keys_with({});
  for (const std::string& yaml :
       {std::string("optim: {lr: 1}"), kGpu, kMixed, weights("int8"), weights("fp8_e4m3"), weights("int4"),
        weights("bf16"), std::string("quant: {learner: {forward: auto}}"), std::string("rollout: {bitwise: auto}")}) {
    CAPTURE(yaml);
    CHECK(values(keys, yaml) == "bf16 false bf16");
  }
}

TEST_CASE("automatic keys: a decision chooses low_bit where the sampler's GEMM is, and fake_quant beside it") {
  const train::Keys keys = keys_with({.on_cpu = true, .on_gpu = true, .bitwise = false});
  CHECK(values(keys, "optim: {lr: 1}") == "low_bit false bf16");
  CHECK(values(keys, weights("int4")) == "low_bit false bf16");
  CHECK(values(keys, weights("fp8_e4m3")) == "low_bit false bf16");
  CHECK(values(keys, weights("bf16")) == "bf16 false bf16");
  CHECK(values(keys, weights("fp32")) == "bf16 false fp32");
  CHECK(values(keys, "quant: {rollout: {profile: auto}}") == "bf16 false bf16");
  CHECK(values(keys, "{model: {path: m}, lora: {rank: 4, publish: merge}}") == "bf16 false bf16");
  CHECK(values(keys, "{model: {path: m}, lora: {rank: 4}}") == "low_bit false bf16");
  CHECK(values(keys, kGpu) == "low_bit false bf16");
  CHECK(values(keys, "rollout: {device: cuda}") == "low_bit false bf16");
  CHECK(values(keys, kMixed) == "fake_quant false bf16");
  CHECK(values(keys, kMixed + "\nquant: {rollout: {weights: int4, rotation: hadamard}}") == "fake_quant false bf16");
}

TEST_CASE("automatic keys: a decision for one kind of device leaves the other") {
  const train::Keys cpu = keys_with({.on_cpu = true}), gpu = keys_with({.on_gpu = true});
  CHECK(values(cpu, "optim: {lr: 1}") == "low_bit false bf16");
  CHECK(values(gpu, "optim: {lr: 1}") == "bf16 false bf16");
  for (const std::string& yaml : {kGpu, std::string("rollout: {device: cuda}")}) {
    CAPTURE(yaml);
    CHECK(values(cpu, yaml) == "bf16 false bf16");
    CHECK(values(gpu, yaml) == "low_bit false bf16");
  }
}

TEST_CASE("automatic keys: equal bits come on top of low_bit on the CPU alone") {
  const train::Keys keys = keys_with({.on_cpu = true, .on_gpu = true, .bitwise = true});
  CHECK(values(keys, "optim: {lr: 1}") == "low_bit true int8");
  CHECK(values(keys, weights("int4")) == "low_bit true bf16");
  CHECK(values(keys, kGpu) == "low_bit false bf16");
  CHECK(values(keys, "rollout: {device: cuda}") == "low_bit false bf16");
  CHECK(values(keys, "quant: {rollout: {kv_cache: fp8_e4m3}}") == "low_bit false fp8_e4m3");
  CHECK(values(keys, "quant: {rollout: {lm_head: int8}}") == "low_bit false bf16");
  CHECK(values(keys, "quant: {rollout: {noise: {start: 0.01}}}") == "low_bit false bf16");
  CHECK(values(keys, "quant: {rollout: {kv_cache: bf16}}") == "low_bit true bf16");
  CHECK(values(keys, weights("bf16")) == "bf16 false bf16");
  CHECK(values(keys_with({.bitwise = true}), "optim: {lr: 1}") == "bf16 false bf16");
}

TEST_CASE("automatic keys: what a recipe sets is never overridden") {
  const train::Keys none = keys_with({}), all = keys_with({true, true, true});
  CHECK(values(all, "quant: {learner: {forward: bf16}}") == "bf16 false bf16");
  CHECK(values(all, "quant: {learner: {forward: fake_quant}}") == "fake_quant false bf16");
  CHECK(values(all, "rollout: {bitwise: false}") == "low_bit false bf16");
  CHECK(values(none, "{rollout: {bitwise: true}, quant: {learner: {forward: low_bit}}}") == "low_bit true int8");
  CHECK(values(none, "quant: {rollout: {kv_cache: int8}}") == "bf16 false int8");
  CHECK(values(all, "{rollout: {bitwise: true}, quant: {rollout: {kv_cache: fp32}}}") == "low_bit true fp32");
}

TEST_CASE("automatic keys: a key that needs another reads the value chosen for it") {
  const train::Keys none = keys_with({}), all = keys_with({true, true, true});
  const std::string backward = "quant: {learner: {backward: int8}}";
  CHECK_THROWS_WITH(values(none, "rollout: {bitwise: true}"),
                    Catch::Contains("quant.learner.forward low_bit with rollout.bitwise, got bf16"));
  CHECK_THROWS_WITH(values(none, backward), Catch::Contains("low_bit with quant.learner.backward int8, got bf16"));
  CHECK(values(all, backward) == "low_bit true int8");
}

TEST_CASE("automatic keys: a record without a word means what 0.2 meant") {
  const train::Keys all = keys_with({true, true, true});
  const auto record = [&](const std::string& yaml, const Overrides& overrides = {}) {
    return values(all, yaml, overrides, train::RecipeUse::record);
  };
  CHECK(record("quant: {rollout: {kv_cache: auto}}") == "bf16 false int8");
  CHECK(record("optim: {lr: 1}") == "bf16 false int8");
  CHECK(record("quant: {rollout: {weights: int4, activations: int8, kv_cache: auto}}") == "bf16 false int8");
  CHECK(record("quant: {rollout: {weights: int4, kv_cache: auto}}") == "bf16 false bf16");
  CHECK(record("quant: {rollout: {weights: fp32, kv_cache: auto}}") == "bf16 false fp32");
  CHECK(record("quant: {rollout: {kv_cache: bf16}, learner: {forward: low_bit}}") == "low_bit false bf16");
  CHECK(record("optim: {lr: 1}", {"quant.rollout.kv_cache=auto"}) == "bf16 false bf16");
}

TEST_CASE("automatic keys: recorded pages that were chosen for its weights follow other weights, and set ones stay") {
  const train::Keys all = keys_with({true, true, true});
  const auto record = [&](const std::string& kv_cache, const Overrides& overrides) {
    const std::string yaml =
        "{rollout: {bitwise: false}, quant: {learner: {forward: bf16}, rollout: {weights: int8, kv_cache: " + kv_cache +
        "}}}";
    return values(all, yaml, overrides, train::RecipeUse::record);
  };
  CHECK(record("bf16", {"quant.rollout.weights=fp32"}) == "bf16 false fp32");
  CHECK(record("int8", {"quant.rollout.weights=fp32"}) == "bf16 false int8");
  CHECK(record("bf16", {"quant.rollout.weights=fp32", "quant.rollout.kv_cache=bf16"}) == "bf16 false bf16");
  CHECK(record("bf16", {"optim.lr=1"}) == "bf16 false bf16");
  CHECK(record("auto", {"quant.rollout.weights=fp32"}) == "bf16 false fp32");
}

TEST_CASE("automatic keys: each choice has a reason, and none is left open") {
  for (const MatchedForward& decided : {MatchedForward{}, MatchedForward{true, true, true}}) {
    const train::Keys keys = keys_with(decided);
    train::Recipe recipe = train::parse_recipe(keys, "optim: {lr: 1}", "r.yaml", "/d", {}, false).recipe;
    const std::vector<train::AutoChoice> choices = train::resolve_automatic(recipe);
    REQUIRE(choices.size() == train::kAutomaticKeys.size());
    for (const train::AutoChoice& one : choices) CHECK_FALSE(one.why.empty());
    CHECK(train::resolve_automatic(recipe).empty());
    for (const std::string_view key : train::kAutomaticKeys) CHECK(keys.find(key)->print(recipe) != "auto");
  }
}

TEST_CASE("automatic keys: every recipe of the repository is accepted whatever is decided") {
  const train::Keys all = keys_with({true, true, true});
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(QRL_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    INFO(entry.path());
    CHECK_NOTHROW(train::load_recipe(all, entry.path(), {}, false));
  }
  CHECK(count > 90);
}
