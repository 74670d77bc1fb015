// Tests the section `lora`: what is refused, and the advice.
#include <string>

#include "config/keys/key.h"
#include "support.h"

using namespace qrl;
using namespace qrl::test;

TEST_CASE("adapter keys: read, printed and read again") {
  const config::Recipe recipe =
      read("lora: {rank: 16, alpha: 64, rslora: true, target_modules: [q_proj, v_proj], train_norms: true}");
  CHECK(recipe.lora.rank == 16);
  CHECK(recipe.lora.alpha == 64);
  CHECK(recipe.lora.rslora);
  CHECK(recipe.lora.target_modules == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(recipe.keys->find("lora.target_modules")->print(recipe) == "[\"q_proj\", \"v_proj\"]");
  const config::Recipe all = read("lora: {rank: 1, target_modules: all-linear}");
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
  CHECK(holds(fault("lora: {rank: -1}"), "lora.rank: expected integer from 0 to 1024, got -1"));
  CHECK(holds(fault("lora: {rank: 5000}"), "lora.rank: expected integer from 0 to 1024, got 5000"));
  CHECK(holds(fault("lora: {rank: 8, alpha: 0}"), "lora.alpha: expected float > 0, got 0"));
  CHECK(holds(fault("lora: {rank: 8, target_modules: []}"), "name modules: [q_proj, v_proj]"));
  CHECK(holds(fault("lora: {rank: 8, target_modules: q_proj}"), "write a list: [a, b]"));
}

TEST_CASE("adapters: incompatible settings are refused by name, with what to set") {
  const auto refused = [](const std::string& rest, const std::string& part) {
    const std::string line = fault("lora: {rank: 8}\n" + rest);
    INFO(line);
    CHECK(holds(line, part));
  };
  refused("trainer: {zero_stage: 1}", "trainer.zero_stage 0 with lora.rank above 0");
  refused("optim: {name: muon}", "set optim.name: adamw");
  refused("quant: {uaq_scale: 1.5}", "set quant.uaq_scale: 1");
  refused("quant: {rollout: {profile: auto}}", "set quant.rollout.profile: null");
  refused("model: {init: {config: x.json}}", "a new model without a cold start");
  CHECK(holds(fault("lora: {rank: 8, publish: merge}\nquant: {learner: {forward: low_bit}}"),
              "quant.learner.forward bf16 with lora.publish merge"));
  CHECK(holds(fault("lora: {rank: 8, sft: full}"), "there is no cold start: delete lora.sft"));
  CHECK(holds(fault("lora: {rank: 8, sft: adapters}\nmodel: {init: {config: x.json}}\n"
                    "sft: {steps: 1, demonstrations: {task: countdown}}"),
              "set lora.sft: full"));
  CHECK(holds(fault("lora: {rank: 8, path: x}\nmodel: {init: {config: x.json}}\n"
                    "sft: {steps: 1, demonstrations: {task: countdown}}"),
              "an adapter belongs to the weights that it was trained on"));
}

TEST_CASE("adapters: an incompatible mode is named, with what to override") {
  CHECK(holds(fault("mode: qurl\nlora: {rank: 8}"), "set quant.uaq_scale: 1"));
  const std::string qarl = fault("mode: qarl\nlora: {rank: 8}");
  INFO(qarl);
  CHECK(holds(qarl, "mode qarl"));
  CHECK(holds(qarl, "set optim.name: adamw"));
  CHECK(read("mode: qarl\nlora: {rank: 8}\noptim: {name: adamw}").lora.rank == 8);
  CHECK(read("mode: qurl\nlora: {rank: 8}\nquant: {uaq_scale: 1}").lora.rank == 8);
}

TEST_CASE("adapter keys: other trainers' names lead to ours") {
  CHECK(holds(fault("lora_rank: 8"), "lora.rank"));
  CHECK(holds(fault("lora_target_modules: [q_proj]"), "lora.target_modules"));
  const std::pair<const char*, const char*> cases[] = {
      {"r: 8", "here it is lora.rank"},
      {"dim: 8", "here it is lora.rank"},
      {"lora_rank: 8", "here it is lora.rank"},
      {"lora_alpha: 8", "here it is lora.alpha"},
      {"enabled: true", "here it is lora.rank (0 means no adapters)"},
      {"dropout: 0.1", "it has no counterpart here: adapters have no dropout"},
      {"merge: true", "here it is lora.publish (adapter or merge"},
      {"adapter_path: x", "here it is lora.path"},
      {"exclude_modules: [lm_head]", "here it is lora.target_modules"},
      {"modules_to_save: [norm]", "here it is lora.train_norms"}};
  for (const auto& [setting, advice] : cases) {
    CAPTURE(setting);
    CHECK(holds(fault("lora: {" + std::string(setting) + "}"), advice));
  }
  CHECK(holds(fault("load_in_4bit: true"), "quant.rollout.weights: int4"));
}
