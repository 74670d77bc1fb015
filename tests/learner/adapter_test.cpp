// Tests low-rank adapters in the learner: the trained weights, their gradients, and the sampler's bits.
#include <cmath>

#include "decoder/cpu/teacher_forcing.h"
#include "learner/forward/fused_ops.h"
#include "learner/forward/quantized.h"
#include "learner/learner.h"
#include "learner/support.h"
#include "model/snapshot.h"

using namespace qrl;
using learner::LearnerForward;
using learner::TensorList;
using torch::Tensor;

namespace {

model::LoraConfig lora_of(std::int64_t rank, std::vector<std::string> targets = {}) {
  model::LoraConfig lora;
  lora.rank = rank;
  lora.alpha = 3;
  lora.target_modules = std::move(targets);
  return lora;
}

model::SnapshotFormats formats_of(quant::Format format, const model::LoraConfig& lora) {
  model::SnapshotFormats formats(format);
  formats.lora = lora;
  return formats;
}

struct Case {
  LearnerForward forward;
  quant::Format format;
  learner::LearnerBackward backward = learner::LearnerBackward::model_dtype;
};
const Case kCases[] = {{LearnerForward::bf16, quant::Format::int8},
                       {LearnerForward::fake_quant, quant::Format::int8},
                       {LearnerForward::low_bit, quant::Format::f32},
                       {LearnerForward::low_bit, quant::Format::bf16},
                       {LearnerForward::low_bit, quant::Format::int8},
                       {LearnerForward::low_bit, quant::Format::int8, learner::LearnerBackward::int8},
                       {LearnerForward::low_bit, quant::Format::fp8_channel},
                       {LearnerForward::low_bit, quant::Format::int4},
                       {LearnerForward::low_bit, quant::Format::int4_int8}};

learner::LearnerOptions options_of(const Case& one, learner::ComputeDType compute = learner::ComputeDType::bf16) {
  learner::LearnerOptions options = test::options(compute);
  options.numerics.forward = one.forward;
  options.numerics.backward = one.backward;
  return options;
}

types::MicroBatch two_sequences(const model::ModelConfig& config) {
  return test::pack(
      {test::random_sequence(1, 3, 20, config.vocab_size), test::random_sequence(2, 5, 9, config.vocab_size)});
}

Tensor double_of(const Tensor& values) { return values.to(torch::kFloat64); }

/// Rounds values to bf16; the gradient passes through unchanged.
Tensor straight_through_bf16(const Tensor& values) {
  const Tensor rounded = values.detach().to(torch::kFloat32).to(torch::kBFloat16).to(torch::kFloat64);
  return values + (rounded - values.detach());
}

double relative(const Tensor& got, const Tensor& want) {
  return ((double_of(got) - want).norm() / want.norm()).item<double>();
}

/// Holds a linear layer of three modules, the first and last with adapters, on a base of some format.
struct Layer {
  Layer(quant::Format format, std::int64_t rank) {
    torch::manual_seed(11);
    model::BlockMatrix matrix{"qkv", {}, {{"q", 40}, {"k", 13}, {"v", 17}}, 33, false};
    lora = lora_of(rank, {"q", "v"});
    packed = ops::make_packed_linear(format, 70, 33, false);
    weight = torch::randn({70, 33});
    base::Team alone = base::Team::solo();
    REQUIRE(ops::pack_rows(alone, weight.data_ptr<float>(), 70, 0, packed));
    const bool is_f32 = format == quant::Format::f32;
    adapter = model::make_matrix_adapter(lora, "", matrix, is_f32 ? quant::Format::f32 : quant::Format::bf16);
    linear.quantized = &packed;
    linear.adapter.packed = &adapter;
    linear.adapter.scale = lora.scale();
    linear.adapter.a = {torch::randn({2 * rank, 33}), torch::zeros({2 * rank, 33})};
    const std::int64_t firsts[] = {0, 53}, outs[] = {40, 17};
    const char* names[] = {"q", "v"};
    model::WeightViews views;
    for (std::int64_t i = 0; i < 2; ++i) {
      const Tensor a = linear.adapter.a.value.narrow(0, i * rank, rank);
      linear.adapter.parts.push_back({{torch::randn({outs[i], rank}), torch::zeros({outs[i], rank})}, firsts[i]});
      views.emplace(model::lora_a_name(names[i]), base::View{a.data_ptr(), base::DType::f32, {rank, 33}});
      views.emplace(model::lora_b_name(names[i]),
                    base::View{linear.adapter.parts.back().b.value.data_ptr(), base::DType::f32, {outs[i], rank}});
    }
    REQUIRE(model::pack_adapter(lora, views, adapter).empty());
  }
  model::LoraConfig lora;
  ops::PackedLinear packed;
  Tensor weight;
  model::MatrixAdapter adapter;
  learner::Linear linear;
};

}  // namespace

