// Tests properties of the whole learner: what must not change its gradients, the effect of its updates, its refusals.
#include "learner/learner.h"

#include <ATen/Parallel.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <cstring>

#include "base/threads.h"
#include "learner/choices.h"
#include "learner/ranks.h"
#include "learner/support.h"
#include "learner/tensors/torch.h"
#include "model/snapshot.h"

namespace qrl {

using learner::LossKind;
using learner::LossOptions;
using test::Named;
using types::MicroBatch;

namespace {

LossOptions grpo() {
  LossOptions loss = test::policy_options();
  loss.algorithm.kl_loss_coef = 0.05;
  loss.algorithm.entropy_coef = 0.01;
  return loss;
}

std::vector<test::Sequence> some_sequences(std::int64_t vocab = 37) {
  std::vector<test::Sequence> sequences;
  for (const auto& [prompt, response] :
       std::vector<std::pair<int, int>>{{3, 7}, {1, 12}, {5, 1}, {2, 20}, {4, 0}, {3, 5}}) {
    sequences.push_back(test::random_sequence(sequences.size(), prompt, response, vocab));
  }
  return sequences;
}

/// Computes gradients of these micro-batches under one set of weights.
struct Run {
  explicit Run(const learner::LearnerOptions& options = test::options(), const LossOptions& loss_in = grpo())
      : config(test::tiny_config()), learner(config, test::tiny_weights(config), options, *world), loss(loss_in) {}
  Named gradients(const std::vector<MicroBatch>& batches) {
    for (const MicroBatch& batch : batches) learner.accumulate(batch, test::count(batches), loss, {1.0F});
    return test::gradients_of(learner);
  }
  std::unique_ptr<dist::Collectives> world = dist::make_solo();
  model::ModelConfig config;
  learner::Learner learner;
  LossOptions loss;
};

bool same_bits(const Named& a, const Named& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.size() == other.second.size() &&
           std::memcmp(one.second.data(), other.second.data(), one.second.size() * sizeof(float)) == 0;
  });
}

double difference(const Named& a, const Named& b) {
  std::string worst;
  const double most = test::relative_difference(a, b, worst);
  UNSCOPED_INFO("worst tensor " << worst << ": " << most);
  return most;
}

}  // namespace

TEST_CASE("learner: packed gradients are the sum of separate ones, in any split and order") {
  const std::vector<test::Sequence> sequences = some_sequences();
  for (const LossKind kind : {LossKind::policy, LossKind::sft}) {
    LossOptions loss = grpo();
    loss.kind = kind;
    const Named together = Run(test::options(), loss).gradients({test::pack(sequences)});
    std::vector<MicroBatch> separate, backwards;
    for (const auto& sequence : sequences) separate.push_back(test::pack({sequence}));
    CHECK(difference(Run(test::options(), loss).gradients(separate), together) <= 1e-5);
    const std::vector<test::Sequence> reversed(sequences.rbegin(), sequences.rend());
    CHECK(difference(Run(test::options(), loss).gradients({test::pack(reversed)}), together) <= 1e-5);
    CHECK(difference(Run(test::options(), loss)
                         .gradients({test::pack({sequences[0], sequences[3]}),
                                     test::pack({sequences[1], sequences[2], sequences[4], sequences[5]})}),
                     together) <= 1e-5);
    // The bound would detect a lost sequence.
    CHECK(difference(Run(test::options(), loss).gradients({test::pack({sequences[0], sequences[1]})}), together) >
          1e-2);
  }
}

