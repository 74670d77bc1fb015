// Tests low-rank adapters on the device: the GEMM that adds to its result, the rows next to the quantized ones, and the
// engine below the decoder. The reference is the CPU's decoder on the same snapshot.
#include "model/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda/engine/weight_store.h"
#include "engine_fixtures.h"
#include "gemm_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;
using decoder::Decoder;

bool same(const std::vector<types::Completion>& a, const std::vector<types::Completion>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i)
    all = a[i].tokens == b[i].tokens && a[i].sampler_logprobs == b[i].sampler_logprobs;
  return all;
}

}  // namespace

TEST_CASE("accumulating GEMM: adds the product to the previous result exactly once, in every kernel") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  for (const Shape& shape : {Shape{1, 7, 3}, Shape{5, 300, 130}, Shape{70, 40, 65}}) {
    const GemmCase gemm(Format::bf16, shape, normal_values(shape.rows * shape.in, 1, 41));
    const std::int64_t stride = gemm.w.view.at.rows;
    const std::vector<float> before = normal_values(shape.rows * stride, 3, 42);
    for (const bool row_only_sums : {false, true}) {
      INFO(shape.rows << " rows, " << row_only_sums);
      const auto gemms = target::make_gemms(*device, row_only_sums);
      const OnDevice<float> product(before.size());
      target::GemmTask task{gemm.quantized.rows, shape.rows, gemm.w.view, product.data(), stride, true};
      gemms->multiply(task, gemm.stream);
      gemm.stream.wait();
      std::vector<float> want = product.read();
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += before[i];

      const OnDevice<float> wide(before);
      task.y = wide.data();
      task.adds_to_y = true;
      gemms->multiply(task, gemm.stream);
      gemm.stream.wait();
      CHECK(first_beyond(wide.read(), want, 1e-5, 0) == "");

      std::vector<std::uint16_t> rounded;
      for (const float value : before) rounded.push_back(cuda::bf16_of(value));
      const OnDevice<std::uint16_t> narrow(rounded);
      task.y = narrow.data();
      task.y_is_f32 = false;
      gemms->multiply(task, gemm.stream);
      gemm.stream.wait();
      std::vector<float> got, sums;
      for (const std::uint16_t value : narrow.read()) got.push_back(cuda::float_of_bf16(value));
      for (std::size_t i = 0; i < got.size(); ++i)
        sums.push_back(want[i] - before[i] + cuda::float_of_bf16(rounded[i]));
      CHECK(first_beyond(got, sums, 1e-5, 0x1p-8) == "");
    }
  }
}

TEST_CASE("quantizing kernels: also write rows in bf16 where an adapter reads them") {
  if (!find_device()) return;
  const target::Stream stream;
  constexpr std::int64_t kRows = 3;
  for (const Format format : {Format::int8, Format::fp8_block128}) {
    for (const std::int64_t width : {7, 257, 1100, 4099}) {
      const OnDevice<float> x(normal_values(kRows * width, 1, 1)), halves(normal_values(2 * kRows * width, 1, 2)),
          gain(normal_values(width, 1, 3));
      const QuantizedOnDevice narrow(format, kRows, width), wide(Format::bf16, kRows, width);
      const auto check = [&](const auto& run) {
        run(narrow.rows, static_cast<std::uint16_t*>(wide.rows.quantized));
        stream.wait();
        const std::vector<float> got = wide.dequantized();
        run(wide.rows, nullptr);
        stream.wait();
        INFO(quant::name(format) << ", width " << width);
        CHECK(first_beyond(got, wide.dequantized(), 0, 0) == "");
        CHECK(first_beyond(narrow.dequantized(), got, 0.05, 0.1) == "");
      };
      check([&](const target::QuantizedRows& out, std::uint16_t* beside) {
        target::quantize_rows({x.data(), out, beside}, kRows, stream);
      });
      check([&](const target::QuantizedRows& out, std::uint16_t* beside) {
        target::swiglu_quantize({{halves.data(), 2 * width, true}, out, beside}, kRows, stream);
      });
      check([&](const target::QuantizedRows& out, std::uint16_t* beside) {
        target::norm_quantize({x.data(), {}, nullptr, gain.data(), nullptr, 1e-6F, out, beside}, kRows, stream);
      });
    }
  }
}

TEST_CASE("device adapters: with B zero, tokens and log-probs are unchanged in every format") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  for (const Format format : kWeightFormats) {
    DecoderOptions options = options_of(KvFormat::bf16);
    options.row_only_sums = format == Format::int8;
    const auto plain = decoder::test::publish(config, decoder::test::tiny_weights(config), format);
    INFO(quant::name(format));
    CHECK(
        same(draw_there(*publish_adapted(config, with_adapters(format), true), options), draw_there(*plain, options)));
  }
}

