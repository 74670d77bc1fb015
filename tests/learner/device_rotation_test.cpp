// Tests a learner and a decoder on one device with rotated matrices (quant/rotation.h), against the CPU's on the same
// snapshot. The decoder's kernels are emulated; the learner runs LibTorch's operations on the CPU.
#include "learner/codecs.h"
#include "learner/device/device_quantized.h"
#include "learner/device/torch_linear.h"
#include "learner/device_sampler.h"

namespace qrl {

using learner::ComputeDType;
using learner::LearnerForward;
using quant::Format;
using test::Learner;
using test::LearnerOptions;
using test::Named;

namespace {

constexpr quant::Rotation kBlocks[] = {{32}, {64}, {128}};
constexpr Format kRotatedFormats[] = {Format::int8,         Format::fp8_tensor, Format::fp8_channel,
                                      Format::fp8_block128, Format::int4,       Format::int4_int8};

const types::MicroBatch& rotated_batch() {
  static const types::MicroBatch batch =
      test::pack({test::random_sequence(1, 3, 9, 37), test::random_sequence(2, 5, 14, 37)});
  return batch;
}

Named scores_and_gradients(Learner& learner) {
  Named all{{"log-probs", learner.score(rotated_batch(), {1.0F}).logprobs}};
  learner.accumulate(rotated_batch(), test::count({rotated_batch()}), {learner::LossKind::sft, {}, {}}, {1.0F});
  for (auto& [name, values] : test::gradients_of(learner)) all.emplace(name, values);
  return all;
}

double furthest(const Named& got, const Named& want) {
  std::string worst;
  const double most = test::relative_difference(got, want, worst);
  UNSCOPED_INFO("largest difference in " << worst);
  return most;
}

/// Names where the learner and the sampler are.
enum class Places : std::uint8_t { cpu, device, device_beside_cpu };

/// Returns what a learner computes from a published snapshot, in fp32.
Named published(const model::ModelConfig& config, model::SnapshotFormats formats, LearnerForward forward, Places places,
                std::int64_t rank = 0) {
  LearnerOptions options = test::device_options(ComputeDType::f32);
  options.torch_ops = places != Places::cpu;
  options.numerics.kv_format = quant::KvFormat::f32;
  options.numerics.forward = forward;
  options.lora.rank = formats.lora.rank = rank;
  options.lora.alpha = formats.lora.alpha = 0.5;
  if (rank > 0) options.lora_initial = test::random_adapters();
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);  // adapters' base is read at the publish
  Learner learner(config, weights, options, *world);
  if (places == Places::device) {
    test::DeviceSampler sampler(config, formats, test::Products::f32);
    sampler.publish(learner, 0);
    return scores_and_gradients(learner);
  }
  model::Snapshot snapshot(config, formats);
  learner.publish(snapshot, 0);
  return scores_and_gradients(learner);
}

}  // namespace

namespace {

/// Holds what a rotated layer multiplies, dequantized by the CPU's codec and rotated back, in fp64.
struct RotatedOperands {
  RotatedOperands(const torch::Tensor& rows, const ops::PackedLinear& packed)
      : x(torch::empty_like(rows)), weight(torch::empty({packed.out, packed.in})) {
    base::Team alone = base::Team::solo();
    ops::Activations quantized(packed.format, rows.size(0), packed.in, packed.rotation);
    ops::quantize(alone, rows.data_ptr<float>(), {0, rows.size(0)}, quantized);
    for (std::int64_t row = 0; row < rows.size(0); ++row)
      ops::dequantize_row(quantized, row, x.data_ptr<float>() + row * packed.in);
    ops::unpack_rows(packed, 0, packed.out, weight.data_ptr<float>());
    for (torch::Tensor* each : {&x, &weight}) {
      quant::rotate(packed.rotation, test::floats_of(*each));
      *each = each->to(torch::kFloat64);
    }
  }
  torch::Tensor x, weight;
};

}  // namespace

