// Tests the learner on a sampler's rotated matrices (quant/rotation.h): the rotated basis within a layer, the weights'
// own basis outside.
#include "learner/choices.h"
#include "learner/codecs.h"
#include "learner/forward/quantized.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "learner/support.h"
#include "model/snapshot.h"

using namespace qrl;
using learner::LearnerBackward;
using learner::LearnerForward;
using quant::Format;
using torch::Tensor;

namespace {

constexpr quant::Rotation kRotated{32};

std::vector<Format> low_bit_formats() {
  std::vector<Format> formats;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    if (quant::spec(static_cast<Format>(i)).has_weight_scales()) formats.push_back(static_cast<Format>(i));
  }
  return formats;
}

/// Returns Sylvester's blocks on the diagonal, fp64 [width, width].
Tensor rotation_matrix(std::int64_t width) {
  Tensor block = torch::ones({1, 1}, torch::kFloat64);
  while (block.size(0) < kRotated.block)
    block = torch::cat({torch::cat({block, block}, 1), torch::cat({block, -block}, 1)}, 0);
  return torch::kron(torch::eye(width / kRotated.block, torch::kFloat64),
                     block / std::sqrt(static_cast<double>(kRotated.block)));
}

/// Returns rows rotated in fp32 like the kernels do.
Tensor rotated(const Tensor& rows) {
  const Tensor copy = rows.clone();
  quant::rotate(kRotated, test::floats_of(copy));
  return copy;
}

/// Holds a rotated layer [140, 160] and the inputs of its passes.
struct RotatedLayer {
  explicit RotatedLayer(Format format) {
    torch::manual_seed(7);
    weight = torch::randn({140, 160});
    x = torch::randn({257, 160});
    d_y = torch::randn({257, 140});
    packed = ops::make_packed_linear(format, 140, 160, false);
    packed.rotation = kRotated;
    base::Team alone = base::Team::solo();
    REQUIRE(ops::pack_rows(alone, weight.data_ptr<float>(), 140, 0, packed));
    x_hat = test::codec_rows(rotated(x), format);
    w_hat = test::codec_weights(rotated(weight), format);
  }
  Tensor weight, x, d_y;
  ops::PackedLinear packed;
  Tensor x_hat, w_hat;  ///< rotated, fp64
};

/// Holds a learner whose forward pass reads a published snapshot with some rotation.
struct RotatedLearner {
  RotatedLearner(Format format, const quant::Rotation& rotation, LearnerForward forward,
                 LearnerBackward backward = LearnerBackward::model_dtype, std::int64_t lora_rank = 0)
      : config(test::in_blocks(test::tiny_config(false, true), kRotated)),
        weights(test::tiny_weights(config)),
        world(dist::make_solo()) {
    learner::LearnerOptions options = test::options();
    options.numerics.forward = forward;
    options.numerics.backward = backward;
    options.lora.rank = lora_rank;
    options.lora.alpha = 0.5;
    if (lora_rank > 0) options.lora_initial = test::random_adapters();
    options.optim.name = lora_rank > 0 ? learner::OptimName::adamw : options.optim.name;
    learner = std::make_unique<learner::Learner>(config, weights, options, *world);
    model::SnapshotFormats formats = test::rotated_formats(format, rotation);
    formats.lora = options.lora;
    snapshot = std::make_unique<model::Snapshot>(config, formats);
    learner->publish(*snapshot, 3);
  }
  void accumulate(const std::vector<types::MicroBatch>& batches, const types::GlobalCounts& counts) {
    for (const types::MicroBatch& batch : batches)
      learner->accumulate(batch, counts, {learner::LossKind::sft, {}, {}}, {1.0F});
  }

  model::ModelConfig config;
  model::Weights weights;
  std::unique_ptr<dist::Collectives> world;
  std::unique_ptr<learner::Learner> learner;
  std::unique_ptr<model::Snapshot> snapshot;
};

