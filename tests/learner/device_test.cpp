// Tests the learner with LibTorch's operations, as on a GPU, against the one of src/ops: the same scores, gradients,
// updates, checkpoints and snapshots. Runs on the CPU always, and on a GPU if one exists.
#include <ATen/record_function.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "learner/choices.h"
#include "learner/device/torch_linear.h"
#include "learner/device/torch_ops.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "learner/support.h"
#include "learner/tensors/memory.h"
#include "learner/tensors/torch.h"
#include "learner/torch_learner.h"
#include "model/snapshot.h"
#include "state/safetensors.h"
#include "support/files.h"

namespace qrl {

using learner::ComputeDType;
using learner::LossKind;
using learner::LossOptions;
using test::Learner;
using test::LearnerOptions;
using test::Named;
using types::MicroBatch;

namespace {

struct Family {
  const char* name;
  model::ModelConfig config;
};

/// Returns families with every optional part present and absent. Heads have 16 elements so that a GPU's FlashAttention
/// accepts them.
std::vector<Family> families() {
  std::vector<Family> all = {{"qwen3, tied", test::tiny_config(true, false, true)},
                             {"qwen2, tied", test::tiny_config(false, true, true)},
                             {"llama, untied", test::tiny_config(false, false, false)},
                             {"qwen3, biased", test::tiny_config(true, true, true)}};
  all.back().config.o_bias = true;
  for (Family& family : all) family.config = test::with_even_widths(family.config);
  return all;
}

LossOptions device_grpo() {
  LossOptions loss = test::policy_options();
  loss.algorithm.kl_loss_coef = 0.05;
  loss.algorithm.entropy_coef = 0.01;
  return loss;
}

std::vector<test::Sequence> device_sequences() {
  std::vector<test::Sequence> sequences;
  for (const auto& [prompt, response] : std::vector<std::pair<int, int>>{{3, 7}, {1, 12}, {5, 1}, {2, 20}, {4, 0}})
    sequences.push_back(test::random_sequence(sequences.size(), prompt, response, 40));
  return sequences;
}

MicroBatch cut_sequences() {
  MicroBatch batch = test::pack(device_sequences());
  test::add_kept(batch, 8, 40);
  return batch;
}

/// A group on its prompt, and another one: prefixes computed once.
std::vector<MicroBatch> shared_prefixes() {
  std::vector<MicroBatch> batches;
  for (std::uint64_t group = 0; group < 2; ++group) batches.push_back(test::random_group(group, 3, 4, 40));
  return batches;
}

/// Holds a learner's results for these batches: the sum of their gradients, then masters and moments after
/// `num_updates`.
struct DeviceOutcome {
  std::vector<float> logprobs, entropy;
  Named gradients, masters, moments;
  std::map<std::string, double> metrics;
};

DeviceOutcome train_device(const model::ModelConfig& config, const LearnerOptions& options,
                           const std::vector<MicroBatch>& batches, const LossOptions& loss,
                           const ops::SampleParams& drawn, int num_updates = 1,
                           const model::SnapshotFormats& formats = quant::Format::bf16) {
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, formats);
  learner.publish(snapshot, 0);
  DeviceOutcome outcome;
  for (const MicroBatch& batch : batches) {
    const learner::TokenScores scores = learner.score(batch, drawn);
    outcome.logprobs.insert(outcome.logprobs.end(), scores.logprobs.begin(), scores.logprobs.end());
    outcome.entropy.insert(outcome.entropy.end(), scores.entropy.begin(), scores.entropy.end());
  }
  for (int update = 0; update < num_updates; ++update) {
    for (const MicroBatch& batch : batches) learner.accumulate(batch, test::count(batches), loss, drawn);
    if (update == 0) outcome.gradients = test::gradients_of(learner);
    const learner::UpdateReport report = learner.update();
    REQUIRE(report.finite);
    outcome.metrics = report.metrics;
    learner.publish(snapshot, update + 1);
  }
  outcome.masters = test::masters_of(learner);
  outcome.moments = test::moments_of(learner);
  return outcome;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= most)) most = std::isnan(difference) ? HUGE_VAL : difference;
  }
  return most;
}