TEST_CASE("learner: a shared prompt computed once gives its samples' scores and gradients") {
  std::vector<test::Sequence> group;
  for (std::uint64_t i = 0; i < 3; ++i) {
    group.push_back(test::random_sequence(i, 9, 4 + static_cast<std::int64_t>(i), 37));
    std::copy_n(group[0].tokens.begin(), 9, group[i].tokens.begin());
  }
  const MicroBatch separate = test::pack(group), shared = test::pack_shared(group);
  REQUIRE(shared.num_tokens() == separate.num_tokens() - 2 * 8);
  CHECK(difference(Run().gradients({shared}), Run().gradients({separate})) <= 1e-5);
  const auto checkpointing = [] {
    auto options = test::options();
    options.activation_checkpointing = true;
    return options;
  };
  CHECK(difference(Run(checkpointing()).gradients({shared}), Run().gradients({separate})) <= 1e-5);
  const auto masked_in = [](const MicroBatch& batch, const std::vector<float>& per_token) {
    std::vector<float> values;
    for (std::size_t t = 0; t < per_token.size(); ++t) {
      if (batch.loss_mask[t] != 0) values.push_back(per_token[t]);
    }
    return values;
  };
  const auto got = masked_in(shared, Run().learner.score(shared, {1}).logprobs);
  const auto want = masked_in(separate, Run().learner.score(separate, {1}).logprobs);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(test::close(got[i], want[i], 1e-5, 0));
}

TEST_CASE("learner: bf16 gradients follow fp32's and do not depend on the split") {
  const std::vector<test::Sequence> sequences = some_sequences();
  const Named exact = Run().gradients({test::pack(sequences)});
  const auto bf16 = test::options(learner::ComputeDType::bf16);
  const Named together = Run(bf16).gradients({test::pack(sequences)});
  const double rounding = difference(together, exact);
  CHECK(rounding <= 6e-2);
  CHECK(rounding > 1e-4);  // the learner really computes in bf16
  CHECK(difference(Run(bf16).gradients({test::pack({sequences[0], sequences[1]}),
                                        test::pack({sequences[2], sequences[3], sequences[4], sequences[5]})}),
                   together) <= 1e-2);
}

TEST_CASE("learner: gradients and updates have equal bits for any number of threads") {
  std::vector<test::Sequence> sequences;  // enough rows for every loop to be split over threads
  for (std::uint64_t i = 0; i < 60; ++i)
    sequences.push_back(test::random_sequence(i, 3 + static_cast<std::int64_t>(i % 5), 20, 37));
  struct Case {
    learner::ComputeDType compute;
    learner::LearnerForward forward;
    bool bitwise;
  };
  const Case how = GENERATE(Case{learner::ComputeDType::f32, learner::LearnerForward::bf16, false},
                            Case{learner::ComputeDType::bf16, learner::LearnerForward::bf16, false},
                            Case{learner::ComputeDType::bf16, learner::LearnerForward::fake_quant, false},
                            Case{learner::ComputeDType::bf16, learner::LearnerForward::low_bit, false},
                            Case{learner::ComputeDType::bf16, learner::LearnerForward::low_bit, true});
  CAPTURE(static_cast<int>(how.compute), static_cast<int>(how.forward), how.bitwise);
  const auto trained = [&](int num_threads) {
    const int before = base::num_threads();
    base::set_num_threads(num_threads);
    learner::LearnerOptions options = test::options(how.compute);
    options.numerics.forward = how.forward;
    options.numerics.bitwise = how.bitwise;
    Run run(options);
    model::Snapshot snapshot(run.config, quant::Format::int8);
    std::vector<Named> seen;
    for (std::int64_t step = 0; step < 2; ++step) {
      run.learner.publish(snapshot, step);
      seen.push_back(run.gradients({test::pack(sequences)}));
      run.learner.update();
      seen.push_back(test::masters_of(run.learner));
    }
    base::set_num_threads(before);
    return seen;
  };
  const std::vector<Named> alone = trained(1);
  CHECK(trained(2) == alone);
  CHECK(trained(5) == alone);
}

TEST_CASE("learner: computes on the configured number of threads, also in LibTorch's operations") {
  const model::ModelConfig config = test::tiny_config();
  const model::Weights weights = test::tiny_weights(config);
  const int before = base::num_threads();
  for (const int num_threads : {1, before + 2}) {
    std::vector<std::pair<int, int>> seen;
    const model::WeightSource source([&](const model::WeightSpec& spec, float* to) {
      seen.emplace_back(base::num_threads(), at::get_num_threads());
      std::copy_n(weights.at(spec.name).as<float>(), spec.shape.numel(), to);
    });
    learner::LearnerOptions options = test::options();
    options.num_threads = num_threads;
    const auto world = dist::make_solo();
    const learner::Learner learner(config, source, options, *world);
    CHECK(seen == std::vector<std::pair<int, int>>(weights.size(), {num_threads, num_threads}));
    CHECK(base::num_threads() == before);
  }
}

