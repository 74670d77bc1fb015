// Tests the limits that benchmarks compare their times with, counted by hand for the quickstart's shape. Also tests the
// figures they print and the arguments they refuse.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/weights.h"
#include "support/catch.h"
#include "tick_limit.h"
#include "train/support.h"

using namespace qrl;

namespace {

// 3 layers of 96: q 96 × 96, k and v 32 × 96, o 96 × 96, gate and up 256 × 96, down 96 × 256; a vocabulary of 259.
constexpr double kLayers = 3 * (96 * 96 + 2 * 32 * 96 + 96 * 96 + 3 * 96 * 256), kHead = 259 * 96;
constexpr double kQueries = 3 * 3 * 32;  // of one row, all layers

model::ModelConfig quickstart() { return model::read_config(QRL_SOURCE_DIR "/recipes/models/quickstart/config.json"); }

nlohmann::json bench(const std::string& arguments) {
  const test::Outcome outcome =
      test::run_command(QRL_BINARY_DIR "/qrl-bench " + arguments + " --shape quickstart --rounds 1 --json");
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const std::size_t last = outcome.output.rfind('\n', outcome.output.size() - 2);
  return nlohmann::json::parse(outcome.output.substr(last == std::string::npos ? 0 : last + 1));
}

/// Checks a figure of a benchmark's JSON that is computed from other figures, up to rounding of doubles.
void same(double figure, double want) { CHECK(test::close(figure, want, 0, 1e-9)); }

/// Two groups of 2 samples, forward and backward: 8 prompt tokens, 7 of them computed once per group, and 4 new tokens.
constexpr double kRows = 2 * (7 + 2 * 5), kCounted = 2 * 2 * 4;
constexpr double kVisible = 2 * (7 * 8 / 2 + 2 * (5 * 6 / 2 + 5 * 7));
constexpr double kLearner = 6 * kLayers * kRows + 6 * kHead * kCounted + 12 * kVisible * kQueries;
constexpr double kUnshared = 6 * (kLayers + kHead) * 4 * 12 + 12 * (4 * 12 * 12 / 2) * kQueries;

void check_learner_figures(const nlohmann::json& figures) {
  const double learner_s = figures.at("learner_s"), peak = 1e12 * figures.at("ceiling_bf16_tflops").get<double>();
  REQUIRE(learner_s > 0);
  same(figures.at("learner_share_of_limit"), kLearner / learner_s / peak);
  same(figures.at("learner_share_as_if_unshared"), kUnshared / learner_s / peak);
  same(figures.at("learner_tokens_per_s"), 4 * 12 / learner_s);
  same(figures.at("learner_response_tokens_per_s"), kCounted / learner_s);
}

}  // namespace

TEST_CASE("update work: operations without shared prompts equal a count by hand") {
  CHECK(app::unshared_learner_operations(quickstart(), 4, 12) == kUnshared);
}

TEST_CASE("GPU tick: counts padded weights with scales, KV pages, and operations of layers and of the rest") {
  // qkv 160 (192 in whole tiles of 64) x 96 (128), o 96 (128) x 96 (128), gate_up 512 x 96 (128), down 96 (128) x 256;
  // lm_head 259 (320) x 96 (128).
  constexpr double kWeights = 3 * (192 * 128 + 128 * 128 + 512 * 128 + 128 * 256),
                   kScales = 3 * (192 + 128 + 512 + 128), kHeadBytes = 2 * 320 * 128,
                   kPositions = 2 * 3 * 1 * 2 * 10;  // keys and values of 1 kv head
  const auto work = [](quant::Format format, quant::KvFormat kv) {
    return app::gpu_tick_work(quickstart(), format, quant::Format::bf16, {2, 10, kv, 16});
  };
  const app::TickWork int8 = work(quant::Format::int8, quant::KvFormat::int8);
  CHECK(int8.num_bytes == kWeights + 4 * kScales + kHeadBytes + kPositions * (32 + 4));
  CHECK(int8.layer_operations == 2 * 2 * kLayers);
  CHECK(int8.other_operations == 2 * 2 * kHead + 4 * 2 * 10 * kQueries);
  CHECK(work(quant::Format::bf16, quant::KvFormat::bf16).num_bytes == 2 * kWeights + kHeadBytes + kPositions * 32 * 2);
  const app::TickWork int8_head =
      app::gpu_tick_work(quickstart(), quant::Format::int8, quant::Format::int8, {2, 10, quant::KvFormat::int8, 16});
  CHECK(int8.num_bytes - int8_head.num_bytes == kHeadBytes / 2 - 4 * 320);  // 320 scales
  CHECK(int8.other_operations - int8_head.other_operations == 2 * kHead);
}

