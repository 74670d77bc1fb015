// Tests the section `lora`: what is refused, and the advice.
#include <string>

#include "support.h"
#include "train/recipe/catalog.h"

using namespace qrl;
using namespace qrl::test;

TEST_CASE("adapter keys: read, printed and read again") {
  const train::Recipe recipe =
      read("lora: {rank: 16, alpha: 64, rslora: true, target_modules: [q_proj, v_proj], train_norms: true}");
  CHECK(recipe.lora.rank == 16);
  CHECK(recipe.lora.alpha == 64);
  CHECK(recipe.lora.rslora);
  CHECK(recipe.lora.target_modules == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(recipe.keys->find("lora.target_modules")->print(recipe) == "[\"q_proj\", \"v_proj\"]");
  const train::Recipe all = read("lora: {rank: 1, target_modules: all-linear}");
  CHECK(all.lora.target_modules.empty());
  CHECK(all.keys->find("lora.target_modules")->print(all) == "all-linear");
  CHECK(read("optim: {lr: 1}").lora.rank == 0);
}

TEST_CASE("adapter keys: refused without a rank, and for ranks, scales and modules out of range") {
  for (const char* key : {"alpha: 16", "rslora: true", "target_modules: [q_proj]", "train_norms: true", "path: x",
                          "sft: adapters", "publish: merge"}) {
    CAPTURE(key);
    CHECK(holds(fault("lora: {" + std::string(key) + "}"), "lora.rank above 0 with lora."));
  }
}

TEST_CASE("adapters: an incompatible mode is named, with what to override") {
  const std::string qarl = fault("mode: qarl\nlora: {rank: 8}");
  INFO(qarl);
  CHECK(holds(qarl, "mode qarl"));
  CHECK(holds(qarl, "set optim.name: adamw"));
  CHECK(read("mode: qarl\nlora: {rank: 8}\noptim: {name: adamw}").lora.rank == 8);
  CHECK(read("mode: qurl\nlora: {rank: 8}\nquant: {uaq_scale: 1}").lora.rank == 8);
}
