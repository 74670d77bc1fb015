#include "cuda/bench/device_speed.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "cuda/attention/attention_plan.h"
#include "cuda/bench/bench_kernels.h"
#include "cuda/bench/bench_operands.h"
#include "cuda/bench/bench_plan.h"
#include "cuda/bench/best_of_rounds.h"
#include "cuda/gemm/gemms.h"
#include "cuda/runtime/kernels.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

// Any that differ.
constexpr std::uint64_t kKvSeed = 3, kQuerySeed = 4;

/// Bytes a second, read and written, when the pool's first half is copied to what follows.
double copy_speed(const Memory& pool, std::int64_t half, const Stream& stream) {
  return 2 * static_cast<double>(half) / best_s(4, stream, [&](std::int64_t) {
           copy_on_device(pool.as<std::uint8_t>() + half, pool.data(), static_cast<std::size_t>(half), stream);
         });
}

/// Bytes a second when all of the pool is read once by a kernel that does nothing else.
double read_speed(const Memory& pool, const Stream& stream) {
  const auto num_bytes = static_cast<std::int64_t>(pool.num_bytes()) / 16 * 16;
  const Memory sums(static_cast<std::size_t>(num_read_sums(num_bytes)) * sizeof(std::uint32_t));
  return static_cast<double>(num_bytes) / best_s(4, stream, [&](std::int64_t) {
           read_once({pool.data(), num_bytes, sums.as<std::uint32_t>()}, stream);
         });
}

/// How fast the device's memory is.
template <class Speed>
void measure_memory(const Memory& pool, std::int64_t half, const Stream& stream, Speed& speed) {
  speed.copy_bytes_per_s = copy_speed(pool, half, stream);
  speed.read_bytes_per_s = read_speed(pool, stream);
}

Memory float_memory(std::int64_t count) { return Memory(static_cast<std::size_t>(count) * sizeof(float)); }

/// What follows the pool's first `num_bytes` becomes copies of them.
void repeat(const Memory& pool, std::int64_t num_bytes, const Stream& stream) {
  const auto all = static_cast<std::int64_t>(pool.num_bytes());
  for (std::int64_t to = num_bytes; to < all; to += num_bytes) {
    copy_on_device(pool.as<std::uint8_t>() + to, pool.data(), static_cast<std::size_t>(std::min(num_bytes, all - to)),
                   stream);
  }
  stream.wait();
}

/// Rows of a tick whose pages lie in no order, and their plan on the device.
struct Rows {
  Rows(const AttentionSpeedTask& task, std::int64_t first_page, std::int64_t max_partials, const Stream& stream) {
    const std::int64_t pages_each = ceil_div(task.num_positions, task.page_size),
                       shared_pages = task.shared_positions / task.page_size;
    std::vector<std::int32_t> pool(static_cast<std::size_t>(num_pages(task)));
    std::iota(pool.begin(), pool.end(), static_cast<std::int32_t>(first_page));
    base::RandomStream(1, base::RandomPurpose::data_shuffle, 0).shuffle(std::span(pool));
    std::vector<std::int32_t> first_pages, page_ids;
    for (std::int64_t i = 0; i < task.num_sequences; ++i) {
      first_pages.push_back(static_cast<std::int32_t>(page_ids.size()));
      for (std::int64_t page = 0; page < pages_each; ++page)
        page_ids.push_back(
            pool[static_cast<std::size_t>(page < shared_pages ? page : i * (pages_each - shared_pages) + page)]);
    }
    const std::vector<std::int32_t> positions(first_pages.size(), static_cast<std::int32_t>(task.num_positions - 1));
    AttentionPlanner planner({task.num_heads, task.num_kv_heads, task.head_dim}, max_partials);
    const AttentionPlan& plan = planner.plan({positions, first_pages, page_ids, task.page_size});
    counts = counts_of(plan);
    joins_segments = plan.joins_segments;
    counts_there = sent(std::vector{counts}, stream);
    for (const std::vector<std::int32_t>* values : {&positions, &std::as_const(first_pages), &std::as_const(page_ids),
                                                    &plan.rows, &plan.partials_N, &plan.split_rows})
      arrays.push_back(sent(*values, stream));
    tiles = sent(plan.tiles, stream);
  }
  static std::int64_t num_pages(const AttentionSpeedTask& task) {
    const std::int64_t shared_pages = task.shared_positions / task.page_size;
    return shared_pages + task.num_sequences * (ceil_div(task.num_positions, task.page_size) - shared_pages);
  }
  RowPlaces where() const { return {ints(0), ints(1), ints(2)}; }
  AttentionWork work() const {
    return {counts_there.as<AttentionCounts>(),
            tiles.as<AttentionTile>(),
            ints(3),
            ints(4),
            ints(5),
            counts.num_small,
            counts.num_large,
            counts.num_split,
            joins_segments};
  }
  const std::int32_t* ints(std::size_t i) const { return arrays[i].as<std::int32_t>(); }