TEST_CASE("LibTorch's sums of loss terms: equal bits for any number of threads up to 32,768 tokens") {
  const auto sum = [](std::int64_t count, int num_threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(num_threads);
    const torch::Tensor terms = torch::sin(torch::arange(count, torch::kFloat64)) / 3;
    const double all = terms.sum().item<double>();
    at::set_num_threads(before);
    return all;
  };
  for (const std::int64_t count : {1000, 20001, 32767}) CHECK(sum(count, 1) == sum(count, 4));
  CHECK(sum(100003, 1) != sum(100003, 4));  // otherwise tests/README.md could promise more
}

TEST_CASE("learner: repeated calls give equal bits") {
  for (const auto compute : {learner::ComputeDType::f32, learner::ComputeDType::bf16}) {
    const auto train = [&] {
      Run run(test::options(compute));
      for (int step = 0; step < 3; ++step) {
        run.gradients({test::pack(some_sequences())});
        run.learner.update();
      }
      return test::masters_of(run.learner);
    };
    CHECK(train() == train());
  }
}

TEST_CASE("learner: checkpointing and the log-prob chunk change no gradient") {
  for (const auto compute : {learner::ComputeDType::f32, learner::ComputeDType::bf16}) {
    learner::LearnerOptions options = test::options(compute);
    const Named plain = Run(options).gradients({test::pack(some_sequences())});
    options.activation_checkpointing = true;
    CHECK(Run(options).gradients({test::pack(some_sequences())}) == plain);
    options.logprob_chunk_tokens = 7;
    const double bound = compute == learner::ComputeDType::f32 ? 1e-6 : 1e-2;  // dW of a chunk is rounded to bf16
    CHECK(difference(Run(options).gradients({test::pack(some_sequences())}), plain) <= bound);
  }
}

TEST_CASE("learner: scores are the log-probs used by accumulate, scaled by temperature") {
  Run run;
  const MicroBatch batch = test::pack(some_sequences());
  const learner::TokenScores cold = run.learner.score(batch, {0.5F}), warm = run.learner.score(batch, {1.0F});
  double entropy_cold = 0, entropy_warm = 0;
  for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
    if (batch.loss_mask[t] == 0) {
      CHECK(warm.logprobs[t] == 0);
      CHECK(warm.entropy[t] == 0);
    } else {
      CHECK(warm.logprobs[t] < 0);
    }
    entropy_cold += cold.entropy[t];
    entropy_warm += warm.entropy[t];
  }
  CHECK(entropy_cold < entropy_warm);
  CHECK(difference(test::gradients_of(run.learner), test::gradients_of(run.learner)) == 0);
  double norm = 0;
  for (const auto& [name, values] : test::gradients_of(run.learner)) {
    for (const float value : values) norm += std::fabs(value);
  }
  CHECK(norm == 0);
}

TEST_CASE("old log-probs: equal to current ones they change nothing, without them the ratio is 1") {
  Run run;
  const std::vector<test::Sequence> sequences = some_sequences();
  MicroBatch without = test::pack(sequences, false), with = test::pack(sequences, false);
  with.old_logprobs = run.learner.score(with, {1.0F}).logprobs;
  const Named expected = Run().gradients({without});
  CHECK(difference(Run().gradients({with}), expected) <= 1e-6);
  Run other;
  other.gradients({without});
  const auto metrics = other.learner.update().metrics;
  CHECK(metrics.at("actor/ppo_kl") == 0);
  CHECK(metrics.at("actor/pg_clipfrac_high") == 0);
}

