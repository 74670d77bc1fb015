// Tests runs that train adapters: the constant base, checkpoints, resuming, exports.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "model/peft.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

const std::string kAdapters = "--set lora.rank=4 --set quant.learner.forward=low_bit ";

/// Returns a bitwise run of the tiny recipe on adapters, made once per process.
const fs::path& adapter_run() {
  static const test::TempDir dir;
  static const fs::path run = [] {
    const test::Outcome outcome =
        test::run_command(test::tiny_command(dir / "run", kAdapters + "--set rollout.bitwise=true"));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return dir / "run";
  }();
  return run;
}

std::string quoted(const fs::path& path) { return " " + path.string() + " "; }

test::Outcome export_to(const fs::path& out, const fs::path& checkpoint, const std::string& arguments = "") {
  return test::run_command(test::kProgram + "export" + quoted(checkpoint) + "--out" + quoted(out) + arguments);
}

/// Returns adapters of the finished run as a PEFT folder.
fs::path given_adapters(const fs::path& out) {
  const test::Outcome outcome = export_to(out, adapter_run() / "checkpoints/step_4");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  return out;
}

/// Returns settings of a run on adapters without a cold start, on the base of given_adapters.
std::string on_base() {
  return "--set model.init.config=null --set sft.steps=0 --set model.path=" +
         (adapter_run() / "checkpoints/sft_12").string() + " " + kAdapters;
}

std::vector<float> read_tensor(const fs::path& file, const std::string& name) {
  const base::Buffer values = state::SafetensorsFile(file).read_f32(name);
  return {values.as<float>(), values.as<float>() + values.shape().numel()};
}

}  // namespace