TEST_CASE("adapter layer: gradients of A, B and the input equal fp64 autograd at the rounded operands") {
  for (const quant::Format format : {quant::Format::f32, quant::Format::int8, quant::Format::fp8_channel,
                                     quant::Format::fp8_block128, quant::Format::int4, quant::Format::int4_int8}) {
    for (const std::int64_t rank : {1, 4, 16}) {
      CAPTURE(quant::name(format), rank);
      Layer layer(format, rank);
      const Tensor x = torch::randn({61, 33}).set_requires_grad(true), d_y = torch::randn({61, 70});
      learner::ForwardNumerics numerics;
      numerics.compute = torch::kFloat32;
      numerics.forward = LearnerForward::low_bit;
      const Tensor y = learner::adapted_linear(layer.linear, {x, {}}, numerics);
      y.backward(d_y);

      // Plain steps: quantized base; the adapter's operands are bf16 unless the base is fp32.
      const bool rounds = format != quant::Format::f32;
      const auto operand = [&](const Tensor& values) { return rounds ? straight_through_bf16(values) : values; };
      const Tensor x64 = double_of(x.detach()).set_requires_grad(true);
      Tensor base_x = torch::empty({61, 33}), base_w = torch::empty({70, 33});
      for (std::int64_t t = 0; t < 61; ++t)
        quant::round_activations(format, {x.detach()[t].contiguous().data_ptr<float>(), 33},
                                 {base_x.data_ptr<float>() + t * 33, 33});
      quant::round_weights(format, {layer.weight.data_ptr<float>(), 70 * 33}, 33, {base_w.data_ptr<float>(), 70 * 33});
      const Tensor through = x64 + (double_of(base_x) - x64.detach());
      Tensor y64 = through.mm(double_of(base_w).t());
      TensorList a64, b64;
      for (std::size_t i = 0; i < 2; ++i) {
        a64.push_back(double_of(layer.linear.adapter.a.value.narrow(0, static_cast<std::int64_t>(i) * rank, rank))
                          .set_requires_grad(true));
        b64.push_back(double_of(layer.linear.adapter.parts[i].b.value).set_requires_grad(true));
        const Tensor t = operand(operand(x64).mm(operand(a64[i]).t()));
        const Tensor added = t.mm(operand(b64[i] * layer.lora.scale()).t());
        y64 = y64 + torch::constant_pad_nd(added, {i == 0 ? 0 : 53, i == 0 ? 30 : 0});
      }
      y64.backward(double_of(d_y));
      CHECK(relative(y, y64.detach()) < 2e-6);
      CHECK(relative(x.grad(), x64.grad()) < 2e-6);
      for (std::size_t i = 0; i < 2; ++i) {
        const Tensor d_a = layer.linear.adapter.a.gradient.narrow(0, static_cast<std::int64_t>(i) * rank, rank);
        CHECK(relative(d_a, a64[i].grad()) < 2e-6);
        CHECK(relative(layer.linear.adapter.parts[i].b.gradient, b64[i].grad()) < 2e-6);
      }
    }
  }
}

