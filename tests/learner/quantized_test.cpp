// Tests the learner on the sampler's quantized tensors: fake_quant and low_bit.
#include "learner/forward/quantized.h"

#include <bit>
#include <limits>

#include "learner/choices.h"
#include "learner/codecs.h"
#include "learner/learner.h"
#include "learner/support.h"
#include "model/snapshot.h"
#include "state/safetensors.h"

using namespace qrl;
using learner::LearnerBackward;
using learner::LossKind;
using torch::Tensor;

namespace {

struct Problem {
  ops::PackedLinear packed;
  Tensor weight, x, d_y;
};

Problem make_problem(quant::Format format, bool has_bias, std::int64_t out = 70, std::int64_t in = 33) {
  torch::manual_seed(7);
  Problem problem{ops::make_packed_linear(format, out, in, has_bias), torch::randn({out, in}), torch::randn({257, in}),
                  torch::randn({257, out})};
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, problem.weight.data_ptr<float>(), out, 0, problem.packed));
  if (has_bias) {
    for (std::int64_t i = 0; i < out; ++i) problem.packed.bias.as<float>()[i] = 0.01F * static_cast<float>(i);
  }
  return problem;
}

/// Returns gradients of one micro-batch with the snapshot's format and the learner's forward.
test::Named gradients(quant::Format format, learner::LearnerForward forward, bool checkpointing = false,
                      LearnerBackward backward = LearnerBackward::model_dtype) {
  auto config = test::tiny_config(false, true);  // with biases on q, k, v and o
  config.o_bias = true;
  learner::LearnerOptions options = test::options();
  options.numerics.forward = forward;
  options.activation_checkpointing = checkpointing;
  options.numerics.backward = backward;
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, format);
  learner.publish(snapshot, 3);
  const types::MicroBatch batch = test::pack({test::random_sequence(1, 3, 9, 37), test::random_sequence(2, 5, 4, 37)});
  learner.accumulate(batch, test::count({batch}), {LossKind::sft, {}, {}}, {1.0F});
  return test::gradients_of(learner);
}

double gradient_difference(const test::Named& a, const test::Named& b) {
  std::string worst;
  const double most = test::relative_difference(a, b, worst);
  UNSCOPED_INFO("largest difference in " << worst);
  return most;
}

}  // namespace

TEST_CASE("quantized linear layer: output and straight-through gradients equal those of the rounded operands") {
  // More than the 128 inputs and outputs that share a scale in some formats.
  constexpr std::int64_t kOut = 140, kIn = 150;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<quant::Format>(i);
    for (const bool real_product : {false, true}) {
      CAPTURE(quant::name(format), real_product);
      const Problem problem = make_problem(format, real_product, kOut, kIn);
      const Tensor x = problem.x.clone().set_requires_grad(true), gradient = torch::zeros({kOut, kIn});
      const Tensor y =
          learner::quantized_linear(x, {problem.weight, gradient}, {&problem.packed, real_product, torch::kFloat32});
      y.backward(problem.d_y);
      const Tensor x_hat = test::codec_rows(problem.x, format), w_hat = test::codec_weights(problem.weight, format);
      const Tensor d_y = problem.d_y.to(torch::kFloat64);
      Tensor want = torch::mm(x_hat, w_hat.t());
      if (real_product) want = want + torch::arange(kOut, torch::kFloat64) * 0.01;
      // One bound for all: the operands are the same numbers; what remains are fp32 sums of at most 257 products.
      CHECK(test::off_by(y.detach(), want) < 2e-6);
      CHECK(test::off_by(x.grad(), torch::mm(d_y, w_hat)) < 2e-6);
      CHECK(test::off_by(gradient, torch::mm(d_y.t(), x_hat)) < 2e-6);
    }
  }
}