TEST_CASE("bitwise run with adapters: has no gap, and its checkpoints hold only adapters") {
  for (const auto& row : test::stable_rows(adapter_run() / "metrics.jsonl")) {
    if (row.at("step") == 0) continue;
    CHECK(row.at("mismatch/k3_kl") == 0);
    CHECK(row.at("mismatch/probe_logp_abs_diff_max") == 0);
  }
  const fs::path checkpoint = adapter_run() / "checkpoints/step_4";
  CHECK(fs::exists(adapter_run() / "checkpoints/sft_12/model.safetensors"));
  CHECK_FALSE(fs::exists(checkpoint / "model.safetensors"));
  CHECK(model::is_peft(checkpoint));
  CHECK(fs::path(model::peft_base(checkpoint)).filename() == "sft_12");
  // A and B differ from their initial values, and the moments belong only to them.
  const auto names = state::SafetensorsFile(checkpoint / "optimizer.safetensors").tensors();
  CHECK(names.size() == 2 * 2 * 7 * 3);
  const std::vector<float> b = read_tensor(checkpoint / "adapter_model.safetensors",
                                           "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
  CHECK(std::ranges::any_of(b, [](float value) { return value != 0; }));
  const std::string audit = test::read_file(adapter_run() / "quant_audit.txt");
  CHECK(audit.find("layers.2.qkv.lora_A: sampler bf16 [12, 96]; learner low_bit; same storage\n") != std::string::npos);
}

TEST_CASE("new adapters: rollouts before the first update equal those without adapters") {
  const test::TempDir dir;
  const std::string from =
      "--set trainer.total_training_steps=1 --set sft.from=" + (adapter_run() / "checkpoints/sft_12").string() + " ";
  for (const std::string& format : {std::string("int8"), std::string("int4"), std::string("fp8_e4m3")}) {
    CAPTURE(format);
    const std::string common = from + "--set quant.rollout.weights=" + format + " ";
    const test::Outcome with = test::run_command(test::tiny_command(dir / (format + "a"), common + kAdapters));
    INFO(with.output);
    REQUIRE(with.exit_code == 0);
    REQUIRE(test::run_command(test::tiny_command(dir / (format + "b"), common)).exit_code == 0);
    const std::string rollouts = test::read_file(dir / (format + "a/rollouts/step_1.jsonl"));
    CHECK_FALSE(rollouts.empty());
    CHECK(rollouts == test::read_file(dir / (format + "b/rollouts/step_1.jsonl")));
  }
}

TEST_CASE("adapters resume: equal bits, with a KL reference and several updates a step") {
  const test::TempDir dir;
  const std::string from = "--set sft.from=" + (adapter_run() / "checkpoints/sft_12").string() + " ";
  for (const std::string& settings :
       {std::string(),
        std::string("--set algorithm.kl_loss_coef=0.1 --set actor.ppo_epochs=2 --set lora.train_norms=true"),
        std::string("--set quant.learner.forward=bf16 --set lora.publish=merge")}) {
    CAPTURE(settings);
    const std::string all = from + kAdapters + settings;
    const fs::path whole = dir / ("whole" + std::to_string(settings.size())),
                   cut = dir / ("cut" + std::to_string(settings.size()));
    const test::Outcome outcome = test::run_command(test::tiny_command(whole, all));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    REQUIRE(test::run_command(test::tiny_command(cut, all + " --set trainer.total_training_steps=2")).exit_code == 0);
    REQUIRE(test::run_command(test::tiny_command(cut, all)).exit_code == 0);
    CHECK(test::difference(whole, cut) == "");
  }
}

TEST_CASE("gain noise: follows its stages, creates a gap, and is equal after a resume") {
  const test::TempDir dir;
  const std::string settings = "--set sft.from=" + (adapter_run() / "checkpoints/sft_12").string() + " " + kAdapters +
                               "--set quant.rollout.lm_head=int8 --set eval.freq=0 --set trainer.save_freq=2 ";
  const std::string noise = "--set 'quant.rollout.noise={start: 0.2, end: 0.05, stages: 4}'";
  const test::Outcome whole = test::run_command(test::tiny_command(dir / "whole", settings + noise));
  INFO(whole.output);
  REQUIRE(whole.exit_code == 0);
  REQUIRE(test::run_command(test::tiny_command(dir / "plain", settings)).exit_code == 0);
  const auto rows = test::stable_rows(dir / "whole/metrics.jsonl"),
             plain = test::stable_rows(dir / "plain/metrics.jsonl");
  REQUIRE(rows.size() == 4);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double sigma = rows[i].at("quant/gain_noise_std");  // noise of the publish after this step
    CHECK(std::abs(sigma - std::array{0.2, 0.1, 0.05, 0.05}.at(i)) < 1e-12);
    const double gap = rows[i].at("mismatch/k3_kl"), usual = plain[i].at("mismatch/k3_kl");
    CHECK((gap > 4 * usual) == (i > 0));  // step 1 samples before there is noise
    CHECK(!plain[i].contains("quant/gain_noise_std"));
  }
  const std::string resumed = " --resume " + (dir / "whole/checkpoints/step_2").string();
  REQUIRE(test::run_command(test::tiny_command(dir / "branch", settings + noise + resumed)).exit_code == 0);
  CHECK(test::stable_rows(dir / "branch/metrics.jsonl") == std::vector<nlohmann::json>(rows.end() - 2, rows.end()));
  const fs::path last = "checkpoints/step_4/adapter_model.safetensors";
  CHECK(test::read_file(dir / "branch" / last) == test::read_file(dir / "whole" / last));
}