TEST_CASE("adapter layer: bf16 gradients are within its roundings of fp32's") {
  // dY, U and the matmuls' operands are rounded to bf16, each with a relative error of at most 2⁻⁹.
  constexpr double kBound = 4 * 0x1p-9;
  const auto gradients = [](torch::ScalarType compute) {
    Layer layer(quant::Format::int8, 4);
    const Tensor x = torch::randn({61, 33}).set_requires_grad(true), d_y = torch::randn({61, 70});
    learner::ForwardNumerics numerics;
    numerics.compute = compute;
    numerics.forward = LearnerForward::low_bit;
    learner::adapted_linear(layer.linear, {x, {}}, numerics).backward(d_y);
    return TensorList{x.grad(), layer.linear.adapter.a.gradient, layer.linear.adapter.parts[0].b.gradient,
                      layer.linear.adapter.parts[1].b.gradient};
  };
  const TensorList narrow = gradients(torch::kBFloat16), wide = gradients(torch::kFloat32);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    CAPTURE(i);
    const double difference = relative(narrow[i], double_of(wide[i]));
    CHECK(difference < kBound);
    CHECK(difference > 0);
  }
}

TEST_CASE("adapter layer: a product that is not computed leaves the same gradients") {
  for (const quant::Format format : {quant::Format::bf16, quant::Format::int8, quant::Format::int4}) {
    for (const LearnerForward forward : {LearnerForward::low_bit, LearnerForward::fake_quant}) {
      CAPTURE(quant::name(format), static_cast<int>(forward));
      const Tensor x = torch::randn({61, 33}), d_y = torch::randn({61, 70});
      learner::ForwardNumerics numerics;
      numerics.forward = forward;
      const auto gradients = [&](bool needs_output) {
        torch::manual_seed(7);
        Layer layer(format, 4);
        const Tensor adapted_x = x.clone().set_requires_grad(true), plain_x = x.clone().set_requires_grad(true);
        const Tensor narrow_x = x.to(torch::kBFloat16).set_requires_grad(true), d_w = torch::zeros({70, 33});
        const Tensor d_narrow_w = torch::zeros({70, 33});
        const learner::Quantized how{layer.linear.quantized, numerics.low_bit(), torch::kBFloat16};
        learner::adapted_linear(layer.linear, {adapted_x, {}}, numerics, needs_output).backward(d_y);
        learner::quantized_linear(plain_x, {layer.weight, d_w}, how, needs_output).backward(d_y);
        learner::linear(narrow_x, {layer.weight, d_narrow_w}, {}, needs_output).backward(d_y.to(torch::kBFloat16));
        return TensorList{adapted_x.grad(),
                          layer.linear.adapter.a.gradient,
                          layer.linear.adapter.parts[1].b.gradient,
                          plain_x.grad(),
                          d_w,
                          narrow_x.grad(),
                          d_narrow_w};
      };
      const TensorList read = gradients(true), unread = gradients(false);
      for (std::size_t i = 0; i < read.size(); ++i) {
        CAPTURE(i);
        CHECK(read[i].abs().max().item<float>() > 0);
        CHECK(torch::equal(read[i], unread[i]));
      }
    }
  }
}

TEST_CASE("adapter MLP: computed by blocks of rows has the bits of its parts, with and without backward pass") {
  learner::ForwardNumerics numerics;
  numerics.forward = LearnerForward::low_bit;
  for (const quant::Format format :
       {quant::Format::f32, quant::Format::bf16, quant::Format::int8, quant::Format::int4}) {
    CAPTURE(quant::name(format));
    Layer gate_up(format, 4);
    Layer down(format, 4);
    down.packed = ops::make_packed_linear(format, 70, 35, false);  // adapters of 33 inputs do not fit
    base::Team alone = base::Team::solo();
    const Tensor w_down = torch::randn({70, 35}), x = torch::randn({257, 33});
    REQUIRE(ops::pack_rows(alone, w_down.data_ptr<float>(), 70, 0, down.packed));
    down.linear.adapter = {};
    const auto parts = [&] {
      const Tensor halves = learner::adapted_linear(gate_up.linear, {x, {}}, numerics);
      return learner::quantized_linear(learner::swiglu(halves).value, {}, {&down.packed, true, torch::kFloat32});
    };
    const Tensor with_grad = parts();
    const torch::NoGradGuard no_grad;
    CHECK(torch::equal(parts(), with_grad));
    CHECK(torch::equal(learner::quantized_mlp(x, gate_up.linear, down.linear), with_grad));
    gate_up.linear.adapter = {};
    CHECK_FALSE(torch::equal(learner::quantized_mlp(x, gate_up.linear, down.linear), with_grad));
  }
}

