// Tests the learner on the sampler's tensors against the sampler's own forward pass.
#include <bit>
#include <cstdlib>

#include "decoder/cpu/teacher_forcing.h"
#include "decoder/decoder.h"
#include "learner/learner.h"
#include "learner/support.h"
#include "learner/torch_learner.h"
#include "ops/emulation/kernel_paths.h"
#include "ops/sample.h"
#include "rollout/rollout.h"

using namespace qrl;

namespace {

/// Returns the mean |difference| of log-probs, the learner's against the decoder's, over random tokens.
double gap(learner::LearnerForward forward, quant::Format format, quant::KvFormat kv = quant::KvFormat::f32) {
  model::ModelConfig config = test::tiny_config();
  learner::LearnerOptions options = test::options(learner::ComputeDType::bf16);
  options.numerics.forward = forward;
  options.numerics.kv_format = kv;
  decoder::ForcedLayout layout;
  layout.kv_format = kv;
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), options, *world);
  model::Snapshot snapshot(config, format);
  learner.publish(snapshot, 0);
  double total = 0;
  std::int64_t count = 0;
  for (std::uint64_t s = 0; s < 20; ++s) {
    const test::Sequence sequence = test::random_sequence(s, 4, 50, config.vocab_size);
    const std::vector<float> logits = decoder::forced_logits(snapshot, sequence.tokens, layout);
    const types::MicroBatch batch = test::pack({sequence});
    const std::vector<float> learned = learner.score(batch, {1.0F}).logprobs;
    for (std::size_t t = 3; t + 1 < sequence.tokens.size(); ++t, ++count) {
      const float* row = logits.data() + static_cast<std::int64_t>(t) * config.vocab_size;
      double sum = 0;
      for (std::int64_t v = 0; v < config.vocab_size; ++v) sum += std::exp(static_cast<double>(row[v]));
      const double drawn = static_cast<double>(row[sequence.tokens[t + 1]]) - std::log(sum);
      total += std::abs(static_cast<double>(learned[t]) - drawn);
    }
  }
  return total / static_cast<double>(count);
}

/// Holds the formats and options of a bitwise run.
struct BitwiseCase {
  quant::Format weights;
  quant::KvFormat kv;
  ops::SampleParams drawn;
  bool qk_norm, qkv_bias, o_bias;
  std::int64_t min_tokens;
  std::int64_t lora_rank = 0;
  quant::Rotation rotation = {};  ///< with one the model's widths are multiples of its block
  bool has_experts = false, norm_topk = true;
  std::optional<model::Family> flags_of = {};  ///< the model has this family's flags
  std::int64_t window = 0;                     ///< the length of the last layer's window; 0: none
  bool int8_head = false;                      ///< whether lm_head is int8
};
struct BitwiseLayout {
  decoder::DecoderOptions sampler;
  std::vector<std::int64_t> prompt_tokens;
  std::int32_t num_samples, max_new_tokens;
  std::int64_t max_tokens_per_micro_batch;
};