TEST_CASE("learner: two ranks update as one process") {
  const std::vector<test::Sequence> s = some_sequences();
  const std::vector<std::vector<MicroBatch>> shares = {{test::pack({s[0], s[1]}), test::pack({s[2]})},
                                                       {test::pack({s[3], s[4], s[5]})}};
  const types::GlobalCounts counts = test::count({shares[0][0], shares[0][1], shares[1][0]});
  Run alone;
  alone.gradients({shares[0][0], shares[0][1], shares[1][0]});
  const learner::UpdateReport expected = alone.learner.update();

  test::Ranks pair(2);
  learner::UpdateReport reports[2];
  Named masters[2];
  pair.run([&](dist::Collectives& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const model::ModelConfig config = test::tiny_config();
    learner::Learner learner(config, test::tiny_weights(config), test::options(), world);
    for (const MicroBatch& batch : shares[rank]) learner.accumulate(batch, counts, grpo(), {1.0F});
    reports[rank] = learner.update();
    masters[rank] = test::masters_of(learner);
  });
  CHECK(masters[0] == masters[1]);
  CHECK(reports[0].metrics == reports[1].metrics);
  REQUIRE(reports[0].metrics.size() == expected.metrics.size());
  for (const auto& [name, value] : expected.metrics) {
    CAPTURE(name);
    CHECK(test::close(reports[0].metrics.at(name), value, 1e-7, 1e-6));
  }
  // Does not compare masters: Adam's first step is ±lr whatever the gradient's size, so rounding near zero shows in
  // full.
  CHECK(reports[0].metrics.at("actor/grad_norm") > 0.01);
}

TEST_CASE("learner: an update with a non-finite gradient changes nothing on any rank and names the tensor") {
  test::Ranks pair(2);
  pair.run([&](dist::Collectives& world) {
    const model::ModelConfig config = test::tiny_config();
    learner::Learner learner(config, test::tiny_weights(config), test::options(), world);
    const MicroBatch batch = test::pack(some_sequences());
    learner.accumulate(batch, test::count({batch, batch}), grpo(), {1.0F});
    learner.update();
    const Named masters = test::masters_of(learner), moments = test::moments_of(learner);
    learner.accumulate(batch, test::count({batch, batch}), grpo(), {1.0F});
    if (world.rank() == 1) {
      learner.state().gradients().at("model.layers.1.mlp.up_proj.weight").as<float>()[5] = NAN;
      learner.state().gradients().at("model.norm.weight").as<float>()[0] = HUGE_VALF;
    }
    const learner::UpdateReport report = learner.update();
    const bool same = test::masters_of(learner) == masters && test::moments_of(learner) == moments;
    const bool goes_on = [&] {
      learner.accumulate(batch, test::count({batch, batch}), grpo(), {1.0F});
      return learner.update().finite && learner.num_updates() == 2;
    }();
    static std::mutex assertions;  // Catch2's assertions are not thread-safe
    const std::lock_guard lock(assertions);
    CHECK_FALSE(report.finite);
    CHECK(report.non_finite == "model.layers.1.mlp.up_proj.weight");
    CHECK(same);
    CHECK(goes_on);
  });
}