TEST_CASE("GPU attention: counts four operations per query element and position, and the bytes of its pages") {
  const auto work = [](quant::KvFormat format) { return app::attention_of_tick(quickstart(), {2, 10.5, format, 16}); };
  CHECK(work(quant::KvFormat::bf16).operations == 4 * 2 * 10.5 * kQueries);
  CHECK(work(quant::KvFormat::bf16).kv_bytes == 2 * 10.5 * 3 * 2 * 32 * 2);
  CHECK(work(quant::KvFormat::f32).kv_bytes == 2 * 10.5 * 3 * 2 * 32 * 4);
  CHECK(work(quant::KvFormat::int8).kv_bytes == 2 * 10.5 * 3 * 2 * (32 + 4));  // one scale per slot
}

TEST_CASE("tick limit: the longer of operations over their ceilings and bytes over DRAM bandwidth") {
  model::Snapshot snapshot(quickstart(), quant::Format::int8);
  constexpr double kBatch = 64, kContext = 100;
  const app::DecodeTick tick{kBatch, kContext, quant::KvFormat::int8, 16};
  constexpr double kInt8 = 7e12, kBf16 = 3e12, kF32 = 1e12, kDram = 1e9;
  const double compute_s =
      2 * kBatch * kLayers / kInt8 + (2 * kBatch * kHead + 4 * kBatch * kContext * kQueries) / kBf16;
  CHECK(test::close(app::least_tick_s(snapshot, tick, {kInt8, kBf16, kF32, 1e30}), compute_s, 0, 1e-12));
  const double bytes = static_cast<double>(snapshot.num_bytes()) - 2 * kHead + kBatch * kContext * 3 * 2 * 36;
  CHECK(test::close(app::least_tick_s(snapshot, tick, {1e30, 1e30, 1e30, kDram}), bytes / kDram, 0, 1e-12));
  CHECK(bytes > kLayers + 2 * kHead);
  const model::Snapshot wide(quickstart(), quant::Format::f32);
  const double wide_s = (2 * kBatch * (kLayers + kHead) + 4 * kBatch * kContext * kQueries) / kF32;
  CHECK(test::close(app::least_tick_s(wide, {kBatch, kContext, quant::KvFormat::f32, 16}, {kInt8, kBf16, kF32, 1e30}),
                    wide_s, 0, 1e-12));
}