TEST_CASE("adapters: those of another base are refused by name") {
  const test::TempDir dir;
  fs::copy(adapter_run(), dir / "run", fs::copy_options::recursive);
  REQUIRE(test::run_command(test::kProgram +
                            "sft " QRL_SOURCE_DIR "/tests/train/tiny.yaml --set trainer.seed=9 "
                            "--set trainer.default_local_dir=" +
                            (dir / "other").string())
              .exit_code == 0);
  fs::remove_all(dir / "run/checkpoints/sft_12");
  fs::copy(dir / "other/checkpoints/sft_12", dir / "run/checkpoints/sft_12");
  const test::Outcome refused = test::run_command(
      test::tiny_command(dir / "run", kAdapters + "--set rollout.bitwise=true --set trainer.total_training_steps=5"));
  CHECK(refused.exit_code == 2);
  CHECK(
      test::says(refused, (dir / "run/checkpoints/sft_12").string() + ": expected the weights that the adapters of "));
  CHECK(test::says(refused, "got weights with hash "));
  const fs::path checkpoint = dir / "run/checkpoints/step_4";
  // The folder that the checkpoint names is still valid; after it is moved, only the other one exists.
  CHECK(export_to(dir / "merged", checkpoint, "--merge").exit_code == 0);
  fs::rename(adapter_run(), dir / "away");
  const test::Outcome merged = export_to(dir / "wrong", checkpoint, "--merge");
  fs::rename(dir / "away", adapter_run());
  CHECK(merged.exit_code == 2);
  CHECK(test::says(merged, "got weights with hash "));

  // model.path with weights other than those that the run began with.
  fs::copy(adapter_run() / "checkpoints/sft_12", dir / "base");
  const std::string on_model =
      "--set model.init.config=null --set sft.steps=0 --set model.path=" + (dir / "base").string() +
      " --set trainer.total_training_steps=1 " + kAdapters;
  REQUIRE(test::run_command(test::tiny_command(dir / "given", on_model)).exit_code == 0);
  fs::copy_file(dir / "other/checkpoints/sft_12/model.safetensors", dir / "base/model.safetensors",
                fs::copy_options::overwrite_existing);
  fs::remove(dir / "base/state.json");  // makes it a model's folder; a checkpoint would not match its manifest
  fs::remove(dir / "base/manifest.json");
  const test::Outcome resumed =
      test::run_command(test::tiny_command(dir / "given", on_model + "--set trainer.total_training_steps=2"));
  CHECK(resumed.exit_code == 2);
  CHECK(test::says(resumed, (dir / "base").string() + ": expected the weights that the adapters of " +
                                (dir / "given/checkpoints/step_1").string() + " were trained on, hash "));
  CHECK(test::says(resumed, "got weights with hash "));
}

