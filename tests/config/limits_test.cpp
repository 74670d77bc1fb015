// Tests what is refused for its size or because it has no effect, and the suggestions.
#include <string>

#include "config/keys/key.h"
#include "config/reader.h"
#include "support.h"

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
  CHECK(holds(fault("trainer: {threads: 4096}"), "auto | integer from 1 to 1024, got 4096"));
  CHECK(read("rollout: {n: 65536, max_num_seqs: 65536, page_size: 4096}").rollout.n == 65536);
}

TEST_CASE("numbers: refused where fp32 would round them to zero or infinity") {
  for (const char* tiny : {"optim: {eps: 1e-300}", "optim: {eps: 1e-45}", "optim: {eps: 1e-39}", "optim: {lr: 1e-60}",
                           "rollout: {temperature: 1e-45}", "rollout: {top_p: 1e-300}", "eval: {top_p: 1e-300}",
                           "eval: {temperature: 1e-45}", "optim: {grad_clip: 1e39}", "reward: {wrong: -1e300}"}) {
    CHECK(holds(fault(tiny), "fp32 holds numbers from 1.2e-38 to 3.4e38, and 0"));
  }
  CHECK(holds(fault("optim: {betas: [0.9, 0.99999999999]}"), "in fp32 it is 1.0"));
  CHECK(read("optim: {eps: 1e-30, weight_decay: 0}").optim.eps == 1e-30);
  CHECK(read("eval: {temperature: 0}").eval.temperature == 0);
}

TEST_CASE("data.prompt_template: must contain {prompt} exactly once") {
  CHECK(holds(fault("data: {prompt_template: \"{prompt} or {prompt}\"}"),
              "text with one {prompt}, got \"{prompt} or {prompt}\", which contains {prompt} twice"));
  CHECK(read("data: {prompt_template: \"{prompt}\"}").data.prompt_template == "{prompt}");
}

TEST_CASE("int8 lm_head: refused where the learner would share it, and with fp32 weights") {
  CHECK(read("quant: {rollout: {lm_head: int8}, learner: {forward: low_bit}}").quant.lm_head ==
        config::HeadFormat::int8);
  CHECK(holds(fault("rollout: {bitwise: true}\nquant: {rollout: {lm_head: int8}, learner: {forward: low_bit}}"),
              "rollout.bitwise false with quant.rollout.lm_head int8"));
  CHECK(holds(fault("quant: {rollout: {lm_head: int8, weights: fp32}}"),
              "quant.rollout.weights other than fp32 with quant.rollout.lm_head int8"));
  CHECK(holds(fault("quant: {rollout: {lm_head: int8, ignore: [lm_head]}}"),
              "no lm_head in quant.rollout.ignore with quant.rollout.lm_head int8"));
}

TEST_CASE("gain noise: refused without effect, and where it is impossible") {
  CHECK(read("quant: {rollout: {noise: {start: 1e-2, end: 1e-3, stages: 3}}}").quant.noise.stages == 3);
  CHECK(holds(fault("quant: {rollout: {noise: {stages: 3}}}"), "with quant.rollout.noise.stages"));
  CHECK(holds(fault("quant: {rollout: {noise: {start: -1}}}"), "quant.rollout.noise.start"));
  CHECK(holds(fault("rollout: {bitwise: true}\nquant: {rollout: {noise: {start: 1}}, learner: {forward: low_bit}}"),
              "rollout.bitwise false with quant.rollout.noise.start above 0"));
  CHECK(holds(fault("rollout: {device: cuda}\nquant: {rollout: {noise: {start: 1}}}"),
              "rollout.device cpu with quant.rollout.noise.start above 0"));
  CHECK(holds(fault("quant: {rollout: {noise: {start: 1}, profile: auto}}"),
              "no quant.rollout.profile with quant.rollout.noise.start above 0"));
}

