// Tests low_bit with learner and decoder on one device: the decoder's matmuls on its own codes, against the CPU's and
// against fake_quant's. The learner runs LibTorch's operations on the CPU; the decoder's kernels are emulated there.
#include <array>
#include <mutex>
#include <optional>

#include "learner/device/device_quantized.h"
#include "learner/device_sampler.h"
#include "learner/forward/quantized.h"
#include "learner/ranks.h"
#include "learner/tensors/torch.h"

namespace qrl {

using learner::ComputeDType;
using learner::LearnerBackward;
using learner::LearnerForward;
using quant::Format;
using test::DeviceSampler;
using test::Learner;
using test::LearnerOptions;
using test::Named;
using test::Products;
using torch::Tensor;

namespace {

const types::MicroBatch& some_batch() {
  static const types::MicroBatch batch =
      test::pack({test::random_sequence(1, 3, 9, 37), test::random_sequence(2, 5, 14, 37)});
  return batch;
}

/// Holds log-probs of a batch and gradients of its supervised loss.
struct Outcome {
  std::vector<float> logprobs;
  Named gradients;
};
Outcome outcome_of(Learner& learner) {
  Outcome outcome;
  outcome.logprobs = learner.score(some_batch(), {1.0F}).logprobs;
  learner::LossOptions sft;
  sft.kind = learner::LossKind::sft;
  learner.accumulate(some_batch(), test::count({some_batch()}), sft, {1.0F});
  outcome.gradients = test::gradients_of(learner);
  return outcome;
}

Outcome outcome_there(const model::ModelConfig& config, const LearnerOptions& options, Format format,
                      Products products = Products::rounded) {
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), options, *world);
  DeviceSampler sampler(config, format, products, options.device);
  sampler.publish(learner, 0);
  return outcome_of(learner);
}

Outcome outcome_on_cpu(const model::ModelConfig& config, const LearnerOptions& options, Format format) {
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, format);
  learner.publish(snapshot, 0);
  return outcome_of(learner);
}

/// Returns the difference of two outcomes, over all values: log-probs, gradients.
std::array<double, 2> apart(const Outcome& a, const Outcome& b) {
  const auto joined = [](const Named& named) {
    std::vector<float> all;
    for (const auto& [name, values] : named) all.insert(all.end(), values.begin(), values.end());
    return Named{{"all", all}};
  };
  std::string worst;
  return {test::relative_difference({{"all", a.logprobs}}, {{"all", b.logprobs}}, worst),
          test::relative_difference(joined(a.gradients), joined(b.gradients), worst)};
}

LearnerOptions low_bit(ComputeDType compute = ComputeDType::bf16, base::Device device = base::Device::cpu) {
  LearnerOptions options = test::device_options(compute, device);
  options.numerics.forward = LearnerForward::low_bit;
  return options;
}

