// Tests what a mixture of experts cannot do, and what an export reads of its sampler.
#include <cmath>

#include "learner/support.h"
#include "train/policy/merge.h"
#include "train/support.h"

using namespace qrl;

namespace {

const std::string kMixture = "--set model.init.config=" QRL_SOURCE_DIR "/recipes/models/quickstart-moe/config.json ";

}  // namespace

TEST_CASE("MoE: refused on a GPU before a GPU is searched, and with adapters on experts") {
  const auto refuses = [](const std::string& settings, const std::string& about) {
    const test::Outcome outcome = test::run_command(test::kProgram + test::kTiny + " --dry-run " + kMixture + settings);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find(about) != std::string::npos);
    CHECK(outcome.output.find(model::kExpertsLack) != std::string::npos);
  };
  refuses("--set trainer.device=cuda", "trainer.device: expected cpu for a model with experts, got cuda");
  refuses("--set rollout.device=cuda", "rollout.device: expected cpu for a model with experts, got cuda");
  refuses("--set lora.rank=2", "lora.target_modules");
  const test::Outcome run = test::run_command(test::kProgram + test::kTiny + " " + kMixture +
                                              "--set rollout.device=cuda --set trainer.default_local_dir=/nowhere/run");
  CHECK(run.exit_code == 2);
  CHECK(test::says(run, "expected cpu for a model with experts"));
}

TEST_CASE("MoE: a run counts each expert's matrices by format") {
  const test::TempDir dir;
  const test::Outcome run =
      test::run_command(test::kProgram + test::kTiny + " " + kMixture +
                        "--set sft.steps=1 --set trainer.total_training_steps=1 --set eval.freq=0 --set "
                        "'quant.rollout.ignore=[model.layers.1.mlp.experts.0.*]' " +
                        "--set trainer.default_local_dir=" + (dir / "run").string());
  INFO(run.output);
  CHECK(run.exit_code == 0);
  // 3 routers and one expert's two; 3 layers of two matrices of attention, 8 experts of two
  CHECK(run.output.find("linear layers of the sampler: 5 × bf16, 52 × int8;") != std::string::npos);
}

TEST_CASE("MoE: exported sampler weights are within each expert row's rounding, routers within bf16's") {
  const model::ModelConfig config = test::tiny_moe_config();
  const model::Weights weights = test::tiny_weights(config);
  const model::WeightSource read =
      train::quantized_weights(config, model::WeightSource(weights), model::SnapshotFormats(quant::Format::int8));
  std::int64_t num_rounded = 0;
  for (const model::WeightSpec& spec : model::weight_specs(config)) {
    CAPTURE(spec.name);
    std::vector<float> stored(static_cast<std::size_t>(spec.shape.numel()));
    read.read(spec, stored.data());
    const float* master = weights.at(spec.name).as<float>();
    const bool is_router = spec.kind == model::WeightKind::router;
    const std::int64_t width = spec.shape[spec.shape.rank() - 1];
    for (std::int64_t row = 0; row < spec.shape.numel() / width; ++row) {
      float largest = 0;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) largest = std::max(largest, std::fabs(master[i]));
      const float bound = is_layer_matrix(spec.kind) ? (is_router ? largest / 256 : largest / 253) : 0;
      for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
        const float error = std::fabs(stored[static_cast<std::size_t>(i)] - master[i]);
        if (!(error <= bound)) FAIL_CHECK(row << " " << i << " " << error << " above " << bound);
        num_rounded += error > 0 ? 1 : 0;
      }
    }
  }
  CHECK(num_rounded > 1000);
}
