// Tests what is refused for its size or because it has no effect, and the suggestions.
#include <string>

#include "support.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;

TEST_CASE("sizes: one digit too many is refused by name") {
  for (const char* key : {"rollout.n", "rollout.max_num_seqs", "rollout.max_num_batched_tokens", "rollout.page_size",
                          "rollout.kv_pages", "eval.n", "sft.batch_size", "data.train_batch_size", "trainer.threads",
                          "data.max_prompt_length", "data.max_response_length", "actor.mini_batch_size",
                          "actor.logprob_chunk_tokens", "data.train_generator.size", "data.val_generator.size"}) {
    const std::string line = faults("optim: {lr: 1}", {std::string(key) + "=1000000000"}).at(0);
    INFO(line);
    CHECK(holds(line, std::string("--set ") + key + ": expected "));
    CHECK(holds(line, "; at most "));
  }
  CHECK(read("rollout: {n: 65536, max_num_seqs: 65536, page_size: 4096}").rollout.n == 65536);
}

TEST_CASE("numbers: refused where fp32 would round them to zero or infinity") {
  for (const char* tiny : {"optim: {eps: 1e-300}", "optim: {eps: 1e-45}", "optim: {eps: 1e-39}", "optim: {lr: 1e-60}",
                           "rollout: {temperature: 1e-45}", "rollout: {top_p: 1e-300}", "eval: {top_p: 1e-300}",
                           "eval: {temperature: 1e-45}", "optim: {grad_clip: 1e39}", "reward: {wrong: -1e300}"}) {
    CHECK(holds(fault(tiny), "fp32 holds numbers from 1.2e-38 to 3.4e38, and 0"));
  }
  CHECK(read("optim: {eps: 1e-30, weight_decay: 0}").optim.eps == 1e-30);
  CHECK(read("eval: {temperature: 0}").eval.temperature == 0);
}

TEST_CASE("data.prompt_template: may be {prompt} alone") {
  CHECK(read("data: {prompt_template: \"{prompt}\"}").data.prompt_template == "{prompt}");
}

TEST_CASE("int8 lm_head: accepted with a low_bit learner") {
  CHECK(read("quant: {rollout: {lm_head: int8}, learner: {forward: low_bit}}").quant.lm_head ==
        train::HeadFormat::int8);
}

TEST_CASE("gain noise: stages are read") {
  CHECK(read("quant: {rollout: {noise: {start: 1e-2, end: 1e-3, stages: 3}}}").quant.noise.stages == 3);
}

TEST_CASE("devices: the decoder follows the learner unless set, and bitwise accepts every weight format") {
  CHECK(read("rollout: {device: cuda}").rollout.device == train::RolloutDevice::cuda);
  for (const char* devices : {"rollout: {device: cuda}", "trainer: {device: cuda}\nrollout: {device: cpu}"})
    CHECK(read(std::string(devices) + "\nquant: {rollout: {lm_head: int8}}").quant.lm_head == train::HeadFormat::int8);
  const train::Recipe both = read("trainer: {device: cuda}");
  CHECK(train::learns_on_gpu(both));
  CHECK(train::samples_on_gpu(both));
  CHECK(!train::samples_on_gpu(read("trainer: {device: cuda}\nrollout: {device: cpu}")));
  CHECK(!train::learns_on_gpu(read("rollout: {device: cuda}")));
  CHECK(read("trainer: {device: cuda}\nquant: {learner: {forward: low_bit}}").quant.learner.forward ==
        learner::LearnerForward::low_bit);
  const auto bitwise = [](const std::string& rollout, const std::string& quant) {
    return "trainer: {device: cuda}\nrollout: {bitwise: true" + rollout + "}\nquant: {learner: {forward: low_bit}" +
           quant + "}";
  };
  for (const std::string weights : {"int8", "bf16", "fp8_e4m3, kv_cache: bf16", "int4"})
    CHECK(read(bitwise(", temperature: 0.7", ", rollout: {weights: " + weights + "}")).rollout.bitwise);
  for (const std::string cut : {"top_p: 0.9", "top_k: 20"}) CHECK(read(bitwise(", " + cut, "")).rollout.bitwise);
  CHECK(holds(fault(bitwise("", ", rollout: {kv_cache: fp8_e4m3}")), "quant.rollout.kv_cache other than fp8_e4m3"));
}

TEST_CASE("int8 backward pass: accepted with an int8 forward pass") {
  CHECK(read("quant: {learner: {forward: low_bit, backward: int8}}").quant.learner.backward ==
        learner::LearnerBackward::int8);
}