TEST_CASE("int8 backward pass: equals gradients encoded per token and per output channel") {
  const Problem problem = make_problem(quant::Format::int8, false);
  const Tensor x = problem.x.clone().set_requires_grad(true), gradient = torch::ones({70, 33});
  learner::Quantized how{&problem.packed, true, torch::kBFloat16};
  how.backward = LearnerBackward::int8;
  learner::quantized_linear(x, {problem.weight, gradient}, how).backward(problem.d_y);
  const auto format = quant::Format::int8;
  const Tensor x_hat = test::codec_rows(problem.x, format), w_hat = test::codec_weights(problem.weight, format);
  const Tensor x_scales = problem.x.abs().amax(1, true) / 127, w_scales = problem.weight.abs().amax(1, true) / 127;
  const Tensor for_x = test::codec_rows(problem.d_y * w_scales.t(), format);
  const Tensor for_w = test::codec_rows((problem.d_y * x_scales).t().contiguous(), format);
  // A ratio at a tie may round either way in fp32: one code in thousands.
  CHECK(test::off_by(x.grad(), torch::mm(for_x, w_hat / w_scales.to(torch::kFloat64))) < 1e-4);
  CHECK(test::off_by(gradient - 1, torch::mm(for_w, x_hat / x_scales.to(torch::kFloat64))) < 1e-4);
  // The error of the encoding: half of 1/127 of a row's largest value, uniformly distributed.
  const Tensor d_y = problem.d_y.to(torch::kFloat64);
  const double for_x_error = test::off_by(x.grad(), torch::mm(d_y, w_hat));
  CHECK(for_x_error > 1e-3);
  CHECK(for_x_error < 2e-2);
  CHECK(test::off_by(gradient - 1, torch::mm(d_y.t(), x_hat)) < 2e-2);
}

namespace {

/// Holds dX and dW of a linear layer with backward fp8_e4m3, whose gradients are 0 before.
struct Fp8Gradients {
  Tensor d_x, d_w;
};
Fp8Gradients fp8_gradients(const ops::PackedLinear& packed, const Tensor& x, const Tensor& d_y,
                           LearnerBackward backward = LearnerBackward::fp8_e4m3) {
  const Tensor leaf = x.clone().set_requires_grad(true), d_w = torch::zeros({packed.out, packed.in});
  const learner::Quantized how{&packed, true, torch::kFloat32, backward};
  learner::quantized_linear(leaf, {Tensor(), d_w}, how).backward(d_y);
  return {leaf.grad(), d_w};
}

/// Packs weights [out, in] as tensors with these numbers of outputs.
ops::PackedLinear fp8_layer(const Tensor& weight, const std::vector<std::int64_t>& tensors) {
  ops::PackedLinear packed =
      ops::make_packed_linear(quant::Format::fp8_block128, weight.size(0), weight.size(1), false);
  base::Team alone = base::Team::solo();
  std::int64_t first = 0;
  for (const std::int64_t outputs : tensors) {
    REQUIRE(ops::pack_rows(alone, weight[first].data_ptr<float>(), outputs, first, packed));
    first += outputs;
  }
  packed.tensors = tensors;
  return packed;
}

Tensor joined(const std::vector<Tensor>& parts, std::int64_t dim) { return torch::cat(parts, dim); }

}  // namespace

TEST_CASE("fp8 backward pass: equals the reference codec's numbers, summed in fp64") {
  const auto format = quant::Format::fp8_block128;
  struct Shape {
    std::vector<std::int64_t> tensors;
    std::int64_t in, tokens;
  };
  for (const auto& [tensors, in, tokens] :
       {Shape{{70}, 33, 257}, Shape{{128, 128}, 128, 128}, Shape{{40, 20, 20}, 150, 129}, Shape{{200, 131}, 300, 1}}) {
    torch::manual_seed(7);
    std::int64_t out = 0;
    for (const std::int64_t outputs : tensors) out += outputs;
    CAPTURE(out, in, tokens);
    const Tensor weight = torch::randn({out, in}) * torch::randn({out, 1}).exp();
    const Tensor x = torch::randn({tokens, in}), d_y = torch::randn({tokens, out}) * torch::randn({tokens, 1}).exp();
    const auto got = fp8_gradients(fp8_layer(weight, tensors), x, d_y);

    std::vector<Tensor> w_hat, d_y_rows;
    for (const Tensor& part : weight.split_with_sizes(tensors)) w_hat.push_back(test::codec_weights(part, format));
    for (const Tensor& part : d_y.split_with_sizes(tensors, 1))
      d_y_rows.push_back(test::codec_rows(part.contiguous(), format));
    const Tensor x_hat = test::codec_rows(x, format);
    const Tensor x_columns = test::codec_rows(x_hat.to(torch::kFloat32).t().contiguous(), format);
    const Tensor d_y_columns = test::codec_rows(d_y.t().contiguous(), format);
    // The codes are equal: what remains are scales' products and fp32 sums of at most 331 numbers.
    CHECK(test::off_by(got.d_x, torch::mm(joined(d_y_rows, 1), joined(w_hat, 0))) < 2e-6);
    CHECK(test::off_by(got.d_w, torch::mm(d_y_columns, x_columns.t())) < 2e-6);
    // The error of the encoding, relative to exact gradients of the same forward pass: half of 2⁻³ at most, uniformly
    // distributed. One token's columns are only scales.
    const Tensor exact = d_y.to(torch::kFloat64);
    const double d_x_error = test::off_by(got.d_x, torch::mm(exact, joined(w_hat, 0)));
    const double d_w_error = test::off_by(got.d_w, torch::mm(exact.t(), x_hat));
    CHECK(d_x_error > 1e-2);
    CHECK(d_x_error < 6e-2);
    CHECK((tokens == 1 ? d_w_error < 1e-6 : d_w_error > 1e-2));
    CHECK(d_w_error < 6e-2);
  }
}

