// Tests low-rank adapters with LibTorch's operations: a layer's gradients, whole learners against the CPU's, and the
// copies of a publish to a decoder on the same device. Both are emulated on the CPU.

#include <cmath>

#include "learner/device/torch_linear.h"
#include "learner/device_sampler.h"
#include "learner/learner.h"
#include "model/adapter.h"
#include "model/peft.h"

namespace qrl {

using learner::ComputeDType;
using learner::LearnerForward;
using learner::TensorList;
using quant::Format;
using test::DeviceSampler;
using test::Learner;
using test::LearnerOptions;
using test::Named;
using test::Products;
using torch::Tensor;

namespace {

model::LoraConfig some_lora(bool train_norms = false) {
  model::LoraConfig lora;
  lora.rank = 3;
  lora.alpha = 2;
  lora.target_modules = {"q_proj", "v_proj", "o_proj", "up_proj", "model.layers.0.mlp.down_proj"};
  lora.train_norms = train_norms;
  return lora;
}

model::SnapshotFormats device_formats(Format format, const model::LoraConfig& lora) {
  model::SnapshotFormats formats(format);
  formats.lora = lora;
  return formats;
}

LearnerOptions adapter_options(LearnerForward forward, ComputeDType compute = ComputeDType::bf16) {
  LearnerOptions options = test::device_options(compute);
  options.numerics.forward = forward;
  options.numerics.kv_format = quant::KvFormat::f32;
  return options;
}

const types::MicroBatch& adapter_batch() {
  static const types::MicroBatch batch =
      test::pack({test::random_sequence(1, 3, 9, 37), test::random_sequence(2, 5, 14, 37)});
  return batch;
}

void take_step(learner::Learner& learner) {
  learner.accumulate(adapter_batch(), test::count({adapter_batch()}), {.kind = learner::LossKind::sft}, {1.0F});
  REQUIRE(learner.update().finite);
}

struct AdapterOutcome {
  std::vector<float> logprobs;
  Named gradients;
};
AdapterOutcome adapter_outcome(learner::Learner& learner) {
  AdapterOutcome outcome{learner.score(adapter_batch(), {1.0F}).logprobs, {}};
  learner.accumulate(adapter_batch(), test::count({adapter_batch()}), {.kind = learner::LossKind::sft}, {1.0F});
  outcome.gradients = test::gradients_of(learner);
  return outcome;
}

/// Returns the difference of two outcomes: {log-probs, all gradients together}.
std::array<double, 2> adapters_apart(const AdapterOutcome& a, const AdapterOutcome& b) {
  const auto joined = [](const Named& named) {
    std::vector<float> all;
    for (const auto& [name, values] : named) all.insert(all.end(), values.begin(), values.end());
    return Named{{"all", all}};
  };
  std::string worst;
  return {test::relative_difference({{"all", a.logprobs}}, {{"all", b.logprobs}}, worst),
          test::relative_difference(joined(a.gradients), joined(b.gradients), worst)};
}

AdapterOutcome adapter_outcome_there(const model::ModelConfig& config, const LearnerOptions& options, Format format,
                                     Products products) {
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);  // the base is read at the publish
  Learner learner(config, weights, options, *world);
  DeviceSampler sampler(config, device_formats(format, options.lora), products);
  sampler.publish(learner, 0);
  return adapter_outcome(learner);
}

AdapterOutcome adapter_outcome_on_cpu(const model::ModelConfig& config, LearnerOptions options, Format format) {
  options.torch_ops = false;
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);  // the base is read at the publish
  Learner learner(config, weights, options, *world);
  model::Snapshot snapshot(config, device_formats(format, options.lora));
  learner.publish(snapshot, 0);
  return adapter_outcome(learner);
}

double device_relative(const Tensor& got, const Tensor& want) {
  return ((got.to(torch::kFloat64) - want).norm() / want.norm()).item<double>();
}

struct DeviceCase {
  LearnerForward forward;
  Format format;
};
constexpr DeviceCase kDeviceCases[] = {{LearnerForward::bf16, Format::int8},
                                       {LearnerForward::fake_quant, Format::int8},
                                       {LearnerForward::low_bit, Format::bf16},
                                       {LearnerForward::low_bit, Format::int8},
                                       {LearnerForward::low_bit, Format::fp8_block128},
                                       {LearnerForward::low_bit, Format::int4}};

}  // namespace

