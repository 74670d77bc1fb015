// Owns the helpers of the attention tests: filled pages on device and CPU, a tick's rows, and attention on the device,
// on the CPU and in fp64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "cuda/attention/attention_plan.h"
#include "device.h"
#include "ops/paged_attention.h"

namespace qrl::cuda::test {

using quant::KvFormat;

inline constexpr KvFormat kFormats[] = {KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3};

/// Holds pages of keys and values, the same quantized values on the device and on the CPU. The contents of the i-th
/// page do not depend on its location.
struct Pool {
  Pool(KvFormat format_, const ops::HeadShape& heads_, std::int64_t page_size, std::vector<std::int32_t> page_ids_)
      : format(format_),
        heads(heads_),
        at(kv_layout(format, heads.num_kv_heads, page_size, heads.head_dim)),
        page_ids(std::move(page_ids_)),
        quantized{std::vector<std::uint8_t>(static_cast<std::size_t>(at.slots(num_pages()) * at.slot_bytes())), {}} {
    quantized[1] = quantized[0];
    for (std::vector<float>& scales : slot_scales) scales.assign(static_cast<std::size_t>(at.slots(num_pages())), 1.0F);
    for (std::int64_t i = 0; i < heads.num_kv_heads; ++i) {
      head_scales[0].push_back(0.01F * static_cast<float>(i + 1));
      head_scales[1].push_back(0.015F * static_cast<float>(heads.num_kv_heads - i));
    }
    const auto page_bytes = ops::kv_page_bytes(heads, format, page_size);
    for (base::Buffer& side : cpu_sides) side = base::Buffer(base::DType::u8, {num_pages(), page_bytes});
    cpu = {format,
           num_pages(),
           page_size,
           static_cast<std::byte*>(cpu_sides[0].view().data),
           static_cast<std::byte*>(cpu_sides[1].view().data),
           format == KvFormat::fp8_e4m3 ? head_scales[0].data() : nullptr,
           format == KvFormat::fp8_e4m3 ? head_scales[1].data() : nullptr};
    base::RandomStream random(3, base::RandomPurpose::test, 0);
    for (const std::int32_t page : page_ids) {
      for (std::int64_t slot = 0; slot < page_size; ++slot) fill(page, slot, random);
    }
    to_device();
  }
  std::int64_t num_pages() const { return static_cast<std::int64_t>(page_ids.size()); }

  void fill(std::int32_t page, std::int64_t slot, base::RandomStream& random) {
    const std::int64_t width = heads.head_dim, num_kv_heads = heads.num_kv_heads;
    std::vector<float> qkv(static_cast<std::size_t>((heads.num_heads + 2 * num_kv_heads) * width));
    for (int side = 0; side < 2; ++side) {
      for (std::int64_t head = 0; head < num_kv_heads; ++head) {
        const std::int64_t idx = at.slot(page, head, slot);
        const float head_scale = head_scales[side][static_cast<std::size_t>(head)];
        const float slot_scale = std::ldexp(1.0F, static_cast<int>((slot + side) % 3) - 7);
        slot_scales[side][static_cast<std::size_t>(idx)] = slot_scale;
        for (std::int64_t e = 0; e < width; ++e) {
          const float value = e == 0 ? 127 * slot_scale : random.normal();  // fixes int8's scale
          const float dequantized = put(quantized[side].data() + at.byte_at(idx), e, value,
                                        format == KvFormat::int8 ? slot_scale : head_scale);
          qkv[static_cast<std::size_t>((heads.num_heads + side * num_kv_heads + head) * width + e)] = dequantized;
        }
      }
    }
    const auto position = static_cast<std::int32_t>(slot);
    const std::int32_t* table = &page;
    base::Team alone = base::Team::solo();
    ops::store_kv(alone, heads, {&position, &table}, {0, 1}, cpu, false, qkv.data());
  }
  float put(std::uint8_t* slot, std::int64_t e, float value, float scale) const {
    if (format == KvFormat::bf16) {
      const std::uint16_t code = bf16_of(value);
      std::memcpy(slot + 2 * e, &code, sizeof code);
      return float_of_bf16(code);
    }
    if (format == KvFormat::int8) {
      const std::int8_t code = quantize_to_int(value, scale, 127.0F);
      slot[e] = static_cast<std::uint8_t>(code);
      return static_cast<float>(code) * scale;
    }
    slot[e] = fp8_of(value / scale);
    return float_of_fp8(slot[e]) * scale;
  }
  void to_device() {
    keys = std::make_unique<OnDevice<std::uint8_t>>(quantized[0]);
    values = std::make_unique<OnDevice<std::uint8_t>>(quantized[1]);
    for (int side = 0; side < 2; ++side) {
      slot_scales_there[side] = std::make_unique<OnDevice<float>>(slot_scales[side]);
      head_scales_there[side] = std::make_unique<OnDevice<float>>(head_scales[side]);
    }
  }
  target::KvPages there() const {
    return {format,
            at,
            heads.head_dim,
            keys->data(),
            values->data(),
            slot_scales_there[0]->data(),
            slot_scales_there[1]->data(),
            head_scales_there[0]->data(),
            head_scales_there[1]->data()};
  }