const test::Sequence kFirst = test::random_sequence(1, 3, 9, 37), kSecond = test::random_sequence(2, 5, 4, 37);

test::Named rotated_gradients(Format format, const quant::Rotation& rotation, LearnerForward forward,
                              LearnerBackward backward = LearnerBackward::model_dtype, std::int64_t lora_rank = 0) {
  RotatedLearner one(format, rotation, forward, backward, lora_rank);
  const std::vector<types::MicroBatch> batches = {test::pack({kFirst, kSecond})};
  one.accumulate(batches, test::count(batches));
  return test::gradients_of(*one.learner);
}

double furthest(const test::Named& got, const test::Named& want) {
  std::string worst;
  const double most = test::relative_difference(got, want, worst);
  UNSCOPED_INFO("largest difference in " << worst);
  return most;
}

}  // namespace

TEST_CASE("rotated layer: multiplies rotated operands, rotates dX back, and accumulates dW rotated") {
  const Tensor h = rotation_matrix(160);
  for (const Format format : low_bit_formats()) {
    const RotatedLayer layer(format);
    for (const bool low_bit : {false, true}) {
      CAPTURE(quant::name(format), low_bit);
      const Tensor x = layer.x.clone().set_requires_grad(true), gradient = torch::zeros({140, 160});
      const Tensor y =
          learner::quantized_linear(x, {layer.weight, gradient}, {&layer.packed, low_bit, torch::kFloat32});
      y.backward(layer.d_y);
      const Tensor d_y = layer.d_y.to(torch::kFloat64);
      // The operands are the same numbers: what remains are fp32 sums of at most 257 products, and the butterflies.
      CHECK(test::off_by(y.detach(), torch::mm(layer.x_hat, layer.w_hat.t())) < 2e-6);
      CHECK(test::off_by(x.grad(), torch::mm(torch::mm(d_y, layer.w_hat), h)) < 2e-6);
      CHECK(test::off_by(gradient, torch::mm(d_y.t(), layer.x_hat)) < 2e-6);
      learner::Linear rotated_back;
      rotated_back.weight.gradient = gradient;
      rotated_back.quantized = &layer.packed;
      CHECK(learner::gathers_rotated(rotated_back));
      learner::rotate_gradient(rotated_back);
      CHECK(test::off_by(gradient, torch::mm(torch::mm(d_y.t(), layer.x_hat), h)) < 2e-6);
      // The gradient is that of the unrotated weights, up to the format's rounding.
      CHECK(test::off_by(gradient, torch::mm(d_y.t(), layer.x.to(torch::kFloat64))) < 0.06);
      CHECK(test::off_by(x.grad(), torch::mm(d_y, layer.weight.to(torch::kFloat64))) < 0.2);
    }
  }
}

TEST_CASE("rotated layer: int8 and fp8 backward passes quantize in the rotated basis") {
  const Tensor h = rotation_matrix(160);
  const auto passes = [&](Format format, LearnerBackward backward) {
    const RotatedLayer layer(format);
    const Tensor x = layer.x.clone().set_requires_grad(true), gradient = torch::zeros({140, 160});
    learner::quantized_linear(x, {layer.weight, gradient}, {&layer.packed, true, torch::kFloat32, backward})
        .backward(layer.d_y);
    return std::pair(x.grad(), gradient);
  };
  {
    const RotatedLayer layer(Format::int8);
    const auto [d_x, d_w] = passes(Format::int8, LearnerBackward::int8);
    const Tensor x_scales = rotated(layer.x).abs().amax(1, true) / 127,
                 w_scales = rotated(layer.weight).abs().amax(1, true) / 127;
    const Tensor for_x = test::codec_rows(layer.d_y * w_scales.t(), Format::int8);
    const Tensor for_w = test::codec_rows((layer.d_y * x_scales).t().contiguous(), Format::int8);
    // A ratio at a tie may round either way in fp32: one value in thousands.
    CHECK(test::off_by(d_x, torch::mm(torch::mm(for_x, layer.w_hat / w_scales.to(torch::kFloat64)), h)) < 1e-4);
    CHECK(test::off_by(d_w, torch::mm(for_w, layer.x_hat / x_scales.to(torch::kFloat64))) < 1e-4);
  }
  {
    const Format format = Format::fp8_block128;
    const RotatedLayer layer(format);
    const auto [d_x, d_w] = passes(format, LearnerBackward::fp8_e4m3);
    const Tensor x_columns = test::codec_rows(layer.x_hat.to(torch::kFloat32).t().contiguous(), format);
    CHECK(test::off_by(d_x, torch::mm(torch::mm(test::codec_rows(layer.d_y, format), layer.w_hat), h)) < 2e-6);
    CHECK(test::off_by(d_w, torch::mm(test::codec_rows(layer.d_y.t().contiguous(), format), x_columns.t())) < 2e-6);
  }
}

