// Tests an engine's pass over whole sequences for a learner: split into ticks, with the bits of the ticks that sampled.
#include <bit>

#include "cuda/engine/sequence_scorer.h"
#include "cuda/engine/weight_store.h"
#include "decoder/device/device_ticks.h"
#include "engine_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;

/// Packs samples like a learner: all of a prompt's tokens but the last once, then each sample's rows.
struct Packed {
  std::vector<std::int32_t> tokens, starts{0}, rows, targets;
  std::vector<std::uint8_t> continues;
  std::vector<float> sampled;  // log-probs of the targets

  void add(std::span<const std::int32_t> some, bool is_continued) {
    tokens.insert(tokens.end(), some.begin(), some.end());
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
    continues.push_back(is_continued ? 1 : 0);
  }
  void add_group(const std::vector<types::TokenId>& prompt, std::span<const types::Completion> samples) {
    const std::span<const types::TokenId> prefix = std::span(prompt).first(prompt.size() - 1);
    if (!prefix.empty()) add(prefix, false);
    for (const types::Completion& sample : samples) {
      std::vector<std::int32_t> own{prompt.back()};
      for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
        rows.push_back(static_cast<std::int32_t>(tokens.size() + t));
        targets.push_back(sample.tokens[t]);
        sampled.push_back(sample.sampler_logprobs[t]);
        if (t + 1 < sample.tokens.size()) own.push_back(sample.tokens[t]);
      }
      add(own, !prefix.empty());
    }
  }
  model::PackedSequences sequences() const { return {tokens, starts, continues}; }
};

DecoderOptions bitwise_options(KvFormat kv_format) {
  DecoderOptions options = options_of(kv_format, 20);  // so few that sequences are preempted
  options.row_only_sums = true;
  return options;
}

/// Holds a snapshot, a decoder and its samples.
struct SampledModel {
  SampledModel(const model::ModelConfig& config_, const model::SnapshotFormats& formats, const DecoderOptions& options_)
      : config(config_),
        options(options_),
        snapshot(decoder::test::publish(config, decoder::test::tiny_weights(config), formats)),
        decoder(config, options,
                decoder::make_device_backend(config, options, cuda::test::make_engine(config, options))) {
    decoder.load(*snapshot);
  }
  void sample(float temperature, std::int32_t max_new_tokens = 10) {
    const Prompts given = prompts();
    types::SamplingParams params = sampling();
    params.temperature = temperature;
    params.max_new_tokens = max_new_tokens;
    const auto samples = decoder.complete(given.requests, params, {1, 0});
    for (std::size_t p = 0; p < given.tokens.size(); ++p)
      packed.add_group(given.tokens[p], std::span(samples).subspan(3 * p, 3));
  }
  model::ModelConfig config;
  DecoderOptions options;
  std::unique_ptr<model::Snapshot> snapshot;
  decoder::Decoder decoder;
  Packed packed;
};

/// Runs packed rows through an engine with these options: the stream after the last layer, log-probs, entropies.
struct Scored {
  std::vector<float> stream, logprobs, entropies;
};
Scored score_packed(model::DeviceWeights& weights, const Packed& packed, const model::ModelConfig& config,
                    float temperature, bool in_place) {
  const std::size_t count = packed.tokens.size() * static_cast<std::size_t>(config.hidden_size);
  std::vector<OnDevice<float>> streams;
  std::vector<float*> after_layer;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (i == 0 || !in_place) streams.emplace_back(count);
    after_layer.push_back(streams.back().data());
  }
  const target::Stream stream;
  weights.forward(packed.sequences(), after_layer, stream.handle());
  Scored scored{streams.back().read(), std::vector<float>(packed.rows.size()), std::vector<float>(packed.rows.size())};
  weights.score(after_layer.back(), {packed.rows, packed.targets, temperature}, scored.logprobs, scored.entropies,
                stream.handle());
  return scored;
}

std::int64_t num_different(const std::vector<float>& a, const std::vector<float>& b) {
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    differ += std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ? 0 : 1;
  return differ;
}

}  // namespace

