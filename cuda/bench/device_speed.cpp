#include <algorithm>
#include <deque>

#include "cuda/attention/attention_task.h"
#include "cuda/bench/bench_operands.h"
#include "cuda/bench/speed.h"
#include "cuda/bench/timing.h"
#include "cuda/engine/kv_memory.h"
#include "cuda/engine/tick_memory.h"
#include "cuda/gemm/block_scales.h"
#include "cuda/gemm/gemms.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr std::uint64_t kWeightSeed = 1, kRowSeed = 2, kQuerySeed = 3;

constexpr std::int64_t kFloat = sizeof(float);

Memory float_memory(std::int64_t count) { return Memory(static_cast<std::size_t>(count * kFloat)); }

Memory equal_floats(float value, std::int64_t count, const Stream& stream) {
  Memory memory = float_memory(count);
  fill_floats(value, count, memory.as<float>(), stream);
  return memory;
}

double read_speed(std::int64_t pool_bytes, const Stream& stream) {
  const std::int64_t num_bytes = pool_bytes / 16 * 16;
  const Memory pool = normal_memory(quant::Element::bf16, 1, kWeightSeed, num_bytes, stream),
               sums(static_cast<std::size_t>(num_read_sums(num_bytes)) * sizeof(std::uint32_t));
  return static_cast<double>(num_bytes) / best_s(4, stream, [&](std::int64_t) {
           read_once({pool.data(), num_bytes, sums.as<std::uint32_t>()}, stream);
         });
}

std::int64_t num_pages(const AttentionSpeedTask& task) {
  const std::int64_t shared = task.shared_positions / task.page_size;
  return shared + task.num_sequences * (ceil_div(task.num_positions, task.page_size) - shared);
}

TickArrays send_tick(const AttentionSpeedTask& task, std::int64_t first_page, TickMemory& memory,
                     const Stream& stream) {
  const std::int64_t pages_each = ceil_div(task.num_positions, task.page_size),
                     shared = task.shared_positions / task.page_size;
  const std::vector<std::int32_t> pages = shuffled_pages(first_page, num_pages(task));
  std::vector<std::int32_t> first_pages, page_ids;
  for (std::int64_t i = 0; i < task.num_sequences; ++i) {
    first_pages.push_back(static_cast<std::int32_t>(page_ids.size()));
    for (std::int64_t page = 0; page < pages_each; ++page)
      page_ids.push_back(pages[static_cast<std::size_t>(page < shared ? page : i * (pages_each - shared) + page)]);
  }
  const std::vector<std::int32_t> tokens(first_pages.size()),
      positions(first_pages.size(), static_cast<std::int32_t>(task.num_positions - 1));
  return memory.send({tokens, positions, first_pages, page_ids, {}}, {}, stream);
}

}  // namespace

GemmSpeeds measure_gemms(const GemmSpeedTask& task) {
  const DeviceFacts device = use_device(0);
  const Stream stream;
  GemmSpeeds speeds{read_speed(task.pool_bytes, stream), {}};
  const std::unique_ptr<Gemms> gemms = make_gemms(device);
  const quant::FormatSpec& what = quant::spec(task.format);
  const MatrixLayout at = matrix_layout(task.format, task.out, task.in);
  const std::int64_t most_rows = *std::ranges::max_element(task.num_rows), segment = round_up(at.num_bytes(), 256),
                     num_matrices = std::max<std::int64_t>(1, task.pool_bytes / segment);
  const Memory pool = normal_memory(what.weights, 1, kWeightSeed, num_matrices * segment, stream),
               w_scales = equal_floats(unit_scale(what.weights), at.num_scales * at.rows, stream);
  QuantizedRows x{what.activations, nullptr, nullptr, at.width, task.in, what.activation_scale_inputs};
  if (x.scale_group == 0) x.scale_group = task.in;
  const std::int64_t x_bytes = most_rows * at.width * (x.element == quant::Element::bf16 ? 2 : 1);
  const Memory x_values = normal_memory(x.element, 1, kRowSeed, x_bytes, stream),
               x_scales = equal_floats(unit_scale(x.element), most_rows * x.num_scales(), stream),
               y(static_cast<std::size_t>(most_rows * at.rows) * sizeof(std::uint16_t));
  Memory block_scales;
  const DeviceMatrix first{task.format, at, pool.as<std::uint8_t>(),
                           at.num_scales > 0 ? w_scales.as<float>() : nullptr};
  if (task.format == quant::Format::fp8_block128) {
    block_scales = float_memory(num_arranged_scales(at));
    arrange_weight_scales({first, block_scales.as<float>()}, stream);
  }
  x.quantized = x_values.data();
  if (what.has_activation_scales()) x.scales = x_scales.as<float>();
  for (const std::int64_t num_rows : task.num_rows) {
    speeds.gemm_s.push_back(best_s(std::max(num_matrices, kFewestCalls), stream, [&](std::int64_t i) {
      DeviceMatrix w = first;
      w.quantized += i % num_matrices * segment;
      w.block_scales = block_scales.empty() ? nullptr : block_scales.as<float>();
      gemms->multiply({x, num_rows, w, y.data(), at.rows, false}, stream);
    }));
  }
  return speeds;
}

AttentionSpeed measure_attention(const AttentionSpeedTask& task) {
  const DeviceFacts device = use_device(0);
  const Stream stream;
  AttentionSpeed speed{read_speed(task.pool_bytes, stream)};
  const KvLayout at = kv_layout(task.format, task.model.num_key_value_heads, task.page_size, task.model.head_dim);
  const std::int64_t set_bytes = 2 * at.byte_at(at.slots(num_pages(task)));
  const std::int64_t num_sets = std::max<std::int64_t>(1, task.pool_bytes / set_bytes);
  EngineOptions options{.model = task.model,
                        .max_rows = task.num_sequences,
                        .max_sequences = task.num_sequences,
                        .max_positions = task.num_positions,
                        .num_pages = num_sets * num_pages(task),
                        .page_size = task.page_size,
                        .kv_format = task.format};
  options.model.num_hidden_layers = 1;
  KvMemory kv(options, device);
  const std::vector<float> scales(static_cast<std::size_t>(task.model.num_key_value_heads),
                                  unit_scale(element_of(task.format)));
  if (!kv.has_scales()) kv.set_scales(scales, scales, stream);
  kv.allocate();
  const KvPages pages = kv.pages(0);
  fill_pages(pages, options.num_pages, stream);
  std::deque<TickMemory> memories;
  std::vector<TickArrays> ticks;
  for (std::int64_t i = 0; i < num_sets; ++i)
    ticks.push_back(send_tick(task, i * num_pages(task), memories.emplace_back(options), stream));
  const std::int64_t heads = task.model.num_attention_heads, partials = heads * memories[0].max_partials();
  const Memory stats = float_memory(2 * partials), contexts = float_memory(task.model.head_dim * partials),
               context = float_memory(task.num_sequences * task.model.q_size()),
               q = normal_memory(quant::Element::f32, 1, kQuerySeed, task.num_sequences * task.model.q_size() * kFloat,
                                 stream);
  speed.attention_s = best_s(std::max(num_sets, kFewestCalls), stream, [&](std::int64_t i) {
    const TickArrays& tick = ticks[static_cast<std::size_t>(i % num_sets)];
    attention({q.as<float>(), heads, tick.where, pages, tick.attention, stats.as<float>(), contexts.as<float>(),
               context.as<float>()},
              stream);
  });
  return speed;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