/// Serializes access to a decoder's weights for ranks that are threads, because the emulation is single-threaded.
class OneAtATime final : public model::DeviceWeights {
 public:
  explicit OneAtATime(model::DeviceWeights* inner) : inner_(inner) {}
  bool holds(const model::Snapshot& snapshot) const override { return inner_->holds(snapshot); }
  std::string rewrite(std::span<const model::DeviceMaster> masters) override {
    const std::lock_guard lock(mutex());
    return inner_->rewrite(masters);
  }
  void finish(std::int64_t version) override { inner_->finish(version); }
  void upload(const model::Snapshot& snapshot) override {
    const std::lock_guard lock(mutex());
    inner_->upload(snapshot);
  }
  void dequantize(std::span<const model::DequantizedTensor> wanted, void* stream) override {
    const std::lock_guard lock(mutex());
    inner_->dequantize(wanted, stream);
  }
  model::DeviceTable table(const std::string& tensor) override { return inner_->table(tensor); }
  model::MatmulWorkspace matmul_workspace(const std::string& matrix, std::int64_t num_rows) override {
    return inner_->matmul_workspace(matrix, num_rows);
  }
  void multiply(const float* x, const model::MatmulInput& input, void* y, void* stream) override {
    const std::lock_guard lock(mutex());
    inner_->multiply(x, input, y, stream);
  }
  void dequantize_input(const model::MatmulInput& input, const base::View& to, void* stream) override {
    const std::lock_guard lock(mutex());
    inner_->dequantize_input(input, to, stream);
  }
  void forward(const model::PackedSequences& rows, std::span<float* const> after_layer, void* stream) override {
    const std::lock_guard lock(mutex());
    inner_->forward(rows, after_layer, stream);
  }
  void score(const float* x, const model::TargetTokens& targets, std::span<float> logprobs, std::span<float> entropies,
             void* stream) override {
    const std::lock_guard lock(mutex());
    inner_->score(x, targets, logprobs, entropies, stream);
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

 private:
  model::DeviceWeights* inner_;
};

/// Compares the learner's linear layer with the CPU's, on one snapshot.
void compare_layers(base::Device device) {
  const torch::Device where(device == base::Device::cuda ? torch::kCUDA : torch::kCPU);
  model::ModelConfig config = test::tiny_config();
  config.hidden_size = 150;  // more than the 128 that share a scale in some formats
  config.intermediate_size = 140;
  for (int i = 1; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    const model::Weights weights = test::tiny_weights(config);
    DeviceSampler exact(config, format, Products::f32, device), rounded(config, format, Products::rounded, device);
    for (DeviceSampler* each : {&exact, &rounded}) {
      each->snapshot.publish(model::views(weights), 0);
      each->decoder.load(each->snapshot);
      each->weights()->upload(each->snapshot);
    }
    const model::LayerSnapshot& layer = exact.snapshot.layer(1);
    for (const auto& [name, packed] : {std::pair<const char*, const ops::PackedLinear*>{"qkv", &layer.qkv},
                                       {"o", &layer.o},
                                       {"gate_up", &layer.gate_up},
                                       {"down", &layer.down}}) {
      CAPTURE(quant::name(format), name);
      torch::manual_seed(i);
      const Tensor x = torch::randn({70, packed->in}) * torch::rand({70, 1}).mul(4).exp();
      x[3].zero_();
      const Tensor d_y = torch::randn({70, packed->out});
      const std::string matrix = std::string("layers.1.") + name;
      const auto there = [&, packed = packed](DeviceSampler& sampler, torch::ScalarType compute,
                                              LearnerBackward backward = LearnerBackward::model_dtype) {
        return test::layer_gradients(x.to(where), d_y, packed->out,
                                     [&](const Tensor& rows, const learner::Weight& weight) {
                                       return learner::device_quantized_linear(
                                           rows, weight, {sampler.weights(), matrix, packed, compute, backward});
                                     });
      };
      const auto on_cpu = [&, packed = packed](const Tensor& arriving, LearnerBackward backward) {
        return test::layer_gradients(x, arriving, packed->out, [&](const Tensor& rows, const auto& weight) {
          return learner::quantized_linear(rows, {torch::empty({packed->out, packed->in}), weight.gradient},
                                           {packed, true, torch::kFloat32, backward});
        });
      };
      const test::LayerGradients want = on_cpu(d_y, LearnerBackward::model_dtype);
      // The codes are equal. What remains are fp32 sums of at most 280 products in another order; int8's are exact.
      const test::LayerGradients got = there(exact, torch::kFloat32);
      CHECK(test::relative_norm(got.y, want.y) < (format == Format::int8 ? 1e-7 : 2e-6));
      CHECK(test::relative_norm(got.d_x, want.d_x) < 2e-6);
      CHECK(test::relative_norm(got.d_w, want.d_w) < 2e-6);
      // Rounded like the decoder, and nothing else. A GPU library may add in another order.
      const test::LayerGradients in_use = there(rounded, torch::kBFloat16);
      CHECK(in_use.y.scalar_type() == torch::kBFloat16);
      CHECK(test::relative_norm(in_use.y, want.y) < 4e-3);
      if (device == base::Device::cpu) CHECK(torch::equal(in_use.y, got.y.to(torch::kBFloat16)));
      CHECK(torch::equal(there(rounded, torch::kFloat32).y, in_use.y.to(torch::kFloat32)));
      CHECK(test::relative_norm(in_use.d_x, want.d_x) < 6e-3);  // operands rounded to bf16, sums fp32
      CHECK(test::relative_norm(in_use.d_w, want.d_w) < 6e-3);
      CHECK(test::relative_norm(in_use.d_x, want.d_x) > 1e-4);
      if (format == Format::fp8_block128) {
        // fp32 results from the same codes, except for gradients at a tie whose scale LibTorch rounded differently.
        // Gradients that arrive as bf16 then have operands rounded to bf16.
        const auto fp8 = LearnerBackward::fp8_e4m3;
        const test::LayerGradients want_fp8 = on_cpu(d_y, fp8), got_fp8 = there(exact, torch::kFloat32, fp8),
                                   in_use_fp8 = there(rounded, torch::kBFloat16, fp8);
        const test::LayerGradients want_in_use = on_cpu(d_y.to(torch::kBFloat16).to(torch::kFloat32), fp8);
        CHECK(test::relative_norm(got_fp8.d_x, want_fp8.d_x) < 1e-3);
        CHECK(test::relative_norm(got_fp8.d_w, want_fp8.d_w) < 1e-3);
        CHECK(test::relative_norm(in_use_fp8.d_x, want_in_use.d_x) < 6e-3);
        CHECK(test::relative_norm(in_use_fp8.d_w, want_in_use.d_w) < 6e-3);
        CHECK(test::relative_norm(want_fp8.d_x, want.d_x) > 1.5e-2);
        CHECK(test::relative_norm(want_fp8.d_w, want.d_w) > 1.5e-2);
      }
      // Without gradients the product is the same.
      const torch::NoGradGuard no_grad;
      const Tensor again =
          learner::device_quantized_linear(x.to(where), {}, {rounded.weights(), matrix, packed, torch::kBFloat16});
      CHECK(torch::equal(again.cpu(), in_use.y));
    }
  }
}

/// Compares a learner's scores and gradients with the CPU's low_bit, and with fake_quant on the device.
void compare_learners(const LearnerOptions& how) {
  for (int i = 1; i < quant::kNumFormats; ++i) {
    const auto format = static_cast<Format>(i);
    CAPTURE(quant::name(format));
    model::ModelConfig config = test::tiny_config(i % 2 == 0, i % 2 == 1, i % 3 == 0);
    config.o_bias = i % 4 == 1;
    LearnerOptions there = how;
    there.numerics.compute = ComputeDType::f32;
    there.numerics.kv_format = quant::KvFormat::f32;
    LearnerOptions own = there;
    own.torch_ops = false;
    own.device = base::Device::cpu;
    LearnerOptions fake = there;
    fake.numerics.forward = LearnerForward::fake_quant;
    LearnerOptions plain = own;
    plain.numerics.forward = LearnerForward::bf16;
    const Outcome got = outcome_there(config, there, format, Products::f32);
    const Outcome on_cpu = outcome_on_cpu(config, own, format);
    const auto from_cpu = apart(got, on_cpu), from_fake = apart(got, outcome_there(config, fake, format)),
               format_error = apart(outcome_on_cpu(config, plain, format), on_cpu);
    for (std::size_t part = 0; part < from_cpu.size(); ++part) {
      CAPTURE(part, from_cpu[part], from_fake[part], format_error[part]);
      // An activation near a tie takes the next code on one side; without the rounding the difference would be 1 or
      // more. A bf16 lm_head on the CPU also reads hidden states rounded to bf16.
      CHECK(from_cpu[part] <= std::max(part == 0 ? 1e-3 : 2e-5, 0.3 * format_error[part]));
      CHECK(from_fake[part] <= std::max(2e-5, 0.3 * format_error[part]));
      CHECK(format_error[part] > 1e-4);
    }
    // The bf16 results in normal use: both are about equally far from the exact ones.
    there.numerics.compute = fake.numerics.compute = ComputeDType::bf16;
    const auto rounded = apart(outcome_there(config, there, format), got),
               fake_rounded = apart(outcome_there(config, fake, format), got);
    for (std::size_t part = 0; part < rounded.size(); ++part) {
      CAPTURE(part, rounded[part], fake_rounded[part]);
      CHECK(rounded[part] > 0);
      CHECK(rounded[part] <= 4 * std::max(fake_rounded[part], 1e-3));
    }
  }
}

}  // namespace