TEST_CASE("decoder on a GPU: unsupported settings are refused") {
  CHECK(read("rollout: {device: cuda}").rollout.device == config::RolloutDevice::cuda);
  CHECK(holds(fault("rollout: {device: cuda, bitwise: true}\nquant: {learner: {forward: low_bit}}"),
              "trainer.device and rollout.device the same with rollout.bitwise"));
  CHECK(holds(fault("rollout: {device: cuda}\nquant: {rollout: {weights: fp32}}"),
              "quant.rollout.weights other than fp32 with rollout.device cuda"));
  CHECK(holds(fault("rollout: {device: cuda}\nquant: {rollout: {lm_head: fp32}}"),
              "quant.rollout.lm_head auto or int8 with rollout.device cuda, got fp32"));
  for (const char* devices : {"rollout: {device: cuda}", "trainer: {device: cuda}\nrollout: {device: cpu}"})
    CHECK(read(std::string(devices) + "\nquant: {rollout: {lm_head: int8}}").quant.lm_head == config::HeadFormat::int8);
  CHECK(holds(fault("rollout: {device: cuda}\nquant: {rollout: {kv_cache: fp32}}"),
              "quant.rollout.kv_cache other than fp32 with rollout.device cuda"));
  CHECK(holds(fault("rollout: {device: gpu}"), "auto | cpu | cuda"));
  const config::Recipe both = read("trainer: {device: cuda}");
  CHECK(config::learns_on_gpu(both));
  CHECK(config::samples_on_gpu(both));
  CHECK(!config::samples_on_gpu(read("trainer: {device: cuda}\nrollout: {device: cpu}")));
  CHECK(!config::learns_on_gpu(read("rollout: {device: cuda}")));
  CHECK(read("trainer: {device: cuda}\nquant: {learner: {forward: low_bit}}").quant.learner_forward ==
        config::LearnerForward::low_bit);
  CHECK(holds(fault("trainer: {device: cuda}\nrollout: {device: cpu}\nquant: {learner: {forward: low_bit}}"),
              "rollout.device cuda with trainer.device cuda and quant.learner.forward low_bit"));
  CHECK(holds(fault("trainer: {device: cuda}\nquant: {learner: {forward: low_bit, backward: int8}}"),
              "quant.learner.backward model_dtype or fp8_e4m3 with trainer.device cuda"));
  const auto bitwise = [](const std::string& rollout, const std::string& quant) {
    return "trainer: {device: cuda}\nrollout: {bitwise: true" + rollout + "}\nquant: {learner: {forward: low_bit}" +
           quant + "}";
  };
  for (const std::string weights : {"int8", "bf16", "fp8_e4m3, kv_cache: bf16", "int4"})
    CHECK(read(bitwise(", temperature: 0.7", ", rollout: {weights: " + weights + "}")).rollout.bitwise);
  for (const std::string cut : {"top_p: 0.9", "top_k: 20"})
    CHECK(holds(fault(bitwise(", " + cut, "")), "rollout.top_p 1 and top_k -1 with rollout.bitwise"));
  CHECK(holds(fault(bitwise("", ", rollout: {kv_cache: fp8_e4m3}")), "quant.rollout.kv_cache other than fp8_e4m3"));
  CHECK(holds(fault("trainer: {device: cuda}\nquant: {rollout: {weights: fp32}}"),
              "quant.rollout.weights other than fp32 with rollout.device cuda"));
}

TEST_CASE("int8 backward pass: requires an int8 forward pass") {
  CHECK(read("quant: {learner: {forward: low_bit, backward: int8}}").quant.learner_backward ==
        config::LearnerBackward::int8);
  CHECK(
      holds(fault("quant: {learner: {backward: int8}}"), "quant.learner.forward low_bit with quant.learner.backward"));
  CHECK(holds(fault("quant: {learner: {forward: fake_quant, backward: int8}}"), "quant.learner.forward low_bit with"));
  CHECK(holds(fault("quant: {learner: {forward: low_bit, backward: int8}, rollout: {weights: int4}}"),
              "quant.rollout.weights int8 with quant.learner.backward int8"));
  CHECK(
      holds(fault("quant: {learner: {forward: low_bit, backward: int8}}\nactor: {max_tokens_per_micro_batch: 200000}"),
            "actor.max_tokens_per_micro_batch at most 131072 with quant.learner.backward int8"));
  CHECK(holds(fault("quant: {learner: {backward: bf16}}"), "model_dtype | int8 | fp8_e4m3"));
}