TEST_CASE("tick limit: an MoE counts bytes of the experts hit by routes, and k experts' operations per row") {
  const model::ModelConfig config = model::read_config(QRL_SOURCE_DIR "/recipes/models/quickstart-moe/config.json");
  const model::Snapshot snapshot(config, quant::Format::int8);
  constexpr double kOnes = 3 * 8;  // all experts of 3 layers
  // An expert: gate and up 256 x 96, down 96 (128 in whole panels) x 128, each output with a scale and a column's sum.
  constexpr double kExpert = 256 * 96 + 128 * 128 + (256 + 128) * 2 * 4;
  const auto bytes_at = [&](double experts_read) {
    return 1e9 * app::least_tick_s(snapshot, {1, 0, quant::KvFormat::int8, 16, experts_read}, {1e30, 1e30, 1e30, 1e9});
  };
  CHECK(test::close(bytes_at(kOnes), static_cast<double>(snapshot.num_bytes()) - 2 * kHead, 0, 1e-12));
  CHECK(test::close(bytes_at(kOnes) - bytes_at(3 * 2), (kOnes - 3 * 2) * kExpert, 0, 1e-12));
  const double compute_s =
      app::least_tick_s(snapshot, {5, 0, quant::KvFormat::int8, 16, kOnes}, {7e12, 3e12, 1e12, 1e30});
  CHECK(test::close(compute_s, 2 * 5 * (kLayers + 3 * 8 * 96) / 7e12 + 2 * 5 * kHead / 3e12, 0, 1e-12));
}

TEST_CASE("bench decode: the limit follows from measured ceilings and bytes, the share from the measured speed") {
  const nlohmann::json figures = bench("decode --batch 2 --prompt 8 --new 4");
  const double bf16 = 1e12 * figures.at("ceiling_bf16_tflops").get<double>();
  const double compute_s = 2 * 2 * kLayers / (1e12 * figures.at("ceiling_int8_tops").get<double>()) +
                           2 * 2 * kHead / bf16 + 4 * 2 * 10 * kQueries / bf16;  // the 10th of 8 to 12 positions
  CHECK(figures.at("tick_attention_flops") == 4 * 2 * 10 * kQueries);
  CHECK(figures.at("tick_kv_bytes") == 2 * 10 * 3 * 2 * 36);
  const double bytes = figures.at("weight_bytes").get<double>() - 2 * kHead + figures.at("tick_kv_bytes").get<double>();
  const double least_s = std::max(compute_s, bytes / (1e9 * figures.at("ceiling_dram_gb_per_s").get<double>()));
  const double rate = figures.at("decode_tokens_per_s");
  REQUIRE(rate > 0);
  same(figures.at("limit_tokens_per_s"), 2 / least_s);
  same(figures.at("share_of_limit"), rate * least_s / 2);
  same(figures.at("tick_ms"), 2e3 / rate);
  // Only a GPU reports the host's share of a tick.
  CHECK_FALSE((figures.contains("host_s_per_tick") || figures.contains("graph_share_of_ticks")));
  // The tokens equal those of every other schedule.
  CHECK(figures.at("tokens_xxh3") ==
        bench("decode --batch 2 --prompt 8 --new 4 --set rollout.page_size=4")["tokens_xxh3"]);
  CHECK(figures.at("tokens_xxh3") != bench("decode --batch 2 --prompt 8 --new 5")["tokens_xxh3"]);
}

TEST_CASE("bench learner and step: shares of the limit and of the step") {
  const std::string work = " --prompts 2 --n 2 --prompt 8 --new 4";
  check_learner_figures(bench("learner" + work));
  const nlohmann::json figures = bench("step" + work);
  check_learner_figures(figures);
  const double step_s = figures.at("step_s"), publish_s = figures.at("publish_s");
  REQUIRE((publish_s > 0 && step_s > publish_s));
  same(figures.at("publish_share"), publish_s / step_s);
  CHECK(figures.at("loss_s") > 0);
  for (const char* method : {"tis", "acr", "icepop", "mis_prod", "mis_geo", "tbpo", "ais"}) {
    const double share = figures.at("correction_" + std::string(method) + "_share");
    CHECK(share >= 0);
  }
  same(figures.at("gap_probe_share"), figures.at("gap_probe_s").get<double>() / step_s);
  same(figures.at("gen_tokens_per_s"), kCounted / figures.at("gen_s").get<double>());
  same(figures.at("gen_s").get<double>() + figures.at("learner_s").get<double>() + publish_s +
           figures.at("gap_probe_s").get<double>(),
       step_s);
}