TEST_CASE("adapters: gradients equal differences of the loss") {
  const model::ModelConfig config = test::tiny_config();
  learner::LearnerOptions options = test::options();
  options.lora = lora_of(3);
  options.lora_initial = test::random_adapters();
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);
  learner::Learner learner(config, weights, options, *world);
  const types::MicroBatch batch = two_sequences(config);
  const types::GlobalCounts counts = test::count({batch});
  const learner::LossOptions sft{.kind = learner::LossKind::sft};
  learner.accumulate(batch, counts, sft, {1.0F});
  const test::Named gradients = test::gradients_of(learner);
  const auto loss = [&] {
    double total = 0;
    const std::vector<float> scores = learner.score(batch, {1.0F}).logprobs;
    for (const float score : scores) total -= score;
    return total / static_cast<double>(counts.response_tokens);
  };
  model::WeightViews masters = learner.state().masters();
  base::RandomStream random(2, base::RandomPurpose::test, 0);
  constexpr float kStep = 2e-3F;
  for (int i = 0; i < 20; ++i) {
    auto at = masters.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random.below(masters.size())));
    const auto element = static_cast<std::size_t>(random.below(static_cast<std::uint64_t>(at->second.numel())));
    float& value = at->second.as<float>()[element];
    const float before = value;
    value = before + kStep;
    const double above = loss();
    value = before - kStep;
    const double below = loss();
    value = before;
    CAPTURE(at->first, element);
    // fp32 sums of the loss have an error of 1e-6, divided by twice the step.
    CHECK(std::abs((above - below) / (2 * kStep) - gradients.at(at->first)[element]) < 1e-3);
  }
}

TEST_CASE("activation checkpointing: no bit of adapter or full gradients changes, for every base") {
  const model::ModelConfig config = test::tiny_config();
  const model::Weights weights = test::tiny_weights(config);
  const auto world = dist::make_solo();
  const types::MicroBatch batch = two_sequences(config);
  const learner::LossOptions sft{.kind = learner::LossKind::sft};
  for (const Case& one : kCases) {
    for (const std::int64_t rank : {0, 3}) {
      CAPTURE(static_cast<int>(one.forward), quant::name(one.format), rank);
      const auto gradients = [&](bool checkpointing) {
        learner::LearnerOptions options = options_of(one);
        options.activation_checkpointing = checkpointing;
        options.lora = lora_of(rank);
        if (rank > 0) options.lora_initial = test::random_adapters();
        learner::Learner learner(config, weights, options, *world);
        model::Snapshot snapshot(config, formats_of(one.format, options.lora));
        learner.publish(snapshot, 0);
        learner.accumulate(batch, test::count({batch}), sft, {1.0F});
        return test::gradients_of(learner);
      };
      const test::Named kept = gradients(false), recomputed = gradients(true);
      for (const auto& [name, gradient] : kept) {
        CAPTURE(name);
        CHECK(recomputed.at(name) == gradient);
      }
    }
  }
}

TEST_CASE("new adapters: change no bit of log-probs or logits, for every base") {
  const model::ModelConfig config = test::tiny_config();
  const model::Weights weights = test::tiny_weights(config);
  const auto world = dist::make_solo();
  const types::MicroBatch batch = two_sequences(config);
  const std::vector<types::TokenId> tokens = {3, 1, 4, 1, 5, 9, 2};
  for (const Case& one : kCases) {
    CAPTURE(static_cast<int>(one.forward), quant::name(one.format));
    learner::LearnerOptions options = options_of(one);
    learner::Learner plain(config, weights, options, *world);
    model::Snapshot without(config, one.format);
    plain.publish(without, 0);
    options.lora = lora_of(5);
    learner::Learner adapted(config, weights, options, *world);
    model::Snapshot with(config, formats_of(one.format, options.lora));
    adapted.publish(with, 0);
    CHECK(adapted.score(batch, {1.0F}).logprobs == plain.score(batch, {1.0F}).logprobs);
    CHECK(decoder::forced_logits(with, tokens) == decoder::forced_logits(without, tokens));

    options.lora_initial = test::random_adapters();
    learner::Learner changed(config, weights, options, *world);
    changed.publish(with, 1);  // another learner rewrites the base
    CHECK(changed.score(batch, {1.0F}).logprobs != plain.score(batch, {1.0F}).logprobs);
    CHECK(decoder::forced_logits(with, tokens) != decoder::forced_logits(without, tokens));
  }
}