TEST_CASE("device adapters: saved only through host memory") {
  const model::ModelConfig config = test::tiny_config();
  LearnerOptions options = adapter_options(LearnerForward::bf16);
  options.lora = some_lora(true);
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);
  Learner learner(config, weights, options, *world);
  take_step(learner);
  for (const auto& views : {learner.state().masters(), learner.state().moments(), learner.state().gradients()}) {
    for (const auto& [name, view] : views) CHECK(view.device == base::Device::cuda);
  }
  const test::TempDir dir;
  model::save_peft(dir.path(), config, learner.lora(), "base", learner.state().masters(),
                   learner.state().staged_read());
  const model::PeftAdapter saved = model::open_peft(dir.path(), config);
  const Named masters = test::masters_of(learner);
  for (const auto& [name, values] : model::read_adapters(config, saved.lora, saved.adapters))
    CHECK(test::copy(values.view()) == masters.at(name));
  CHECK_THROWS_WITH(model::save_peft(dir.path(), config, learner.lora(), "base", learner.state().masters()),
                    Catch::Matchers::Contains("on a GPU"));
}

TEST_CASE("device adapter layer: gradients equal fp64 autograd at the rounded operands") {
  constexpr std::int64_t kRank = 3, kIn = 33, kRows = 41;
  const std::int64_t firsts[] = {0, 53}, outs[] = {40, 17};
  const auto rounded64 = [](const Tensor& values) {  // the gradient passes through unchanged
    const Tensor left = values.detach().to(torch::kFloat32).to(torch::kBFloat16).to(torch::kFloat64);
    return values + (left - values.detach());
  };
  for (const torch::ScalarType compute : {torch::kFloat32, torch::kBFloat16}) {
    torch::manual_seed(5);
    const ops::PackedLinear form;
    learner::Linear linear;
    linear.quantized = &form;  // makes operands bf16, whatever the matmuls' dtype
    linear.adapter.scale = 0.6;
    linear.adapter.a = {torch::randn({2 * kRank, kIn}), torch::zeros({2 * kRank, kIn})};
    const Tensor x = torch::randn({kRows, kIn}).set_requires_grad(true), d_y = torch::randn({kRows, 70});
    const learner::Weight base{torch::randn({70, kIn}).to(torch::kBFloat16).to(compute), {}};
    const Tensor x64 = x.detach().to(torch::kFloat64).set_requires_grad(true);
    Tensor sum64 = (compute == torch::kFloat32 ? x64 : rounded64(x64)).mm(base.value.to(torch::kFloat64).t());
    TensorList a64, b64;
    for (std::int64_t i = 0; i < 2; ++i) {
      linear.adapter.parts.push_back({{torch::randn({outs[i], kRank}), torch::zeros({outs[i], kRank})}, firsts[i]});
      a64.push_back(linear.adapter.a.value.narrow(0, i * kRank, kRank).to(torch::kFloat64).set_requires_grad(true));
      b64.push_back(linear.adapter.parts.back().b.value.to(torch::kFloat64).set_requires_grad(true));
      const Tensor t = rounded64(rounded64(x64).mm(rounded64(a64.back()).t()));
      const Tensor added = t.mm(rounded64(b64.back() * 0.6).t());
      sum64 = sum64 + torch::constant_pad_nd(added, {i == 0 ? 0 : 53, i == 0 ? 30 : 0});
    }
    sum64.backward(d_y.to(torch::kFloat64));
    const Tensor got = learner::device_linear(x, base, learner::InputRounding{Format::f32, {}}, true,
                                              learner::device_adapter(x, linear, compute));
    got.backward(d_y);
    CAPTURE(compute == torch::kFloat32);
    // In bf16, dY and U are also rounded, each with a relative error of at most 2⁻⁹.
    const double bound = compute == torch::kFloat32 ? 2e-6 : 4 * 0x1p-9;
    CHECK(device_relative(got.detach(), sum64.detach()) < 2e-6);
    CHECK(device_relative(x.grad(), x64.grad()) < bound);
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor d_a = linear.adapter.a.gradient.narrow(0, static_cast<std::int64_t>(i) * kRank, kRank);
      CHECK(device_relative(d_a, a64[i].grad()) < bound);
      CHECK(device_relative(linear.adapter.parts[i].b.gradient, b64[i].grad()) < bound);
    }
  }
}

