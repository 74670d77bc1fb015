// Tests ticks as graphs: a launch repeats the recorded work, and no varying value stays in it.
#include <set>

#include "cuda/engine/tick_memory.h"
#include "engine_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;
using decoder::Decoder;

/// Records a decoder and its engine's work.
struct Traced {
  Traced(const model::ModelConfig& config, DecoderOptions options, bool enforce_eager) {
    options.enforce_eager = enforce_eager;
    auto made = make_engine(config, options);
    engine = made.get();
    decoder =
        std::make_unique<Decoder>(config, options, decoder::make_device_backend(config, options, std::move(made)));
  }
  const cuda::EngineStats& stats() const { return engine->stats(); }
  cuda::DecodeEngine* engine;
  std::unique_ptr<Decoder> decoder;
};

model::ModelConfig one_layer() {
  model::ModelConfig config = decoder::test::tiny_config();
  config.num_hidden_layers = 1;
  return config;
}

std::vector<types::SampleRequest> requests_of(const std::vector<std::vector<types::TokenId>>& prompts,
                                              int num_samples) {
  std::vector<types::SampleRequest> requests;
  for (std::size_t i = 0; i < prompts.size(); ++i) requests.push_back({i + 5, prompts[i], 0, num_samples});
  return requests;
}

void check_same(const std::vector<types::Completion>& got, const std::vector<types::Completion>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("completion " << i);
    CHECK(got[i].tokens == want[i].tokens);
    CHECK(got[i].sampler_logprobs == want[i].sampler_logprobs);
    CHECK(got[i].kept == want[i].kept);
  }
}

}  // namespace

TEST_CASE("CUDA graphs: tokens equal single launches bit for bit, in every format, also after publish in place") {
  if (!find_device()) return;
  const model::ModelConfig config = one_layer();
  const model::Weights first = decoder::test::tiny_weights(config), second = decoder::test::tiny_weights(config, 2);
  const std::vector<std::vector<types::TokenId>> prompts = {random_tokens(1, 1), random_tokens(9, 2)};
  const std::vector<types::SampleRequest> requests = requests_of(prompts, 4);
  const std::pair<Format, KvFormat> formats[] = {{Format::bf16, KvFormat::bf16},
                                                 {Format::int8, KvFormat::int8},
                                                 {Format::fp8_channel, KvFormat::fp8_e4m3},
                                                 {Format::fp8_block128, KvFormat::bf16},
                                                 {Format::int4, KvFormat::bf16}};
  for (const auto& each : formats) {
    const Format format = each.first;
    const KvFormat kv_format = each.second;
    INFO(quant::name(format) << " with " << quant::name(kv_format) << " keys and values");
    std::vector<std::vector<types::Completion>> sampled[2];
    for (const bool eager : {true, false}) {
      const auto snapshot = decoder::test::publish(config, first, format);
      // The pages do not suffice for all: sequences are preempted, and others start while some continue.
      Traced traced(config, options_of(kv_format, 17), eager);
      const auto load = [&](std::int64_t version) {
        traced.decoder->load(*snapshot);
        if (kv_format != KvFormat::fp8_e4m3) return;
        const std::vector<float> scales(static_cast<std::size_t>(config.num_key_value_heads),
                                        version == 0 ? 0.1F : 0.2F);
        traced.decoder->set_kv_scales({version, scales, scales});
      };
      load(0);
      types::SamplingParams params = sampling();
      params.stop_tokens = {3, 11, 40};
      params.max_new_tokens = 16;
      const auto sample = [&](float temperature, std::uint32_t step) {
        params.temperature = temperature;
        sampled[eager].push_back(traced.decoder->complete(requests, params, {7, step}));
      };
      sample(1, 0);
      sample(0.5F, 1);
      snapshot->publish(model::views(second), 1);
      load(1);
      sample(1, 2);
      sample(0, 3);
      CHECK(traced.stats().num_graphs == (eager ? 0 : 1));
      params.top_p = 0.8F;
      params.max_kept = 256;
      sample(1, 4);
      CHECK(sampled[eager].back().front().kept.num_ids() > 0);
      CHECK(traced.decoder->stats().preemptions > 0);
      CHECK(traced.stats().num_graphs == (eager ? 0 : 2));
      CHECK((traced.stats().graph_ticks > 0) == !eager);
      CHECK(traced.decoder->stats().decode_graph_ticks <= traced.stats().graph_ticks);
      if (!eager) CHECK(traced.stats().graph_ticks * 2 > traced.decoder->stats().ticks);
    }
    for (std::size_t i = 0; i < sampled[0].size(); ++i) check_same(sampled[0][i], sampled[1][i]);
    CHECK(sampled[0][0][0].tokens != sampled[0][2][0].tokens);
  }
}

