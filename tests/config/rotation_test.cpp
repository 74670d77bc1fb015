// Tests the recipe keys of the rotation of quantized matrices' inputs.
#include <string>

#include "config/modes/modes.h"
#include "support.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;
using train::RotationKind;

TEST_CASE("quant.rollout.rotation: read and printed, and auto stays unresolved where only the model decides") {
  const train::Recipe set = read("quant: {rollout: {rotation: hadamard, rotation_block: 128}}");
  CHECK(set.quant.rotation == RotationKind::hadamard);
  CHECK(set.quant.rotation_block == 128);
  CHECK(set.keys->find("quant.rollout.rotation_block")->print(set) == "128");
  const auto becomes = [](const std::string& yaml, RotationKind want) {
    CAPTURE(yaml);
    CHECK(read(yaml).quant.rotation == want);
  };
  becomes("optim: {lr: 1}", RotationKind::automatic);  // int8
  becomes("quant: {rollout: {rotation: auto, weights: int8}}", RotationKind::automatic);
  for (const char* activations : {"bf16", "int8", "fp8_e4m3"})
    becomes(std::string("quant: {rollout: {weights: int4, activations: ") + activations + "}}", RotationKind::none);
  becomes("quant: {rollout: {weights: bf16}}", RotationKind::none);
  becomes("quant: {rollout: {weights: fp32}}", RotationKind::none);
  becomes("quant: {rollout: {weights: fp8_e4m3}}", RotationKind::none);
  becomes("quant: {rollout: {profile: auto}}", RotationKind::none);
  for (const char* devices :
       {"rollout: {device: cuda}", "trainer: {device: cuda}", "{trainer: {device: cuda}, rollout: {device: cpu}}",
        "{trainer: {device: cuda}, quant: {learner: {forward: fake_quant}}}"})
    becomes(devices, RotationKind::automatic);
  becomes("quant: {rollout: {rotation: none}}", RotationKind::none);
}

TEST_CASE("quant.rollout.rotation: modes of papers have none, unless the recipe sets one") {
  for (const char* mode : {"qurl", "flashrl", "fp8rl", "qarl", "qerl", "ais"}) {
    CAPTURE(mode);
    CHECK(read(std::string("mode: ") + mode).quant.rotation == RotationKind::none);
  }
  CHECK(read("{mode: qurl, quant: {rollout: {rotation: hadamard}}}").quant.rotation == RotationKind::hadamard);
}

TEST_CASE("quant.rollout.rotation: a record without the key means none, whatever auto means now") {
  const auto record = [](const std::string& yaml, const Overrides& overrides = {}) {
    return train::parse_recipe(train::keys(), yaml, "r.yaml", "/d", overrides, false, train::RecipeUse::record)
        .recipe.quant;
  };
  CHECK(record("quant: {rollout: {weights: int8}}").rotation == RotationKind::none);
  CHECK(record("quant: {rollout: {rotation: hadamard}}").rotation == RotationKind::hadamard);
  CHECK(record("quant: {rollout: {weights: int8}}", {"quant.rollout.rotation=auto"}).rotation ==
        RotationKind::automatic);
}

TEST_CASE("quant.rollout.rotation: unchanged on resume") {
  CHECK(train::keys().find("quant.rollout.rotation")->on_resume == config::OnResume::fixed);
  CHECK(train::keys().find("quant.rollout.rotation_block")->on_resume == config::OnResume::fixed);
}
