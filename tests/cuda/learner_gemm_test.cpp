// Tests the engine's GEMMs for a learner on its device, in the learner's stream: against the CPU's on the same tensors,
// and never concurrent with the engine's own work.
#include "engine_fixtures.h"
#include "ops/linear.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;

/// Holds a backend with a snapshot's weights, and rows of x on its device.
struct LearnersEngine {
  LearnersEngine(quant::Format format, Gemms gemms, const DecoderOptions& options = options_of(KvFormat::bf16))
      : config(decoder::test::tiny_config()),
        snapshot(decoder::test::publish(config, decoder::test::tiny_weights(config), format)),
        backend(decoder::make_device_backend(config, options, make_engine(config, options, gemms))) {
    backend->load(*snapshot);
    weights = backend->device_weights();
    weights->upload(*snapshot);
  }
  model::ModelConfig config;
  std::unique_ptr<model::Snapshot> snapshot;
  std::unique_ptr<decoder::Backend> backend;
  model::DeviceWeights* weights = nullptr;
};

/// Holds a caller's memory: rows of x for a matrix, their quantized values, and y (filled with nonzero values).
struct Rows {
  Rows(LearnersEngine& engine, const std::string& name, const ops::PackedLinear& packed_, std::int64_t num_rows_)
      : packed(packed_),
        num_rows(num_rows_),
        room(engine.weights->matmul_workspace(name, num_rows_)),
        x(cuda::test::normal_values(num_rows_ * packed_.in, 1, 3)),
        x_there(x),
        quantized(std::vector<std::uint8_t>(room.quantized_bytes, 0x5a)),
        y(std::vector<std::uint32_t>(static_cast<std::size_t>(num_rows_ * room.y_columns), 0x5a5a5a5a)),
        input{name, num_rows_, quantized.data()} {}
  void multiply(LearnersEngine& engine, void* stream) {
    engine.weights->multiply(x_there.data(), input, y.data(), stream);
  }
  /// Returns y without padding.
  std::vector<float> result() const {
    const bool is_f32 = room.y_dtype == base::DType::f32;
    const std::vector<std::uint32_t> words = y.read();
    std::vector<float> values;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t n = 0; n < packed.out; ++n) {
        const auto at = static_cast<std::size_t>(row * room.y_columns + n);
        values.push_back(is_f32 ? cuda::float_of(words[at])
                                : cuda::float_of_bf16(static_cast<std::uint16_t>(words[at / 2] >> (at % 2 * 16))));
      }
    }
    return values;
  }
  const ops::PackedLinear& packed;
  std::int64_t num_rows;
  model::MatmulWorkspace room;
  std::vector<float> x;
  OnDevice<float> x_there;
  OnDevice<std::uint8_t> quantized;
  OnDevice<std::uint32_t> y;
  model::MatmulInput input;
};

}  // namespace

TEST_CASE("learner GEMM: equals the CPU's on the same tensors, and operands dequantize to the CPU's") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const quant::Format format : kWeightFormats) {
    LearnersEngine exact(format, Gemms::f32), rounded(format, Gemms::rounded);
    const model::LayerSnapshot& layer = exact.snapshot->layer(1);
    for (const auto& [name, packed] : {std::pair<const char*, const ops::PackedLinear*>{"layers.1.qkv", &layer.qkv},
                                       {"layers.1.o", &layer.o},
                                       {"layers.1.down", &layer.down}}) {
      for (const std::int64_t num_rows : {1, 37}) {  // more than a tick of this engine may have
        INFO(quant::name(format) << ", " << name << ", " << num_rows << " rows");
        Rows rows(exact, name, *packed, num_rows), in_use(rounded, name, *packed, num_rows);
        CHECK(in_use.room.y_dtype == base::DType::bf16);
        rows.multiply(exact, stream.handle());
        in_use.multiply(rounded, stream.handle());
        stream.wait();

        ops::Activations quantized(packed->format, num_rows, packed->in);
        base::Team alone = base::Team::solo();
        ops::quantize(alone, rows.x.data(), {0, num_rows}, quantized);
        std::vector<float> want(static_cast<std::size_t>(num_rows * packed->out)), dequantized(rows.x.size()),
            weights(static_cast<std::size_t>(packed->out * packed->in));
        ops::linear(alone, quantized, *packed, {0, num_rows}, false, want.data());
        for (std::int64_t row = 0; row < num_rows; ++row)
          ops::dequantize_row(quantized, row, dequantized.data() + row * packed->in);
        ops::unpack_rows(*packed, 0, packed->out, weights.data());
        float most = 0;
        for (const float value : want) most = std::max(most, std::fabs(value));
        REQUIRE(packed->bias.empty());
        CHECK(first_beyond(rows.result(), want, 1e-6 * static_cast<double>(most), 1e-6) == "");
        // bf16: half of the last of 8 bits.
        const double error = gemm_error(format, num_rows, packed->in, want, 1e-6 * static_cast<double>(most));
        CHECK(first_beyond(in_use.result(), want, error, 1.0 / 256) == "");
        CHECK(first_beyond(in_use.result(), want, 0, 1e-5) != "");

        const OnDevice<float> x_there(rows.x.size()), w_there(weights.size());
        exact.weights->dequantize_input(rows.input, {x_there.data(), base::DType::f32, {num_rows, packed->in}},
                                        stream.handle());
        const model::DequantizedTensor wanted{name, {w_there.data(), base::DType::f32, {packed->out, packed->in}}};
        exact.weights->dequantize({&wanted, 1}, stream.handle());
        stream.wait();
        CHECK(first_beyond(x_there.read(), dequantized, 0, 0) == "");
        CHECK(first_beyond(w_there.read(), weights, 0, 0) == "");
      }
    }
  }
}