TEST_CASE("int8 lm_head of the decoder: leaves the device learner's log-probs and updates unchanged") {
  const auto world = dist::make_solo();
  for (const bool tied : {true, false}) {
    const model::ModelConfig config = test::tiny_config(true, false, tied);
    const model::Weights weights = test::tiny_weights(config);
    for (const std::int64_t rank : {std::int64_t{0}, std::int64_t{4}}) {
      for (const LearnerForward forward : {LearnerForward::bf16, LearnerForward::fake_quant, LearnerForward::low_bit}) {
        CAPTURE(tied, rank, static_cast<int>(forward));
        std::vector<std::vector<float>> scores[2];
        for (const bool is_int8 : {false, true}) {
          LearnerOptions options = test::device_options();
          options.numerics.forward = forward;
          options.numerics.own_lm_head = is_int8;
          model::SnapshotFormats formats(Format::int8);
          formats.int8_lm_head = is_int8;
          if (rank > 0) formats.lora = options.lora = {.rank = rank, .alpha = 2};
          Learner learner(config, weights, options, *world);
          DeviceSampler there(config, formats);
          for (int version = 0; version < 2; ++version) {
            there.publish(learner, version);
            (void)there.draw();  // from then on the device has the weights
            scores[is_int8].push_back(learner.score(some_batch(), {1.0F}).logprobs);
            test::take_supervised_step(learner);
          }
          CHECK(learner.reads_in_place("lm_head") == (forward == LearnerForward::low_bit && !is_int8));
        }
        CHECK(scores[1] == scores[0]);
        CHECK(scores[0][0] != scores[0][1]);
      }
    }
  }
}