  KvFormat format;
  ops::HeadShape heads;
  KvLayout at;
  std::vector<std::int32_t> page_ids;
  std::vector<float> head_scales[2], slot_scales[2];  // for keys, for values
  std::vector<std::uint8_t> quantized[2];
  base::Buffer cpu_sides[2];
  ops::KvPages cpu;
  std::unique_ptr<OnDevice<std::uint8_t>> keys, values;
  std::unique_ptr<OnDevice<float>> slot_scales_there[2], head_scales_there[2];
};

inline std::vector<std::int32_t> numbers(std::int64_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}
inline std::vector<std::int32_t> shuffled(std::int64_t count) {
  std::vector<std::int32_t> ids = numbers(count);
  base::RandomStream random(9, base::RandomPurpose::test, 0);
  random.shuffle(std::span(ids));
  return ids;
}

/// Holds the rows of a tick: sequences of pages, each with some rows of consecutive positions.
struct Rows {
  /// Adds a sequence; `pages` lists its pages of the pool in order.
  void add(const Pool& pool, const std::vector<std::int64_t>& pages, std::int32_t first_position,
           std::int32_t num_rows = 1) {
    for (std::int32_t i = 0; i < num_rows; ++i) {
      positions.push_back(first_position + i);
      first_pages.push_back(static_cast<std::int32_t>(page_ids.size()));
    }
    for (const std::int64_t page : pages) page_ids.push_back(pool.page_ids[static_cast<std::size_t>(page)]);
    REQUIRE((first_position + num_rows - 1) / pool.at.page_size < static_cast<std::int64_t>(pages.size()));
  }
  std::vector<std::int32_t> positions, first_pages, page_ids;
};

inline std::vector<std::int64_t> consecutive(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> pages(static_cast<std::size_t>(count));
  std::iota(pages.begin(), pages.end(), first);
  return pages;
}

inline std::size_t row_floats(const ops::HeadShape& heads) {
  return static_cast<std::size_t>(heads.num_heads * heads.head_dim);
}

struct Attended {
  std::vector<float> context;
  std::vector<std::uint16_t> quantized;  ///< result in this format instead, with a stride
  AttentionPlan plan;
};

/// Computes attention on the device. q: [rows, H·E]. tile_blocks 0: one block per tile. joins_segments: in place of the
/// plan's.
inline Attended attend(const Pool& pool, const Rows& rows, const std::vector<float>& q, std::int64_t max_partials,
                       std::int64_t tile_blocks = 0, std::int64_t bf16_stride = 0,
                       std::optional<bool> joins_segments = {}) {
  const ops::HeadShape& heads = pool.heads;
  AttentionPlanner planner({heads.num_heads, heads.num_kv_heads, heads.head_dim}, max_partials);
  Attended done;
  done.plan = planner.plan({rows.positions, rows.first_pages, rows.page_ids, pool.at.page_size});
  const AttentionPlan& plan = done.plan;
  const OnDevice<float> q_there(q), context(std::vector<float>(q.size(), std::nanf("")));
  const OnDevice<std::uint16_t> quantized(
      std::vector<std::uint16_t>(rows.positions.size() * static_cast<std::size_t>(bf16_stride), 0xffff));
  const OnDevice<float> stats(
      std::vector<float>(static_cast<std::size_t>(max_partials * heads.num_heads * 2), std::nanf(""))),
      contexts(std::vector<float>(static_cast<std::size_t>(max_partials) * row_floats(heads), std::nanf("")));
  const OnDevice<std::int32_t> positions(rows.positions), first_pages(rows.first_pages), page_ids(rows.page_ids),
      tile_rows(plan.rows), partials(plan.partials_N), split_rows(plan.split_rows);
  const OnDevice<AttentionTile> tiles(plan.tiles);
  const AttentionCounts counts = counts_of(plan);
  const OnDevice<AttentionCounts> counts_there({counts});
  const target::Stream stream;
  target::attention(
      {q_there.data(),
       heads.num_heads,
       {positions.data(), first_pages.data(), page_ids.data()},
       pool.there(),
       {counts_there.data(), tiles.data(), tile_rows.data(), partials.data(), split_rows.data(),
        tile_blocks > 0 ? tile_blocks : counts.num_small, tile_blocks > 0 ? tile_blocks : counts.num_large,
        counts.num_split + tile_blocks, joins_segments.value_or(plan.joins_segments)},
       stats.data(),
       contexts.data(),
       context.data(),
       bf16_stride > 0 ? quantized.data() : nullptr,
       bf16_stride,
       heads.score_scale,
       static_cast<std::int32_t>(heads.window)},
      stream);
  stream.wait();
  done.context = context.read();
  done.quantized = quantized.read();
  return done;
}

inline std::vector<float> on_cpu(const Pool& pool, const Rows& rows, const std::vector<float>& q) {
  const ops::HeadShape& heads = pool.heads;
  const std::size_t size = row_floats(heads),
                    stride = size + static_cast<std::size_t>(2 * heads.num_kv_heads * heads.head_dim);
  const std::size_t num_rows = rows.positions.size();
  std::vector<float> qkv(num_rows * stride), context(num_rows * size);
  std::vector<const std::int32_t*> tables;
  for (std::size_t row = 0; row < num_rows; ++row) {
    std::copy_n(q.data() + row * size, size, qkv.data() + row * stride);
    tables.push_back(rows.page_ids.data() + rows.first_pages[row]);
  }
  base::Team alone = base::Team::solo();
  ops::paged_attention(alone, heads, {rows.positions.data(), tables.data()}, {0, static_cast<std::int64_t>(num_rows)},
                       pool.cpu, qkv.data(), context.data());
  return context;
}

/// Computes attention in fp64, exactly, from the quantized values and scales on the device.
inline std::vector<float> in_fp64(const Pool& pool, const Rows& rows, const std::vector<float>& q) {
  const ops::HeadShape& heads = pool.heads;
  const auto width = static_cast<std::size_t>(heads.head_dim);
  const auto value_at = [&](int side, std::int64_t slot, std::int64_t head, std::size_t e) -> double {
    const std::uint8_t* at = pool.quantized[side].data() + pool.at.byte_at(slot);
    if (pool.format == KvFormat::bf16) return float_of_bf16(reinterpret_cast<const std::uint16_t*>(at)[e]);
    if (pool.format == KvFormat::int8)
      return static_cast<double>(static_cast<std::int8_t>(at[e])) *
             pool.slot_scales[side][static_cast<std::size_t>(slot)];
    return static_cast<double>(float_of_fp8(at[e])) * pool.head_scales[side][static_cast<std::size_t>(head)];
  };
  std::vector<float> context(q.size());
  for (std::size_t row = 0; row < rows.positions.size(); ++row) {
    for (std::int64_t head = 0; head < heads.num_heads; ++head) {
      const std::size_t first = row * row_floats(heads) + static_cast<std::size_t>(head) * width;
      const std::int64_t kv_head = head / (heads.num_heads / heads.num_kv_heads);
      std::vector<double> sums(width);
      double total = 0;
      for (std::int64_t position = 0; position <= rows.positions[row]; ++position) {
        const std::size_t page = static_cast<std::size_t>(rows.first_pages[row] + position / pool.at.page_size);
        const std::int64_t slot = pool.at.slot(rows.page_ids[page], kv_head, position % pool.at.page_size);
        double score = 0;
        for (std::size_t e = 0; e < width; ++e)
          score += static_cast<double>(q[first + e]) * value_at(0, slot, kv_head, e);
        const double weight = std::exp(score / std::sqrt(static_cast<double>(width)));
        total += weight;
        for (std::size_t e = 0; e < width; ++e) sums[e] += weight * value_at(1, slot, kv_head, e);
      }
      for (std::size_t e = 0; e < width; ++e) context[first + e] = static_cast<float>(sums[e] / total);
    }
  }
  return context;
}

inline constexpr std::int64_t kManyPartials = 300;

}  // namespace qrl::cuda::test