TEST_CASE("device layer with a rotation: forward and backward are fp64's on its operands, in every format and block") {
  for (const Format format : kRotatedFormats) {
    for (const quant::Rotation& rotation : kBlocks) {
      const model::ModelConfig config = test::in_blocks(test::tiny_config(), rotation);
      const model::Weights weights = test::tiny_weights(config);
      test::DeviceSampler sampler(config, test::rotated_formats(format, rotation), test::Products::f32);
      sampler.snapshot.publish(model::views(weights), 0);
      sampler.decoder.load(sampler.snapshot);
      sampler.weights()->upload(sampler.snapshot);
      const model::LayerSnapshot& layer = sampler.snapshot.layer(1);
      for (const auto& [name, packed] : {std::pair<std::string, const ops::PackedLinear*>{"layers.1.qkv", &layer.qkv},
                                         {"layers.1.down", &layer.down}}) {
        CAPTURE(quant::name(format), rotation.block, name);
        torch::manual_seed(rotation.block);
        const torch::Tensor x = torch::randn({19, packed->in}) * torch::rand({19, 1}).mul(4).exp();
        x[3].zero_();
        x[5][packed->in / 2] = 300;
        const torch::Tensor d_y = torch::randn({19, packed->out});
        const learner::DeviceLayer there{sampler.weights(), name, packed, torch::kFloat32,
                                         learner::LearnerBackward::model_dtype};
        const test::LayerGradients got =
            test::layer_gradients(x, d_y, packed->out, [&](const torch::Tensor& rows, const learner::Weight& weight) {
              return learner::device_quantized_linear(rows, weight, there);
            });
        const RotatedOperands operands(x, *packed);
        const torch::Tensor d_y_f64 = d_y.to(torch::kFloat64);
        // The codes are equal. What remains are fp32 sums and the fp32 butterflies that rotate back.
        CHECK(test::relative_norm(got.y, operands.x.matmul(operands.weight.t())) < 2e-6);
        CHECK(test::relative_norm(got.d_x, d_y_f64.matmul(operands.weight)) < 2e-6);
        CHECK(test::relative_norm(got.d_w, d_y_f64.t().matmul(operands.x)) < 2e-6);

        const torch::Tensor fake_weight = operands.weight.to(torch::kFloat32);
        const test::LayerGradients faked =
            test::layer_gradients(x, d_y, packed->out, [&](const torch::Tensor& rows, const learner::Weight& weight) {
              return learner::device_linear(rows, {fake_weight, weight.gradient},
                                            learner::InputRounding{format, rotation});
            });
        CHECK(test::relative_norm(faked.y, operands.x.matmul(operands.weight.t())) < 2e-6);
        CHECK(test::relative_norm(faked.d_x, d_y_f64.matmul(operands.weight)) < 2e-6);
        CHECK(test::relative_norm(faked.d_w, d_y_f64.t().matmul(operands.x)) < 2e-6);
      }
    }
  }
}

TEST_CASE("rotated rows: LibTorch's operations give the codec's bits") {
  for (const quant::Rotation& rotation : kBlocks) {
    const torch::Tensor x = torch::randn({5, 3 * rotation.block});
    const torch::Tensor want = x.clone();
    quant::rotate(rotation, test::floats_of(want));
    CHECK(torch::equal(learner::rotated_rows(x, rotation), want));
  }
  const torch::Tensor x = torch::randn({5, 7});
  CHECK(torch::equal(learner::rotated_rows(x, {}), x));
}

TEST_CASE("device learner on rotated matrices: scores and gradients equal the CPU's, in every format and block") {
  int number = 0;
  for (const Format format : kRotatedFormats) {
    for (const quant::Rotation& rotation : kBlocks) {
      ++number;
      const model::ModelConfig config = test::in_blocks(test::tiny_config(number % 2 == 0, number % 2 == 1), rotation);
      const model::SnapshotFormats rotated = test::rotated_formats(format, rotation);
      const std::int64_t rank = number % 4 < 2 ? 0 : 3;
      CAPTURE(quant::name(format), rotation.block, rank);
      const auto on = [&](Places places, LearnerForward forward) {
        return published(config, rotated, forward, places, rank);
      };
      const Named want = on(Places::cpu, LearnerForward::low_bit);
      const double format_error = furthest(on(Places::cpu, LearnerForward::bf16), want);
      const double unrotated =
          furthest(published(config, model::SnapshotFormats(format), LearnerForward::low_bit, Places::cpu, rank), want);
      // An activation near a tie takes the next code on one side (device_low_bit_test.cpp).
      const double bound = 0.3 * std::min(format_error, unrotated);
      CAPTURE(format_error, unrotated);
      CHECK(bound > 1e-3);
      CHECK(furthest(on(Places::device, LearnerForward::low_bit), want) <= bound);
      CHECK(furthest(on(Places::device, LearnerForward::fake_quant), want) <= bound);
      CHECK(furthest(on(Places::device_beside_cpu, LearnerForward::fake_quant), want) <= bound);
    }
  }
}

}  // namespace qrl
