// Tests a learner that uses the device's kernels for SwiGLU, rotations and log-probs (emulated on the host). LibTorch's
// operations define the expected scores, gradients and updates.
#include "learner/device/device_kernels.h"

#include <array>
#include <cstdlib>

#include "learner/choices.h"
#include "learner/device_sampler.h"
#include "learner/tensors/torch.h"

namespace qrl {

using learner::ComputeDType;
using learner::LearnerForward;
using learner::LossKind;
using learner::LossOptions;
using test::Learner;
using test::LearnerOptions;
using test::Named;
using torch::Tensor;
using types::MicroBatch;

namespace {

struct KernelFamily {
  const char* name;
  model::ModelConfig config;
};

/// Returns families with and without biases, norms of q and k, tied tables; widths that allow 16-byte reads, and odd
/// ones.
std::vector<KernelFamily> kernel_families() {
  std::vector<KernelFamily> all = {{"qwen3, tied", test::tiny_config(true, false, true)},
                                   {"qwen2, untied", test::tiny_config(false, true, false)},
                                   {"llama, tied", test::tiny_config(false, false, true)},
                                   {"qwen3, biased, untied", test::tiny_config(true, true, false)}};
  for (const model::Family family : {model::Family::gemma3, model::Family::olmo3, model::Family::granite})
    all.push_back({"flags of a family", test::with_flags(test::tiny_config(family != model::Family::granite), family)});
  for (std::size_t i = 0; i < 2; ++i) all[i].config = test::with_even_widths(all[i].config);
  return all;
}

/// Returns two samples on one prompt.
MicroBatch kernel_batch() { return test::random_group(0, 2, 14, 37, 3); }

LossOptions kernel_grpo(double entropy_coef) {
  LossOptions loss = test::policy_options();
  loss.algorithm.kl_loss_coef = 0.05;
  loss.algorithm.entropy_coef = entropy_coef;
  return loss;
}

struct KernelOutcome {
  std::vector<float> logprobs, entropy;
  Named gradients, masters;
};
struct KernelWork {
  const char* name;
  LossOptions loss;
  ops::SampleParams drawn;
};

KernelOutcome kernel_outcome(const model::ModelConfig& config, LearnerOptions options, const KernelWork& work,
                             bool by_kernels) {
  options.kernels = by_kernels ? &test::emulated_kernels() : nullptr;
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, quant::Format::int8);
  learner.publish(snapshot, 0);
  MicroBatch batch = kernel_batch();
  if (work.drawn.cuts()) test::add_kept(batch, 8, config.vocab_size);
  KernelOutcome outcome;
  learner::TokenScores scores = learner.score(batch, work.drawn);
  outcome.logprobs = std::move(scores.logprobs);
  outcome.entropy = std::move(scores.entropy);
  learner.accumulate(batch, test::count({batch}), work.loss, work.drawn);
  outcome.gradients = test::gradients_of(learner);
  REQUIRE(learner.update().finite);
  outcome.masters = test::masters_of(learner);
  return outcome;
}

/// Returns the differences of log-probs, entropies and, tensor by tensor, gradients.
std::array<double, 3> kernels_apart(const KernelOutcome& got, const KernelOutcome& want, std::string& worst) {
  const auto of = [&worst](const std::vector<float>& a, const std::vector<float>& b) {
    return test::relative_difference({{"all", a}}, {{"all", b}}, worst);
  };
  const double logprobs = of(got.logprobs, want.logprobs), entropy = of(got.entropy, want.entropy);
  return {logprobs, entropy, test::relative_difference(got.gradients, want.gradients, worst)};
}

LearnerOptions kernel_options(ComputeDType compute) {
  LearnerOptions options = test::device_options(compute);
  options.numerics.kv_format = quant::KvFormat::bf16;
  options.logprob_chunk_tokens = 11;
  return options;
}

std::vector<KernelWork> works() {
  LossOptions sft;
  sft.kind = LossKind::sft;
  return {{"supervised", sft, {1.0F}},
          {"with entropies", kernel_grpo(0.01), {0.7F}},
          {"top-k and top-p", kernel_grpo(0.01), {0.7F, 0.8F, 9}},
          {"without entropies", kernel_grpo(0), {1.3F}}};
}

}  // namespace

