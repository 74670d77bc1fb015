// Tests logits and gradients against transformers (scripts/golden/hf_models.py).
#include "learner/engine/forward_engine.h"
#include "learner/forward/fused_ops.h"
#include "learner/forward/packed_rows.h"
#include "learner/learner.h"
#include "learner/support.h"
#include "learner/tensors/torch.h"
#include "learner/torch_learner.h"
#include "model/rope.h"
#include "ops/transformer.h"
#include "state/safetensors.h"
#include "support/weights.h"

namespace qrl {

namespace {

struct Golden {
  explicit Golden(const std::string& name)
      : dir(test::shipped_data() / "golden" / name), model(qrl::test::load_hf(dir)), file(dir / "golden.safetensors") {
    for (int i = 0; file.tensors().contains("input_ids." + std::to_string(i)); ++i) {
      const base::Buffer ids = file.read("input_ids." + std::to_string(i));
      sequences.emplace_back(ids.as<std::int64_t>(), ids.as<std::int64_t>() + ids.shape().numel());
    }
  }
  std::filesystem::path dir;
  qrl::test::LoadedModel model;
  state::SafetensorsFile file;
  std::vector<std::vector<types::TokenId>> sequences;
};

const char* const kModels[] = {
    "hf_qwen3",          "hf_qwen3_untied", "hf_qwen2",       "hf_llama",         "hf_llama_scaled",
    "hf_qwen3_yarn",     "hf_llama_bias",   "hf_qwen3_bias",  "hf_qwen3_moe",     "hf_qwen3_moe_mixed",
    "hf_mistral",        "hf_llama_linear", "hf_granite",     "hf_granite_bias",  "hf_smollm3",
    "hf_smollm3_bias",   "hf_olmo2",        "hf_olmo2_tied",  "hf_phi3",          "hf_phi3_plain",
    "hf_mistral_window", "hf_qwen2_window", "hf_phi3_window", "hf_gemma3",        "hf_gemma3_bf16",
    "hf_olmo3",          "hf_olmo3_plain",  "hf_qwen3_5",     "hf_qwen3_5_groups"};

}  // namespace

TEST_CASE("learner logits: equal transformers'") {
  for (const std::string name : kModels) {
    CAPTURE(name);
    const Golden golden(name);
    const model::ModelConfig& config = golden.model.config;
    const torch::NoGradGuard no_grad;
    learner::ParameterOptions fp32;
    fp32.compute = torch::kFloat32;
    const learner::Parameters parameters(config, golden.model.weights, fp32);
    const model::RopeTables ropes(config, 128);
    learner::PackedRows rows;
    rows.sequence_starts = {0};
    rows.rope_table = ropes.of(model::RopeKind::common).as<float>();
    if (config.sliding_rope_theta > 0) rows.sliding_rope_table = ropes.of(model::RopeKind::sliding).as<float>();
    for (const auto& sequence : golden.sequences) {
      for (std::size_t t = 0; t < sequence.size(); ++t) rows.positions.push_back(static_cast<std::int32_t>(t));
      rows.tokens.insert(rows.tokens.end(), sequence.begin(), sequence.end());
      rows.sequence_starts.push_back(static_cast<std::int32_t>(rows.tokens.size()));
    }
    rows.routes = learner::make_routes(config, rows.num_rows());
    const auto ops = std::make_shared<const learner::FusedOps>(
        rows, config, learner::forward_numerics(test::options(learner::ComputeDType::f32).numerics));
    const torch::Tensor hidden = learner::hidden_states(parameters.policy(), ops, {});
    const torch::Tensor logits =
        torch::mm(hidden, parameters.policy().lm_head.value.t()) / static_cast<double>(config.logits_scaling);
    for (int i = 0; i < static_cast<int>(golden.sequences.size()); ++i) {
      const base::Buffer want = golden.file.read_f32("logits." + std::to_string(i));
      const torch::Tensor expected = torch::from_blob(want.as<float>(), {want.shape()[0], want.shape()[1]});
      const auto s = static_cast<std::size_t>(i);
      const torch::Tensor got = logits.slice(0, rows.sequence_starts[s], rows.sequence_starts[s + 1]);
      CHECK((got - expected).abs().max().item<double>() <= 2e-5);
    }
  }
}

TEST_CASE("cross-entropy gradients: equal transformers'") {
  for (const std::string name : kModels) {
    for (const auto& [checkpointing, torch_ops] :
         {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
      CAPTURE(name, checkpointing, torch_ops);
      const Golden golden(name);
      if (torch_ops && (golden.model.config.has_experts() || !golden.model.config.delta_layers.empty()))
        continue;  // refused on a GPU (model::missing_on_gpu)
      std::vector<test::Sequence> sequences;
      for (const auto& tokens : golden.sequences) {
        sequences.push_back({tokens, 1, 0, std::vector<float>(tokens.size()), {}, std::vector<float>(tokens.size())});
      }
      const types::MicroBatch batch = test::pack(sequences, false);
      const auto world = dist::make_solo();
      test::LearnerOptions options = test::options();
      options.activation_checkpointing = checkpointing;
      options.torch_ops = torch_ops;
      test::Learner learner(golden.model.config, golden.model.weights, options, *world);
      learner.accumulate(batch, test::count({batch}), {learner::LossKind::sft, {}, {}}, {1.0F});
      test::Named want;
      double bound = 2e-5;  // a bf16 or fp16 model's gradients are stored as such: half a unit of 2⁻⁸ or 2⁻¹¹ each
      for (const auto& [tensor, entry] : golden.file.tensors()) {
        if (!tensor.starts_with("grad.")) continue;
        if (entry.dtype == base::DType::bf16) bound = 3e-3;
        if (entry.dtype == base::DType::f16) bound = 4e-4;
        want[std::string(tensor.substr(5))] = test::copy(golden.file.read_f32(tensor).view());
      }
      std::string worst;
      test::Named got = test::gradients_of(learner);
      const auto largest = [](const std::vector<float>& values) {
        return std::abs(*std::ranges::max_element(values, {}, [](float x) { return std::abs(x); }));
      };
      // A bias of keys without rotary positions moves all scores of a query alike: its gradient is rounding.
      for (auto& [tensor, values] : want) {
        if (largest(values) > 1e-6F) continue;
        CHECK(largest(got.at(tensor)) < 1e-6F);
        got.at(tensor) = values;
      }
      const double difference = test::relative_difference(got, want, worst, 1e-7);
      CAPTURE(worst);
      CHECK(difference <= bound);
      const double loss = learner.update().metrics.at("actor/sft_loss");
      CHECK(test::close(loss, golden.file.read_f32("loss").as<float>()[0], 1e-6, 1e-6));
    }
  }
}

}  // namespace qrl