TEST_CASE("export of adapters: writes a PEFT folder, or a model merged onto the quantized or original base") {
  const test::TempDir dir;
  const fs::path checkpoint = adapter_run() / "checkpoints/step_4", base = adapter_run() / "checkpoints/sft_12";
  REQUIRE(export_to(dir / "peft", checkpoint).exit_code == 0);
  CHECK(test::read_file(dir / "peft/adapter_model.safetensors") ==
        test::read_file(checkpoint / "adapter_model.safetensors"));
  CHECK(fs::exists(dir / "peft/tokenizer.json"));

  const auto merge = [&](const std::string& name, const std::string& arguments) {
    const test::Outcome outcome = export_to(dir / name, checkpoint, "--merge " + arguments);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.output.find("merged updates as stored: relative error ") != std::string::npos);
    CHECK(outcome.output.find("merged updates if the folder is quantized to int8: relative error ") !=
          std::string::npos);
    CHECK(outcome.output.find("the run sampled from adapters on int8 weights with int8 keys and values, which scored "
                              "countdown mean@2 ") != std::string::npos);
    return outcome.output;
  };
  const std::string as_trained = merge("quantized", "--dtype bfloat16");
  CHECK(as_trained.find("above 0.1") == std::string::npos);
  CHECK(as_trained.find("merging onto " + base.string() + ", quantized to int8\n") != std::string::npos);
  const std::string as_it_is = merge("original", "--onto original --dtype float32");
  CHECK(as_it_is.find("above 0.1") == std::string::npos);
  CHECK(as_it_is.find("merging onto " + base.string() + ", not quantized\n") != std::string::npos);
  merge("wide", "--onto quantized --dtype float32");
  const std::string name = "model.layers.1.mlp.down_proj";
  const std::string stored = "base_model.model." + name;
  const std::vector<float> w = read_tensor(base / "model.safetensors", name + ".weight"),
                           a = read_tensor(checkpoint / "adapter_model.safetensors", stored + ".lora_A.weight"),
                           b = read_tensor(checkpoint / "adapter_model.safetensors", stored + ".lora_B.weight");
  std::vector<float> quantized(w.size());
  const std::int64_t in = 256;
  quant::round_weights(quant::Format::int8, w, in, quantized);
  const auto worst_from = [&](const std::vector<float>& from, const std::string& model) {
    const std::vector<float> got = read_tensor(dir / model / "model.safetensors", name + ".weight");
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(in), column = i % static_cast<std::size_t>(in);
      double want = from[i];
      for (std::size_t r = 0; r < 4; ++r)
        want += 8.0 * b[row * 4 + r] * a[r * static_cast<std::size_t>(in) + column];  // alpha 32 / rank 4
      worst = std::max(worst, std::abs(got[i] - want));
    }
    return worst;
  };
  CHECK(worst_from(w, "original") < 1e-6);
  CHECK(worst_from(quantized, "wide") < 1e-6);
  CHECK(worst_from(quantized, "original") > 1e-4);
  // INT8 of the merged model is coarser than its update. The message says so, and its command avoids the loss.
  const std::string on_folder = " --checkpoint " + (dir / "wide").string();
  const test::Outcome again = test::run_command(test::kProgram + "eval " + test::kTiny + on_folder);
  CHECK(test::says(again, "quantizing the folder's weights now may lose"));
  CHECK(as_trained.find("the model may lose what its adapters learned") != std::string::npos);
  // A PEFT folder's adapters are not quantized.
  const std::string as_adapters = " --checkpoint " + (dir / "peft").string();
  const test::Outcome apart = test::run_command(test::kProgram + "eval " + test::kTiny + as_adapters);
  CHECK(test::says(apart, "sampled from adapters on int8 weights"));
  CHECK_FALSE(test::says(apart, "quantizing the folder's weights"));

  // Updates of a small learning rate are below the precision of bf16 next to the weights.
  REQUIRE(test::run_command(test::tiny_command(dir / "slow", kAdapters +
                                                                 "--set optim.lr=1e-6 --set sft.from=" + base.string() +
                                                                 " --set trainer.total_training_steps=1"))
              .exit_code == 0);
  const test::Outcome lossy = export_to(dir / "lossy", dir / "slow/checkpoints/step_1", "--merge --dtype bfloat16");
  CHECK(lossy.exit_code == 0);
  CHECK(lossy.output.find("by more than 0.1 of their update") != std::string::npos);

  // Tests a PEFT folder whose base was moved next to it, and one that names no base.
  fs::copy(base, dir / "sft_12");
  const std::string settings = test::read_file(dir / "peft/adapter_config.json");
  const auto with_base = [&](const std::string& out, const nlohmann::json& named) {
    auto changed = nlohmann::json::parse(settings);
    changed["base_model_name_or_path"] = named;
    std::ofstream(dir / "peft/adapter_config.json") << changed.dump();
    return export_to(dir / out, dir / "peft", "--merge");
  };
  const test::Outcome moved = with_base("from_moved", "/gone/sft_12");
  CHECK(moved.exit_code == 0);
  CHECK(test::says(moved, "base_model_name_or_path \"/gone/sft_12\" is not a folder here; using the base " +
                              (dir / "sft_12").string()));
  CHECK(test::says(moved, "merging onto " + (dir / "sft_12").string() + ", not quantized\n"));
  const test::Outcome unnamed = with_base("from_none", nullptr);
  CHECK(unnamed.exit_code == 2);
  CHECK(test::says(unnamed,
                   "adapter_config.json: base_model_name_or_path: expected the base's folder on this machine, "
                   "or OWNER/NAME, got no name"));

  const test::Outcome whole = export_to(dir / "no", base, "--merge");
  CHECK(whole.exit_code == 2);
  CHECK(whole.output.find("a checkpoint of adapters, got a checkpoint of all weights") != std::string::npos);
  CHECK(export_to(dir / "no", checkpoint, "--dtype float32").output.find("--merge as well") != std::string::npos);
  CHECK(export_to(dir / "no", checkpoint, "--onto original").output.find("add --merge") != std::string::npos);
}

