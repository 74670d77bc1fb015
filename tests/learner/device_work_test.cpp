// Tests a learner's launches and waits on a GPU, emulated in host memory with counters. Covers micro-batches whose
// losses the host computes while the device works, and updates in few launches.
#include <limits>

#include "learner/choices.h"
#include "learner/device_sampler.h"
#include "learner/emulated_gpu.h"
#include "learner/support.h"
#include "learner/torch_learner.h"

namespace qrl {

using learner::LossKind;
using learner::LossOptions;
using test::GpuCounts;
using test::Learner;
using test::LearnerOptions;
using test::Named;
using types::MicroBatch;

namespace {

model::ModelConfig work_config(std::int64_t num_layers = 2, bool qkv_bias = false) {
  model::ModelConfig config = test::with_even_widths(test::tiny_config(!qkv_bias, qkv_bias));
  config.num_hidden_layers = num_layers;
  return config;
}

/// Returns micro-batches of two samples on each of `count` prompts, one prompt each.
std::vector<MicroBatch> work_batches(std::uint64_t count) {
  std::vector<MicroBatch> batches;
  for (std::uint64_t group = 0; group < count; ++group) batches.push_back(test::random_group(group, 2, 5, 37));
  return batches;
}

LossOptions work_loss() {
  LossOptions loss = test::policy_options();
  loss.algorithm.kl_loss_coef = 0.05;
  loss.algorithm.entropy_coef = 0.01;
  return loss;
}

enum class Where : std::uint8_t { cpu, device, device_without_room };

LearnerOptions work_options(Where where) {
  LearnerOptions options = test::options(learner::ComputeDType::bf16);
  options.torch_ops = true;
  options.kernels = &test::emulated_kernels();
  options.logprob_chunk_tokens = 7;
  if (where == Where::cpu) return options;
  options.place = test::emulated_gpu();
  const std::int64_t left = where == Where::device ? std::numeric_limits<std::int64_t>::max() : -1;
  options.room = {[] { return std::int64_t{0}; }, [left] { return left; }};
  return options;
}

/// Holds what updates leave, and with Before::gradients_are_read the last update's gradients.
struct WorkOutcome {
  Named gradients, masters, moments;
  std::map<std::string, double> metrics;
};

void learn_from(Learner& learner, const std::vector<MicroBatch>& batches, const LossOptions& loss = work_loss()) {
  const ops::SampleParams drawn{1.0F, batches.front().kept.empty() ? 1.0F : 0.9F};
  for (const MicroBatch& batch : batches)
    learner.accumulate(batch, test::count(batches), loss, drawn, &batch == &batches.back());
}

/// Selects what comes before an update: nothing, so that it begins with a micro-batch in flight, or a read of the
/// gradients, which finishes that.
enum class Before : std::uint8_t { nothing, gradients_are_read };

WorkOutcome work(const model::ModelConfig& config, const LearnerOptions& options,
                 const std::vector<MicroBatch>& batches, int num_updates, const LossOptions& loss = work_loss(),
                 const WorkOutcome* from = nullptr, Before before_update = Before::gradients_are_read) {
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), options, *world);
  if (from != nullptr) test::restore(learner, from->masters, from->moments, 1);
  WorkOutcome outcome;
  for (int update = 0; update < num_updates; ++update) {
    learn_from(learner, batches, loss);
    if (before_update == Before::gradients_are_read) outcome.gradients = test::gradients_of(learner);
    const learner::UpdateReport report = learner.update();
    REQUIRE(report.finite);
    outcome.metrics = report.metrics;
  }
  outcome.masters = test::masters_of(learner);
  outcome.moments = test::moments_of(learner);
  return outcome;
}

/// Returns the counts of one update's micro-batches, without what a test reads.
GpuCounts counts_of(const model::ModelConfig& config, const LearnerOptions& options,
                    const std::vector<MicroBatch>& batches, GpuCounts* of_update = nullptr) {
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), options, *world);
  (void)test::take_counts();
  learn_from(learner, batches);
  (void)learner.state().gradients();  // finishes the last one
  const GpuCounts counts = test::take_counts();
  REQUIRE(learner.update().finite);
  if (of_update != nullptr) *of_update = test::take_counts();
  return counts;
}

std::string listed(const GpuCounts& counts) {
  std::string text;
  for (const auto& [name, count] : counts.by_name) text += name + ": " + std::to_string(count) + "\n";
  return text;
}

}  // namespace