TEST_CASE("device adapters: sampled tokens equal the CPU's, for every base format and family") {
  if (!find_device()) return;
  struct Case {
    Format format;
    model::Family family = model::Family::qwen3;
  };
  for (const Case& each :
       {Case{Format::bf16, model::Family::qwen2}, Case{Format::int8}, Case{Format::fp8_channel},
        Case{Format::fp8_block128}, Case{Format::int4, model::Family::llama}, Case{Format::int4_int8}}) {
    const model::ModelConfig config = decoder::test::tiny_config(each.family);
    const model::SnapshotFormats formats = with_adapters(each.format);
    const auto snapshot = publish_adapted(config, formats, false), without = publish_adapted(config, formats, true);
    const DecoderOptions options = options_of(KvFormat::bf16);
    Decoder here(config, options);
    here.load(*snapshot);
    const auto want = draw(here, prompts()), got = draw_there(*snapshot, options, Gemms::f32);
    // Another order of sums moves some activation over a tie; the sequence then diverges.
    std::size_t num_same = 0;
    float farthest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i].tokens != want[i].tokens) continue;
      ++num_same;
      for (std::size_t t = 0; t < got[i].tokens.size(); ++t)
        farthest = std::max(farthest, std::fabs(got[i].sampler_logprobs[t] - want[i].sampler_logprobs[t]));
    }
    INFO(quant::name(each.format) << ": " << num_same << " of " << got.size()
                                  << " sequences are the same, log-probs up to " << farthest << " apart");
    CHECK(num_same * 10 >= got.size() * 8);
    CHECK(farthest < 0.05F);
    CHECK_FALSE(same(got, draw_there(*without, options, Gemms::f32)));
  }
}

TEST_CASE("device adapters: publish copies only A, B and gains, with the same result from the device's masters") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  model::SnapshotFormats formats = with_adapters(Format::int8);
  formats.lora.train_norms = true;
  const auto snapshot = publish_adapted(config, formats, true);
  const DecoderOptions options = options_of(KvFormat::bf16);
  Decoder decoder(config, options, decoder::make_device_backend(config, options, make_engine(config, options)));
  decoder.load(*snapshot);
  const Prompts given = prompts();
  const auto first = draw(decoder, given);
  CHECK(same(draw(decoder, given), first));  // recorded as graphs by now
  model::DeviceWeights& there = *decoder.device_weights();
  CHECK(there.holds(*snapshot));

  const model::Weights next = adapters_of(config, formats.lora, 2);
  snapshot->publish_adapters(model::views(next), 2);
  const auto want = draw_there(*snapshot, options);
  CHECK_FALSE(same(want, first));
#if defined(QRL_CUDA_EMULATED)
  const std::uint64_t before = target::free_bytes();
#endif
  const base::View panels = snapshot->layer(0).down.panels.view();
  const std::vector<std::byte> base_values(static_cast<const std::byte*>(panels.data),
                                           static_cast<const std::byte*>(panels.data) + panels.num_bytes());
  std::memset(panels.data, 0, base_values.size());  // the base in host memory is not read
  CHECK(same(draw(decoder, given), want));
  std::memcpy(panels.data, base_values.data(), base_values.size());
#if defined(QRL_CUDA_EMULATED)
  CHECK(target::free_bytes() == before);
#endif

  // Publishes the same values from a learner on the device.
  const auto publish_there = [&](const model::Weights& values, std::int64_t version) {
    std::map<std::string, OnDevice<float>> kept;
    model::WeightViews masters;
    for (const auto& [name, weight] : values) {
      const float* from = weight.as<float>();
      const auto& copy = kept.try_emplace(name, std::vector<float>(from, from + weight.shape().numel())).first->second;
      masters[name] = {copy.data(), base::DType::f32, weight.shape()};
    }
    model::Snapshot::DeviceWriter writer(*snapshot, there, version);
    writer.write(masters);
    writer.finish();
  };
  publish_there(adapters_of(config, formats.lora, 1, true), 3);
  CHECK(same(draw(decoder, given), first));
  publish_there(next, 4);
  CHECK(same(draw(decoder, given), want));
  // Publishes through the host again, to the base that is still loaded; another base is uploaded.
  snapshot->publish_adapters(model::views(adapters_of(config, formats.lora, 1, true)), 7);
  CHECK(same(draw(decoder, given), first));
  snapshot->publish(model::views(decoder::test::tiny_weights(config, 2)), 8);
  CHECK_FALSE(there.holds(*snapshot));
  snapshot->publish_adapters(model::views(next), 9);
  CHECK(same(draw(decoder, given), draw_there(*snapshot, options)));
  model::Weights broken = adapters_of(config, formats.lora, 2);
  const std::string name = "model.layers.1.self_attn.v_proj.lora_B.weight";
  broken.at(name).as<float>()[5] = std::nanf("");
  CHECK_THROWS_WITH(publish_there(broken, 5), Catch::Matchers::Contains(name));
}