TEST_CASE("device low_bit layer: equals the CPU's on the same tensors, forward and backward, in every format") {
  compare_layers(base::Device::cpu);
}

TEST_CASE("low_bit on a device: scores and gradients equal the CPU's and fake_quant's, in every format") {
  compare_learners(low_bit());
}

TEST_CASE("fp8 backward pass on a device: encodes long runs of tokens in parts") {
  model::ModelConfig config = test::tiny_config();
  config.hidden_size = 24;
  config.intermediate_size = 16;
  DeviceSampler sampler(config, Format::fp8_block128, Products::f32);
  const model::Weights weights = test::tiny_weights(config);
  sampler.snapshot.publish(model::views(weights), 0);
  sampler.decoder.load(sampler.snapshot);
  sampler.weights()->upload(sampler.snapshot);
  const ops::PackedLinear& packed = sampler.snapshot.layer(0).down;
  torch::manual_seed(3);
  const std::int64_t tokens = learner::kFp8GradientTokens + 130;
  const Tensor x = torch::randn({tokens, packed.in}), d_y = torch::randn({tokens, packed.out});
  const auto fp8 = LearnerBackward::fp8_e4m3;
  const test::LayerGradients got =
      test::layer_gradients(x, d_y, packed.out, [&](const Tensor& rows, const learner::Weight& weight) {
        return learner::device_quantized_linear(rows, weight,
                                                {sampler.weights(), "layers.0.down", &packed, torch::kFloat32, fp8});
      });
  const test::LayerGradients want =
      test::layer_gradients(x, d_y, packed.out, [&](const Tensor& rows, const learner::Weight& weight) {
        return learner::quantized_linear(rows, weight, {&packed, true, torch::kFloat32, fp8});
      });
  CHECK(test::relative_norm(got.d_x, want.d_x) < 1e-3);
  CHECK(test::relative_norm(got.d_w, want.d_w) < 1e-3);
}

TEST_CASE("fp8 backward pass on a device: changes a learner's gradients as much as on the CPU") {
  const model::ModelConfig config = test::tiny_config();
  for (const ComputeDType compute : {ComputeDType::f32, ComputeDType::bf16}) {
    LearnerOptions there = low_bit(compute);
    there.numerics.kv_format = quant::KvFormat::f32;
    LearnerOptions on_cpu = there;
    on_cpu.torch_ops = false;
    const auto learner_there = [&] { return outcome_there(config, there, Format::fp8_block128, Products::f32); };
    const auto learner_on_cpu = [&] { return outcome_on_cpu(config, on_cpu, Format::fp8_block128); };
    const Outcome exact = learner_there(), exact_on_cpu = learner_on_cpu();
    there.numerics.backward = on_cpu.numerics.backward = LearnerBackward::fp8_e4m3;
    const Outcome got = learner_there();
    CHECK(got.logprobs == exact.logprobs);
    const double change = apart(got, exact)[1], change_on_cpu = apart(learner_on_cpu(), exact_on_cpu)[1];
    CAPTURE(static_cast<int>(compute), change, change_on_cpu);
    CHECK(change > 2e-2);
    CHECK(change < 0.15);
    // Gradients arrive at the last layer about 2⁻⁹ apart (roundings of lm_head and the final norm). A code that differs
    // changes those of all layers below. The size of the change is the same; the layers' test above checks its
    // direction.
    CHECK(test::close(change, change_on_cpu, 0, 0.3));
  }
}