TEST_CASE("CUDA graphs: sequences grow beyond an attention chunk, with shared prompts and splits") {
  if (!find_device()) return;
  const model::ModelConfig config = one_layer();
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  // The prompts share 258 positions, of which samples share a chunk (large tiles, split). One grows beyond 256 after
  // the others' graph exists.
  const std::vector<std::vector<types::TokenId>> prompts = {random_tokens(258, 1), random_tokens(250, 2)};
  std::vector<types::SampleRequest> requests = requests_of(prompts, 1);
  requests[0].num_samples = 4;
  std::vector<types::Completion> sampled[2];
  for (const bool eager : {true, false}) {
    DecoderOptions options = options_of(KvFormat::int8, 400);
    options.max_num_batched_tokens = 64;
    options.max_model_len = 300;
    Traced traced(config, options, eager);
    traced.decoder->load(*snapshot);
    types::SamplingParams params = sampling();
    params.stop_tokens = {};
    params.max_new_tokens = 16;
    sampled[eager] = traced.decoder->complete(requests, params, {7, 0});
    if (!eager) CHECK(traced.stats().graph_ticks >= 10);
    CHECK(traced.stats().num_graphs <= 3);
  }
  check_same(sampled[0], sampled[1]);
}

TEST_CASE("overlapped ticks: a tick launched early samples the tokens of one launched after the previous") {
  if (!find_device()) return;
  const model::ModelConfig config = one_layer();
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  constexpr std::size_t kRows = 3;
  constexpr std::int32_t kTicks = 7;
  // Two sequences' rows, and one whose rows do not sample in ticks that are launched kernel by kernel.
  std::vector<std::vector<std::pair<std::int32_t, float>>> sampled[2];
  for (const bool ahead : {false, true}) {
    INFO((ahead ? "ahead" : "one after the other"));
    std::unique_ptr<cuda::DecodeEngine> made = make_engine(config, options_of(KvFormat::int8));
    cuda::DecodeEngine& engine = *made;
    const auto backend = decoder::make_device_backend(config, options_of(KvFormat::int8), std::move(made));
    backend->load(*snapshot);
    backend->begin();
    const std::vector<std::int32_t> first_pages = {0, 5, 10};
    std::vector<std::int32_t> page_ids;
    for (std::int32_t i = 0; i < 15; ++i) page_ids.push_back(20 - i);
    std::vector<std::int32_t> tokens = {3, 14, 15};
    const auto start = [&](std::int32_t tick) {
      const std::vector<std::int32_t> positions(kRows, tick);
      const std::size_t num_samples = tick == 2 || tick == 5 ? 2 : kRows;
      const std::vector<std::int32_t> rows =
          num_samples == kRows ? std::vector<std::int32_t>{0, 1, 2} : std::vector<std::int32_t>{0, 2};
      const std::vector<double> uniforms(num_samples, 0.1 + 0.1 * tick);
      const std::vector<float> temperatures(num_samples, 1.0F);
      engine.start({tokens, positions, first_pages, page_ids, {}}, {rows, uniforms, temperatures});
      return num_samples;
    };
    const auto finish = [&](std::size_t num_samples) {
      std::vector<cuda::SampledToken> got(num_samples);
      engine.finish(got);
      auto& of_tick = sampled[ahead].emplace_back();
      for (const cuda::SampledToken& each : got) of_tick.emplace_back(each.token, each.logprob);
    };
    // Where row 1 did not sample, it continues with its own token.
    std::size_t num_samples = start(0);
    for (std::int32_t tick = 1; tick < kTicks; ++tick) {
      if (!ahead) finish(num_samples);
      const auto token = [&](std::int32_t sample) {
        return ahead ? -1 - sample : sampled[ahead].back()[static_cast<std::size_t>(sample)].first;
      };
      tokens = num_samples == kRows ? std::vector<std::int32_t>{token(0), token(1), token(2)}
                                    : std::vector<std::int32_t>{token(0), 9, token(1)};
      const std::size_t next_samples = start(tick);
      if (ahead) {
        if (tick == 1) CHECK_THROWS_WITH(start(2), Catch::Matchers::Contains("at most one running tick"));
        finish(num_samples);
      }
      num_samples = next_samples;
    }
    CHECK_THROWS_WITH(finish(num_samples + 1), Catch::Matchers::Contains("room for"));
    finish(num_samples);
    CHECK_THROWS_WITH(finish(num_samples), Catch::Matchers::Contains("a tick that was started"));
    CHECK(engine.stats().graph_ticks > 0);
    // The last tick has three samples, so a fourth does not exist.
    tokens = {-1, -2, -4};
    CHECK_THROWS_WITH(start(kTicks), Catch::Matchers::Contains("a token in"));
  }
  REQUIRE(sampled[0].size() == static_cast<std::size_t>(kTicks));
  CHECK(sampled[0] == sampled[1]);
  CHECK(std::set(sampled[0].begin(), sampled[0].end()).size() == sampled[0].size());
}