TEST_CASE("int8 lm_head of the sampler: changes no bit of a learner with its own lm_head") {
  const auto world = dist::make_solo();
  const learner::LossOptions sft{.kind = learner::LossKind::sft};
  for (const bool tied : {true, false}) {
    const model::ModelConfig config = test::tiny_config(true, false, tied);
    const model::Weights weights = test::tiny_weights(config);
    const types::MicroBatch batch = two_sequences(config);
    for (const std::int64_t rank : {std::int64_t{0}, std::int64_t{4}}) {
      for (const LearnerForward forward : {LearnerForward::bf16, LearnerForward::fake_quant, LearnerForward::low_bit}) {
        CAPTURE(tied, rank, static_cast<int>(forward));
        std::vector<std::vector<float>> scores[2];
        for (const bool is_int8 : {false, true}) {
          learner::LearnerOptions options = options_of({forward, quant::Format::int8});
          options.lora = rank > 0 ? lora_of(rank) : model::LoraConfig();
          options.numerics.own_lm_head = is_int8;
          learner::Learner learner(config, weights, options, *world);
          model::SnapshotFormats formats = formats_of(quant::Format::int8, options.lora);
          formats.int8_lm_head = is_int8;
          model::Snapshot snapshot(config, formats);
          for (int step = 0; step < 2; ++step) {
            learner.publish(snapshot, step);
            scores[is_int8].push_back(learner.score(batch, {1.0F}).logprobs);
            learner.accumulate(batch, test::count({batch}), sft, {1.0F});
            REQUIRE(learner.update().finite);
          }
          CHECK((snapshot.lm_head().format == quant::Format::int8) == is_int8);
          CHECK((learner.reads_in_place("lm_head")) == (forward != LearnerForward::bf16 && !is_int8));
        }
        CHECK(scores[1] == scores[0]);
        CHECK(scores[0][0] != scores[0][1]);
      }
    }
  }
}

TEST_CASE("adapter training: updates and publish change nothing except the adapters, for every base") {
  const model::ModelConfig config = test::tiny_config(true, false, false);
  const model::Weights weights = test::tiny_weights(config);
  const auto world = dist::make_solo();
  const types::MicroBatch batch = two_sequences(config);
  const learner::LossOptions sft{.kind = learner::LossKind::sft};
  for (const Case& one : kCases) {
    CAPTURE(static_cast<int>(one.forward), quant::name(one.format));
    learner::LearnerOptions options = options_of(one);
    options.lora = lora_of(4, {"q_proj", "v_proj", "down_proj"});
    bool base_was_read = false;
    const model::WeightSource counted([&](const model::WeightSpec& spec, float* to) {
      base_was_read = true;
      model::WeightSource(weights).read(spec, to);
    });
    learner::Learner learner(config, counted, options, *world);
    CHECK(learner.state().masters().size() == static_cast<std::size_t>(2 * 3 * config.num_hidden_layers));
    model::Snapshot snapshot(config, formats_of(one.format, options.lora));
    learner.publish(snapshot, 0);
    base_was_read = false;
    double first = 0, last = 0;
    for (int step = 1; step <= 12; ++step) {
      learner.accumulate(batch, test::count({batch}), sft, {1.0F});
      const learner::UpdateReport report = learner.update();
      REQUIRE(report.finite);
      last = report.metrics.at("actor/sft_loss");
      if (step == 1) first = last;
      learner.publish(snapshot, step);
    }
    CHECK(last < first - 0.1);
    CHECK_FALSE(base_was_read);
    const model::WeightSource merged = learner.state().all_masters();
    for (const model::WeightSpec& spec : model::weight_specs(config)) {
      base::Buffer now(base::DType::f32, spec.shape);
      merged.read(spec, now.as<float>());
      const std::string module = spec.name.substr(0, spec.name.rfind('.'));
      const bool moved = test::copy(now.view()) != test::copy(weights.at(spec.name).view());
      CAPTURE(spec.name);
      CHECK(moved == (spec.kind == model::WeightKind::linear && options.lora.targets(module)));
    }
  }
}