TEST_CASE("fp8 backward pass: accepted with a forward pass in fp8 blocks, on either device") {
  const std::string end_to_end =
      "quant: {learner: {forward: low_bit, backward: fp8_e4m3}, rollout: {weights: fp8_e4m3, ";
  const std::string blocks = end_to_end + "granularity: block128}}\n";
  const auto fp8 = learner::LearnerBackward::fp8_e4m3;
  CHECK(read(blocks).quant.learner.backward == fp8);
  CHECK(read(blocks + "trainer: {device: cuda}").quant.learner.backward == fp8);
  CHECK(read(blocks + "actor: {max_tokens_per_micro_batch: 200000}").quant.learner.backward == fp8);
  CHECK(read("mode: fp8rl\nquant: {learner: {forward: low_bit, backward: fp8_e4m3}}").quant.learner.backward == fp8);
  const std::string in_blocks = "quant.rollout.granularity block128 with quant.learner.backward fp8_e4m3";
  for (const std::string granularity : {"auto", "tensor", "channel_token"})
    CHECK(holds(fault(end_to_end + "granularity: " + granularity + "}}"), in_blocks));
}

TEST_CASE("options with effect: accepted") {
  CHECK(read("quant: {rollout: {ignore: [down_proj], weights: int4}}").quant.ignore.size() == 1);
  CHECK(read("mode: qurl\nquant: {rollout: {weights: bf16}, uaq_scale: 1}").quant.uaq_scale == 1);
  CHECK(read("quant: {rollout: {profile: auto}}").quant.profile == "auto");
  CHECK(read("quant: {rollout: {profile: p/x.safetensors}}").quant.profile.ends_with("/p/x.safetensors"));
  CHECK(read("quant: {rollout: {profile: p/x.safetensors}}").quant.profile.starts_with("/"));
  CHECK(read("quant: {kv_calibration: {margin: 3}, rollout: {kv_cache: fp8_e4m3}}").quant.kv_margin == 3);
  CHECK(read("algorithm: {kl_loss_type: k3+, kl_loss_coef: 0.1}").algorithm.kl_loss_type == "k3+");
}

TEST_CASE("KL, rejection, estimators, warm-up: records and defaults of allowed combinations") {
  const auto record = [](const std::string& yaml, const Overrides& overrides) {
    return train::parse_recipe(train::keys(), yaml, "r.yaml", "/d", overrides, false, train::RecipeUse::record).recipe;
  };
  CHECK(record("algorithm: {kl_loss_type: k1}", {}).algorithm.kl_loss_type == "k1");  // recorded by an older program
  CHECK_THROWS_AS(record("algorithm: {kl_loss_coef: 0}", {"algorithm.kl_loss_type=k2"}), base::Error);
  CHECK(
      read("optim: {lr_warmup_ratio: 0.1, lr_warmup_steps: 3}", {"optim.lr_warmup_ratio=null"}).optim.lr_warmup_steps ==
      3);
  const auto estimated = read("algorithm: {adv_estimator: batch_std}").algorithm;
  CHECK(estimated.norm_adv_by_std == false);
  CHECK(read("trainer: {seed: 0}").algorithm.norm_adv_by_std == true);
  const auto correction = read("rollout_correction: {rs: seq_mean, rs_threshold: 1.25}").rollout_correction;
  CHECK(correction.rs_threshold_low == 0.8);
  CHECK_FALSE(
      read("rollout_correction: {rs: token, rs_stat: k3, rs_threshold: 1}").rollout_correction.rs_threshold_low);
}

TEST_CASE("dynamic sampling: refused if it could never fill a step") {
  const std::string draws =
      "data: {train_batch_size: 64, gen_batch_size: 30}\nalgorithm: {filter_groups: {enable: true, ";
  CHECK(holds(fault(draws + "max_num_gen_batches: 2}}"), "of at least data.train_batch_size = 64, got 60"));
  CHECK(read(draws + "max_num_gen_batches: 3}}").algorithm.filter_groups.max_num_gen_batches == 3);
  CHECK(read("algorithm: {filter_groups: {enable: true, max_num_gen_batches: 1}}").algorithm.filter_groups.enable);
}

TEST_CASE("error suggestions: none where no known name is near") {
  const std::string dapo = fault("algorithm: {name: unheard_of}");
  INFO(dapo);
  CHECK(dapo.ends_with(
      "expected grpo | dr_grpo | dapo | gspo | tbpo | cispo | sapo | dppo_tv | dppo_kl, got \"unheard_of\""));
}