TEST_CASE("packed sequences: cut into full ticks, and a sample has a copy of its prompt's last page") {
  // A prompt of six, two samples of it, a separate sequence of nine.
  std::vector<std::int32_t> tokens(6 + 3 + 2 + 9);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  const std::vector<std::int32_t> starts = {0, 6, 9, 11, 20};
  const std::vector<std::uint8_t> continues = {0, 1, 1, 0};
  const decoder::PackedTicks packed({tokens, starts, continues}, {8, 3, 4});
  using Ints = std::vector<std::int32_t>;
  const auto ints = [](std::span<const std::int32_t> some) { return Ints(some.begin(), some.end()); };
  REQUIRE(packed.ticks().size() == 3);
  CHECK(packed.num_pages() == 2 + 2 + 1 + 3);
  const cuda::Tick &first = packed.ticks()[0], &second = packed.ticks()[1], &third = packed.ticks()[2];
  CHECK(ints(first.tokens_N) == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(ints(first.positions_N) == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(ints(first.first_page_N) == Ints{0, 0, 0, 0, 0, 0, 2, 2});
  CHECK(ints(first.page_ids) == Ints{0, 1, 0, 2});
  REQUIRE(first.copies.size() == 1);
  CHECK((first.copies[0].from == 1 && first.copies[0].to == 2 && first.copies[0].num_slots == 2));
  CHECK(ints(second.positions_N) == Ints{8, 6, 7, 0, 1, 2, 3, 4});  // also no more than three sequences
  CHECK(ints(second.page_ids) == Ints{0, 2, 3, 0, 4, 5, 6});
  REQUIRE(second.copies.size() == 1);
  CHECK((second.copies[0].from == 1 && second.copies[0].to == 4));
  CHECK(ints(third.positions_N) == Ints{5, 6, 7, 8});
  CHECK(ints(third.page_ids) == Ints{5, 6, 7});
  CHECK(third.copies.empty());
  CHECK(decoder::PackedTicks({tokens, starts, continues}, {20, 4, 4}).ticks().size() == 1);
  CHECK(decoder::PackedTicks({tokens, starts, continues}, {20, 1, 4}).ticks().size() == 4);
}

TEST_CASE("whole-sequence pass: bits equal the sampling ticks', in every format and split") {
  if (!find_device()) return;
  for (const Format format : kWeightFormats) {
    for (const KvFormat kv : {KvFormat::int8, KvFormat::bf16}) {
      if (format != Format::int8 && (kv == KvFormat::int8) != (quant::spec(format).activations == quant::Element::int8))
        continue;
      INFO(quant::name(format) << ", " << quant::name(kv));
      const float temperature = kv == KvFormat::int8 ? 1.0F : 0.7F;
      model::ModelConfig config = decoder::test::tiny_config();
      SampledModel sampled(config, format, bitwise_options(kv));
      sampled.sample(temperature);
      CHECK(sampled.decoder.stats().shared_prompt_tokens > 0);
      CHECK(sampled.decoder.stats().preemptions > 0);
      CHECK(sampled.decoder.stats().decode_graph_ticks > 0);
      const Scored scored = score_packed(*sampled.decoder.device_weights(), sampled.packed, config, temperature, false);
      REQUIRE(scored.logprobs.size() > 60);
      CHECK(num_different(scored.logprobs, sampled.packed.sampled) == 0);
      for (const float entropy : scored.entropies) CHECK((entropy > 0 && entropy <= std::log(67.0F) + 1e-5F));
      // One tick for everything, other pages, memory already allocated.
      DecoderOptions whole = bitwise_options(kv);
      whole.max_num_batched_tokens = 500;
      whole.max_num_seqs = 100;
      whole.kv_pages = 2000;
      whole.page_size = 5;
      SampledModel other(config, format, whole);
      other.decoder.device_weights()->upload(*other.snapshot);
      const Scored again = score_packed(*other.decoder.device_weights(), sampled.packed, config, temperature, true);
      CHECK(again.stream == scored.stream);
      CHECK(num_different(again.logprobs, sampled.packed.sampled) == 0);
      CHECK(again.entropies == scored.entropies);
      if (format != Format::int8) continue;
      // Sampling continues as if nothing had run in between.
      const auto before = sampled.packed.sampled;
      sampled.packed = {};
      sampled.sample(temperature);
      CHECK(num_different(sampled.packed.sampled, before) == 0);
    }
  }
}

TEST_CASE("whole-sequence pass: a vocabulary of several tiles has the bits of its samples") {
  if (!find_device()) return;
  model::ModelConfig config = decoder::test::tiny_config();
  config.vocab_size = 8192 + 300;  // so large that logits are recomputed for sampling
  for (const bool has_int8_head : {false, true}) {
    model::SnapshotFormats formats(Format::int8);
    formats.int8_lm_head = has_int8_head;
    SampledModel sampled(config, formats, bitwise_options(KvFormat::int8));
    sampled.sample(1.0F, 2);
    const Scored scored = score_packed(*sampled.decoder.device_weights(), sampled.packed, config, 1.0F, true);
    REQUIRE(scored.logprobs.size() > 12);
    CHECK(num_different(scored.logprobs, sampled.packed.sampled) == 0);
  }
}

TEST_CASE("whole-sequence pass: several chunks of attention have the bits of the sampling ticks") {
  if (!find_device()) return;
  for (const KvFormat kv : {KvFormat::int8, KvFormat::bf16}) {
    INFO(quant::name(kv));
    model::ModelConfig config = decoder::test::tiny_config();
    config.max_position_embeddings = 1024;
    DecoderOptions options = bitwise_options(kv);
    options.max_model_len = 300;
    options.page_size = 16;
    options.kv_pages = 80;
    options.max_num_batched_tokens = 90;
    SampledModel sampled(config, Format::int8, options);
    const std::vector<types::TokenId> prompt = random_tokens(252, 9);
    types::SampleRequest request;
    request.prompt_tokens = prompt;
    request.num_samples = 3;
    types::SamplingParams params = sampling();
    params.max_new_tokens = 12;
    params.stop_tokens = {};
    const auto samples = sampled.decoder.complete(std::span(&request, 1), params, {1, 0});
    sampled.packed.add_group(prompt, samples);
    const Scored scored = score_packed(*sampled.decoder.device_weights(), sampled.packed, config, 1.0F, true);
    CHECK(scored.logprobs.size() == 36);
    CHECK(num_different(scored.logprobs, sampled.packed.sampled) == 0);
  }
}

TEST_CASE("whole-sequence pass: waits for the caller's work, and refuses what does not fit") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  SampledModel sampled(config, Format::int8, bitwise_options(KvFormat::int8));
  sampled.sample(1.0F, 3);
  model::DeviceWeights& weights = *sampled.decoder.device_weights();
  const std::size_t count = sampled.packed.tokens.size() * static_cast<std::size_t>(config.hidden_size);
  // Work that is pending on the caller's stream comes first.
  const OnDevice<float> stream_there(count), zeros(count);
  const target::Stream theirs;
  const std::vector<float*> in_place(static_cast<std::size_t>(config.num_hidden_layers), stream_there.data());
  target::copy_on_device(stream_there.data(), zeros.data(), count * sizeof(float), theirs);
  weights.forward(sampled.packed.sequences(), in_place, theirs.handle());
  theirs.wait();
  const std::vector<float> got = stream_there.read();
  CHECK(std::ranges::count(got, 0.0F) < static_cast<std::ptrdiff_t>(count / 2));

  const std::vector<float*> too_few(in_place.begin(), in_place.end() - 1);
  CHECK_THROWS_WITH(weights.forward(sampled.packed.sequences(), too_few, theirs.handle()),
                    Catch::Matchers::Contains("memory after each of"));
  std::vector<float> one(1), entropy(1);
  const std::vector<std::int32_t> row = {0}, beyond = {static_cast<std::int32_t>(config.vocab_size)};
  CHECK_THROWS_WITH(weights.score(stream_there.data(), {row, beyond, 1.0F}, one, entropy, theirs.handle()),
                    Catch::Matchers::Contains("a token in"));
  CHECK_THROWS_WITH(weights.score(stream_there.data(), {row, row, 0.0F}, one, entropy, theirs.handle()),
                    Catch::Matchers::Contains("a token in"));
}

TEST_CASE("engine interface: refuses host memory where it reads device memory, and stays usable") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  const DecoderOptions options = bitwise_options(KvFormat::int8);
  auto owned = cuda::test::make_engine(config, options);
  cuda::DecodeEngine& engine = *owned;
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  const auto backend = decoder::make_device_backend(config, options, std::move(owned));
  backend->load(*snapshot);
  backend->begin();
  std::vector<float> host(8192);
  const OnDevice<float> there(host);
  const target::Stream theirs;
  const cuda::CallersStream stream{theirs.handle()};
  const std::vector<std::int32_t> zero = {0}, one = {1};
  const auto refuses = [](const auto& call) {
    CHECK_THROWS_WITH(call(), Catch::Matchers::Contains("expected memory of device 0, got host memory"));
  };

  cuda::WeightStore& weights = engine.weights();
  const cuda::Master gain{host.data(), {"input_layernorm", 0}, 0, config.hidden_size};
  refuses([&] { (void)weights.rewrite({&gain, 1}); });
  const cuda::AdapterMaster adapter{host.data(), false, {"o"}, 0, false, 2};
  refuses([&] { (void)weights.rewrite_adapters({&adapter, 1}); });
  for (int wrong = 0; wrong < 3; ++wrong) {
    const auto memory = [&](int idx) { return wrong == idx ? host.data() : there.data(); };
    refuses([&] { weights.matmul(memory(0), {{"down", 0}, 1, memory(1)}, memory(2), stream); });
  }
  for (int wrong = 0; wrong < 2; ++wrong) {
    const auto memory = [&](int idx) { return wrong == idx ? host.data() : there.data(); };
    refuses([&] { weights.dequantize({{"down", 0}, 1, memory(0)}, memory(1), true, stream); });
  }
  const cuda::DequantizedMatrix matrix{{"o", 0}, host.data(), true};
  refuses([&] { weights.dequantize({&matrix, 1}, stream); });
  cuda::TokenScore score;
  refuses([&] { engine.sequences().score(host.data(), {zero, one, 1}, {&score, 1}, stream); });
  std::vector<float*> after_layer(static_cast<std::size_t>(config.num_hidden_layers), there.data());
  after_layer.back() = host.data();
  const cuda::Tick tick{one, zero, zero, zero, {}};
  refuses([&] { engine.sequences().forward({&tick, 1}, 1, after_layer, stream); });

  after_layer.back() = there.data();
  engine.sequences().forward({&tick, 1}, 1, after_layer, stream);
  engine.sequences().score(there.data(), {zero, one, 1}, {&score, 1}, stream);
  CHECK(score.logprob < 0);
  CHECK(std::ranges::all_of(host, [](float value) { return value == 0; }));
}