/// Samples until there are one.min_tokens, has the learner score them in packed batches, and requires equal bits. Also
/// requires preempted sequences and shared prompts. Returns the learner's log-probs. Both use `num_threads` threads; 0:
/// the caller's.
std::vector<float> check_bitwise(const BitwiseCase& one, BitwiseLayout layout, int num_threads = 0) {
  CAPTURE(quant::name(one.weights), quant::name(one.kv));
  model::ModelConfig config =
      one.has_experts ? test::tiny_moe_config(one.norm_topk) : test::tiny_config(one.qk_norm, one.qkv_bias);
  config.o_bias = one.o_bias;
  if (one.flags_of) config = test::with_flags(config, *one.flags_of);
  if (one.window > 0) {
    config.sliding_window = one.window;
    config.sliding_layers = {config.num_hidden_layers - 1};
  }
  config.max_position_embeddings = 512;
  if (one.rotation) {
    config.hidden_size = one.rotation.block;
    config.head_dim = one.rotation.block / 4;
    config.intermediate_size = 3 * one.rotation.block;
    config.moe_intermediate_size = one.rotation.block;
  }
  const bool is_f32 = one.weights == quant::Format::f32;
  learner::LearnerOptions options = test::options(is_f32 ? learner::ComputeDType::f32 : learner::ComputeDType::bf16);
  options.numerics.forward = learner::LearnerForward::low_bit;
  options.numerics.bitwise = true;
  options.numerics.kv_format = one.kv;
  options.numerics.own_lm_head = one.int8_head;
  options.num_threads = layout.sampler.num_threads = num_threads;
  options.lora.rank = one.lora_rank;
  if (one.has_experts) options.lora.target_modules = {"q_proj", "k_proj", "v_proj", "o_proj"};
  if (one.lora_rank > 0) options.lora_initial = test::random_adapters();
  const auto world = dist::make_solo();
  const model::Weights weights = test::tiny_weights(config);
  learner::Learner learner(config, weights, options, *world);
  model::SnapshotFormats formats(one.weights);
  formats.lora = options.lora;
  formats.rotation = one.rotation;
  formats.int8_lm_head = one.int8_head;
  model::Snapshot snapshot(config, formats);
  learner.publish(snapshot, 0);
  layout.sampler.kv_format = one.kv;
  decoder::Decoder decoder(config, layout.sampler);
  decoder.load(snapshot);

  const auto num_samples = static_cast<std::size_t>(layout.num_samples);
  const types::SamplingParams params{
      one.drawn.temperature, one.drawn.top_p, one.drawn.top_k, layout.max_new_tokens, {}, {}, 256, one.has_experts};
  std::int64_t compared = 0, differ = 0, other_routes = 0;
  std::vector<float> all_learned;
  for (std::uint32_t round = 0; compared < one.min_tokens; ++round) {
    std::vector<std::vector<types::TokenId>> prompts;
    for (const std::int64_t length : layout.prompt_tokens)
      prompts.push_back(
          test::random_sequence(round * layout.prompt_tokens.size() + prompts.size(), length, 0, 37).tokens);
    std::vector<types::SampleRequest> requests;
    for (std::size_t p = 0; p < prompts.size(); ++p) requests.push_back({p, prompts[p], 0, layout.num_samples});
    const std::vector<types::Completion> drawn = decoder.complete(requests, params, {7, round});
    std::vector<rollout::PackItem> items;
    for (std::size_t i = 0; i < drawn.size(); ++i)
      items.push_back(rollout::sampled_item(prompts[i / num_samples], drawn[i], 1.0F));
    for (const types::MicroBatch& batch : rollout::pack(items, layout.max_tokens_per_micro_batch)) {
      const learner::TokenScores scores = learner.score(batch, one.drawn);
      const std::vector<float>& learned = scores.logprobs;
      REQUIRE(scores.routes.num_tokens() == (one.has_experts ? batch.num_tokens() : 0));
      for (std::size_t t = 0; t < learned.size(); ++t) {
        if (one.has_experts && batch.loss_mask[t] != 0)
          other_routes += std::ranges::equal(scores.routes.of_token(t), batch.sampler_routes.of_token(t)) ? 0 : 1;
        if (batch.loss_mask[t] == 0) continue;
        ++compared;
        all_learned.push_back(learned[t]);
        differ +=
            std::bit_cast<std::uint32_t>(learned[t]) == std::bit_cast<std::uint32_t>(batch.sampler_logprobs[t]) ? 0 : 1;
      }
    }
  }
  CHECK(differ == 0);
  CHECK(other_routes == 0);
  CHECK(decoder.stats().preemptions > 0);
  CHECK(decoder.stats().shared_prompt_tokens > 0);
  return all_learned;
}

/// Prompts of every length, prefilled in chunks and shared by their group, on pages of an odd size that run out.
BitwiseLayout short_pages() {
  BitwiseLayout layout{.sampler = {.max_num_seqs = 48,
                                   .max_num_batched_tokens = 50,
                                   .page_size = 5,
                                   .kv_pages = 400,
                                   .max_model_len = 120},
                       .prompt_tokens = {},
                       .num_samples = 8,
                       .max_new_tokens = 80,
                       .max_tokens_per_micro_batch = 1500};
  for (std::int64_t p = 0; p < 12; ++p) layout.prompt_tokens.push_back(3 + 3 * p);
  return layout;
}

}  // namespace

TEST_CASE("learner on the sampler's tensors: log-probs equal the sampler's, except codes near a tie") {
  using learner::LearnerForward;
  // Sums of another order move a value across a rounding boundary now and then: rarely in bf16, a code in int8.
  CHECK(gap(LearnerForward::low_bit, quant::Format::bf16) < 1e-5);
  const double low_bit = gap(LearnerForward::low_bit, quant::Format::int8);
  CHECK(low_bit < 2e-4);
  CHECK(gap(LearnerForward::bf16, quant::Format::int8) > 50 * low_bit);
  const double with_bf16_pages = gap(LearnerForward::low_bit, quant::Format::bf16, quant::KvFormat::bf16);
  CAPTURE(with_bf16_pages);
  CHECK(with_bf16_pages < 1e-4);
  // Decoded operands are rounded to bf16, which is as coarse as int8.
  CHECK(gap(LearnerForward::fake_quant, quant::Format::int8) < gap(LearnerForward::bf16, quant::Format::int8));
}