  AttentionCounts counts;
  bool joins_segments = false;
  std::vector<Memory> arrays;
  Memory counts_there, tiles;
};

}  // namespace

GemmSpeeds measure_gemm_speeds(const GemmSpeedTask& task) {
  const DeviceFacts device = use_device(task.device_number);
  const Stream stream;
  const std::unique_ptr<Gemms> gemms = make_gemms(device);
  const quant::FormatSpec& what = quant::spec(task.format);
  const MatrixLayout at = matrix_layout(task.format, task.out, task.in);
  const std::int64_t most_rows = *std::max_element(task.num_rows.begin(), task.num_rows.end());
  const std::int64_t half = task.pool_bytes / 2 / 256 * 256;
  const std::int64_t segment = round_up(at.num_bytes(), 256), num_matrices = std::max<std::int64_t>(1, half / segment);
  const Memory pool(static_cast<std::size_t>(std::max(2 * half, segment)));
  const Memory w_scales = quantize_normal_matrix(task.format, at, pool.data(), stream);
  repeat(pool, segment, stream);
  const NormalRows x(task.format, most_rows, task.in, stream);
  const Memory y(static_cast<std::size_t>(most_rows * at.rows) * sizeof(std::uint16_t));

  GemmSpeeds speeds;
  measure_memory(pool, half, stream, speeds);
  for (const std::int64_t num_rows : task.num_rows) {
    speeds.gemm_s.push_back(best_s(std::max(num_matrices, kFewestCalls), stream, [&](std::int64_t i) {
      const DeviceMatrix w{task.format, at, pool.as<std::uint8_t>() + i % num_matrices * segment,
                           at.num_scales > 0 ? w_scales.as<float>() : nullptr};
      gemms->multiply({x.rows, num_rows, w, y.data(), at.rows, false}, stream);
    }));
    const std::int64_t x_bytes = at.width * (what.activations == quant::Element::bf16 ? 2 : 1);
    speeds.num_bytes.push_back(at.num_bytes() + at.num_scales * at.rows * 4 + num_rows * (x_bytes + at.rows * 2));
  }
  return speeds;
}

AttentionSpeed measure_attention_speed(const AttentionSpeedTask& task) {
  require_valid(task);
  (void)use_device(task.device_number);
  const Stream stream;
  const KvLayout at = kv_layout(task.format, task.num_kv_heads, task.page_size, task.head_dim);
  const std::int64_t num_pages = Rows::num_pages(task), page_bytes = at.slots(1) * at.slot_bytes();
  const std::int64_t num_sets = std::max<std::int64_t>(1, task.pool_bytes / 2 / (num_pages * page_bytes));
  const std::int64_t half = num_sets * num_pages * page_bytes;
  const Memory pool(static_cast<std::size_t>(2 * half));  // keys, then values
  fill_pages(task.format, 2 * half, kKvSeed, pool.data(), stream);
  const std::int64_t num_slots = task.format == quant::KvFormat::int8 ? at.slots(num_sets * num_pages) : 0;
  const auto scales = [&](std::int64_t count) {
    return sent(std::vector<float>(static_cast<std::size_t>(count), page_scale(task.format)), stream);
  };
  const Memory slot_scales = scales(num_slots), head_scales = scales(task.num_kv_heads);
  const std::int64_t max_partials =
      num_attention_partials(task.num_heads, task.head_dim, task.num_sequences, task.num_positions);
  const Memory stats = float_memory(max_partials * task.num_heads * 2),
               contexts = float_memory(max_partials * task.num_heads * task.head_dim);
  const std::int64_t row_size = task.num_heads * task.head_dim;
  const Memory q = normal_floats(task.num_sequences * row_size, 1, kQuerySeed, stream);
  const Memory context = float_memory(task.num_sequences * row_size);
  std::vector<Rows> sets;
  for (std::int64_t i = 0; i < num_sets; ++i) sets.emplace_back(task, i * num_pages, max_partials, stream);
  auto* keys = pool.as<std::uint8_t>();
  const KvPages pages{task.format,
                      at,
                      task.head_dim,
                      keys,
                      keys + half,
                      slot_scales.as<float>(),
                      slot_scales.as<float>(),
                      head_scales.as<float>(),
                      head_scales.as<float>()};
  AttentionSpeed speed;
  measure_memory(pool, half, stream, speed);
  speed.attention_s = best_s(std::max(num_sets, kFewestCalls), stream, [&](std::int64_t i) {
    const Rows& rows = sets[static_cast<std::size_t>(i % num_sets)];
    attention({q.as<float>(), task.num_heads, rows.where(), pages, rows.work(), stats.as<float>(), contexts.as<float>(),
               context.as<float>()},
              stream);
  });
  speed.num_bytes = attention_bytes(task);
  return speed;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
