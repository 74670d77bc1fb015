// Tests rollout.bitwise with learner and decoder on one device: the decoder's forward pass, LibTorch's gradients.
// Either the learner runs LibTorch's operations on the CPU and the decoder's kernels are emulated there, or both use a
// GPU.
#include <bit>
#include <cmath>
#include <cstdlib>

#include "learner/choices.h"
#include "learner/device_sampler.h"
#include "learner/tensors/cuda_library.h"
#include "rollout/rollout.h"

namespace qrl {

using learner::ComputeDType;
using quant::Format;
using quant::KvFormat;
using test::DeviceSampler;
using test::Learner;
using test::LearnerOptions;
using test::Named;
using test::Products;

namespace {

struct BitwiseCase {
  Format weights;
  KvFormat kv;
  float temperature;
  bool qk_norm, qkv_bias, o_bias;
  std::int64_t rank = 0;     ///< of adapters
  quant::Rotation rotation;  ///< the widths then fit it
  std::optional<model::Family> flags_of = {};
  float top_p = 1;
  std::int32_t top_k = -1;
  std::int64_t vocab_size = 37;
  bool int8_head = false;  ///< whether lm_head is int8

  ops::SampleParams drawn() const { return {temperature, top_p, top_k, 256}; }
};
constexpr BitwiseCase kBitwiseCases[] = {
    {Format::int8, KvFormat::int8, 1.0F, true, false, false},
    {Format::int8, KvFormat::bf16, 0.8F, false, true, true},
    {Format::bf16, KvFormat::bf16, 1.0F, true, false, false},
    {Format::fp8_channel, KvFormat::bf16, 1.3F, false, false, false},
    {Format::int4_int8, KvFormat::int8, 1.0F, true, true, false},
    {Format::int8, KvFormat::int8, 1.0F, true, true, false, 3},
    {Format::int4, KvFormat::bf16, 0.9F, true, false, false, 5},
    {Format::int8, KvFormat::int8, 1.0F, true, false, false, 0, {32}},
    {Format::fp8_block128, KvFormat::bf16, 1.0F, true, false, false, 0, {64}},
    {Format::int4, KvFormat::bf16, 0.9F, true, false, false, 5, {32}},
    {Format::int8, KvFormat::int8, 1.0F, true, false, false, 3, {128}},
    {Format::int8, KvFormat::bf16, 0.9F, false, true, false, 0, {64}, {}, 0.9F},
    {Format::int8, KvFormat::int8, 1.0F, true, false, false, 0, {32}, {}, 1.0F, -1, 37, true},
    {Format::int8, KvFormat::int8, 1.0F, true, false, false, 0, {}, model::Family::gemma3},
    {Format::int8, KvFormat::bf16, 1.0F, true, false, false, 3, {}, model::Family::gemma3},
    {Format::bf16, KvFormat::bf16, 0.8F, true, false, false, 0, {}, model::Family::olmo3},
    {Format::int8, KvFormat::int8, 1.0F, false, false, false, 0, {}, model::Family::granite},
    {Format::fp8_channel, KvFormat::bf16, 1.0F, false, false, false, 0, {}, model::Family::phi3},
    {Format::int8, KvFormat::bf16, 1.0F, false, false, false, 0, {}, model::Family::smollm3},
    {Format::int8, KvFormat::int8, 1.0F, true, false, false, 0, {}, {}, 0.9F},
    {Format::fp8_block128, KvFormat::bf16, 0.8F, true, false, false, 0, {}, {}, 0.9F, 20},
    {Format::int4, KvFormat::bf16, 1.3F, true, false, false, 3, {}, {}, 1.0F, 7},
    {Format::int8, KvFormat::bf16, 0.9F, false, true, false, 0, {}, {}, 0.8F, -1, 9000},  // several tiles of lm_head
    {Format::int8, KvFormat::int8, 1.0F, true, false, false, 0, {}, {}, 1.0F, -1, 37, true},
    {Format::fp8_block128, KvFormat::bf16, 1.0F, true, false, false, 0, {}, {}, 1.0F, -1, 37, true},
    {Format::int4, KvFormat::bf16, 0.9F, true, false, false, 0, {}, {}, 1.0F, -1, 37, true},
    {Format::int8, KvFormat::bf16, 0.8F, false, true, false, 0, {}, {}, 0.9F, -1, 37, true},
    {Format::fp8_channel, KvFormat::bf16, 1.0F, true, false, false, 0, {}, {}, 0.9F, -1, 37, true},
    {Format::int4, KvFormat::bf16, 0.9F, true, false, false, 3, {}, {}, 0.9F, 20, 9000, true},
};

LearnerOptions bitwise_options(KvFormat kv, base::Device device = base::Device::cpu) {
  LearnerOptions options = test::device_options(ComputeDType::bf16, device);
  options.numerics.forward = learner::LearnerForward::low_bit;
  options.numerics.bitwise = true;
  options.numerics.kv_format = kv;
  options.logprob_chunk_tokens = 13;
  return options;
}

/// Uses so few pages that sequences are preempted, and ticks so small that a micro-batch needs many.
decoder::DecoderOptions sampler_options(KvFormat kv) {
  decoder::DecoderOptions options;
  options.kv_format = kv;
  options.max_num_seqs = 6;
  options.max_num_batched_tokens = 11;
  options.page_size = 4;
  options.kv_pages = 30;
  options.max_model_len = 48;
  options.row_only_sums = true;
  return options;
}

/// Holds the learner's input from one draw: packed, with a group's prompt once.
struct BitwiseWork {
  std::vector<types::MicroBatch> batches;
  types::GlobalCounts counts;
};
BitwiseWork draw(decoder::Decoder& decoder, const ops::SampleParams& drawn_by, std::uint32_t round) {
  std::vector<std::vector<types::TokenId>> prompts;
  for (const std::int64_t length : {1, 6, 9, 21})
    prompts.push_back(test::random_sequence(8 * round + prompts.size(), length, 0, 37).tokens);
  std::vector<types::SampleRequest> requests;
  for (std::size_t p = 0; p < prompts.size(); ++p) requests.push_back({p, prompts[p], 0, 4});
  types::SamplingParams params;
  params.temperature = drawn_by.temperature;
  params.top_p = drawn_by.top_p;
  params.top_k = drawn_by.top_k;
  params.max_kept = drawn_by.max_kept;
  params.max_new_tokens = 17;
  const std::vector<types::Completion> drawn = decoder.complete(requests, params, {7, round});
  std::vector<rollout::PackItem> items;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    items.push_back(rollout::sampled_item(prompts[i / 4], drawn[i], i % 2 == 0 ? 1.0F : -1.0F));
  BitwiseWork work;
  work.batches = rollout::pack(items, 120);
  work.counts = rollout::count(work.batches);
  return work;
}

learner::LossOptions sampled_loss() {
  learner::LossOptions loss = test::policy_options();
  loss.at_sampling_weights = true;
  return loss;
}

/// Draws, scores, learns and publishes in each round. Returns the number of compared log-probs.
std::int64_t check_bitwise(const BitwiseCase& one, base::Device device, std::uint32_t num_rounds = 2) {
  CAPTURE(quant::name(one.weights), quant::name(one.kv));
  model::ModelConfig config = test::tiny_config(one.qk_norm, one.qkv_bias);
  config.o_bias = one.o_bias;
  config.vocab_size = one.vocab_size;
  if (one.rotation) config = test::in_blocks(config, one.rotation);
  if (one.flags_of) config = test::with_flags(config, *one.flags_of);
  const auto world = dist::make_solo();
  LearnerOptions options = bitwise_options(one.kv, device);
  options.numerics.own_lm_head = one.int8_head;
  options.lora.rank = one.rank;
  if (one.rank > 0) options.lora_initial = test::random_adapters();
  const model::Weights weights = test::tiny_weights(config);  // the base is read at the publish
  Learner learner(config, weights, options, *world);
  model::SnapshotFormats formats = test::rotated_formats(one.weights, one.rotation);
  formats.lora = options.lora;
  formats.int8_lm_head = one.int8_head;
  DeviceSampler sampler(config, formats, sampler_options(one.kv), Products::rounded, device);
  std::int64_t compared = 0, differ = 0;
  for (std::uint32_t round = 0; round < num_rounds; ++round) {
    sampler.publish(learner, round);
    const BitwiseWork work = draw(sampler.decoder, one.drawn(), round);
    REQUIRE(work.batches.size() > 1);
    for (const types::MicroBatch& batch : work.batches) {
      const learner::TokenScores scores = learner.score(batch, one.drawn());
      for (std::size_t t = 0; t < scores.logprobs.size(); ++t) {
        if (batch.loss_mask[t] == 0) continue;
        ++compared;
        differ +=
            std::bit_cast<std::uint32_t>(scores.logprobs[t]) == std::bit_cast<std::uint32_t>(batch.sampler_logprobs[t])
                ? 0
                : 1;
        const float most = std::log(static_cast<float>(one.vocab_size)) + 1e-5F;
        CHECK((scores.entropy[t] >= (one.drawn().cuts() ? 0 : 1e-9F) && scores.entropy[t] < most));
      }
      learner.accumulate(batch, work.counts, sampled_loss(), one.drawn());
    }
    REQUIRE(learner.update().finite);
  }
  CHECK(differ == 0);
  CHECK(sampler.decoder.stats().preemptions > 0);
  CHECK(sampler.decoder.stats().shared_prompt_tokens > 0);
  CHECK(sampler.decoder.stats().decode_graph_ticks > 0);
  return compared;
}

}  // namespace

TEST_CASE("bitwise on a device: all log-probs equal the sampler's bit for bit, for every schedule") {
  const bool all_rounds = std::getenv("QRL_LONG_TESTS") != nullptr;
  std::int64_t compared = 0;
  for (const BitwiseCase& one : kBitwiseCases)
    compared += check_bitwise(one, base::Device::cpu, all_rounds || &one == kBitwiseCases ? 2 : 1);
  CHECK(compared > 1'200);
}

TEST_CASE("bitwise on a GPU: all log-probs equal the sampler's bit for bit, for every schedule", "[gpu]") {
  const auto make = [] {
    (void)learner::load_cuda_library(0);  // before an engine
    const DeviceSampler sampler(test::tiny_config(), Format::int8, Products::rounded, base::Device::cuda);
    const auto world = dist::make_solo();
    const Learner learner(test::tiny_config(), test::tiny_weights(test::tiny_config()),
                          bitwise_options(KvFormat::int8, base::Device::cuda), *world);
  };
  if (!test::has_gpu(make)) return;
  for (const BitwiseCase& one : kBitwiseCases) check_bitwise(one, base::Device::cuda);
}

TEST_CASE("bitwise on a device: one log-prob that differs by a bit ends the update") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  Learner learner(config, test::tiny_weights(config), bitwise_options(KvFormat::int8), *world);
  DeviceSampler sampler(config, Format::int8, sampler_options(KvFormat::int8), Products::rounded, base::Device::cpu);
  sampler.publish(learner, 0);
  BitwiseWork work = draw(sampler.decoder, {1.0F}, 0);
  types::MicroBatch& batch = work.batches.front();
  std::size_t counted = 0;
  while (batch.loss_mask[counted] == 0) ++counted;
  batch.sampler_logprobs[counted] = std::nextafter(batch.sampler_logprobs[counted], 0.0F);
  CHECK_THROWS_WITH(learner.accumulate(batch, work.counts, sampled_loss(), {1.0F}),
                    Catch::Matchers::Contains("the sampler's log-probs, bit for bit"));
  // At another temperature the log-probs differ.
  CHECK_THROWS_WITH(learner.accumulate(work.batches.back(), work.counts, sampled_loss(), {0.9F}),
                    Catch::Matchers::Contains("tokens with different log-probs"));
  CHECK_THROWS_WITH(learner.score(batch, {1.0F, 0.9F}),
                    Catch::Matchers::Contains("the tokens that each target was sampled from"));
  test::add_kept(batch, 8, config.vocab_size);
  CHECK_NOTHROW(learner.score(batch, {1.0F, 0.9F}));
}

TEST_CASE("bitwise on a device: gradients equal low_bit's, which computes the same layers") {
  const model::ModelConfig config = test::tiny_config(true, true);
  const types::MicroBatch batch =
      test::pack_shared({test::random_sequence(1, 6, 9, 37), test::random_sequence(1, 6, 12, 37)});
  const auto gradients = [&](ComputeDType compute, KvFormat kv, bool bitwise, bool checkpointing = false) {
    LearnerOptions options = bitwise_options(kv);
    options.numerics.bitwise = bitwise;
    options.numerics.compute = compute;
    options.activation_checkpointing = checkpointing;
    const auto world = dist::make_solo();
    Learner learner(config, test::tiny_weights(config), options, *world);
    DeviceSampler sampler(config, Format::bf16, sampler_options(kv),
                          compute == ComputeDType::f32 ? Products::f32 : Products::rounded, base::Device::cpu);
    sampler.publish(learner, 0);
    learner.accumulate(batch, test::count({batch}), {learner::LossKind::sft, {}, {}}, {});
    return test::gradients_of(learner);
  };
  const auto apart = [](const Named& a, const Named& b) {
    std::string worst;
    return test::relative_difference(a, b, worst);
  };
  const Named exact = gradients(ComputeDType::f32, KvFormat::bf16, false);
  // The decoder rounds queries, keys, values and softmax weights to bf16, or to int8's 15 bits and codes. An activation
  // moved over a tie enters the next product as another bf16 number.
  const double with_bf16_pages = apart(gradients(ComputeDType::f32, KvFormat::bf16, true), exact);
  const double with_int8_pages = apart(gradients(ComputeDType::f32, KvFormat::int8, true), exact);
  const double rounded = apart(gradients(ComputeDType::bf16, KvFormat::bf16, true), exact);
  const double plain_rounded = apart(gradients(ComputeDType::bf16, KvFormat::bf16, false), exact);
  CAPTURE(with_bf16_pages, with_int8_pages, rounded, plain_rounded);
  CHECK(with_bf16_pages < 3e-2);
  CHECK(with_bf16_pages > 1e-6);
  CHECK(with_int8_pages < 6e-2);
  CHECK(with_int8_pages > with_bf16_pages);
  CHECK(rounded < 6e-2);
  CHECK(rounded <= 2 * plain_rounded);
  CHECK((gradients(ComputeDType::bf16, KvFormat::bf16, true, true) ==
         gradients(ComputeDType::bf16, KvFormat::bf16, true)));  // layers are recomputed in any case
}

}  // namespace qrl