TEST_CASE("learner: NaN in any input or state reaches neither weights nor sampler") {
  // Injects a NaN, given a batch, a learner, and a random number.
  using Site = std::function<void(MicroBatch&, learner::Learner&, std::uint64_t)>;
  const auto of_targets = [](std::vector<float> MicroBatch::*values) -> Site {
    return [values](MicroBatch& batch, learner::Learner&, std::uint64_t at) {
      std::vector<std::size_t> counted;
      for (std::size_t t = 0; t < batch.loss_mask.size(); ++t) {
        if (batch.loss_mask[t] != 0) counted.push_back(t);
      }
      (batch.*values)[counted[at % counted.size()]] = NAN;
    };
  };
  const auto of_tensors = [](model::WeightViews (learner::LearnerState::*tensors)() const,
                             const std::string& kind) -> Site {
    return [=](MicroBatch&, learner::Learner& learner, std::uint64_t at) {
      std::vector<base::View> views;
      for (const auto& [name, view] : (learner.state().*tensors)()) {
        if (name.starts_with(kind)) views.push_back(view);
      }
      const base::View view = views[at % views.size()];
      view.as<float>()[(at >> 16) % static_cast<std::uint64_t>(view.numel())] = NAN;
    };
  };
  const std::map<std::string, std::pair<Site, bool>> sites = {
      // true: before the forward pass; false: after the backward pass
      {"advantages", {of_targets(&MicroBatch::advantages), true}},
      {"sampler_logprobs", {of_targets(&MicroBatch::sampler_logprobs), true}},
      {"old_logprobs", {of_targets(&MicroBatch::old_logprobs), true}},
      {"reference_logprobs", {of_targets(&MicroBatch::reference_logprobs), true}},
      {"masters before the forward pass", {of_tensors(&learner::LearnerState::masters, ""), true}},
      {"masters after the backward pass", {of_tensors(&learner::LearnerState::masters, ""), false}},
      {"gradients", {of_tensors(&learner::LearnerState::gradients, ""), false}},
      {"exp_avg", {of_tensors(&learner::LearnerState::moments, "exp_avg."), false}},
      {"exp_avg_sq", {of_tensors(&learner::LearnerState::moments, "exp_avg_sq."), false}},
  };
  const int num_places = std::getenv("QRL_LONG_TESTS") != nullptr ? 50 : 4;
  LossOptions loss = grpo();
  std::vector<test::Sequence> sequences = some_sequences();
  const MicroBatch good = test::pack(sequences);
  REQUIRE(good.old_logprobs.size() == good.tokens.size());
  base::RandomStream random(7, base::RandomPurpose::test, 0);
  for (const auto& [name, site] : sites) {
    for (int place = 0; place < num_places; ++place) {
      const std::uint64_t at = random.below(std::uint64_t{1} << 48);
      INFO(name << ", place " << at);
      Run run(test::options(), loss);
      MicroBatch batch = good;
      model::Snapshot snapshot(run.config, quant::Format::f32);
      if (site.second) site.first(batch, run.learner, at);
      const Named before = test::masters_of(run.learner);
      run.gradients({batch});
      if (!site.second) site.first(batch, run.learner, at);
      const learner::UpdateReport report = run.learner.update();
      if (report.finite) {  // the update found no NaN, so publishing must
        CHECK(name.find("gradients") == std::string::npos);
        CHECK(name.find("_logprobs") == std::string::npos);
        int exit_code = 0;
        try {
          run.learner.publish(snapshot, 1);
        } catch (const base::Error& error) {
          exit_code = error.exit_code();
        }
        CHECK(exit_code == 3);
      } else {
        CHECK(run.learner.num_updates() == 0);
        CHECK(same_bits(test::masters_of(run.learner), before));
      }
    }
  }
}

TEST_CASE("learner: a non-finite loss is named and skipped") {
  Run run;
  MicroBatch batch = test::pack(some_sequences());
  batch.advantages[static_cast<std::size_t>(std::find(batch.loss_mask.begin(), batch.loss_mask.end(), 1) -
                                            batch.loss_mask.begin())] = NAN;
  const Named before = test::masters_of(run.learner);
  run.gradients({batch});
  const learner::UpdateReport report = run.learner.update();
  CHECK_FALSE(report.finite);
  CHECK(report.non_finite == "loss");
  CHECK(std::isnan(report.metrics.at("actor/grad_norm")));
  CHECK(run.learner.num_updates() == 0);
  CHECK(test::masters_of(run.learner) == before);
}

