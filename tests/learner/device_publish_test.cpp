// Tests publishes with a learner and a decoder on one device: they equal publishes through the host. The learner runs
// LibTorch's operations on the CPU; the decoder's kernels are emulated there.
#include "learner/device_sampler.h"
#include "learner/ranks.h"

namespace qrl {

using quant::Format;
using test::Learner;
using test::LearnerOptions;

namespace {

bool same(const std::vector<types::Completion>& a, const std::vector<types::Completion>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i)
    all = a[i].tokens == b[i].tokens && a[i].sampler_logprobs == b[i].sampler_logprobs;
  return all;
}

/// Records what a device would receive.
struct Recorder final : model::DeviceWeights {
  bool holds(const model::Snapshot&) const override { return true; }
  std::string rewrite(std::span<const model::DeviceMaster> masters) override {
    ++num_calls;
    for (const model::DeviceMaster& master : masters) written[master.weight] = test::copy(master.values);
    return {};
  }
  void finish(std::int64_t of) override { version = of; }
  void upload(const model::Snapshot&) override {}
  void dequantize(std::span<const model::DequantizedTensor>, void*) override {}
  model::DeviceTable table(const std::string&) override { return {}; }
  model::MatmulWorkspace matmul_workspace(const std::string&, std::int64_t) override { return {}; }
  void multiply(const float*, const model::MatmulInput&, void*, void*) override {}
  void dequantize_input(const model::MatmulInput&, const base::View&, void*) override {}
  void forward(const model::PackedSequences&, std::span<float* const>, void*) override {}
  void score(const float*, const model::TargetTokens&, std::span<float>, std::span<float>, void*) override {}
  test::Named written;
  int num_calls = 0;
  std::int64_t version = -1;
};

}  // namespace

TEST_CASE("device publish: equals a publish through the host") {
  const model::ModelConfig config = test::in_blocks(test::tiny_config(), {64});
  model::SnapshotFormats int8_head(Format::int8);
  int8_head.int8_lm_head = true;
  for (const model::SnapshotFormats& formats :
       {model::SnapshotFormats(Format::int8), int8_head, model::SnapshotFormats(Format::fp8_block128),
        model::SnapshotFormats(Format::int4), test::rotated_formats(Format::int8, {32}),
        test::rotated_formats(Format::int4_int8, {64}), test::rotated_formats(Format::fp8_tensor, {32}),
        test::rotated_formats(Format::fp8_block128, {64})}) {
    CAPTURE(formats.rotation.block);
    INFO(quant::name(formats.linear) << (formats.int8_lm_head ? ", lm_head in int8" : ""));
    const auto world = dist::make_solo();
    Learner learner(config, test::tiny_weights(config), test::device_options(), *world);
    test::DeviceSampler there(config, formats), through_host(config, formats);
    learner.publish(there.snapshot, 0, there.decoder.device_weights());
    CHECK(there.snapshot.layer(0).qkv.out > 0);  // the device holds nothing yet: through the host
    const auto before = there.draw();
    test::take_supervised_step(learner);
    learner.publish(there.snapshot, 1, there.decoder.device_weights());
    CHECK(there.snapshot.version() == 1);
    CHECK(learner.published() == &there.snapshot);
    CHECK_THROWS_WITH(there.snapshot.layer(0), Catch::Matchers::Contains("only on a device"));
    const auto got = there.draw();
    learner.publish(through_host.snapshot, 1);
    CHECK(same(got, through_host.draw()));
    CHECK_FALSE(same(got, before));
  }
}