TEST_CASE("device kernels: scores and gradients equal those of LibTorch's operations") {
  // Every family and every loss; with --long every pair of them.
  const bool all_pairs = std::getenv("QRL_LONG_TESTS") != nullptr;
  const std::vector<KernelFamily> all = kernel_families();
  for (std::size_t f = 0; f < all.size(); ++f) {
    const KernelFamily& family = all[f];
    for (std::size_t w = 0; w < works().size(); ++w) {
      if (!all_pairs && f != 0 && f % works().size() != w) continue;
      const KernelWork work = works()[w];
      CAPTURE(family.name, work.name);
      const auto run = [&](ComputeDType compute, bool by_kernels) {
        return kernel_outcome(family.config, kernel_options(compute), work, by_kernels);
      };
      std::string worst;
      const KernelOutcome exact = run(ComputeDType::f32, false);
      const auto of_kernels = kernels_apart(run(ComputeDType::f32, true), exact, worst);
      CAPTURE(of_kernels[0], of_kernels[1], of_kernels[2], worst);
      CHECK(of_kernels[0] <= 2e-6);
      CHECK(of_kernels[1] <= 2e-6);
      CHECK(of_kernels[2] <= 2e-5);  // a bias of k: its gradient nearly cancels
      // In bf16 a number near a tie sometimes rounds the other way: a difference far below that of bf16 from fp32.
      const KernelOutcome rounded = run(ComputeDType::bf16, false);
      const auto of_bf16 = kernels_apart(rounded, exact, worst),
                 in_bf16 = kernels_apart(run(ComputeDType::bf16, true), rounded, worst);
      for (std::size_t i = 0; i < in_bf16.size(); ++i) {
        CAPTURE(i, in_bf16[i], of_bf16[i]);
        CHECK(in_bf16[i] <= 0.5 * of_bf16[i]);
        CHECK(of_bf16[i] > 1e-4);
      }
    }
  }
}

TEST_CASE("device kernels: repeated calls give equal bits, with and without checkpointing") {
  const KernelFamily family = kernel_families()[3];
  const KernelWork work = works()[1];
  LearnerOptions options = kernel_options(ComputeDType::bf16);
  const KernelOutcome once = kernel_outcome(family.config, options, work, true);
  CHECK((kernel_outcome(family.config, options, work, true).masters == once.masters));
  options.activation_checkpointing = true;
  CHECK((kernel_outcome(family.config, options, work, true).masters == once.masters));
  // The learner used its kernels, not LibTorch's operations, whose last bits differ.
  CHECK((kernel_outcome(family.config, options, work, false).masters != once.masters));
}

TEST_CASE("device kernels: between fake-quantized products, and with fp32 lm_head") {
  for (const KernelFamily& family : {kernel_families()[0], kernel_families()[3]}) {
    CAPTURE(family.name);
    LearnerOptions options = kernel_options(ComputeDType::f32);
    options.numerics.forward = LearnerForward::fake_quant;
    std::string worst;
    const KernelWork work = works()[1];
    const auto apart_in_f32 = kernels_apart(kernel_outcome(family.config, options, work, true),
                                            kernel_outcome(family.config, options, work, false), worst);
    // An activation near a tie takes the next code on one side.
    for (const double difference : apart_in_f32) CHECK(difference <= 2e-2);
    options.numerics.compute = ComputeDType::bf16;
    options.numerics.forward = LearnerForward::bf16;
    options.numerics.f32_lm_head = true;
    for (const double difference : kernels_apart(kernel_outcome(family.config, options, work, true),
                                                 kernel_outcome(family.config, options, work, false), worst))
      CHECK(difference <= 3e-2);
  }
}

TEST_CASE("device kernels: low_bit and bitwise learners have the gradients of LibTorch's operations") {
  const model::ModelConfig config = kernel_families()[0].config;
  LossOptions sft;
  sft.kind = LossKind::sft;
  for (const bool bitwise : {false, true}) {
    CAPTURE(bitwise);
    const auto run = [&](bool by_kernels) {
      LearnerOptions options = kernel_options(ComputeDType::f32);
      options.numerics.forward = LearnerForward::low_bit;
      options.numerics.bitwise = bitwise;
      options.kernels = by_kernels ? &test::emulated_kernels() : nullptr;
      const auto world = dist::make_solo();
      Learner learner(config, test::tiny_weights(config), options, *world);
      decoder::DecoderOptions how = test::decoder_options();
      how.row_only_sums = bitwise;
      test::DeviceSampler sampler(config, quant::Format::int8, how, test::Products::f32, base::Device::cpu);
      sampler.publish(learner, 0);
      const MicroBatch batch = kernel_batch();
      KernelOutcome outcome;
      outcome.logprobs = learner.score(batch, {1.0F}).logprobs;
      learner.accumulate(batch, test::count({batch}), sft, {1.0F});
      outcome.gradients = test::gradients_of(learner);
      return outcome;
    };
    const KernelOutcome got = run(true), want = run(false);
    std::string worst;
    if (bitwise) CHECK(got.logprobs == want.logprobs);  // the decoder's
    CHECK(test::relative_difference({{"all", got.logprobs}}, {{"all", want.logprobs}}, worst) <= 2e-2);
    CHECK(test::relative_difference(got.gradients, want.gradients, worst) <= 5e-2);
    CHECK((got.gradients != want.gradients));
  }
}

}  // namespace qrl
