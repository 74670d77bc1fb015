#include <algorithm>
#include <cmath>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "cuda/bench/bench_operands.h"
#include "cuda/bench/speed.h"
#include "cuda/engine/device_engine.h"
#include "cuda/engine/weight_store.h"
#include "cuda/runtime/layout.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kTickRounds = 3, kTicksPerRound = 6;
constexpr std::uint64_t kMasterSeed = 1;

double make_weights(const TickSpeedTask& task, DecodeEngine& engine) {
  const model::ModelConfig& config = task.options.model;
  const std::vector<float> ones(static_cast<std::size_t>(std::max(config.hidden_size, config.head_dim)), 1.0F);
  std::int64_t most_outputs = 0, largest = config.vocab_size * config.hidden_size;
  model::visit_matrices(config, kAnyLayer, [&](const model::BlockMatrix& matrix, const auto&) {
    most_outputs = std::max(most_outputs, matrix.out());
    largest = std::max(largest, matrix.out() * matrix.in);
  });
  const std::vector<float> zeros(static_cast<std::size_t>(most_outputs));
  const std::vector<float> rope_table(static_cast<std::size_t>(task.options.max_positions * config.head_dim), 0.7F);
  HostLayer layer;
  model::visit_block(
      config, kAnyLayer, [&](const model::BlockGain&, const auto& of) { of(layer) = ones.data(); },
      [&](const model::BlockMatrix& matrix, const auto& of) {
        of(layer) = {task.format, matrix.out(), matrix.in};
        of(layer).rotation = task.rotation;
        if (matrix.has_bias) of(layer).bias = zeros.data();
      });
  HostWeights weights;
  weights.final_norm_D = ones.data();
  weights.rope_table = rope_table.data();
  weights.layers.assign(static_cast<std::size_t>(config.num_hidden_layers), layer);
  weights.lm_head = {task.head_format, config.vocab_size, config.hidden_size};
  engine.weights().upload(weights);

  const Stream stream;
  // Leaves the norm gains at 1, so that logits stay small.
  const Memory values = normal_memory(quant::Element::f32, kBenchMasterSigma, kMasterSeed,
                                      largest * static_cast<std::int64_t>(sizeof(float)), stream);
  std::vector<Master> masters = {{values.as<float>(), {kEmbedding}, 0, config.vocab_size},
                                 {values.as<float>(), {kLmHead}, 0, config.vocab_size}};
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    model::visit_matrices(config, i, [&](const model::BlockMatrix& matrix, const auto&) {
      masters.push_back({values.as<float>(), {matrix.name, i}, 0, matrix.out()});
    });
  }
  engine.weights().rewrite(masters);
  const double start_s = base::now_s();
  engine.weights().rewrite(masters);
  return base::now_s() - start_s;
}

class Sequences {
 public:
  Sequences(const TickSpeedTask& task, std::int64_t context, std::int64_t num_pages)
      : task_(task),
        context_(context),
        pages_each_(ceil_div(context, task.options.page_size)),
        pages_(shuffled_pages(0, num_pages)) {}

  std::int64_t most() const { return static_cast<std::int64_t>(pages_.size()) / pages_each_; }

  void fill(DecodeEngine& engine, std::int64_t count) const {
    base::RandomStream random(1, base::RandomPurpose::generator, 0);
    for (std::int64_t begin = 0; begin < context_; begin += task_.options.max_rows) {
      std::vector<std::int32_t> tokens, positions;
      for (std::int64_t i = begin; i < std::min(context_, begin + task_.options.max_rows); ++i) {
        tokens.push_back(static_cast<std::int32_t>(random.below(task_.options.model.vocab_size)));
        positions.push_back(static_cast<std::int32_t>(i));
      }
      const std::vector<std::int32_t> first_pages(tokens.size());
      engine.run({tokens, positions, first_pages, pages_of(1), {}}, {}, {});
    }
    std::vector<SlotCopy> copies;
    const auto copy = [&] {
      const std::vector<std::int32_t> token = {0}, position = {static_cast<std::int32_t>(context_ - 1)}, first = {0};
      engine.run({token, position, first, pages_of(1), copies}, {}, {});
      copies.clear();
    };
    for (std::int64_t to = pages_each_; to < count * pages_each_; ++to) {
      copies.push_back({pages_[static_cast<std::size_t>(to % pages_each_)], pages_[static_cast<std::size_t>(to)],
                        static_cast<std::int32_t>(task_.options.page_size)});
      if (static_cast<std::int64_t>(copies.size()) == task_.options.max_sequences) copy();
    }
    if (!copies.empty()) copy();
  }