void check_same_training(const DeviceOutcome& got, const DeviceOutcome& want, double bound) {
  CHECK(largest_difference(got.logprobs, want.logprobs) <= bound);
  CHECK(largest_difference(got.entropy, want.entropy) <= bound);
  std::string worst;
  CHECK(test::relative_difference(got.gradients, want.gradients, worst) <= 10 * bound);
  INFO("worst tensor " << worst);
  CHECK(test::relative_difference(got.moments, want.moments, worst) <= 20 * bound);
  REQUIRE(got.metrics.size() == want.metrics.size());
  for (const auto& [name, value] : want.metrics) {
    INFO(name);
    CHECK(test::close(got.metrics.at(name), value, 20 * bound, 20 * bound));
  }
}

std::vector<float> joined_batches(const Named& named) {
  std::vector<float> all;
  for (const auto& [name, values] : named) all.insert(all.end(), values.begin(), values.end());
  return all;
}

/// Returns the difference of a bf16 outcome from the fp32 one, over all values: log-probs, entropies, gradients.
std::array<double, 3> roundings(const DeviceOutcome& outcome, const DeviceOutcome& exact) {
  std::string worst;
  const auto apart = [&worst](const std::vector<float>& values, const std::vector<float>& wanted) {
    return test::relative_difference({{"all", values}}, {{"all", wanted}}, worst);
  };
  return {apart(outcome.logprobs, exact.logprobs), apart(outcome.entropy, exact.entropy),
          apart(joined_batches(outcome.gradients), joined_batches(exact.gradients))};
}

/// Compares LibTorch's operations with those of src/ops. In fp32 only the order of sums differs; in bf16 both are
/// equally far from fp32.
void compare_with_own(const LearnerOptions& how) {
  const auto there = [&how](ComputeDType compute) {
    LearnerOptions options = test::options(compute);
    options.device = how.device;
    options.torch_ops = how.torch_ops;
    return options;
  };
  struct Work {
    const char* name;
    std::vector<MicroBatch> batches;
    LossOptions loss;
    ops::SampleParams drawn;
  };
  LossOptions sft;
  sft.kind = LossKind::sft;
  const std::vector<Work> works = {{"packed", {test::pack(device_sequences())}, device_grpo(), {1.0F}},
                                   {"top-k and top-p", {cut_sequences()}, device_grpo(), {0.7F, 0.8F, 9}},
                                   {"supervised", {test::pack(device_sequences())}, sft, {1.0F}},
                                   {"prefixes", shared_prefixes(), device_grpo(), {1.0F}}};
  for (const Family& family : families()) {
    for (const Work& work : works) {
      CAPTURE(family.name, work.name);
      const auto run = [&](const LearnerOptions& options) {
        return train_device(family.config, options, work.batches, work.loss, work.drawn);
      };
      const DeviceOutcome exact = run(test::options());
      check_same_training(run(there(ComputeDType::f32)), exact, 2e-5);
      const auto own = roundings(run(test::options(ComputeDType::bf16)), exact);
      const auto theirs = roundings(run(there(ComputeDType::bf16)), exact);
      // Skips the gradients of a clipped loss: a rounding can move a ratio across the bound.
      const std::size_t compared = work.loss.kind == LossKind::sft ? own.size() : own.size() - 1;
      for (std::size_t i = 0; i < compared; ++i) {
        CAPTURE(i, own[i], theirs[i]);
        CHECK(theirs[i] <= 3 * own[i]);
        CHECK(theirs[i] >= 0.1 * own[i]);  // it does round
      }
    }
  }
}