TEST_CASE("low_bit on a GPU: scores and gradients equal the CPU's and fake_quant's, in every format", "[gpu]") {
  const LearnerOptions options = low_bit(ComputeDType::bf16, base::Device::cuda);
  const auto make = [&] {
    const model::ModelConfig config = test::tiny_config();
    const auto world = dist::make_solo();
    const Learner learner(config, test::tiny_weights(config), options, *world);
    const DeviceSampler sampler(config, Format::int8, Products::rounded, base::Device::cuda);
  };
  if (!test::has_gpu(make)) return;
  compare_layers(base::Device::cuda);
  compare_learners(options);
}

TEST_CASE("low_bit on a device: a step equals fake_quant's, and reads weights published in place") {
  const model::ModelConfig config = test::tiny_config();
  for (const auto& [format, compute] : {std::pair{Format::int8, ComputeDType::bf16},
                                        {Format::fp8_block128, ComputeDType::bf16},
                                        {Format::int4_int8, ComputeDType::f32}}) {
    CAPTURE(quant::name(format));
    const auto world = dist::make_solo();
    LearnerOptions fake_options = low_bit(compute);
    fake_options.numerics.forward = LearnerForward::fake_quant;
    Learner learner(config, test::tiny_weights(config), low_bit(compute), *world);
    Learner fake(config, test::tiny_weights(config), fake_options, *world);
    DeviceSampler sampler(config, format), other(config, format);
    sampler.publish(learner, 0);
    other.publish(fake, 0);
    CHECK_FALSE(sampler.weights()->holds(sampler.snapshot));  // nothing is uploaded before it is needed
    const Outcome before = outcome_of(learner), fake_before = outcome_of(fake);
    CHECK(sampler.weights()->holds(sampler.snapshot));
    REQUIRE(learner.update().finite);
    REQUIRE(fake.update().finite);
    std::string worst;
    CHECK(test::relative_difference(test::moments_of(learner), test::moments_of(fake), worst) < 0.2);
    INFO("worst tensor " << worst);

    const auto there = [&](const std::string& tensor) {
      return learner::device_table(*sampler.weights(), tensor, config.vocab_size, config.hidden_size, torch::kCPU);
    };
    const Tensor embedding = there("embed_tokens"), lm_head = there("lm_head"), old = embedding.clone();
    torch::manual_seed(3);
    const Tensor x = torch::randn({5, config.hidden_size});
    const auto product = [&](DeviceSampler& from) {
      const ops::PackedLinear& form = from.snapshot.layer_form(0).gate_up;
      return learner::device_quantized_linear(x, {}, {from.weights(), "layers.0.gate_up", &form, torch::kBFloat16});
    };
    const Tensor y = product(sampler);
    sampler.publish(learner, 1);
    CHECK_THROWS_WITH(sampler.snapshot.layer(0), Catch::Matchers::Contains("only on a device"));
    CHECK(there("embed_tokens").data_ptr() == embedding.data_ptr());
    CHECK_FALSE(torch::equal(embedding, old));
    CHECK(torch::equal(embedding, lm_head));  // tied
    CHECK_FALSE(torch::equal(product(sampler), y));
    const std::vector<float> after = learner.score(some_batch(), {1.0F}).logprobs;
    CHECK(after != before.logprobs);
    CHECK(after == learner.score(some_batch(), {1.0F}).logprobs);
    const auto drawn = sampler.draw();
    CHECK(after == learner.score(some_batch(), {1.0F}).logprobs);  // ticks in between change nothing

    // Another learner that starts with these masters reads the same weights.
    Learner fresh(config, test::tiny_weights(config, 2), low_bit(compute), *world);
    test::restore(fresh, test::masters_of(learner), test::moments_of(learner), 1);
    DeviceSampler anew(config, format);
    anew.publish(fresh, 1);
    CHECK(after == fresh.score(some_batch(), {1.0F}).logprobs);

    // Sends the same weights through the host into another decoder.
    DeviceSampler through_host(config, format);
    through_host.publish(learner, 2);
    CHECK(through_host.snapshot.layer(0).qkv.out > 0);
    CHECK(after == learner.score(some_batch(), {1.0F}).logprobs);
    CHECK(torch::equal(product(through_host), product(sampler)));
    CHECK(drawn.front().sampler_logprobs == through_host.draw().front().sampler_logprobs);
  }
}