TEST_CASE("fp8 backward pass: gradients equal numpy's, for ragged tensors and sizes") {
  const state::SafetensorsFile golden(test::shipped_data() / "golden" / "fp8_backward.safetensors");
  const auto read = [&](const char* name) {
    const base::Buffer values = golden.read_f32(name);
    return torch::from_blob(values.as<float>(), {values.shape()[0], values.shape()[1]}).clone();
  };
  REQUIRE(golden.metadata().at("tensors") == "129 3");
  const ops::PackedLinear packed = fp8_layer(read("w"), {129, 3});
  const auto got = fp8_gradients(packed, read("x"), read("dy"));
  // Compares row by row, since rows differ by 2²⁰: fp32 sums of at most 133 products.
  const auto check_rows = [](const Tensor& values, const Tensor& want) {
    REQUIRE(values.sizes() == want.sizes());
    for (std::int64_t row = 0; row < want.size(0); ++row) {
      CAPTURE(row);
      const double difference = (values[row] - want[row]).to(torch::kFloat64).norm().item<double>();
      CHECK(difference <= 2e-6 * want[row].to(torch::kFloat64).norm().item<double>());
    }
  };
  check_rows(got.d_x, read("dx"));
  check_rows(got.d_w, read("dw"));
  CHECK(got.d_x[5].abs().max().item<float>() == 0);
}

TEST_CASE("fp8 backward pass: NaN and infinity in a gradient stay visible, zeros stay zero") {
  torch::manual_seed(5);
  const std::vector<std::int64_t> tensors{130, 20};
  const Tensor weight = torch::randn({150, 140}), x = torch::randn({260, 140});
  const ops::PackedLinear packed = fp8_layer(weight, tensors);
  for (const float broken : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Tensor d_y = torch::randn({260, 150});
    d_y[9].zero_();
    d_y.select(1, 20).zero_();
    d_y[3][140] = broken;
    const auto got = fp8_gradients(packed, x, d_y);
    const auto num_finite = [](const Tensor& values) { return values.isfinite().sum().item<std::int64_t>(); };
    CHECK(got.d_x[3].isnan().all().item<bool>());
    CHECK(num_finite(got.d_x) == 259 * 140);
    CHECK(got.d_w[140].isnan().all().item<bool>());
    CHECK(num_finite(got.d_w) == 149 * 140);
    CHECK(got.d_x[9].abs().max().item<float>() == 0);
    CHECK(got.d_w[20].abs().max().item<float>() == 0);
  }
  // Inputs that the forward pass could not encode give NaN as well.
  Tensor d_y = torch::randn({260, 150}), broken_x = x.clone();
  broken_x[130][7] = std::nanf("");  // a NaN in one input affects all 128 inputs that share its scale
  const auto got = fp8_gradients(packed, broken_x, d_y);
  CHECK(got.d_w.narrow(1, 0, 128).isnan().all().item<bool>());
  CHECK(got.d_w.narrow(1, 128, 12).isfinite().all().item<bool>());
}

TEST_CASE("MLP by blocks of rows: bits equal its parts") {
  base::Team alone = base::Team::solo();
  for (const quant::Format format : {quant::Format::bf16, quant::Format::int8, quant::Format::int4}) {
    CAPTURE(quant::name(format));
    const std::int64_t width = 33, inner = 70;
    ops::PackedLinear gate_up = ops::make_packed_linear(format, 2 * inner, width, false);
    ops::PackedLinear down = ops::make_packed_linear(format, width, inner, false);
    torch::manual_seed(11);
    const Tensor w_gate_up = torch::randn({2 * inner, width}), w_down = torch::randn({width, inner});
    REQUIRE(ops::pack_rows(alone, w_gate_up.data_ptr<float>(), 2 * inner, 0, gate_up));
    REQUIRE(ops::pack_rows(alone, w_down.data_ptr<float>(), width, 0, down));
    const Tensor x = torch::randn({257, width});
    const torch::NoGradGuard no_grad;
    const Tensor both = learner::quantized_linear(x, {}, {&gate_up, true, torch::kFloat32});
    const Tensor want = learner::quantized_linear(learner::swiglu(both).value, {}, {&down, true, torch::kFloat32});
    learner::Linear first, second;
    first.quantized = &gate_up;
    second.quantized = &down;
    CHECK(torch::equal(learner::quantized_mlp(x, first, second), want));
  }
}