TEST_CASE("rotated layer: terms added to dX, as an adapter's, are added after it was rotated back") {
  const RotatedLayer layer(Format::int8);
  for (const LearnerBackward backward : {LearnerBackward::model_dtype, LearnerBackward::int8}) {
    const learner::Quantized how{&layer.packed, true, torch::kFloat32, backward};
    const Tensor alone = learner::quantized_input_gradient(layer.d_y, how);
    const Tensor with = learner::quantized_input_gradient(layer.d_y, how, [] {
      return [](base::Team&, base::Range rows, float* d_x) {
        for (std::int64_t i = 0; i < rows.size() * 160; ++i) d_x[i] += static_cast<float>(i % 160);
      };
    });
    CHECK((with - alone - torch::arange(160)).abs().max().item<float>() < 1e-4F);
  }
}

TEST_CASE("rotated learner: gradients are those of the unrotated weights") {
  const test::Named plain = rotated_gradients(Format::int8, {}, LearnerForward::bf16);
  const test::Named straight = rotated_gradients(Format::int8, {}, LearnerForward::low_bit);
  const double by_format = furthest(straight, plain);
  for (const LearnerForward forward : {LearnerForward::fake_quant, LearnerForward::low_bit}) {
    const test::Named on_rotated = rotated_gradients(Format::int8, kRotated, forward);
    CHECK(on_rotated != straight);
    // The error equals that of the format without a rotation; a gradient that is not rotated back has a relative error
    // of 1.
    CHECK(furthest(on_rotated, plain) < 1.5 * by_format);
  }
  CHECK(by_format < 0.4);
  CHECK(furthest(rotated_gradients(Format::int8, kRotated, LearnerForward::low_bit),
                 rotated_gradients(Format::int8, kRotated, LearnerForward::fake_quant)) < 2e-5);
  CHECK(furthest(rotated_gradients(Format::int8, kRotated, LearnerForward::low_bit, LearnerBackward::int8), plain) <
        1.5 * by_format);
  // Rows in e4m3 have a relative error of about 2.6 %; a layer's input gradient passes all layers after it.
  CHECK(furthest(rotated_gradients(Format::fp8_block128, kRotated, LearnerForward::low_bit, LearnerBackward::fp8_e4m3),
                 rotated_gradients(Format::fp8_block128, kRotated, LearnerForward::low_bit)) < 0.3);
  // A learner that does not read the sampler's matrices is independent of their rotation.
  CHECK(rotated_gradients(Format::int8, kRotated, LearnerForward::bf16) == plain);
}

TEST_CASE("adapters on a rotated base: gradients equal those on a plain base") {
  for (const Format format : {Format::int8, Format::int4}) {
    CAPTURE(quant::name(format));
    const test::Named plain = rotated_gradients(format, {}, LearnerForward::bf16, {}, 4);
    const test::Named with = rotated_gradients(format, kRotated, LearnerForward::low_bit, {}, 4);
    // The error equals that of the format without a rotation; a gradient that is not rotated back has a relative error
    // of 1.
    const double by_format = furthest(rotated_gradients(format, {}, LearnerForward::low_bit, {}, 4), plain);
    CHECK(furthest(with, plain) < 1.5 * by_format);
    CHECK(furthest(rotated_gradients(format, kRotated, LearnerForward::fake_quant, {}, 4), with) < 2e-2);
  }
}