TEST_CASE("eval of an adapter checkpoint: equals the run's figures") {
  const bool is_merged = GENERATE(false, true);
  const std::string published =
      is_merged ? "--set lora.rank=4 --set lora.publish=merge --set optim.lr=0.05 " : kAdapters;
  CAPTURE(published);
  const test::TempDir dir;
  const std::string settings = published + test::kTelling;
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run", settings + "--set eval.freq=1"));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const test::Outcome outcome =
      test::run_command(test::kProgram + "eval " QRL_SOURCE_DIR "/tests/train/tiny.yaml " + settings + "--out" +
                        quoted(dir / "eval") + "--checkpoint" + quoted(dir / "run/checkpoints/step_1"));
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const auto results = nlohmann::json::parse(test::read_file(dir / "eval/results.json"));
  CHECK(results.at("metrics") == test::held_out_figures(test::stable_rows(dir / "run/metrics.jsonl").back()));
}

TEST_CASE("lora.path: its adapters are evaluated if there is no checkpoint") {
  const test::TempDir dir;
  const fs::path peft = given_adapters(dir / "peft");
  const auto responses = [&](const std::string& name, const std::string& arguments) {
    const test::Outcome outcome = test::run_command(test::kProgram + "eval " + test::kTiny + " " + on_base() + "--out" +
                                                    quoted(dir / name) + arguments);
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    return test::read_file(dir / name / "responses.jsonl");
  };
  const std::string with = "--set lora.path=" + peft.string();
  const std::string given = responses("given", with);
  CHECK(given == responses("named", "--checkpoint " + peft.string()));
  CHECK(given != responses("base", ""));
  const auto results = nlohmann::json::parse(test::read_file(dir / "given/results.json"));
  CHECK(results.at("adapters") == peft.string());
  const test::Outcome other = test::run_command(test::kProgram + "generate " + test::kTiny + " " + on_base() + with +
                                                " --set lora.rank=3 --prompt 1");
  CHECK(other.exit_code == 2);
  CHECK(test::says(other, "adapters that match the recipe: rank 3"));
}

TEST_CASE("adapters resume: needs the lora.path folder only for its KL reference") {
  const test::TempDir dir;
  const fs::path peft = given_adapters(dir / "peft");
  const std::string settings = on_base() + "--set actor.mini_batch_size=4 --set lora.path=" + peft.string();
  const auto steps = [](int number) { return " --set trainer.total_training_steps=" + std::to_string(number); };
  const std::string kl = " --set algorithm.kl_loss_coef=0.1";
  REQUIRE(test::run_command(test::tiny_command(dir / "whole", settings + steps(2))).exit_code == 0);
  REQUIRE(test::run_command(test::tiny_command(dir / "cut", settings + steps(1))).exit_code == 0);
  REQUIRE(test::run_command(test::tiny_command(dir / "kl", settings + kl + steps(1))).exit_code == 0);
  fs::rename(peft, dir / "away");
  const test::Outcome plan = test::run_command(test::tiny_command(dir / "cut", settings + steps(2) + " --dry-run"));
  INFO(plan.output);
  CHECK(plan.exit_code == 0);
  const test::Outcome resumed = test::run_command(test::tiny_command(dir / "cut", settings + steps(2)));
  INFO(resumed.output);
  REQUIRE(resumed.exit_code == 0);
  CHECK(test::read_file(dir / "whole/checkpoints/step_2/adapter_model.safetensors") ==
        test::read_file(dir / "cut/checkpoints/step_2/adapter_model.safetensors"));
  const test::Outcome refused = test::run_command(test::tiny_command(dir / "kl", settings + kl + steps(2)));
  CHECK(refused.exit_code == 2);
  CHECK(test::says(refused, "the PEFT folder that algorithm.kl_loss_coef compares with, got no PEFT folder there"));
}