TEST_CASE("low_bit, fake_quant: gradients are equal, and differ from unquantized ones") {
  using learner::LearnerForward;
  const test::Named plain = gradients(quant::Format::int8, LearnerForward::bf16);
  const test::Named fake = gradients(quant::Format::int8, LearnerForward::fake_quant);
  const test::Named real = gradients(quant::Format::int8, LearnerForward::low_bit);
  CHECK(gradient_difference(real, fake) < 2e-5);
  CHECK(gradient_difference(fake, plain) > 1e-3);
  CHECK(gradient_difference(gradients(quant::Format::int8, LearnerForward::low_bit, true), real) <= 1e-6);
  const test::Named int8 = gradients(quant::Format::int8, LearnerForward::low_bit, false, LearnerBackward::int8);
  CHECK(gradient_difference(int8, real) > 1e-3);
  CHECK(gradient_difference(int8, real) < 5e-2);
  CHECK(gradient_difference(gradients(quant::Format::int8, LearnerForward::low_bit, true, LearnerBackward::int8),
                            int8) <= 1e-6);
  // Rows in e4m3 have a relative error of about 2.6 %, and an input's gradient has passed four layers of them.
  const auto blocks = quant::Format::fp8_block128;
  const test::Named in_blocks = gradients(blocks, LearnerForward::low_bit);
  const test::Named fp8 = gradients(blocks, LearnerForward::low_bit, false, LearnerBackward::fp8_e4m3);
  CHECK(gradient_difference(fp8, in_blocks) > 1e-2);
  CHECK(gradient_difference(fp8, in_blocks) < 0.15);
  CHECK(gradient_difference(gradients(blocks, LearnerForward::low_bit, true, LearnerBackward::fp8_e4m3), fp8) <= 1e-6);
  CHECK(gradient_difference(
            gradients(quant::Format::fp8_channel, LearnerForward::low_bit, false, LearnerBackward::fp8_e4m3),
            gradients(quant::Format::fp8_channel, LearnerForward::low_bit)) == 0);  // no block scales
  // With an fp32 snapshot nothing is rounded: the gradients equal the masters' own.
  CHECK(gradient_difference(gradients(quant::Format::f32, LearnerForward::low_bit), plain) < 1e-5);
  CHECK(gradient_difference(gradients(quant::Format::f32, LearnerForward::low_bit, false, LearnerBackward::int8),
                            plain) < 1e-5);  // no int8 layer
  CHECK(gradient_difference(gradients(quant::Format::f32, LearnerForward::fake_quant), plain) < 1e-5);
}

TEST_CASE("bitwise learner: one log-prob that differs by a bit ends the update") {
  const auto config = test::tiny_config();
  learner::LearnerOptions options = test::options(learner::ComputeDType::bf16);
  options.numerics.forward = learner::LearnerForward::low_bit;
  options.numerics.bitwise = true;
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, quant::Format::int8);
  learner.publish(snapshot, 0);
  types::MicroBatch batch = test::pack({test::random_sequence(1, 3, 9, 37), test::random_sequence(2, 5, 4, 37)}, false);
  batch.sampler_logprobs = learner.score(batch, {0.8F}).logprobs;
  learner::LossOptions loss = test::policy_options();
  loss.at_sampling_weights = true;
  const auto accumulate = [&] { learner.accumulate(batch, test::count({batch}), loss, {0.8F}); };
  CHECK_NOTHROW(accumulate());
  for (const std::size_t at : {std::size_t{2}, batch.tokens.size() - 2}) {  // the first and last tokens in the loss
    REQUIRE(batch.loss_mask[at] != 0);
    float& drawn = batch.sampler_logprobs[at];
    const float same = drawn;
    drawn = std::bit_cast<float>(std::bit_cast<std::uint32_t>(same) ^ 1U);
    loss.at_sampling_weights = true;
    CHECK_THROWS_WITH(accumulate(),
                      Catch::Contains("rollout.bitwise") && Catch::Contains("1 of 13 tokens with different log-probs"));
    loss.at_sampling_weights = false;  // a later update's weights differ from the sampler's
    CHECK_NOTHROW(accumulate());
    drawn = same;
  }
  loss.at_sampling_weights = true;
  batch.sampler_logprobs[0] = -1;  // a prompt's token, which was not sampled
  CHECK_NOTHROW(accumulate());
}