TEST_CASE("fp8 backward pass: requires a forward pass in fp8 blocks, on either device") {
  const std::string end_to_end =
      "quant: {learner: {forward: low_bit, backward: fp8_e4m3}, rollout: {weights: fp8_e4m3, ";
  const std::string blocks = end_to_end + "granularity: block128}}\n";
  const auto fp8 = config::LearnerBackward::fp8_e4m3;
  CHECK(read(blocks).quant.learner_backward == fp8);
  CHECK(read(blocks + "trainer: {device: cuda}").quant.learner_backward == fp8);
  CHECK(read(blocks + "actor: {max_tokens_per_micro_batch: 200000}").quant.learner_backward == fp8);
  CHECK(read("mode: fp8rl\nquant: {learner: {forward: low_bit, backward: fp8_e4m3}}").quant.learner_backward == fp8);
  CHECK(holds(fault("mode: fp8rl\nquant: {learner: {backward: fp8_e4m3}}"),
              "quant.learner.forward low_bit with quant.learner.backward fp8_e4m3"));
  CHECK(holds(fault("mode: fp8rl\nquant: {learner: {forward: fake_quant, backward: fp8_e4m3}}"),
              "quant.learner.forward low_bit with quant.learner.backward fp8_e4m3"));
  const std::string in_blocks = "quant.rollout.granularity block128 with quant.learner.backward fp8_e4m3";
  for (const std::string granularity : {"auto", "tensor", "channel_token"})
    CHECK(holds(fault(end_to_end + "granularity: " + granularity + "}}"), in_blocks));
  CHECK(holds(fault("quant: {learner: {forward: low_bit, backward: fp8_e4m3}}"), in_blocks));
  CHECK(holds(fault("mode: fp8rl\nquant: {learner: {forward: low_bit, backward: int8}}"),
              "quant.rollout.weights int8 with quant.learner.backward int8"));
}

TEST_CASE("options without effect: refused") {
  CHECK(holds(fault("quant: {kv_calibration: {percentile: 99}}"),
              "quant.rollout.kv_cache fp8_e4m3 with quant.kv_calibration.percentile, got auto"));
  CHECK(holds(fault("quant: {kv_calibration: {margin: 3}, rollout: {kv_cache: int8}}"), "r.yaml:1: "));
  CHECK(holds(fault("quant: {rollout: {queries: fp8_e4m3}}"),
              "quant.rollout.kv_cache fp8_e4m3 with quant.rollout.queries"));
  CHECK(holds(fault("rollout: {device: cuda}\nquant: {rollout: {queries: fp8_e4m3, kv_cache: fp8_e4m3}}"),
              "quant.rollout.queries auto with rollout.device cuda, got fp8_e4m3"));
  CHECK(holds(fault("quant: {kv_calibration: {when: once}}"), "with quant.kv_calibration.when"));
  CHECK(holds(fault("quant: {rollout: {ignore: [down_proj], weights: bf16}}"),
              "quant.rollout.weights int8 or fp8_e4m3 or int4 with quant.rollout.ignore"));
  CHECK(read("quant: {rollout: {ignore: [down_proj], weights: int4}}").quant.ignore.size() == 1);
  CHECK(holds(fault("quant: {rollout: {profile: auto, weights: fp8_e4m3}}"), "quant.rollout.weights int8"));
  CHECK(holds(fault("quant: {rollout: {profile: auto}, learner: {forward: low_bit}}"), "quant.learner.forward bf16"));
  CHECK(holds(fault("quant: {rollout: {profile: auto}, uaq_scale: 1.5}"), "quant.uaq_scale 1"));
  CHECK(holds(fault("quant: {rollout: {weights: bf16}, uaq_scale: 1.5}"),
              "quant.rollout.weights int8, fp8_e4m3 or int4 with quant.uaq_scale, got bf16"));
  CHECK(holds(fault("mode: qurl\nquant: {rollout: {weights: fp32}}"), "set quant.uaq_scale: 1"));
  CHECK(read("mode: qurl\nquant: {rollout: {weights: bf16}, uaq_scale: 1}").quant.uaq_scale == 1);
  CHECK(read("quant: {rollout: {profile: auto}}").quant.profile == "auto");
  CHECK(read("quant: {rollout: {profile: p/x.safetensors}}").quant.profile.ends_with("/p/x.safetensors"));
  CHECK(read("quant: {rollout: {profile: p/x.safetensors}}").quant.profile.starts_with("/"));
  CHECK(holds(fault("algorithm: {kl_loss_type: k2}"),
              "algorithm.kl_loss_coef above 0 with algorithm.kl_loss_type, got 0"));
  CHECK(read("quant: {kv_calibration: {margin: 3}, rollout: {kv_cache: fp8_e4m3}}").quant.kv_margin == 3);
  CHECK(read("algorithm: {kl_loss_type: k3+, kl_loss_coef: 0.1}").algorithm.kl_loss_type == "k3+");
  CHECK(
      holds(fault("algorithm: {clip_cov: {low: 2}}"), "algorithm.clip_cov.ratio above 0 with algorithm.clip_cov.low"));
  CHECK(holds(fault("algorithm: {reward_coef: 0}"), "algorithm.teacher.path with algorithm.reward_coef"));
  CHECK(holds(fault("algorithm: {positive_only: true, off_policy_mask_threshold: 0.1}"), "with positive_only"));
  CHECK(holds(fault("algorithm: {teacher: {weights: int8}}"), "algorithm.teacher.path with algorithm.teacher.weights"));
  CHECK(holds(fault("rollout_correction: {rs_threshold: 2}"),
              "rollout_correction.rs other than none with rollout_correction.rs_threshold"));
  CHECK(holds(fault("rollout_correction: {method: none, batch_normalize: true}"),
              "rollout_correction.method other than none with rollout_correction.batch_normalize"));
}