TEST_CASE("lora.path: a run starts from the PEFT folder, and another rank is refused") {
  const test::TempDir dir;
  const std::string on_model =
      on_base() + "--set lora.path=" + given_adapters(dir / "peft").string() +
      " --set trainer.total_training_steps=1 --set algorithm.kl_loss_coef=0.1 --set actor.mini_batch_size=4 ";
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run", on_model));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const auto row = test::stable_rows(dir / "run/metrics.jsonl").at(1);
  CHECK(row.at("actor/kl_loss") == 0);  // at its reference: the folder's adapters
  const test::Outcome refused = test::run_command(test::tiny_command(dir / "no", on_model + "--set lora.rank=3"));
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("adapters that match the recipe: rank 3") != std::string::npos);
  const auto plan = [&](const std::string& other) {
    return test::run_command(test::tiny_command(dir / "no", on_model + other + " --dry-run"));
  };
  CHECK(plan("").exit_code == 0);
  CHECK(plan("--set lora.rank=3").exit_code == 2);
  const test::Outcome absent = plan("--set lora.path=/nowhere");
  CHECK(absent.exit_code == 2);
  CHECK(absent.output.find("/nowhere/adapter_config.json (lora.path)") != std::string::npos);
}

TEST_CASE("cold start of a given model: trains the adapters, which become the KL reference") {
  const test::TempDir dir;
  const std::string settings =
      "--set model.init.config=null --set model.path=" + (adapter_run() / "checkpoints/sft_12").string() + " " +
      kAdapters + "--set algorithm.kl_loss_coef=0.1 --set actor.mini_batch_size=4";
  const test::Outcome run = test::run_command(test::tiny_command(dir / "run", settings));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  CHECK(model::is_peft(dir / "run/checkpoints/sft_12"));
  const auto rows = test::stable_rows(dir / "run/metrics.jsonl");
  CHECK(rows.at(1).at("actor/kl_loss") == 0);
  CHECK(rows.at(3).at("actor/kl_loss").get<double>() > 0);
}

TEST_CASE("adapters on two ranks: train as on one") {
  const std::string launcher = test::mpirun(2);
  if (launcher.empty()) return test::skip("no MPI");
  const test::TempDir dir;
  const std::string settings = "--set sft.from=" + (adapter_run() / "checkpoints/sft_12").string() + " " + kAdapters;
  const test::Outcome two = test::run_command(test::tiny_command(dir / "two", settings, launcher));
  INFO(two.output);
  REQUIRE(two.exit_code == 0);
  REQUIRE(test::run_command(test::tiny_command(dir / "one", settings)).exit_code == 0);
  const std::string name = "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight";
  const auto weights = [&](const std::string& run) {
    return read_tensor(dir / run / "checkpoints/step_4/adapter_model.safetensors", name);
  };
  const std::vector<float> a = weights("one"), b = weights("two");
  CHECK(std::any_of(a.begin(), a.end(), [](float value) { return value != 0; }));
  CHECK(a.size() == b.size());
  // The gradients differ only by the order of sums. Adam's first steps amplify that in weights that barely receive
  // gradients.
  const auto rows = test::stable_rows(dir / "one/metrics.jsonl"), others = test::stable_rows(dir / "two/metrics.jsonl");
  REQUIRE(rows.size() == others.size());
  for (std::size_t step = 1; step <= 2; ++step) {
    const double norm = rows.at(step).at("actor/grad_norm"), other = others.at(step).at("actor/grad_norm");
    CHECK(std::abs(norm - other) <= 1e-6 * norm);
    CHECK(norm > 0);
  }
}