TEST_CASE("device adapters: loaded after recorded ticks, they apply to later ticks") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  const DecoderOptions options = options_of(KvFormat::bf16);
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::bf16);
  auto owned = make_engine(config, options);
  cuda::DecodeEngine& engine = *owned;
  const auto backend = decoder::make_device_backend(config, options, std::move(owned));
  backend->load(*snapshot);
  backend->begin();
  const std::vector<std::int32_t> zero = {0}, one = {1};
  const std::vector<double> half = {0.5};
  const std::vector<float> warm = {1.0F};
  const auto run = [&] {
    cuda::SampledToken sampled;
    engine.run({one, zero, zero, zero, {}}, {zero, half, warm}, {&sampled, 1});
    return sampled.logprob;
  };
  constexpr std::int64_t kRank = 2;
  const auto give = [&](std::string_view matrix, std::int64_t in, std::int64_t out) {
    const OnDevice<float> a(std::vector<float>(static_cast<std::size_t>(kRank * in), 0.3F)),
        b(std::vector<float>(static_cast<std::size_t>(out * kRank), 0.3F));
    const cuda::AdapterMaster masters[] = {{a.data(), false, {matrix}, 0, false, kRank},
                                           {b.data(), false, {matrix}, 0, true, kRank}};
    CHECK(engine.weights().rewrite_adapters(masters) == -1);
  };
  const auto is_recorded_anew = [&](const auto& change) {
    const float before = run();
    run();
    run();
    const std::int64_t num_graphs = engine.stats().num_graphs;
    change();
    const float eager = run();
    CHECK(run() == eager);
    CHECK(run() == eager);
    CHECK(engine.stats().num_graphs > num_graphs);
    CHECK(eager != before);
  };
  is_recorded_anew([&] { give("o", config.q_size(), config.hidden_size); });
  is_recorded_anew([&] { give("down", config.intermediate_size, config.hidden_size); });
}

TEST_CASE("device adapters: must fit the engine's matrices, with one rank") {
  if (!find_device()) return;
  const model::ModelConfig config = decoder::test::tiny_config();
  const auto snapshot = publish_adapted(config, with_adapters(Format::bf16), true);
  const DecoderOptions options = options_of(KvFormat::bf16);
  const auto engine = make_engine(config, options);
  const std::vector<float> zeros(4096);
  const auto write = [&](const cuda::AdapterMaster& master) {
    return engine->weights().rewrite_adapters({&master, 1});
  };
  cuda::AdapterMaster master{zeros.data(), true, {"o"}, 0, false, 2};
  CHECK_THROWS_WITH(write(master), Catch::Matchers::Contains("an uploaded layer"));
  Decoder decoder(config, options, decoder::make_device_backend(config, options, make_engine(config, options)));
  decoder.load(*snapshot);
  (void)draw(decoder, prompts());
  const auto plain = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::bf16);
  decoder.load(*plain);
  CHECK_THROWS_WITH(draw(decoder, prompts()), Catch::Matchers::Contains("a snapshot with adapters"));
}

#if defined(QRL_CUDA_EMULATED)  // only the emulation knows all of the device's memory
TEST_CASE("device adapters: use the memory that a dry run predicts") {
  const target::DeviceFacts device = target::use_device(0);
  const model::ModelConfig config = decoder::test::tiny_config();
  const model::SnapshotFormats formats = with_adapters(Format::int8);
  const auto with = publish_adapted(config, formats, false),
             plain = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  DecoderOptions options = options_of(KvFormat::int8);
  options.max_num_batched_tokens = 64;  // the padded size of ticks
  const auto used_bytes = [&](const model::Snapshot& snapshot) {
    const auto backend = decoder::make_device_backend(config, options, make_engine(config, options));
    backend->load(snapshot);
    backend->begin();
    return static_cast<std::int64_t>(device.total_bytes - target::free_bytes());
  };
  const std::int64_t named = decoder::device_adapter_bytes(config, formats.lora, options.max_num_batched_tokens);
  const std::int64_t taken = used_bytes(*with) - used_bytes(*plain);
  CAPTURE(named, taken);
  CHECK(taken >= named);
  CHECK(taken < named + 8192);  // one master copied from the host, and rounding up
}
#endif