TEST_CASE("fp8 KV calibration: runs on the device that alone holds the weights") {
  const model::ModelConfig config = test::tiny_config();
  const std::vector<std::vector<types::TokenId>> prompts = {{3, 1, 4, 1, 5}, {9, 2, 6}};
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), test::device_options(), *world);
  const auto make = [&] {
    return test::DeviceSampler(config, Format::int8, test::Products::rounded, base::Device::cpu,
                               quant::KvFormat::fp8_e4m3);
  };
  test::DeviceSampler there = make(), through_host = make();
  const auto draw = [&](test::DeviceSampler& sampler) {
    if (!sampler.decoder.reads(sampler.snapshot)) sampler.decoder.load(sampler.snapshot);
    sampler.decoder.calibrate_kv(prompts, {});
    return sampler.draw();
  };
  learner.publish(there.snapshot, 0, there.decoder.device_weights());
  const auto before = draw(there);
  const decoder::KvScales old = there.decoder.kv_scales();
  test::take_supervised_step(learner);
  learner.publish(there.snapshot, 1, there.decoder.device_weights());
  CHECK_THROWS(there.draw());  // scales of another version
  const auto got = draw(there);
  CHECK_THROWS_WITH(there.snapshot.layer(0), Catch::Matchers::Contains("only on a device"));
  CHECK(there.decoder.kv_scales().version == 1);
  CHECK(there.decoder.kv_scales().keys_LK != old.keys_LK);
  learner.publish(through_host.snapshot, 1);
  CHECK(same(got, draw(through_host)));
  CHECK_FALSE(same(got, before));
}

TEST_CASE("fake_quant on a device: reads the sampler's values, in every format") {
  const types::MicroBatch batch = test::pack({test::random_sequence(1, 3, 9, 37), test::random_sequence(2, 4, 7, 37)});
  for (int i = 1; i < quant::kNumFormats; ++i) {
    for (const auto compute : {learner::ComputeDType::bf16, learner::ComputeDType::f32}) {
      const auto format = static_cast<Format>(i);
      const model::ModelConfig config = test::tiny_config(true, false, i % 2 == 0);
      INFO(quant::name(format) << (compute == learner::ComputeDType::bf16 ? ", bf16" : ", fp32"));
      LearnerOptions options = test::device_options();
      options.numerics.compute = compute;
      options.numerics.forward = learner::LearnerForward::fake_quant;
      const auto world = dist::make_solo();
      Learner learner(config, test::tiny_weights(config), options, *world);
      test::DeviceSampler there(config, format);
      learner.publish(there.snapshot, 0, there.decoder.device_weights());
      (void)there.draw();
      test::take_supervised_step(learner);
      learner.publish(there.snapshot, 1, there.decoder.device_weights());
      const std::vector<float> got = learner.score(batch, {1.0F}).logprobs;
      CHECK_THROWS(there.snapshot.layer(0));
      model::Snapshot through_host(config, format);
      learner.publish(through_host, 1);
      CHECK((got == learner.score(batch, {1.0F}).logprobs));
    }
  }
}

TEST_CASE("sharded ranks on devices: each publishes all masters to its own device") {
  const model::ModelConfig config = test::tiny_config(true, true, false);
  LearnerOptions options = test::device_options();
  std::vector<Recorder> devices(3);
  const auto publish = [&](dist::Collectives& world, Recorder& device) {
    Learner learner(config, test::tiny_weights(config), options, world);
    test::take_supervised_step(learner);
    model::Snapshot snapshot(config, Format::int8);
    learner.publish(snapshot, 4, &device);
    CHECK(snapshot.version() == 4);
  };
  const auto solo = dist::make_solo();
  publish(*solo, devices[2]);
  options.shard_optimizer = true;
  test::Ranks(2).run(
      [&](dist::Collectives& world) { publish(world, devices[static_cast<std::size_t>(world.rank())]); });
  CHECK(devices[2].num_calls == 1);
  CHECK(devices[0].num_calls == config.num_hidden_layers + 3);  // layers; embedding and lm_head; gains
  CHECK((devices[0].written == devices[1].written));
  for (Recorder& device : devices) {
    CHECK(device.written.size() == model::weight_specs(config).size());
    CHECK(device.version == 4);
  }
  // Two ranks with the same micro-batch sum twice the gradient of one, which barely changes AdamW's step.
  std::string worst;
  CHECK(test::relative_difference(devices[0].written, devices[2].written, worst) <= 1e-2);
}

}  // namespace qrl