TEST_CASE("AdamW: equals torch's, with decay only on matrices, and clipping by the global norm") {
  learner::LearnerOptions options = test::options();
  options.optim.weight_decay = 0.3;
  options.optim.betas = {0.8, 0.95};
  options.optim.grad_clip = 0.5;
  Run run(options);
  std::vector<torch::Tensor> decayed, others;
  std::map<std::string, torch::Tensor> mirror;
  for (const model::WeightSpec& spec : model::weight_specs(run.config)) {
    const base::View view = run.learner.state().masters().at(spec.name);
    mirror[spec.name] = torch::from_blob(view.data, {view.numel()}).clone().set_requires_grad(true);
    const bool plain = spec.kind == model::WeightKind::norm || spec.kind == model::WeightKind::bias;
    (plain ? others : decayed).push_back(mirror[spec.name]);
  }
  const auto settings = [](double weight_decay) {
    return torch::optim::AdamWOptions(1e-2).betas({0.8, 0.95}).eps(1e-8).weight_decay(weight_decay);
  };
  torch::optim::AdamW with_decay(decayed, settings(0.3)), without_decay(others, settings(0));
  for (int step = 0; step < 4; ++step) {
    run.gradients({test::pack(some_sequences())});
    std::vector<torch::Tensor> all;
    for (auto& [name, tensor] : mirror) {
      const base::View view = run.learner.state().gradients().at(name);
      tensor.mutable_grad() = torch::from_blob(view.data, {view.numel()}).clone();
      all.push_back(tensor);
    }
    const double norm = torch::nn::utils::clip_grad_norm_(all, 0.5);
    with_decay.step();
    without_decay.step();
    const learner::UpdateReport report = run.learner.update();
    CHECK(norm > 0.5);  // clipping is active
    CHECK(test::close(report.metrics.at("actor/grad_norm"), norm, 0, 1e-5));
  }
  Named want;
  for (const auto& [name, tensor] : mirror) {
    want[name] = {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
  }
  CHECK(difference(test::masters_of(run.learner), want) <= 2e-6);
}

TEST_CASE("learner: continues with equal bits after a restore") {
  for (const auto compute : {learner::ComputeDType::f32, learner::ComputeDType::bf16}) {
    learner::LearnerOptions options = test::options(compute);
    options.optim.lr_warmup_steps = 3;
    options.optim.lr_scheduler = learner::LrScheduler::cosine;
    options.total_updates = 9;
    Run whole(options), resumed(options);
    const auto step = [&](Run& run) {
      run.gradients({test::pack(some_sequences())});
      run.learner.update();
    };
    step(whole);
    step(whole);
    resumed.gradients({test::pack(some_sequences())});  // leftover gradients: restore must clear them
    test::restore(resumed.learner, test::masters_of(whole.learner), test::moments_of(whole.learner),
                  whole.learner.num_updates());
    CHECK(resumed.learner.lr() == whole.learner.lr());
    step(whole);
    step(resumed);
    CHECK(test::masters_of(resumed.learner) == test::masters_of(whole.learner));
    CHECK(test::moments_of(resumed.learner) == test::moments_of(whole.learner));
    CHECK(resumed.learner.num_updates() == 3);
  }
}

TEST_CASE("reset_optimizer: clears the moments and keeps the weights") {
  Run run;
  run.gradients({test::pack(some_sequences())});
  run.learner.update();
  const Named masters = test::masters_of(run.learner);
  learner::OptimizerOptions optim = test::adamw(0.5);
  optim.lr_warmup_steps = 2;
  run.learner.reset_optimizer(optim, 10);
  CHECK(run.learner.num_updates() == 0);
  CHECK(run.learner.lr() == 0.25);
  CHECK(test::masters_of(run.learner) == masters);
  for (const auto& [name, values] : test::moments_of(run.learner)) {
    CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value == 0; }));
  }
}

TEST_CASE("publish: snapshots carry the masters at the time of the publish") {
  Run run;
  run.gradients({test::pack(some_sequences())});
  run.learner.update();
  model::Snapshot snapshot(run.config, quant::Format::f32);
  run.learner.publish(snapshot, 7);
  CHECK(snapshot.version() == 7);
  const base::View embedding = run.learner.state().masters().at("model.embed_tokens.weight");
  CHECK(std::memcmp(snapshot.embedding_VD().view().data, embedding.data, embedding.num_bytes()) == 0);
}