/// Compares fake_quant with that of src/ops, in every format of the sampler.
void compare_fake_quant(const LearnerOptions& how) {
  const bool is_long = std::getenv("QRL_LONG_TESTS") != nullptr;
  LossOptions sft;
  sft.kind = LossKind::sft;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<quant::Format>(i);
    model::SnapshotFormats formats(format);
    if (format == quant::Format::int8) formats.ignore = {"down_proj"};
    for (std::size_t f = 0; f < families().size(); ++f) {
      // All pairs with --long; otherwise each format with two families, which alternate with the format.
      if (!is_long && (f + static_cast<std::size_t>(i)) % 2 == 1) continue;
      const Family family = families()[f];
      CAPTURE(quant::name(format), family.name);
      LearnerOptions own = test::options();
      own.numerics.forward = learner::LearnerForward::fake_quant;
      own.numerics.kv_format = quant::KvFormat::f32;
      LearnerOptions there = own;
      there.device = how.device;
      there.torch_ops = how.torch_ops;
      const auto run = [&](const LearnerOptions& options) {
        return train_device(family.config, options, shared_prefixes(), sft, {1.0F}, 1, formats);
      };
      // An activation near a tie takes the next code on one side; without the rounding the difference would be 1 or
      // more.
      const DeviceOutcome exact = run(own);
      const auto apart = roundings(run(there), exact);
      LearnerOptions plain = own;
      plain.numerics.forward = learner::LearnerForward::bf16;
      const auto format_error = roundings(run(plain), exact);
      for (std::size_t part = 0; part < apart.size(); ++part) {
        CAPTURE(part, apart[part], format_error[part]);
        CHECK(apart[part] <= std::max(2e-5, 0.3 * format_error[part]));
        if (format != quant::Format::f32) CHECK(format_error[part] > 1e-4);
      }
    }
  }
  torch::manual_seed(5);
  const torch::Tensor x = torch::randn({17, 300}) * torch::rand({17, 1}).mul(8).exp();
  x[3].zero_();
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<quant::Format>(i);
    CAPTURE(quant::name(format));
    const torch::Tensor got = learner::rounded_activations(x, format), want = torch::empty_like(x);
    for (std::int64_t row = 0; row < x.size(0); ++row) {
      quant::round_activations(format, {x.data_ptr<float>() + row * 300, 300},
                               {want.data_ptr<float>() + row * 300, 300});
    }
    CHECK((got != want).sum().item<std::int64_t>() <= 17);  // ties whose ratio differs in the last bit
    CHECK(torch::allclose(got, want, 0.07, 0));
    CHECK(got[3].abs().max().item<float>() == 0);
  }
}

/// Checks changes that may alter no bit, or only the last ones.
void check_invariants(const LearnerOptions& how) {
  const model::ModelConfig config = families()[0].config;
  const std::vector<MicroBatch> batches = shared_prefixes();
  LearnerOptions options = how;
  options.numerics.compute = ComputeDType::bf16;
  const DeviceOutcome once = train_device(config, options, batches, device_grpo(), {1.0F}, 3);
  const DeviceOutcome again = train_device(config, options, batches, device_grpo(), {1.0F}, 3);
  CHECK((once.masters == again.masters));
  CHECK((once.moments == again.moments));
  options.activation_checkpointing = true;
  CHECK((train_device(config, options, batches, device_grpo(), {1.0F}, 3).masters == once.masters));
  options.activation_checkpointing = false;
  options.numerics.f32_lm_head = true;
  const DeviceOutcome f32_head = train_device(config, options, batches, device_grpo(), {1.0F});
  const double apart = largest_difference(f32_head.logprobs, once.logprobs);
  CHECK(apart > 0);
  CHECK(apart <= 2e-2);
  options.numerics.f32_lm_head = false;
  options.logprob_chunk_tokens = 5;
  CHECK(largest_difference(train_device(config, options, batches, device_grpo(), {1.0F}).logprobs, once.logprobs) <=
        1e-5);
}

/// Compares optimizers with those of src/ops on gradients that differ in their last bits; fp32 masters.
void compare_optimizers(const LearnerOptions& how) {
  for (const auto name : {learner::OptimName::adamw, learner::OptimName::muon}) {
    CAPTURE(static_cast<int>(name));
    LearnerOptions own = test::options();
    own.optim.name = name;
    own.optim.weight_decay = 0.1;
    own.optim.grad_clip = 0.05;
    own.optim.lr = 1e-3;
    LearnerOptions there = own;
    there.device = how.device;
    there.torch_ops = how.torch_ops;
    const model::ModelConfig config = families()[2].config;
    const std::vector<MicroBatch> batches = {test::pack(device_sequences())};
    const DeviceOutcome got = train_device(config, there, batches, device_grpo(), {1.0F}, 4);
    const DeviceOutcome want = train_device(config, own, batches, device_grpo(), {1.0F}, 4);
    std::string worst;
    // AdamW's first steps follow the sign of a gradient, so a tiny one may flip; Muon rounds to bf16.
    CHECK(test::relative_difference(got.masters, want.masters, worst) <= 2e-4);
    INFO("worst tensor " << worst);
    CHECK(test::relative_difference(got.moments, want.moments, worst) <= 2e-3);
    Named start;
    for (const auto& [tensor, weights] : test::tiny_weights(config)) start[tensor] = test::copy(weights.view());
    CHECK(test::relative_difference(want.masters, start, worst) > 1e-3);  // they did move
  }
}