TEST_CASE("KL, rejection, estimators, warm-up: meaningless combinations are refused with the reason") {
  CHECK(holds(fault("algorithm: {kl_loss_type: k1, kl_loss_coef: 0.1}"),
              "expected algorithm.kl_loss_type k2, k3, k3+ or unbiased, got k1; its gradient as a loss is 0"));
  CHECK(holds(fault("algorithm: {kl_loss_type: k1}"), "algorithm.kl_loss_coef"));  // a single fault
  const auto record = [](const std::string& yaml, const Overrides& overrides) {
    return config::parse_recipe(train::keys(), yaml, "r.yaml", "/d", overrides, false, config::RecipeUse::record)
        .recipe;
  };
  CHECK(record("algorithm: {kl_loss_type: k1}", {}).algorithm.kl_loss_type == "k1");  // recorded by an older program
  CHECK_THROWS_AS(record("algorithm: {kl_loss_coef: 0}", {"algorithm.kl_loss_type=k2"}), base::Error);
  CHECK(holds(fault("rollout_correction: {rs: token}"),
              "rollout_correction.rs_threshold with rollout_correction.rs token"));
  CHECK(
      holds(fault("rollout_correction: {rs: token, rs_threshold: 0.9}"), "above 1 with rollout_correction.rs_stat k1"));
  CHECK(holds(fault("rollout_correction: {rs: seq_max, rs_threshold: 2}"),
              "rs_stat k2 or k3 with rollout_correction.rs seq_max, got k1"));
  CHECK(holds(fault("rollout_correction: {rs: token, rs_stat: k3, rs_threshold: 1, rs_threshold_low: 0.5}"),
              "rollout_correction.rs_stat k1 with rollout_correction.rs_threshold_low"));
  CHECK(holds(fault("algorithm: {clip_cov: {ratio: 0.1, low: 5}}"),
              "algorithm.clip_cov.high above algorithm.clip_cov.low"));
  CHECK(holds(fault("algorithm: {adv_estimator: rloo, norm_adv_by_std: true}"),
              "expected algorithm.norm_adv_by_std false with algorithm.adv_estimator rloo, got true"));
  CHECK(holds(fault("algorithm: {name: tbpo, top_entropy_quantile: 0.2}\nrollout_correction: {method: none}"),
              "single tokens cannot be left out"));
  CHECK(holds(fault("algorithm: {name: sapo, clip_ratio_low: 0.1}"), "a soft gate replaces the clip"));
  CHECK(holds(fault("algorithm: {name: cispo}\nrollout_correction: {acr: true}"), "no upper clip bound to raise"));
  CHECK(holds(fault("optim: {lr_warmup_ratio: 0.1, lr_warmup_steps: 3}"),
              "optim.lr_warmup_steps 10 with optim.lr_warmup_ratio, got 3; set only one: optim.lr_warmup_ratio: null"));
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
  CHECK(holds(fault("1: 2"), "; --help-all lists all keys"));
  const std::string dapo = fault("algorithm: {name: unheard_of}");
  INFO(dapo);
  CHECK(dapo.ends_with(
      "expected grpo | dr_grpo | dapo | gspo | tbpo | cispo | sapo | dppo_tv | dppo_kl, got \"unheard_of\""));
}