#if defined(QRL_CUDA_EMULATED)  // only here: a GPU's memory is counted in pages of megabytes
TEST_CASE("learner GEMMs: memory for many rows is allocated with the weights if a tick needs it, else on demand") {
  for (const std::int64_t tick_rows : {12, 512}) {
    DecoderOptions options = options_of(KvFormat::bf16);
    options.max_num_batched_tokens = tick_rows;
    LearnersEngine engine(quant::Format::int4, Gemms::rounded, options);
    Rows rows(engine, "layers.0.gate_up", engine.snapshot->layer(0).gate_up, 512);
    const std::size_t before = target::free_bytes();
    const target::Stream stream;
    rows.multiply(engine, stream.handle());
    stream.wait();
    CHECK((target::free_bytes() < before) == (tick_rows < 512));
  }
}
#endif

TEST_CASE("learner GEMMs: run in the learner's stream, and the engine's work begins after them") {
  if (!find_device()) return;
  const target::Stream stream, other;
  LearnersEngine engine(quant::Format::int8, Gemms::rounded);
  const ops::PackedLinear& packed = engine.snapshot->layer(0).gate_up;
  Rows first(engine, "layers.0.gate_up", packed, 5), second(engine, "layers.0.gate_up", packed, 5);
  first.multiply(engine, stream.handle());
#if defined(QRL_CUDA_EMULATED)  // only here: the emulation does no work before it is waited for
  CHECK(first.y.read()[0] == 0x5a5a5a5a);
#endif
  second.multiply(engine, other.handle());  // the GEMMs' memory is one stream's at a time
#if defined(QRL_CUDA_EMULATED)
  CHECK(first.y.read()[0] != 0x5a5a5a5a);
  CHECK(second.y.read()[0] == 0x5a5a5a5a);
#endif
  engine.snapshot->publish(model::views(decoder::test::tiny_weights(engine.config, 2)), 1);
  engine.weights->upload(*engine.snapshot);  // rewrites what the GEMM reads, ordered after the GEMM
  CHECK(second.y.read()[0] != 0x5a5a5a5a);
  CHECK((first.result() == second.result()));
  second.multiply(engine, stream.handle());
  stream.wait();
  CHECK((first.result() != second.result()));

  // A decoder's ticks between a learner's GEMMs change neither.
  decoder::Decoder decoder(engine.config, options_of(KvFormat::bf16),
                           decoder::make_device_backend(engine.config, options_of(KvFormat::bf16),
                                                        make_engine(engine.config, options_of(KvFormat::bf16))));
  decoder.load(*engine.snapshot);
  const auto sampled = decoder.complete(prompts().requests, sampling(), {1, 0});
  Rows third(engine, "layers.0.gate_up", packed, 5);
  decoder.device_weights()->multiply(third.x_there.data(), third.input, third.y.data(), stream.handle());
  const auto again = decoder.complete(prompts().requests, sampling(), {1, 0});
  CHECK((third.result() == second.result()));
  for (std::size_t i = 0; i < sampled.size(); ++i) CHECK(again[i].tokens == sampled[i].tokens);
  CHECK_THROWS_WITH(engine.weights->matmul_workspace("lm_head", 1), Catch::Matchers::Contains("a matrix of a block"));
  CHECK_THROWS_WITH(engine.weights->matmul_workspace("layers.0.gate", 1), Catch::Matchers::Contains("layers.0.gate"));
}

TEST_CASE("device publish: embedding and lm_head stay where the engine reads them") {
  if (!find_device()) return;
  LearnersEngine engine(quant::Format::int8, Gemms::rounded);
  const auto bits_of = [&](const std::string& name) {
    const model::DeviceTable table = engine.weights->table(name);
    const std::int64_t width = engine.config.hidden_size, rows = engine.config.vocab_size;
    std::vector<std::uint16_t> all(static_cast<std::size_t>(rows * table.stride)), values;
    const target::Stream stream;
    target::copy_to_host(all.data(), table.values, all.size() * sizeof(std::uint16_t), stream);
    stream.wait();
    for (std::int64_t row = 0; row < rows; ++row)
      values.insert(values.end(), all.begin() + row * table.stride, all.begin() + row * table.stride + width);
    return values;
  };
  const void* embedding = engine.weights->table("embed_tokens").values;
  const void* lm_head = engine.weights->table("lm_head").values;
  for (std::uint64_t seed = 1; seed < 3; ++seed) {
    const model::Weights weights = decoder::test::tiny_weights(engine.config, seed);
    engine.snapshot->publish(model::views(weights), static_cast<std::int64_t>(seed));
    engine.weights->upload(*engine.snapshot);
    for (const char* name : {"embed_tokens", "lm_head"}) {
      const bool is_head = std::string(name) == "lm_head" && !engine.config.tie_word_embeddings;
      const base::Buffer& master = weights.at(is_head ? "lm_head.weight" : "model.embed_tokens.weight");
      std::vector<std::uint16_t> want;
      for (std::int64_t i = 0; i < master.shape().numel(); ++i)
        want.push_back(base::to_bf16(master.as<float>()[i]).bits);
      CHECK((bits_of(name) == want));
    }
    CHECK(engine.weights->table("embed_tokens").values == embedding);
    CHECK(engine.weights->table("lm_head").values == lm_head);
  }
}