/// Checks that a checkpoint's files have the same bytes through a small staging buffer, the only way from a GPU. A
/// learner that reads the tensors one by one from there has the same bits.
void check_checkpoint(const Learner& learner, const LearnerOptions& options, const model::ModelConfig& config) {
  const test::TempDir dir;
  const auto write = [&](const char* file, const model::WeightViews& masters, const model::WeightViews& moments,
                         const state::StagedRead& staged) {
    std::vector<state::NamedView> named;
    for (const auto* views : {&masters, &moments})
      for (const auto& [name, view] : *views) named.push_back({name, view});
    state::write_safetensors(dir / file, named, {}, staged);
  };
  REQUIRE(learner.state().staged_read() != nullptr);
  const base::View first = learner.state().masters().begin()->second;
  REQUIRE(first.num_bytes() > options.staging_bytes);
  CHECK(learner.state().staged_read()(first, 0, first.num_bytes()).size() == options.staging_bytes);
  const Named masters = test::masters_of(learner), moments = test::moments_of(learner);
  const auto in_host_memory = [](const Named& copies, model::WeightViews views) {
    for (auto& [name, view] : views) view = {const_cast<float*>(copies.at(name).data()), base::DType::f32, view.shape};
    return views;
  };
  write("whole", in_host_memory(masters, learner.state().masters()), in_host_memory(moments, learner.state().moments()),
        {});
  write("pieces", learner.state().masters(), learner.state().moments(), learner.state().staged_read());
  CHECK((test::read_file(dir / "whole") == test::read_file(dir / "pieces")));

  const auto world = dist::make_solo();
  Learner other(config, test::tiny_weights(config, 3), options, *world);
  const state::SafetensorsFile file(dir / "pieces");
  other.state().restore(
      [&](const std::string& name, const base::View& to) {
        file.read_f32(name, 0, {to.as<float>(), static_cast<std::size_t>(to.numel())});
      },
      learner.num_updates());
  CHECK(other.num_updates() == learner.num_updates());
  CHECK((test::masters_of(other) == masters));
  CHECK((test::moments_of(other) == moments));
  for (const auto& [name, values] : masters) CHECK((test::copy(learner.state().master(name).view()) == values));
}

/// Checks that another learner resumes a checkpoint with the same bits, and that it publishes its masters.
void check_state(const LearnerOptions& how) {
  for (const auto name : {learner::OptimName::adamw, learner::OptimName::muon}) {
    LearnerOptions options = how;
    options.numerics.compute = ComputeDType::bf16;
    options.optim.name = name;
    options.staging_bytes = 100;
    const model::ModelConfig config = families()[1].config;
    const auto world = dist::make_solo();
    const std::vector<MicroBatch> batches = shared_prefixes();
    const auto step = [&](Learner& learner) {
      for (const MicroBatch& batch : batches) learner.accumulate(batch, test::count(batches), device_grpo(), {1.0F});
      REQUIRE(learner.update().finite);
    };
    Learner whole(config, test::tiny_weights(config), options, *world);
    step(whole);
    Learner resumed(config, test::tiny_weights(config, 2), options, *world);
    test::restore(resumed, test::masters_of(whole), test::moments_of(whole), whole.num_updates());
    const auto same = [&] {
      CHECK((test::masters_of(resumed) == test::masters_of(whole)));
      CHECK((test::moments_of(resumed) == test::moments_of(whole)));
      CHECK((resumed.score(batches[0], {1.0F}).logprobs == whole.score(batches[0], {1.0F}).logprobs));
    };
    same();
    step(whole);
    step(resumed);
    same();
    check_checkpoint(whole, options, config);

    Named other = test::masters_of(resumed);
    other.begin()->second[0] += 1;
    test::restore(resumed, other, test::moments_of(resumed), 1);
    CHECK((test::masters_of(resumed) == other));

    const std::vector<float> unscaled = whole.score(batches[0], {1.0F}).logprobs;
    whole.apply_uaq(2);
    CHECK((whole.score(batches[0], {1.0F}).logprobs == unscaled));  // powers of two round nothing

    model::Snapshot snapshot(config, quant::Format::f32);
    whole.publish(snapshot, 7);
    CHECK(whole.published() == &snapshot);
    CHECK(test::copy(snapshot.final_norm_D().view()) == test::masters_of(whole).at("model.norm.weight"));
    step(whole);
    CHECK(whole.published() == nullptr);
  }
}