TEST_CASE("device adapters: scores and gradients equal the CPU's, for every base") {
  int number = 0;
  for (const DeviceCase& one : kDeviceCases) {
    ++number;
    CAPTURE(static_cast<int>(one.forward), quant::name(one.format));
    model::ModelConfig config = test::tiny_config(number % 2 == 0, number % 2 == 1, number % 3 == 0);
    config.o_bias = number % 4 == 1;
    LearnerOptions options = adapter_options(one.forward, ComputeDType::f32);
    options.lora = some_lora(number % 2 == 0);
    options.lora_initial = test::random_adapters();
    const AdapterOutcome want = adapter_outcome_on_cpu(config, options, one.format);
    LearnerOptions plain = options;
    plain.numerics.forward = LearnerForward::bf16;
    const auto format_error = adapters_apart(adapter_outcome_on_cpu(config, plain, one.format), want);
    const auto there = [&](const LearnerOptions& how, Products products) {
      return adapters_apart(adapter_outcome_there(config, how, one.format, products), want);
    };
    const auto got = there(options, Products::f32);
    LearnerOptions narrow = options;
    narrow.numerics.compute = ComputeDType::bf16;
    narrow.kernels = &test::emulated_kernels();
    const auto rounded = there(narrow, Products::rounded);
    for (std::size_t part = 0; part < got.size(); ++part) {
      CAPTURE(part, got[part], rounded[part], format_error[part]);
      // Same as in device_low_bit_test.cpp: an activation near a tie takes the next quantized value on one side.
      CHECK(got[part] <= std::max(part == 0 ? 1e-3 : 2e-5, 0.3 * format_error[part]));
      CHECK(rounded[part] > 0);
      CHECK(rounded[part] <= 6e-2);
    }
  }
}

TEST_CASE("new device adapters: change no bit of log-probs, for every base") {
  const model::ModelConfig config = test::tiny_config();
  for (const DeviceCase& one : kDeviceCases) {
    CAPTURE(static_cast<int>(one.forward), quant::name(one.format));
    LearnerOptions options = adapter_options(one.forward);
    const AdapterOutcome plain = adapter_outcome_there(config, options, one.format, Products::rounded);
    options.lora = some_lora();
    CHECK(adapter_outcome_there(config, options, one.format, Products::rounded).logprobs == plain.logprobs);
    options.lora_initial = test::random_adapters();
    CHECK(adapter_outcome_there(config, options, one.format, Products::rounded).logprobs != plain.logprobs);
  }
}

TEST_CASE("device adapters: training changes only adapters, and publish copies adapters to the decoder") {
  const model::ModelConfig config = test::tiny_config(true, false, false);
  const model::Weights weights = test::tiny_weights(config);
  const auto world = dist::make_solo();
  for (const DeviceCase& one : kDeviceCases) {
    CAPTURE(static_cast<int>(one.forward), quant::name(one.format));
    LearnerOptions options = adapter_options(one.forward);
    options.optim.lr = 0.02;
    options.lora = some_lora(one.format == Format::int8);
    options.lora_initial = test::random_adapters();
    bool base_was_read = false;
    const model::WeightSource counted([&](const model::WeightSpec& spec, float* to) {
      base_was_read = true;
      model::WeightSource(weights).read(spec, to);
    });
    Learner learner(config, counted, options, *world);
    learner.keep_reference(options.lora_initial);
    DeviceSampler sampler(config, device_formats(one.format, options.lora), Products::rounded);
    sampler.publish(learner, 0);
    const auto drawn = sampler.draw();
    const std::int64_t base_number = sampler.snapshot.base_number();
    const std::vector<float> start = learner.score_reference(adapter_batch(), {1.0F}).logprobs;
    CHECK(start == learner.score(adapter_batch(), {1.0F}).logprobs);
    base_was_read = false;
    take_step(learner);
    sampler.publish(learner, 1);
    CHECK_FALSE(base_was_read);
    CHECK(sampler.snapshot.base_number() == base_number);
    CHECK_THROWS_WITH(sampler.snapshot.layer(0), Catch::Matchers::Contains("only on a device"));
    CHECK(learner.score_reference(adapter_batch(), {1.0F}).logprobs == start);
    const std::vector<float> after = learner.score(adapter_batch(), {1.0F}).logprobs;
    CHECK(after != start);

    // Another decoder gets the same weights through the host.
    DeviceSampler other(config, device_formats(one.format, options.lora), Products::rounded);
    other.publish(learner, 1);
    const auto got = sampler.draw(), want = other.draw();
    REQUIRE(got.size() == want.size());
    bool moved = false;
    for (std::size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].tokens == want[i].tokens);
      CHECK(got[i].sampler_logprobs == want[i].sampler_logprobs);
      moved = moved || got[i].sampler_logprobs != drawn[i].sampler_logprobs;
    }
    CHECK(moved);
    CHECK(learner.score(adapter_batch(), {1.0F}).logprobs == after);
  }
}

}  // namespace qrl