TEST_CASE("quantized learner: a missing snapshot or one of other weights is refused") {
  const auto config = test::tiny_config();
  learner::LearnerOptions options = test::options();
  options.numerics.forward = learner::LearnerForward::low_bit;
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), options, *world);
  const types::MicroBatch batch = test::pack({test::random_sequence(1, 3, 9, 37)});
  CHECK_THROWS_WITH(learner.score(batch, {1.0F}), Catch::Contains("publish after each update"));
  model::Snapshot snapshot(config, quant::Format::int8);
  learner.publish(snapshot, 0);
  const auto before = learner.score(batch, {1.0F}).logprobs;
  learner.accumulate(batch, test::count({batch}), {LossKind::sft, {}, {}}, {1.0F});
  learner.update();
  CHECK_THROWS_WITH(learner.score(batch, {1.0F}), Catch::Contains("publish after each update"));
  learner.publish(snapshot, 1);
  CHECK(learner.score(batch, {1.0F}).logprobs != before);
  snapshot.publish(learner.state().masters(), 2);  // from another learner
  CHECK_THROWS_WITH(learner.score(batch, {1.0F}), Catch::Contains("publish after each update"));
}

TEST_CASE("update-aware scaling: where gains are 1 + w, they take the factor, and no bit changes") {
  const model::ModelConfig config = test::with_flags(test::tiny_config(false, true), model::Family::gemma3);
  learner::LearnerOptions options = test::options();
  options.numerics.forward = learner::LearnerForward::low_bit;
  const auto world = dist::make_solo();
  const auto scores = [&](float scale) {
    learner::Learner learner(config, test::tiny_weights(config), options, *world);
    model::Snapshot snapshot(config, quant::Format::int8);
    if (scale != 1) learner.apply_uaq(scale);
    learner.publish(snapshot, 0);
    const std::string gain = "model.layers.0.input_layernorm.weight";
    return std::pair(learner.score(test::pack({test::random_sequence(1, 3, 40, 37)}), {}).logprobs,
                     learner.state().master(gain).as<float>()[0]);
  };
  const auto [want, w] = scores(1);
  const auto [got, scaled] = scores(2);
  CHECK(got == want);
  CHECK(scaled == 2 * (1 + w) - 1);
}

TEST_CASE("update-aware scaling: a factor of 2 changes no bit, 1.5 only ties of rounding, and neither is an update") {
  auto config = test::tiny_config(false, true);
  config.o_bias = true;
  learner::LearnerOptions options = test::options();
  options.numerics.forward = learner::LearnerForward::low_bit;
  const auto world = dist::make_solo();
  const auto scores = [&](float scale, model::Snapshot& snapshot) {
    learner::Learner learner(config, test::tiny_weights(config), options, *world);
    if (scale != 1) learner.apply_uaq(scale);
    CHECK(learner.num_updates() == 0);
    learner.publish(snapshot, 0);
    return learner.score(test::pack({test::random_sequence(1, 3, 40, 37)}), {}).logprobs;
  };
  model::Snapshot plain(config, quant::Format::int8), doubled(config, quant::Format::int8),
      scaled(config, quant::Format::int8);
  const auto want = scores(1, plain);
  CHECK(scores(2, doubled) == want);
  const auto got = scores(1.5F, scaled);
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) most = std::max(most, std::abs(static_cast<double>(got[i]) - want[i]));
  CHECK(most < 0.05);  // rarely differs by one code
  // The codes are equal except for ratios at a tie.
  std::int64_t differ = 0, count = 0;
  const auto compare = [&](const ops::PackedLinear& a, const ops::PackedLinear& b) {
    const auto* x = static_cast<const std::int8_t*>(a.panels.view().data);
    const auto* y = static_cast<const std::int8_t*>(b.panels.view().data);
    for (std::size_t i = 0; i < a.panels.num_bytes(); ++i, ++count) differ += x[i] != y[i];
    CHECK(a.scales.as<float>()[0] != b.scales.as<float>()[0]);
  };
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    compare(plain.layer(layer).qkv, scaled.layer(layer).qkv);
    compare(plain.layer(layer).gate_up, scaled.layer(layer).gate_up);
  }
  WARN("with a scale of 1.5, " << differ << " of " << count << " weight codes differ");  // the share, printed
  CHECK(differ < count / 1000);
}