TEST_CASE("log-probs after top-k and top-p: both sides renormalize over the kept tokens") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  learner::Learner learner(config, test::tiny_weights(config), test::options(), *world);
  model::Snapshot snapshot(config, quant::Format::f32);
  learner.publish(snapshot, 0);
  for (const ops::SampleParams& params :
       {ops::SampleParams{0.7F, 0.6F, -1, 256}, ops::SampleParams{1.0F, 1.0F, 3, 256},
        ops::SampleParams{1.3F, 0.8F, 5, 4}, ops::SampleParams{1.0F, 1.0F, -1, 256}}) {
    CAPTURE(params.temperature, params.top_p, params.top_k);
    const test::Sequence sequence = test::random_sequence(1, 4, 50, config.vocab_size);
    const std::vector<float> logits = decoder::forced_logits(snapshot, sequence.tokens);
    types::MicroBatch batch = test::pack({sequence});
    std::vector<float> drawn(batch.tokens.size());
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      const double uniform = static_cast<double>(t * 37 % 53) / 53;
      const ops::SampledToken draw = ops::sample(logits.data() + t * 37, config.vocab_size, params, uniform);
      batch.targets[t] = draw.token;
      drawn[t] = draw.logprob;
      if (params.cuts()) batch.kept.add(draw.kept);
    }
    const std::vector<float> learned = learner.score(batch, params).logprobs;
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      if (batch.loss_mask[t] != 0) CHECK(std::abs(learned[t] - drawn[t]) < 2e-5F);
    }
  }
}

TEST_CASE("kept tokens: any policy has total probability 1 on them, by enumeration") {
  const model::ModelConfig config = test::tiny_config();
  const auto world = dist::make_solo();
  learner::Learner sampler(config, test::tiny_weights(config), test::options(), *world);
  model::Snapshot snapshot(config, quant::Format::f32);
  sampler.publish(snapshot, 0);
  test::LearnerOptions of_torch = test::options();
  of_torch.torch_ops = true;
  const ops::SampleParams params{1.0F, 0.9F, -1, 256};
  const test::Sequence sequence = test::random_sequence(1, 4, 20, config.vocab_size);
  const std::vector<float> logits = decoder::forced_logits(snapshot, sequence.tokens);
  for (const test::LearnerOptions& options : {test::LearnerOptions(test::options()), of_torch}) {
    test::Learner policy(config, test::tiny_weights(config, 2), options, *world);
    model::Snapshot own(config, quant::Format::f32);
    policy.publish(own, 0);
    const types::MicroBatch batch = test::pack({sequence});
    std::vector<double> mean_ratio(batch.tokens.size(), 0.0);
    bool differs = false;
    for (std::int32_t token = 0; token < config.vocab_size; ++token) {
      types::MicroBatch one = batch;
      std::vector<double> mu(batch.tokens.size(), 0.0);
      for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
        const float* row = logits.data() + static_cast<std::int64_t>(t) * config.vocab_size;
        const std::vector<std::int32_t> kept = ops::sample(row, config.vocab_size, params, 0.5).kept;
        const bool drawable = std::ranges::binary_search(kept, token);
        one.targets[t] = drawable ? token : kept.front();
        one.kept.add(kept);
        if (drawable) mu[t] = std::exp(static_cast<double>(ops::logprob(row, config.vocab_size, 1.0F, token, kept)));
      }
      const std::vector<float> learned = policy.score(one, params).logprobs;
      for (std::size_t t = 0; t < mu.size(); ++t) {
        if (mu[t] == 0 || batch.loss_mask[t] == 0) continue;
        const double ratio = std::exp(static_cast<double>(learned[t]) - std::log(mu[t]));
        differs = differs || std::abs(ratio - 1) > 0.1;
        mean_ratio[t] += mu[t] * ratio;
      }
    }
    CHECK(differs);
    for (std::size_t t = 0; t < mean_ratio.size(); ++t)
      if (batch.loss_mask[t] != 0) CHECK(test::close(mean_ratio[t], 1.0, 2e-6, 0));  // fp32 log-probs
    CHECK_THROWS_AS(policy.score(batch, params), base::Error);                       // without the sets
  }
}