TEST_CASE("GPU learner: waits once per micro-batch, and twice per update") {
  for (const std::uint64_t num_batches : {1U, 4U}) {
    for (const Where where : {Where::device, Where::device_without_room}) {
      GpuCounts of_update;
      const GpuCounts counts = counts_of(work_config(), work_options(where), work_batches(num_batches), &of_update);
      INFO(listed(counts) << "update:\n" << listed(of_update));
      CHECK(counts.waits == static_cast<std::int64_t>(num_batches));
      CHECK(of_update.waits == 2);
    }
  }
  std::vector<MicroBatch> cut = work_batches(2);  // by top-p
  for (MicroBatch& batch : cut) test::add_kept(batch, 8, work_config().vocab_size);
  const GpuCounts of_cut = counts_of(work_config(), work_options(Where::device), cut);
  INFO(listed(of_cut));
  CHECK(of_cut.waits == 2);
  LearnerOptions muon = work_options(Where::device);
  muon.optim.name = learner::OptimName::muon;
  GpuCounts of_update;
  (void)counts_of(work_config(), muon, work_batches(1), &of_update);
  INFO(listed(of_update));
  CHECK(of_update.waits == 2);
}

TEST_CASE("launches of a micro-batch and an update: equal the counts in docs/gpu.md") {
  const auto of = [](std::int64_t num_layers, bool checkpointing, GpuCounts& of_update) {
    LearnerOptions options = work_options(Where::device);
    options.activation_checkpointing = checkpointing;
    options.logprob_chunk_tokens = 100;
    return counts_of(work_config(num_layers, true), options, work_batches(1), &of_update);
  };
  GpuCounts of_update;
  const GpuCounts two = of(2, false, of_update), three = of(3, false, of_update);
  INFO(listed(three) << "update:\n" << listed(of_update));
  CHECK(three.launches - two.launches == 32);
  CHECK(two.launches - 2 * (three.launches - two.launches) == 19);
  CHECK(of_update.launches == 6);
}

TEST_CASE("recomputed low_bit layer: quantizes its last product's input without multiplying it") {
  (void)test::emulated_gpu();  // also counts the engine's kernels
  const auto own_launches = [](bool checkpointing) {
    LearnerOptions options = work_options(Where::cpu);
    options.numerics.forward = learner::LearnerForward::low_bit;
    options.activation_checkpointing = checkpointing;
    const auto world = dist::make_solo();
    Learner learner(work_config(), test::tiny_weights(work_config()), options, *world);
    test::DeviceSampler sampler(work_config(), quant::Format::int8, test::Products::f32);
    sampler.publish(learner, 0);
    learner.publish(sampler.snapshot, 0, sampler.weights());
    (void)test::take_counts();
    learn_from(learner, work_batches(1));
    return test::take_counts().by_name["own kernel"];
  };
  // Recomputed: two norms, the rotation, its gathered keys, SwiGLU, four quantized inputs, three of four matmuls.
  constexpr int kOfLayer = 12;
  CHECK(own_launches(true) - own_launches(false) == kOfLayer * work_config().num_hidden_layers);
}

TEST_CASE("deferred losses: bits equal those of losses computed at once") {
  const std::vector<MicroBatch> batches = work_batches(3);
  const auto run = [&](Where where, Before before_update) {
    return work(work_config(), work_options(where), batches, 2, work_loss(), nullptr, before_update);
  };
  const WorkOutcome behind = run(Where::device_without_room, Before::gradients_are_read);
  const WorkOutcome ahead = run(Where::device, Before::gradients_are_read);
  CHECK((ahead.gradients == behind.gradients));
  for (const WorkOutcome& other : {ahead, run(Where::device, Before::nothing)}) {
    CHECK((other.masters == behind.masters));
    CHECK((other.moments == behind.moments));
    CHECK(other.metrics == behind.metrics);
  }
}

TEST_CASE("device learner: after a kill it resumes with the same bits on a device with less memory") {
  const std::vector<MicroBatch> batches = work_batches(3);
  const WorkOutcome whole = work(work_config(), work_options(Where::device), batches, 3);
  const WorkOutcome killed = work(work_config(), work_options(Where::device), batches, 1);
  const auto less = work_options(Where::device_without_room);
  const WorkOutcome resumed = work(work_config(), less, batches, 2, work_loss(), &killed);
  CHECK((resumed.masters == whole.masters));
  CHECK((resumed.moments == whole.moments));
  CHECK((resumed.masters != killed.masters));
}

TEST_CASE("learner on an emulated GPU: gradients and metrics equal the CPU's") {
  // Uses no clipped loss: a rounding can move a ratio across its bound, and FlashAttention rounds elsewhere.
  LossOptions sft;
  sft.kind = LossKind::sft;
  for (const bool checkpointing : {false, true}) {
    const auto run = [&](Where where) {
      LearnerOptions options = work_options(where);
      options.activation_checkpointing = checkpointing;
      return work(work_config(), options, work_batches(3), 1, sft);
    };
    const WorkOutcome there = run(Where::device), here = run(Where::cpu);
    std::string worst;
    INFO("checkpointing " << checkpointing);
    CHECK(test::relative_difference(there.gradients, here.gradients, worst) <= 3e-2);
    CHECK((there.gradients != here.gradients));
    for (const auto& [name, value] : here.metrics) {
      INFO(name);
      CHECK(test::close(there.metrics.at(name), value, 1e-3, 1e-3));
    }
  }
}

}  // namespace qrl