TEST_CASE("learner GEMMs: may have more rows than any tick, also after ticks were recorded") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  constexpr std::int64_t kRows = 192;  // dequantized, while ticks of 12 rows are streamed
  const target::Stream stream;         // as a learner's, it outlives the engine
  for (const Format format : {Format::int4, Format::fp8_block128}) {
    SampledModel sampled(config, format, options_of(KvFormat::bf16));
    sampled.sample(1.0F);
    REQUIRE(sampled.decoder.stats().decode_graph_ticks > 0);
    model::DeviceWeights& weights = *sampled.decoder.device_weights();
    const auto multiply = [&](const std::string& matrix, std::int64_t in) {
      const model::MatmulWorkspace room = weights.matmul_workspace(matrix, kRows);
      const OnDevice<float> x(normal_values(kRows * in, 1, 1));
      const OnDevice<std::uint8_t> quantized(room.quantized_bytes);
      const OnDevice<std::uint16_t> y(static_cast<std::size_t>(kRows * room.y_columns));
      weights.multiply(x.data(), {matrix, kRows, quantized.data()}, y.data(), stream.handle());
      stream.wait();
    };
    INFO(quant::name(format));
    CHECK_NOTHROW(multiply("layers.0.o", config.q_size()));  // the smallest matrix first
    CHECK_NOTHROW(multiply("layers.0.qkv", config.hidden_size));
    CHECK_NOTHROW(multiply("layers.0.gate_up", config.hidden_size));
    CHECK_NOTHROW(multiply("layers.0.down", config.intermediate_size));
    const auto before = sampled.packed.sampled;
    sampled.packed = {};
    sampled.sample(1.0F);
    CHECK(num_different(sampled.packed.sampled, before) == 0);
  }
}