TEST_CASE("CUDA graphs: one per padded tick size, recorded again only after KV memory was released") {
  if (!find_device()) return;
  const model::ModelConfig config = one_layer();
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  const std::vector<std::vector<types::TokenId>> prompts = {random_tokens(2, 1), random_tokens(3, 2)};
  const std::vector<types::SampleRequest> requests = requests_of(prompts, 10);
  DecoderOptions options = options_of(KvFormat::int8, 200);
  options.max_num_seqs = 20;
  options.max_num_batched_tokens = 24;
  Traced traced(config, options, false);
  traced.decoder->load(*snapshot);
  types::SamplingParams params = sampling();
  params.stop_tokens = {3, 11, 19, 25, 40, 51, 60};
  params.max_new_tokens = 14;
  const auto sample = [&] { return traced.decoder->complete(requests, params, {7, 2}); };
  const auto want = sample();
  std::set<std::size_t> lengths;
  for (const types::Completion& completion : want) lengths.insert(completion.tokens.size());
  CHECK(lengths.size() > 5);  // ticks had many different numbers of rows
  check_same(sample(), want);
  const std::int64_t num_graphs = traced.stats().num_graphs;
  CHECK(num_graphs >= 2);
  CHECK(num_graphs <= 3);  // of 8, 16 and 24 rows
  traced.decoder->reset_stats();
  check_same(sample(), want);
  CHECK(traced.stats().num_graphs == num_graphs);
  // No tick was the first of its kind in this round.
  CHECK(traced.decoder->stats().decode_graph_ticks == traced.decoder->stats().decode_ticks);
  traced.decoder->release_kv();
  check_same(sample(), want);
  CHECK(traced.stats().num_graphs > num_graphs);
  CHECK(traced.stats().num_graphs <= 2 * num_graphs);
}

TEST_CASE("tick shapes: few in number, with arrays that stay in place while sequences grow") {
  if (!find_device()) return;
  cuda::EngineOptions options;
  options.model.num_attention_heads = 4;
  options.model.num_key_value_heads = 2;
  options.model.head_dim = 16;
  options.max_rows = 12;
  options.max_sequences = 20;
  options.max_positions = 1000;
  options.page_size = 4;
  target::TickMemory memory(options);
  CHECK(memory.max_rows() == 16);
  const target::Stream stream;
  const auto send = [&](std::int32_t position, std::size_t num_rows, std::size_t num_samples) {
    std::vector<std::int32_t> first_pages, page_ids, rows;
    for (std::size_t row = 0; row < num_rows; ++row) {
      first_pages.push_back(static_cast<std::int32_t>(page_ids.size()));
      if (row < num_samples) rows.push_back(static_cast<std::int32_t>(row));
      for (std::int32_t i = 0; i <= position / 4; ++i) page_ids.push_back(static_cast<std::int32_t>(page_ids.size()));
    }
    const std::vector<std::int32_t> tokens(num_rows, 1), positions(num_rows, position);
    const std::vector<double> uniforms(num_samples, 0.5);
    const std::vector<float> temperatures(num_samples, 1.0F);
    const target::TickArrays arrays =
        memory.send({tokens, positions, first_pages, page_ids, {}}, {rows, uniforms, temperatures}, stream);
    stream.wait();
    return arrays;
  };
  const auto addresses = [](const target::TickArrays& of) {
    return std::vector<const void*>{
        of.tokens,          of.where.positions, of.where.first_pages,    of.where.page_ids,       of.attention.counts,
        of.attention.tiles, of.attention.rows,  of.attention.partials_N, of.attention.split_rows, of.sample_rows,
        of.uniforms,        of.sample_settings};
  };
  const target::TickArrays whole = send(5, 10, 10), split = send(300, 10, 10);
  CHECK(whole.shape.rows == 16);
  CHECK(whole.shape.split_blocks == 0);
  CHECK(split.shape.split_blocks == 16);
  CHECK(addresses(whole) == addresses(split));
  // Attention uses at least one block per row, then the next power of two above the tiles, up to their room.
  CHECK(whole.shape.small_blocks == 16);
  CHECK(split.shape.small_blocks == 32);
  CHECK(send(999, 10, 10).shape.small_blocks == 64);
  CHECK(send(999, 12, 12).shape.small_blocks == 64);
  for (const auto& [position, rows] : {std::pair{255, 9}, {0, 12}}) {
    const target::TickArrays other = send(position, static_cast<std::size_t>(rows), static_cast<std::size_t>(rows));
    CHECK(other.shape == whole.shape);
    CHECK(addresses(other) == addresses(whole));
  }
  for (const std::int32_t position : {256, 511}) CHECK(send(position, 10, 10).shape == split.shape);
  // Ticks that are launched kernel by kernel keep their own sizes.
  const target::TickArrays some = send(300, 10, 4);
  CHECK((some.shape.rows == 10 && some.shape.samples == 4 && some.shape.small_blocks == 20));
}