/// Checks that two ranks end like one rank except for the order of sums, with all masters on each rank or sharded.
void check_ranks(const LearnerOptions& how) {
  const model::ModelConfig config = families()[0].config;
  const std::vector<MicroBatch> batches = shared_prefixes();
  const auto on_ranks = [&](int num_ranks, bool sharded, learner::OptimName name) {
    LearnerOptions options = how;
    options.optim.name = name;
    options.optim.lr = 1e-3;
    options.shard_optimizer = sharded;
    std::vector<Named> kept(static_cast<std::size_t>(num_ranks));
    std::vector<double> norms(kept.size());
    std::vector<int> num_finite(kept.size());  // Catch2's assertions are not thread-safe
    test::Ranks(num_ranks).run([&](dist::Collectives& world) {
      Learner learner(config, test::tiny_weights(config), options, world);
      const auto rank = static_cast<std::size_t>(world.rank());
      for (int step = 0; step < 3; ++step) {
        for (auto i = rank; i < batches.size(); i += static_cast<std::size_t>(num_ranks))
          learner.accumulate(batches[i], test::count(batches), device_grpo(), {1.0F});
        const learner::UpdateReport report = learner.update();
        num_finite[rank] += report.finite ? 1 : 0;
        norms[rank] = report.metrics.at("actor/grad_norm");
      }
      kept[rank] = test::masters_of(learner);
    });
    Named all;
    for (const Named& rank : kept) all.insert(rank.begin(), rank.end());
    for (const int count : num_finite) CHECK(count == 3);
    CHECK(norms.front() == norms.back());
    if (!sharded) CHECK((kept.front() == kept.back()));
    return all;
  };
  for (const auto name : {learner::OptimName::adamw, learner::OptimName::muon}) {
    const Named one = on_ranks(1, false, name), two = on_ranks(2, false, name);
    std::string worst;
    CHECK(test::relative_difference(two, one, worst) <= 2e-4);
    // LibTorch's AdamW on the CPU rounds the last elements of a tensor differently from the rest.
    CHECK(test::relative_difference(on_ranks(2, true, name), two, worst) <= 1e-6);
  }
}

/// Checks that a NaN is detected, named and never applied.
void check_guards(const LearnerOptions& how) {
  const model::ModelConfig config = families()[0].config;
  const auto world = dist::make_solo();
  model::Weights weights = test::tiny_weights(config);
  Learner learner(config, weights, how, *world);
  const Named before = test::masters_of(learner);
  MicroBatch batch = test::pack(device_sequences());
  const types::GlobalCounts counts = test::count({batch});
  MicroBatch broken = batch;
  broken.advantages.assign(broken.advantages.size(), NAN);
  learner.accumulate(broken, counts, device_grpo(), {1.0F});
  learner::UpdateReport report = learner.update();
  CHECK(report.non_finite == "loss");
  CHECK((test::masters_of(learner) == before));

  Named masters = before;
  masters.at("model.layers.1.mlp.down_proj.weight")[3] = NAN;
  test::restore(learner, masters, test::moments_of(learner), 0);
  LossOptions sft;
  sft.kind = LossKind::sft;
  learner.accumulate(batch, counts, sft, {1.0F});
  report = learner.update();
  CHECK(!report.finite);
  CHECK(learner.num_updates() == 0);
}

void check_all(const LearnerOptions& how) {
  SECTION("scores, gradients, moments and metrics") { compare_with_own(how); }
  SECTION("values as the sampler's formats keep them") { compare_fake_quant(how); }
  SECTION("optimizers") { compare_optimizers(how); }
  SECTION("checkpointing, chunks, repetition") { check_invariants(how); }
  SECTION("restore, publish, update-aware scaling") { check_state(how); }
  SECTION("ranks") { check_ranks(how); }
  SECTION("what is not finite") { check_guards(how); }
}

}  // namespace

TEST_CASE("LibTorch learner: equals the fused one except for roundings") {
  LearnerOptions how = test::options();
  how.torch_ops = true;
  check_all(how);
}

TEST_CASE("GPU learner: equals the CPU's except for roundings", "[gpu]") {
  LearnerOptions how = test::options();
  how.device = base::Device::cuda;
  const auto make = [&] {
    const model::ModelConfig config = families()[0].config;
    const auto world = dist::make_solo();
    const Learner learner(config, test::tiny_weights(config), how, *world);
  };
  if (test::has_gpu(make)) check_all(how);
}