TEST_CASE("bench: refuses keys without effect, and a batch larger than a tick") {
  const auto refuses = [](const std::string& arguments, const std::string& part) {
    const test::Outcome outcome = test::run_command(QRL_BINARY_DIR "/qrl-bench " + arguments);
    INFO(arguments << "\n" << outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find(part) != std::string::npos);
  };
  const std::string shape = " --shape quickstart --set ";
  for (const std::string key : {"model.path=hf", "trainer.seed=1", "optim.lr=1", "quant.learner.forward=fake_quant",
                                "rollout.max_num_seqs=4", "quant.rollout.profile=auto", "rollout.prefix_sharing=false"})
    refuses("decode" + shape + key, "got \"" + key.substr(0, key.find('=')) + "\"");
  for (const std::string key : {"rollout.max_num_batched_tokens=64", "quant.kv_calibration.percentile=99"})
    refuses("learner" + shape + key, "got \"" + key.substr(0, key.find('=')) + "\"");
  for (const std::string key : {"actor.ppo_epochs=4", "quant.uaq_scale=1.5", "rollout_correction.method=ais",
                                "algorithm.kl_loss_coef=0.1", "mode=qurl", "quant.learner=1"})
    refuses("step" + shape + key, "got \"" + key.substr(0, key.find('=')) + "\"");
  refuses("decode --batch 8" + shape + "rollout.max_num_batched_tokens=7",
          "qrl-bench decode: expected rollout.max_num_batched_tokens of at least --batch = 8, got 7");
}