  void decode(DecodeEngine& engine, TickSpeed& speed) const {
    const auto rows = static_cast<std::size_t>(speed.batch);
    std::vector<std::int32_t> tokens(rows), first_pages(rows), sample_rows(rows);
    const std::vector<std::int32_t> positions(rows, static_cast<std::int32_t>(context_ - 1));
    std::vector<double> uniforms(rows);
    const std::vector<float> temperatures(rows, task_.temperature);
    const std::vector<RowCuts> cuts(
        rows, task_.top_p < 1 ? row_cuts(task_.top_p, 0, 0, task_.options.model.vocab_size) : RowCuts{});
    std::vector<SampledToken> sampled(rows);
    base::RandomStream random(1, base::RandomPurpose::sampling, 0);
    for (std::size_t i = 0; i < rows; ++i) {
      first_pages[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * pages_each_);
      sample_rows[i] = static_cast<std::int32_t>(i);
    }
    const auto start = [&] {
      for (double& uniform : uniforms) uniform = random.uniform();
      engine.start({tokens, positions, first_pages, pages_of(speed.batch), {}},
                   {sample_rows, uniforms, temperatures, cuts});
    };
    // Starts each tick while the previous one runs, like the decoder.
    const auto tick = [&] {
      start();
      engine.finish(sampled);
      for (std::size_t i = 0; i < rows; ++i)
        QRL_INVARIANT(sampled[i].token >= 0, "bench ticks", "finite logits", "row " + std::to_string(i));
    };
    start();  // runs without a graph; its tokens do not matter
    for (std::size_t i = 0; i < rows; ++i) tokens[i] = pending_token(static_cast<std::int32_t>(i));
    tick();  // records the graph
    for (int round = 0; round < kTickRounds; ++round) {
      const double waited_before_s = engine.stats().waited_s, start_s = base::now_s();
      for (int i = 0; i < kTicksPerRound; ++i) tick();
      const double tick_s = (base::now_s() - start_s) / kTicksPerRound;
      if (round > 0 && tick_s >= speed.tick_s) continue;
      speed.tick_s = tick_s;
      speed.host_s = tick_s - (engine.stats().waited_s - waited_before_s) / kTicksPerRound;
    }
    engine.finish(sampled);
  }

 private:
  std::span<const std::int32_t> pages_of(std::int64_t count) const {
    return std::span(pages_).first(static_cast<std::size_t>(count * pages_each_));
  }

  const TickSpeedTask& task_;
  std::int64_t context_, pages_each_;
  std::vector<std::int32_t> pages_;
};

}  // namespace

TickSpeeds measure_ticks(const TickSpeedTask& task) {
  const std::int64_t size = task.matmul_size;
  const GemmSpeeds ceilings = measure_gemms({quant::Format::bf16, size, size, {size}, task.pool_bytes});
  TickSpeeds speeds{ceilings.read_bytes_per_s, 2 * std::pow(static_cast<double>(size), 3) / ceilings.gemm_s[0]};

  const std::unique_ptr<DecodeEngine> engine = make_device_engine(task.options);
  speeds.rewrite_s = make_weights(task, *engine);
  const std::int64_t num_pages = engine->allocate_kv();
  if (task.options.kv_format == quant::KvFormat::fp8_e4m3) {
    const std::vector<float> scales(
        static_cast<std::size_t>(task.options.model.num_hidden_layers * task.options.model.num_key_value_heads),
        unit_scale(quant::Element::fp8_e4m3));
    engine->set_kv_scales(scales, scales);
  }
  for (const std::int64_t context : task.contexts) {
    const Sequences sequences(task, context, num_pages);
    const std::int64_t most = *std::ranges::max_element(task.batches);
    sequences.fill(*engine, std::min(most, sequences.most()));
    for (const std::int64_t batch : task.batches) {
      speeds.ticks.push_back({batch, context});
      if (batch <= sequences.most()) sequences.decode(*engine, speeds.ticks.back());
    }
  }
  return speeds;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