TEST_CASE("lora.train_norms: trains gains, and the sampler has them") {
  const model::ModelConfig config = test::tiny_config();
  const model::Weights weights = test::tiny_weights(config);
  const auto world = dist::make_solo();
  const types::MicroBatch batch = two_sequences(config);
  learner::LearnerOptions options = options_of({LearnerForward::low_bit, quant::Format::int8});
  options.lora = lora_of(2);
  options.lora.train_norms = true;
  learner::Learner learner(config, weights, options, *world);
  model::Snapshot snapshot(config, formats_of(quant::Format::int8, options.lora));
  learner.publish(snapshot, 0);
  const std::vector<float> before = learner.score(batch, {1.0F}).logprobs;
  learner.keep_reference({});
  for (int step = 1; step <= 3; ++step) {
    learner.accumulate(batch, test::count({batch}), {.kind = learner::LossKind::sft}, {1.0F});
    REQUIRE(learner.update().finite);
    learner.publish(snapshot, step);
  }
  CHECK(test::copy(snapshot.final_norm_D().view()) == test::copy(learner.state().masters().at("model.norm.weight")));
  CHECK(test::copy(snapshot.final_norm_D().view()) != test::copy(weights.at("model.norm.weight").view()));
  CHECK(learner.score(batch, {1.0F}).logprobs != before);
  CHECK(learner.score_reference(batch, {1.0F}).logprobs == before);
}

TEST_CASE("KL reference with adapters: the base with the adapters at the start of training") {
  const model::ModelConfig config = test::tiny_config();
  const model::Weights weights = test::tiny_weights(config);
  const auto world = dist::make_solo();
  const types::MicroBatch batch = two_sequences(config);
  for (const Case& one : kCases) {
    for (const bool is_new : {true, false}) {
      CAPTURE(static_cast<int>(one.forward), quant::name(one.format), is_new);
      learner::LearnerOptions options = options_of(one);
      options.lora = lora_of(4);
      if (!is_new) options.lora_initial = test::random_adapters();
      learner::Learner learner(config, weights, options, *world);
      learner.keep_reference(options.lora_initial);
      model::Snapshot snapshot(config, formats_of(one.format, options.lora));
      learner.publish(snapshot, 0);
      const std::vector<float> before = learner.score(batch, {1.0F}).logprobs;
      learner.accumulate(batch, test::count({batch}), {.kind = learner::LossKind::sft}, {1.0F});
      REQUIRE(learner.update().finite);
      learner.publish(snapshot, 1);
      CHECK(learner.score_reference(batch, {1.0F}).logprobs == before);
      CHECK(learner.score(batch, {1.0F}).logprobs != before);
    }
  }
}

TEST_CASE("merged adapters: equal what the sampler gets from a snapshot without adapters") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);
  learner::LearnerOptions options = options_of({LearnerForward::bf16, quant::Format::f32}, learner::ComputeDType::f32);
  options.lora = lora_of(4);
  options.lora_initial = test::random_adapters();
  learner::Learner learner(config, weights, options, *world);
  model::Snapshot merged(config, quant::Format::f32), beside(config, formats_of(quant::Format::f32, options.lora));
  learner.publish(beside, 0);
  learner.publish(merged, 0);
  const std::vector<types::TokenId> tokens = {3, 1, 4, 1, 5, 9, 2};
  const std::vector<float> want = decoder::forced_logits(beside, tokens), got = decoder::forced_logits(merged, tokens);
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 2e-4);
  CHECK(got != want);
}