TEST_CASE("bench --dry-run: prints what it would measure without a GPU, and refuses what measuring would refuse") {
  const auto planned = [](const std::string& arguments) {
    const test::Outcome outcome = test::run_command(QRL_BINARY_DIR "/qrl-bench " + arguments + " --dry-run --json");
    INFO(arguments << "\n" << outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const nlohmann::json plan = nlohmann::json::parse(outcome.output);
    CHECK(plan.at("dry_run") == true);
    return plan;
  };
  // The quickstart's shape: qkv 160 (192 in whole tiles of 64) x 96 (128), o 96 (128) x 96 (128), gate_up 512 x 96
  // (128), down 96 (128) x 256; lm_head 259 (320) x 96 (128).
  constexpr std::int64_t kLayer = 192 * 128 + 128 * 128 + 512 * 128 + 128 * 256, kScales = 192 + 128 + 512 + 128;
  const nlohmann::json ticks = planned("ticks --shape quickstart --format int8 --kv int8 --batch 1,3 --context 512");
  CHECK(ticks.at("context512_batch3_bytes") ==
        3 * (kLayer + 4 * kScales) + 2 * 320 * 128 + 2 * 3 * 512 * 3 * 1 * (32 + 4));
  CHECK(ticks.at("batch3_qkv").get<std::string>().starts_with("streamed, tiles of 8 x 64, "));
  const nlohmann::json products = planned("products --shape quickstart --format int8 --rows 3");
  CHECK(products.at("qkv_rows3_bytes") == 192 * 128 + 4 * 192 + 3 * (128 + 192 * 2));
  const nlohmann::json attention =
      planned("attention --shape quickstart --format int8 --batch 2 --context 512 --shared 32");
  CHECK(attention.at("batch2_bytes") == 2 * ((32 + 2 * 480) * (32 + 4) + 2 * 96 * 4));
  const std::string gpu = " --set trainer.device=cuda --shape 1.5b --prompts 4 --n 2 --prompt 8 --new 4";
  for (const std::string name : {"learner", "step"}) {
    const nlohmann::json plan = planned(name + gpu);
    CHECK((plan.at("learner_device") == "cuda" && plan.at("sequences") == 8 && plan.at("tokens") == 8 * 12));
    CHECK(plan.at("estimated_gpu_bytes").get<double>() > 16 * plan.at("parameters").get<double>());
  }
  const nlohmann::json decode = planned(
      "decode --shape quickstart --batch 5 --prompt 12 --new 4 --set "
      "rollout.device=cuda --set quant.rollout.kv_cache=bf16");
  CHECK((decode.at("rollout_device") == "cuda" && decode.at("batch") == 5));
  CHECK(decode.at("kv_cache_bytes") == 2 * 3 * 5 * 16 * 32 * 2);  // one page of 16 each
  for (const std::string wrong :
       {"ticks --batch 0", "products --rows x", "attention --context 512 --shared 8",
        "attention --context 512 --shared 512", "learner --set optim.lr=1 --shape none", "step --set model.path=hf",
        "decode --batch 8 --set rollout.max_num_batched_tokens=7", "decode --shape quickstart --new 1000000"}) {
    const test::Outcome outcome = test::run_command(QRL_BINARY_DIR "/qrl-bench " + wrong + " --dry-run");
    INFO(wrong << "\n" << outcome.output);
    CHECK(outcome.exit_code == 2);
  }
}

TEST_CASE("qrl-bench: a wrong command line is named with exit code 2, --help exits with 0") {
  const auto refuses = [](const std::string& arguments, const std::string& part) {
    const test::Outcome outcome = test::run_command(QRL_BINARY_DIR "/qrl-bench " + arguments);
    INFO(arguments << "\n" << outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find(part) != std::string::npos);
  };
  refuses("decod",
          "qrl-bench: expected one of decode, learner, step, tokenizer, products, attention, ticks, got \"decod\"; did "
          "you mean decode?");
  refuses("", "qrl-bench: ");
  refuses("decode --model x --shape quickstart", "expected --model or --shape, got both");
  refuses("decode --new 1", "--new");
  refuses("decode --batch 1000000000", "--batch");
  refuses("decode --model x --vocab 100", "expected --model or --vocab, got both");
  refuses("decode --logit-tile 300", "qrl-bench decode: --logit-tile: expected a multiple of 256, got 300");
  const test::Outcome help = test::run_command(QRL_BINARY_DIR "/qrl-bench --help");
  CHECK(help.exit_code == 0);
  CHECK(help.output.find("tokenizer") != std::string::npos);
  const test::Outcome step = test::run_command(QRL_BINARY_DIR "/qrl-bench step --help");
  CHECK(step.exit_code == 0);
  CHECK(step.output.find("INT:INT") == std::string::npos);
  CHECK(step.output.find("=3 ") != std::string::npos);
}

TEST_CASE("bench step: answers of varied length count actual tokens, and each step's memory") {
  const nlohmann::json figures = bench("step --prompts 2 --n 8 --prompt 8 --new 6 --shortest 1");
  REQUIRE(figures.at("steps").size() == 1);
  CHECK(figures.at("steps")[0].at("host_gib").get<double>() > 0);
  same(figures.at("steps")[0].at("step_s"), figures.at("step_s"));
  const double tokens = figures.at("gen_tokens_per_s").get<double>() * figures.at("gen_s").get<double>();
  CHECK(test::close(tokens, std::round(tokens), 0, 1e-9));
  CHECK((tokens >= 16 && tokens < 16 * 6));
  const test::Outcome refused =
      test::run_command(QRL_BINARY_DIR "/qrl-bench step --shape quickstart --new 4 --shortest 5 --rounds 1");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, Catch::Matchers::Contains("--shortest: expected at most --new, 4, got 5"));
}

TEST_CASE("qrl-train bench: one line names scripts/bench, whatever arguments follow") {
  for (const std::string arguments : {"", " decode --json", " --help"}) {
    const test::Outcome outcome =
        test::run_command("(" QRL_BINARY_DIR "/qrl-train bench" + arguments + " 2>&1 >/dev/null)");
    INFO(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(std::count(outcome.output.begin(), outcome.output.end(), '\n') == 1);
    CHECK(outcome.output.find("scripts/bench") != std::string::npos);
  }
}