TEST_CASE("rotated learner: two micro-batches sum to one, read between them or not, and updates rotate back") {
  const std::vector<types::MicroBatch> two = {test::pack({kFirst}), test::pack({kSecond})};
  const types::GlobalCounts counts = test::count(two);
  const auto run = [&](bool reads_between, const std::vector<types::MicroBatch>& batches) {
    RotatedLearner one(Format::int8, kRotated, LearnerForward::low_bit);
    for (const types::MicroBatch& batch : batches) {
      one.accumulate({batch}, counts);
      if (reads_between) (void)one.learner->state().gradients();
    }
    const test::Named gradients = test::gradients_of(*one.learner);
    double squares = 0;
    for (const auto& [name, values] : gradients)
      for (const float value : values) squares += static_cast<double>(value) * value;
    const double norm = one.learner->update().metrics.at("actor/grad_norm");
    CHECK(std::abs(norm - std::sqrt(squares)) < 1e-5 * norm);
    return std::pair(gradients, test::masters_of(*one.learner));
  };
  const auto [split, split_masters] = run(false, two);
  CHECK(furthest(run(false, {test::pack({kFirst, kSecond})}).first, split) < 1e-5);
  CHECK(furthest(run(true, two).first, split) < 1e-5);

  // Without a read of the gradients before the update, the update itself rotates them back.
  RotatedLearner unread(Format::int8, kRotated, LearnerForward::low_bit);
  unread.accumulate(two, counts);
  unread.learner->update();
  CHECK(test::masters_of(*unread.learner) == split_masters);
  // The next update begins with zero gradients.
  for (const auto& [name, values] : test::gradients_of(*unread.learner))
    CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value == 0; }));
}

TEST_CASE("rotated learner: ranks sum gradients as one rank, overlapped or not, with and without shards") {
  const model::ModelConfig config = test::in_blocks(test::tiny_config(false, true), kRotated);
  const std::vector<types::MicroBatch> batches = {test::pack({kFirst}), test::pack({kSecond})};
  const types::GlobalCounts counts = test::count(batches);
  const auto train = [&](int num_ranks, bool sharded, bool is_last) {
    std::vector<test::Named> masters(static_cast<std::size_t>(num_ranks));
    double norm = 0;
    test::Ranks(num_ranks).run([&](dist::Collectives& world) {
      learner::LearnerOptions options = test::options();
      options.numerics.forward = LearnerForward::low_bit;
      options.shard_optimizer = sharded;
      learner::Learner learner(config, test::tiny_weights(config), options, world);
      model::Snapshot snapshot(config, test::rotated_formats(Format::int8, kRotated));
      learner.publish(snapshot, 0);
      for (std::size_t i = 0; i < batches.size(); ++i) {
        if (num_ranks == 1 || static_cast<int>(i) == world.rank())
          learner.accumulate(batches[i], counts, test::policy_options(), {1.0F}, is_last && (num_ranks > 1 || i == 1));
      }
      const double mine = learner.update().metrics.at("actor/grad_norm");
      if (world.is_first()) norm = mine;
      masters[static_cast<std::size_t>(world.rank())] = test::masters_of(learner);
    });
    test::Named all;
    for (test::Named& mine : masters) all.merge(mine);
    return std::pair(all, norm);
  };
  const auto [want, norm] = train(1, false, false);
  for (const bool sharded : {false, true}) {
    for (const bool early : {false, true}) {
      CAPTURE(sharded, early);
      const auto [got, got_norm] = train(2, sharded, early);
      CHECK(furthest(got, want) < 1e-5);
      CHECK(std::abs(got_norm - norm) < 1e-5 * norm);
    }
  }
}