TEST_CASE("metrics: means over response tokens") {
  Run run;
  std::vector<test::Sequence> sequences = some_sequences();
  MicroBatch batch = test::pack(sequences);
  const learner::TokenScores now = run.learner.score(batch, {1.0F});
  double n = 0, k3 = 0, k1 = 0, rho = 0, rho_squared = 0, capped = 0, high = 0, low = 0, entropy = 0, most = 0;
  for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
    if (batch.loss_mask[t] == 0) continue;
    const double d = static_cast<double>(batch.old_logprobs[t]) - batch.sampler_logprobs[t], r = std::exp(d);
    const double ratio = std::exp(static_cast<double>(now.logprobs[t]) - batch.old_logprobs[t]);
    n += 1;
    k1 -= d;
    k3 += r - 1 - d;
    rho += r;
    rho_squared += r * r;
    capped += r > 1.25;
    high += batch.advantages[t] > 0 && ratio > 1.2;
    low += batch.advantages[t] < 0 && ratio < 0.8;
    entropy += now.entropy[t];
    most = std::max(most, std::fabs(d));
  }
  LossOptions loss = grpo();
  loss.correction.threshold = 1.25;
  run.learner.accumulate(batch, test::count({batch}), loss, {1.0F});
  const learner::Metrics metrics = run.learner.update().metrics;
  const auto check = [&](const char* name, double want) {
    CAPTURE(name);
    CHECK(test::close(metrics.at(name), want, 1e-6, 1e-6));
  };
  check("mismatch/k1_kl", k1 / n);
  check("mismatch/k3_kl", k3 / n);
  check("mismatch/rho_mean", rho / n);
  check("mismatch/ess_ratio", rho * rho / (n * rho_squared));
  check("mismatch/capped_fraction", capped / n);
  check("mismatch/logp_abs_diff_max", most);
  check("actor/pg_clipfrac_high", high / n);
  check("actor/pg_clipfrac_low", low / n);
  check("actor/entropy", entropy / n);
  check("actor/lr", 1e-2);
  CHECK(capped > 0);
  CHECK(high + low > 0);
  CHECK(metrics.at("mismatch/ess_ratio_weights") > metrics.at("mismatch/ess_ratio"));
}

TEST_CASE("learner: broken batches are refused") {
  Run run;
  const auto refuses = [&](const auto& damage, const std::string& about) {
    MicroBatch batch = test::pack(some_sequences());
    damage(batch);
    CHECK_THROWS_WITH(run.learner.accumulate(batch, test::count({batch}), grpo(), {1.0F}), Catch::Contains(about));
  };
  refuses([](MicroBatch& batch) { batch.tokens[3] = 37; }, "vocab_size");
  refuses([](MicroBatch& batch) { batch.sequence_starts.back() += 1; }, "sequence_starts");
  refuses([](MicroBatch& batch) { batch.targets.pop_back(); }, "targets");
  refuses([](MicroBatch& batch) { batch.sampler_logprobs.pop_back(); }, "sampler_logprobs");
  refuses([](MicroBatch& batch) { batch.reference_logprobs.clear(); }, "reference_logprobs");
  MicroBatch batch = test::pack({test::random_sequence(1, 4, 61, 37)});
  CHECK_THROWS_WITH(run.learner.accumulate(batch, test::count({batch}), grpo(), {1.0F}),
                    Catch::Contains("max_position_embeddings"));
  batch = test::pack(some_sequences());
  CHECK_THROWS_WITH(run.learner.score(batch, {0.0F}), Catch::Contains("temperature"));
}

TEST_CASE("supervised training: lowers its loss") {
  for (const auto compute : {learner::ComputeDType::f32, learner::ComputeDType::bf16}) {
    LossOptions loss;
    loss.kind = LossKind::sft;
    Run run(test::options(compute), loss);
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
      run.gradients({test::pack(some_sequences())});
      last = run.learner.update().metrics.at("actor/sft_loss");
      if (step == 0) first = last;
    }
    CHECK(first > 3);
    CHECK(last < 0.5 * first);
  }
}

}  // namespace qrl