TEST_CASE("low_bit on a device: reads the decoder's weights, also lm_head unless it is fp32") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  const Learner learner(config, test::tiny_weights(config), low_bit(), *world);
  for (const char* tensor : {"embed_tokens", "layers.1.qkv", "lm_head"}) CHECK(learner.reads_in_place(tensor));
  const Learner f32(config, test::tiny_weights(config), low_bit(ComputeDType::f32), *world);
  CHECK(f32.reads_in_place("layers.1.qkv"));
  CHECK_FALSE(f32.reads_in_place("lm_head"));
  LearnerOptions options = low_bit();
  options.numerics.forward = LearnerForward::fake_quant;
  CHECK_FALSE(Learner(config, test::tiny_weights(config), options, *world).reads_in_place("layers.1.qkv"));
}

TEST_CASE("low_bit on a device: checkpointing and sharding change no bit") {
  const model::ModelConfig config = test::tiny_config(true, true, false);
  LearnerOptions options = low_bit();
  const Outcome whole = outcome_there(config, options, Format::int8);
  options.activation_checkpointing = true;
  const Outcome again = outcome_there(config, options, Format::int8);
  CHECK(again.logprobs == whole.logprobs);
  CHECK((again.gradients == whole.gradients));
  options.activation_checkpointing = false;

  const auto on_two_ranks = [&](bool sharded) {
    options.shard_optimizer = sharded;
    std::vector<Named> kept(2);
    std::vector<std::vector<float>> scores(2);
    test::Ranks(2).run([&](dist::Collectives& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      Learner learner(config, test::tiny_weights(config), options, world);
      std::unique_ptr<DeviceSampler> sampler;
      {
        const std::lock_guard lock(OneAtATime::mutex());
        sampler = std::make_unique<DeviceSampler>(config, Format::int8);
      }
      OneAtATime weights(sampler->weights());
      for (std::int64_t version = 0; version < 3; ++version) {
        learner.publish(sampler->snapshot, version, &weights);
        if (version == 0) sampler->decoder.load(sampler->snapshot);
        if (version == 2) break;
        test::take_supervised_step(learner);
      }
      scores[rank] = learner.score(some_batch(), {1.0F}).logprobs;
      kept[rank] = test::masters_of(learner);
      const std::lock_guard lock(OneAtATime::mutex());
      CHECK_THROWS(sampler->snapshot.layer(0));  // written on the device
      sampler.reset();
    });
    CHECK(scores[0] == scores[1]);
    Named all;
    for (const Named& rank : kept) all.insert(rank.begin(), rank.end());
    return std::pair{all, scores[0]};
  };
  const auto [one, one_scores] = on_two_ranks(false);
  const auto [shared, shared_scores] = on_two_ranks(true);
  std::string worst;
  // LibTorch's AdamW on the CPU rounds the last elements of a tensor differently from the rest.
  CHECK(test::relative_difference(shared, one, worst) <= 1e-5);
  CHECK(test::relative_difference({{"all", shared_scores}}, {{"all", one_scores}}, worst) <= 1e-2);
}

TEST_CASE("low_bit on a device: refuses unsupported settings and weights of another version or decoder") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  LearnerOptions options = low_bit();
  options.numerics.backward = LearnerBackward::int8;
  CHECK_THROWS_WITH(Learner(config, test::tiny_weights(config), options, *world),
                    Catch::Matchers::Contains("quant.learner.backward model_dtype or fp8_e4m3"));
  options.numerics.backward = LearnerBackward::model_dtype;
  Learner learner(config, test::tiny_weights(config), options, *world);
  CHECK_THROWS_WITH(learner.score(some_batch(), {1.0F}), Catch::Matchers::Contains("publish after each update"));
  DeviceSampler sampler(config, Format::int8);
  CHECK_THROWS_WITH(learner.publish(sampler.snapshot, 0), Catch::Matchers::Contains("weights on the device"));
  learner.publish(sampler.snapshot, 0, sampler.weights());
  CHECK_THROWS_WITH(learner.score(some_batch(), {1.0F}), Catch::Matchers::Contains("that the decoder reads"));
  sampler.decoder.load(sampler.snapshot);
  const std::vector<float> scores = learner.score(some_batch(), {1.0F}).logprobs;
  model::Snapshot another(config, Format::int8);
  another.publish(model::views(test::tiny_weights(config, 2)), 0);
  sampler.decoder.load(another);
  CHECK_THROWS_WITH(learner.score(some_batch(), {1.0F}), Catch::Matchers::Contains("that the decoder reads"));
  sampler.decoder.load(sampler.snapshot);
  CHECK(learner.score(some_batch(), {1.0F}).logprobs == scores);  // uploaded again
}

}  // namespace qrl