TEST_CASE("activation checkpointing: LibTorch's operations keep less memory for the backward pass") {
  model::ModelConfig config = families()[0].config;
  config.num_hidden_layers = 8;
  config.max_position_embeddings = 2048;
  const auto kept_bytes = [&](bool checkpointing) {
    learner::release_tensor_memory();
    LearnerOptions options = test::options();
    options.torch_ops = true;
    options.activation_checkpointing = checkpointing;
    const auto world = dist::make_solo();
    Learner learner(config, test::tiny_weights(config), options, *world);
    const MicroBatch batch = test::pack({test::random_sequence(1, 3, 1500, 40)});
    learner.accumulate(batch, test::count({batch}), device_grpo(), {1.0F});
    return learner::kept_tensor_memory_bytes();  // nearly the peak of memory in use
  };
  const std::size_t all = kept_bytes(false), checkpointed = kept_bytes(true);
  CHECK(checkpointed > 0);
  CHECK(checkpointed < 0.7 * static_cast<double>(all));
}

TEST_CASE("activation checkpointing: products that only affect the layer's output are not recomputed") {
  model::ModelConfig config = families()[0].config;
  config.num_hidden_layers = 5;
  const auto num_products = [&](bool checkpointing) {
    LearnerOptions options = test::options();
    options.torch_ops = true;
    options.activation_checkpointing = checkpointing;
    const auto world = dist::make_solo();
    Learner learner(config, test::tiny_weights(config), options, *world);
    const MicroBatch batch = test::pack(device_sequences());
    static int count = 0;
    count = 0;
    const at::CallbackHandle counting = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& called) -> std::unique_ptr<at::ObserverContext> {
          count += std::string_view(called.name()) == "aten::mm" ? 1 : 0;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
    learner.accumulate(batch, test::count({batch}), device_grpo(), {1.0F});
    at::removeCallback(counting);
    return count;
  };
  constexpr int kWithoutDown = 3;  // qkv, o, gate and up
  CHECK(num_products(true) - num_products(false) == kWithoutDown * config.num_hidden_layers);
}

TEST_CASE("bf16 products: enter gradients without a rounding to bf16") {
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({33, 70}).to(torch::kBFloat16), y = torch::randn({70, 21}).to(torch::kBFloat16);
  const torch::Tensor want = torch::mm(x.to(torch::kFloat64), y.to(torch::kFloat64));
  const auto error = [&](const torch::Tensor& got) {
    return ((got.to(torch::kFloat64) - want).norm() / want.norm()).item<double>();
  };
  CHECK(error(learner::exact_matmul(x, y)) < 1e-6);
  const torch::Tensor sum = torch::ones({33, 21});
  learner::add_exact_matmul(x, y, sum);
  CHECK(error(sum - 1) < 1e-6);
}

TEST_CASE("attention mask of a sequence after a prefix: all of the prefix, then its own past") {
  learner::PackedRows rows;
  const std::vector<float> angles(16 * 8, 0.5F);
  rows.rope_table = angles.data();
  rows.tokens = {7, 1, 7, 2, 1, 2, 7, 0, 1};
  rows.positions = {0, 1, 2, 3, 4, 3, 4, 0, 1};
  rows.sequence_starts = {0, 3, 5, 7, 9};
  rows.continues_prefix = {0, 1, 1, 0};
  const learner::DeviceRows placed = learner::place_rows(rows, 8, torch::kCPU);
  CHECK(placed.lengths == std::vector<std::int64_t>{3, 2, 2, 2});
  CHECK(placed.key_lengths == std::vector<std::int64_t>{3, 5, 5, 2});
  const torch::Tensor want = torch::tensor({0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 7, 8}, torch::kInt32);
  CHECK(torch::equal(placed.keys.rows, want));
  // Holds each row's position among the keys, for its gradient.
  CHECK(torch::equal(placed.keys.starts, torch::tensor({0, 3, 6, 9, 10, 11, 12, 13, 14, 15}, torch::kInt32)));
  CHECK(torch::equal(placed.keys.places,
                     torch::tensor({0, 3, 8, 1, 4, 9, 2, 5, 10, 6, 7, 11, 12, 13, 14}, torch::kInt32)));
  CHECK(torch::equal(placed.key_starts, torch::tensor({0, 3, 8, 13, 15}, torch::kInt32)));
  CHECK(torch::equal(placed.tokens.distinct, torch::tensor({0, 1, 2, 7}, torch::kInt32)));
  CHECK(torch::equal(placed.tokens.starts, torch::tensor({0, 1, 4, 6, 9}, torch::kInt32)));
  CHECK(torch::equal(placed.tokens.rows_N, torch::tensor({7, 1, 4, 8, 3, 5, 0, 2, 6}, torch::kInt32)));
}

}  // namespace qrl