TEST_CASE("bitwise: with an lm_head of int8, alone and with top-p, log-probs equal the sampler's bit for bit") {
  for (const float top_p : {1.0F, 0.8F}) {
    for (const quant::Format weights : {quant::Format::int8, quant::Format::fp8_block128, quant::Format::int4}) {
      BitwiseCase one{weights, quant::KvFormat::int8, {0.9F, top_p, -1}, true, false, false, 1'500};
      one.int8_head = true;
      one.lora_rank = weights == quant::Format::int4 ? 3 : 0;
      check_bitwise(one, short_pages());
    }
  }
}

TEST_CASE("bitwise: all log-probs of 10⁵ tokens equal the sampler's bit for bit") {
  const BitwiseCase cases[] = {
      {quant::Format::int8, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, 100'000},
      {quant::Format::int8, quant::KvFormat::bf16, {0.8F, 1.0F, -1}, false, true, false, 4'000},
      {quant::Format::bf16, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, false, false, false, 4'000},
      {quant::Format::fp8_block128, quant::KvFormat::int8, {1.0F, 0.9F, -1}, true, false, false, 4'000},
      {quant::Format::int4_int8, quant::KvFormat::f32, {1.2F, 1.0F, 9}, true, false, false, 4'000},
      {quant::Format::int8, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, true, true, 4'000},
  };
  for (const BitwiseCase& one : cases) check_bitwise(one, short_pages());
}

TEST_CASE("bitwise: every family's flags keep the sampler's bits in low-bit formats, with and without adapters") {
  using model::Family;
  const auto flags_of = [](Family family, quant::Format weights, quant::KvFormat kv, std::int64_t lora_rank) {
    return BitwiseCase{weights, kv, {0.8F, 1.0F, -1}, true, false, false, 1'000, lora_rank, {}, false, true, family};
  };
  std::vector<BitwiseCase> cases;
  for (const Family family : {Family::mistral, Family::granite, Family::smollm3, Family::olmo2, Family::phi3,
                              Family::gemma3, Family::olmo3, Family::qwen3_5}) {
    cases.push_back(flags_of(family, quant::Format::int8, quant::KvFormat::int8, 0));
    cases.push_back(flags_of(family, quant::Format::bf16, quant::KvFormat::bf16, 5));
    cases.push_back(flags_of(family, quant::Format::int4, quant::KvFormat::bf16, 5));
    cases.push_back(flags_of(family, quant::Format::fp8_block128, quant::KvFormat::int8, 0));
    cases.push_back(flags_of(family, quant::Format::int8, quant::KvFormat::bf16, 0));
    cases.back().rotation = {32};
  }
  for (const quant::KvFormat kv : {quant::KvFormat::int8, quant::KvFormat::bf16}) {
    cases.push_back(flags_of(Family::mistral, quant::Format::int8, kv, 0));
    cases.back().window = 5;
  }
  const std::vector<test::KernelPath> paths = test::kernel_paths();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const test::KernelPath& path = paths[i % paths.size()];
    CAPTURE(static_cast<int>(*cases[i].flags_of), path.name());
    const test::WithPath in_use(path);
    check_bitwise(cases[i], short_pages());
  }
}

TEST_CASE("bitwise with rotated inputs: equal bits in any format, with and without adapters, on any path") {
  const BitwiseCase cases[] = {
      {quant::Format::int8, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, true, false, false, 1'000, 0, {64}},
      {quant::Format::int8, quant::KvFormat::int8, {0.8F, 1.0F, -1}, false, true, true, 1'000, 5, {32}},
      {quant::Format::int4, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, true, false, false, 1'000, 5, {32}},
      {quant::Format::int4_int8, quant::KvFormat::f32, {1.0F, 1.0F, -1}, false, false, false, 1'000, 0, {128}},
      {quant::Format::int4_fp8, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, false, false, false, 1'000, 0, {32}},
      {quant::Format::fp8_channel, quant::KvFormat::bf16, {1.0F, 0.9F, -1}, true, false, false, 1'000, 0, {64}},
      {quant::Format::fp8_block128, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, 1'000, 0, {128}},
      {quant::Format::fp8_tensor, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, true, false, false, 1'000, 0, {32}},
  };
  // Runs each case on one path, round-robin, unless QRL_LONG_TESTS is set.
  const bool all = std::getenv("QRL_LONG_TESTS") != nullptr;
  const std::vector<test::KernelPath> paths = test::kernel_paths();
  for (std::size_t p = 0; p < paths.size(); ++p) {
    CAPTURE(paths[p].name());
    const test::WithPath in_use(paths[p]);
    for (std::size_t i = 0; i < std::size(cases); ++i)
      if (all || i % paths.size() == p) check_bitwise(cases[i], short_pages());
  }
}

TEST_CASE("bitwise adapters on AMX tiles: equal bits on real and emulated tiles, for any number of threads") {
  const std::vector<test::KernelPath> paths = test::tile_paths();
  if (paths.empty()) return test::skip("this processor has neither tiles nor the AVX-512 that emulates them");
  const BitwiseCase cases[] = {
      {quant::Format::int8, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, 1'000, 5},
      {quant::Format::bf16, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, false, true, false, 1'000, 5},
      {quant::Format::int4, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, 1'000, 20},
  };
  for (const BitwiseCase& one : cases) {
    std::vector<std::vector<float>> learned;
    for (const test::KernelPath& path : paths) {
      CAPTURE(path.name());
      const test::WithPath in_use(path);
      for (const int num_threads : {1, 3}) learned.push_back(check_bitwise(one, short_pages(), num_threads));
    }
    for (const std::vector<float>& other : learned) CHECK(other == learned.front());
  }
}

TEST_CASE("bitwise with joined spans and shared pages: equal bits") {
  // Spans have 128 positions. Prompts are one to two spans long, on pages of the usual size, and samples continue into
  // the next spans. The learner's packed batches group rows differently, over other numbers of spans.
  const std::int64_t min_tokens = std::getenv("QRL_LONG_TESTS") != nullptr ? 30'000 : 4'000;
  const BitwiseCase cases[] = {
      {quant::Format::int8, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, min_tokens},
      {quant::Format::bf16, quant::KvFormat::bf16, {1.0F, 1.0F, -1}, false, true, false, min_tokens},
      {quant::Format::int8, quant::KvFormat::f32, {1.0F, 1.0F, -1}, false, false, false, min_tokens},
      {.weights = quant::Format::int8, .kv = quant::KvFormat::int8, .min_tokens = min_tokens, .window = 150},
  };
  const BitwiseLayout layout{.sampler = {.max_num_seqs = 12,
                                         .max_num_batched_tokens = 50,
                                         .page_size = 16,
                                         .kv_pages = 140,
                                         .max_model_len = 450},
                             .prompt_tokens = {140, 190, 257, 300},
                             .num_samples = 4,
                             .max_new_tokens = 150,
                             .max_tokens_per_micro_batch = 1500};
  for (const BitwiseCase& one : cases) check_bitwise(one, layout);
}

TEST_CASE("bitwise: gradients equal those of packed attention, within the rounding of int8 keys and values") {
  const auto gradients = [](bool bitwise, quant::KvFormat kv) {
    const model::ModelConfig config = test::tiny_config();
    learner::LearnerOptions options = test::options();
    options.numerics.forward = learner::LearnerForward::low_bit;
    options.numerics.bitwise = bitwise;
    options.numerics.kv_format = kv;
    const auto world = dist::make_solo();
    learner::Learner learner(config, test::tiny_weights(config), options, *world);
    model::Snapshot snapshot(config, quant::Format::f32);
    learner.publish(snapshot, 0);
    const types::MicroBatch batch =
        test::pack_shared({test::random_sequence(1, 18, 20, 37), test::random_sequence(1, 18, 25, 37)});
    learner.accumulate(batch, test::count({batch}), {learner::LossKind::sft, {}, {}}, {});
    return test::gradients_of(learner);
  };
  std::string worst;
  const test::Named plain = gradients(false, quant::KvFormat::f32);
  CHECK(test::relative_difference(gradients(true, quant::KvFormat::f32), plain, worst) < 1e-5);
  const double low = test::relative_difference(gradients(true, quant::KvFormat::int8), plain, worst);
  CHECK(low < 0.05);
  CHECK(low > 1e-5);
}

TEST_CASE("bitwise MoE: the learner's log-probs equal the sampler's in every format") {
  std::vector<BitwiseCase> cases;
  for (int i = 0; i < quant::kNumFormats; ++i) {
    const quant::KvFormat kv = i % 2 == 0 ? quant::KvFormat::int8 : quant::KvFormat::bf16;
    cases.push_back({static_cast<quant::Format>(i), kv, {1.0F, 1.0F, -1}, true, false, false, 1'000});
    cases.back().norm_topk = i % 3 != 0;
  }
  // Adapters of attention beside experts, and rotated inputs of both.
  cases.push_back({quant::Format::int8, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, 1'000, 3});
  cases.push_back({quant::Format::int4, quant::KvFormat::int8, {1.0F, 1.0F, -1}, true, false, false, 1'000, 0, {32}});
  BitwiseLayout layout = short_pages();
  layout.num_samples = 4;
  for (BitwiseCase& one : cases) {
    one.has_experts = true;
    (void)check_bitwise(one, layout);
  }
}
