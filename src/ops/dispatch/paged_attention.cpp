#include "ops/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "ops/kernels/attention.h"
#include "ops/kernels/kernels.h"
#include "ops/ranges.h"
#include "ops/scratch.h"
#include "quant/format.h"
#include "quant/fp8.h"

namespace qrl::ops {

namespace {

using quant::KvFormat;

std::int64_t round_up_quotient(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

/// Returns the bytes of one kv head's quantized keys or values in a page, whichever is larger, rounded up to whole
/// cache lines.
std::int64_t quantized_bytes(const HeadShape& shape, KvFormat format, std::int64_t page_size) {
  const std::int64_t word = quant::values_per_word(format);
  return round_up(quant::value_bytes(format) *
                      std::max(round_up(shape.head_dim, word) * page_size, round_up(page_size, word) * shape.head_dim),
                  64);
}

std::int64_t head_bytes(const HeadShape& shape, KvFormat format, std::int64_t page_size) {
  const std::int64_t scales = format == KvFormat::int8 ? page_size * static_cast<std::int64_t>(sizeof(float)) : 0;
  return quantized_bytes(shape, format, page_size) + round_up(scales, 64);
}

// All team members check the same values, so all throw or none does.
void check_heads(const HeadShape& shape, const KvPages& pages, const char* where) {
  QRL_INVARIANT(shape.num_kv_heads > 0 && shape.num_heads > 0 && shape.num_heads % shape.num_kv_heads == 0 &&
                    shape.head_dim > 0 && shape.head_dim % 2 == 0,
                where, "query heads a multiple of the kv heads, and an even head_dim",
                std::to_string(shape.num_heads) + " / " + std::to_string(shape.num_kv_heads) + " heads of " +
                    std::to_string(shape.head_dim));
  const bool scaled = pages.format == KvFormat::fp8_e4m3;
  QRL_INVARIANT(pages.keys != nullptr && pages.values != nullptr && pages.page_size > 0 &&
                    scaled == (pages.key_scales != nullptr) && scaled == (pages.value_scales != nullptr),
                where, "pages with memory, and scales where the format has them", std::string(name(pages.format)));
}

struct Slot {
  const KvPages& pages;
  std::int64_t head_dim, value_bytes, word, head_offset, scales_offset, slot, kv_head;

  Slot(const HeadShape& shape, const KvPages& p, std::int64_t page, std::int64_t slot_idx, std::int64_t head)
      : pages(p),
        head_dim(shape.head_dim),
        value_bytes(quant::value_bytes(p.format)),
        word(quant::values_per_word(p.format)),
        head_offset((page * shape.num_kv_heads + head) * head_bytes(shape, p.format, p.page_size)),
        scales_offset(head_offset + quantized_bytes(shape, p.format, p.page_size)),
        slot(slot_idx),
        kv_head(head) {}

  std::byte* key(std::int64_t e) const {
    return pages.keys + head_offset + ((e / word * pages.page_size + slot) * word + e % word) * value_bytes;
  }
  std::byte* value(std::int64_t e) const {
    return pages.values + head_offset + ((slot / word * head_dim + e) * word + slot % word) * value_bytes;
  }
  float* key_scale() const { return reinterpret_cast<float*>(pages.keys + scales_offset) + slot; }
  float* value_scale() const { return reinterpret_cast<float*>(pages.values + scales_offset) + slot; }
};

/// Stores a key and a value. Zero-pads the key's last word, because dot products read whole words.
template <class Element>
void scatter(const Slot& at, const Element* key, const Element* value) {
  const std::int64_t words = at.head_dim / at.word, rest = at.head_dim % at.word;
  for (std::int64_t w = 0; w < words; ++w)
    std::memcpy(at.key(w * at.word), key + w * at.word, static_cast<std::size_t>(at.word) * sizeof(Element));
  if (rest > 0) {
    std::memset(at.key(words * at.word), 0, static_cast<std::size_t>(at.word) * sizeof(Element));
    std::memcpy(at.key(words * at.word), key + words * at.word, static_cast<std::size_t>(rest) * sizeof(Element));
  }
  std::byte* to = at.value(0);
  const std::int64_t step = at.word * at.value_bytes;
  for (std::int64_t e = 0; e < at.head_dim; ++e) std::memcpy(to + e * step, value + e, sizeof(Element));
}

/// Stores one head's key and value. If kept_key is not null, also writes the dequantized key and value to kept_key and
/// kept_value [E].
void store_slot(const Slot& at, const float* key, const float* value, float* kept_key, float* kept_value) {
  const std::int64_t width = at.head_dim;
  const auto count = static_cast<std::size_t>(width);
  float* quantized = scratch(2 * width);
  const bool keeps = kept_key != nullptr;
  switch (at.pages.format) {
    case KvFormat::f32:
      return scatter(at, key, value);
    case KvFormat::bf16: {
      auto* bits = reinterpret_cast<std::uint16_t*>(quantized);
      kernels().round_to_bf16(key, width, bits);
      kernels().round_to_bf16(value, width, bits + width);
      scatter(at, bits, bits + width);
      if (!keeps) return;
      kernels().widen_bf16(bits, width, kept_key);
      return kernels().widen_bf16(bits + width, width, kept_value);
    }
    case KvFormat::int8: {
      auto* bytes = reinterpret_cast<std::int8_t*>(quantized);
      *at.key_scale() = kernels().quantize_int8(key, width, bytes);
      *at.value_scale() = kernels().quantize_int8(value, width, bytes + width);
      scatter(at, bytes, bytes + width);
      if (!keeps) return;
      quant::dequantize_int8({bytes, count}, *at.key_scale(), {kept_key, count});
      return quant::dequantize_int8({bytes + width, count}, *at.value_scale(), {kept_value, count});
    }
    case KvFormat::fp8_e4m3: {
      auto* bytes = reinterpret_cast<std::uint8_t*>(quantized);
      const float key_scale = at.pages.key_scales[at.kv_head], value_scale = at.pages.value_scales[at.kv_head];
      kernels().quantize_fp8(key, width, key_scale, bytes);
      kernels().quantize_fp8(value, width, value_scale, bytes + width);
      scatter(at, bytes, bytes + width);
      if (!keeps) return;
      for (std::int64_t e = 0; e < width; ++e) {
        kept_key[e] = quant::dequantize_fp8(bytes[e]) * key_scale;
        kept_value[e] = quant::dequantize_fp8(bytes[width + e]) * value_scale;
      }
    }
  }
}

void store_row(const HeadShape& shape, const AttentionRows& where, std::int64_t row, const KvPages& pages,
               bool write_back, float* k) {
  const std::int64_t position = where.positions[row], kv_width = shape.num_kv_heads * shape.head_dim;
  const std::int32_t page = where.page_tables[row][position / pages.page_size];
  for (std::int64_t head = 0; head < shape.num_kv_heads; ++head) {
    float* key = k + head * shape.head_dim;
    store_slot(Slot(shape, pages, page, position % pages.page_size, head), key, key + kv_width,
               write_back ? key : nullptr, key + kv_width);
  }
}

}  // namespace

std::int64_t attention_reach(std::int64_t window) { return window + kAttentionSpan - 1; }

std::int64_t kv_page_bytes(const HeadShape& shape, KvFormat format, std::int64_t page_size) {
  return shape.num_kv_heads * head_bytes(shape, format, page_size);
}

void copy_slots(const HeadShape& shape, const KvPages& pages, std::int32_t from, std::int32_t to,
                std::int64_t num_slots) {
  const auto copy = [](const std::byte* source, std::byte* target, std::int64_t num_bytes) {
    std::memcpy(target, source, static_cast<std::size_t>(num_bytes));
  };
  for (std::int64_t head = 0; head < shape.num_kv_heads; ++head) {
    const Slot source(shape, pages, from, 0, head), target(shape, pages, to, 0, head);
    for (std::int64_t e = 0; e < shape.head_dim; e += source.word)
      copy(source.key(e), target.key(e), num_slots * source.word * source.value_bytes);
    const std::int64_t whole = num_slots / source.word;
    copy(source.value(0), target.value(0), whole * source.word * shape.head_dim * source.value_bytes);
    for (std::int64_t slot = whole * source.word; slot < num_slots; ++slot) {
      const Slot one(shape, pages, from, slot, head), other(shape, pages, to, slot, head);
      for (std::int64_t e = 0; e < shape.head_dim; ++e) copy(one.value(e), other.value(e), one.value_bytes);
    }
    if (pages.format != KvFormat::int8) continue;
    std::copy_n(source.key_scale(), num_slots, target.key_scale());
    std::copy_n(source.value_scale(), num_slots, target.value_scale());
  }
}

void read_slot(const HeadShape& shape, const KvPages& pages, std::int32_t page, std::int64_t slot, std::int64_t kv_head,
               float* key, float* value) {
  const Slot at(shape, pages, page, slot, kv_head);
  const auto dequantize = [&](const std::byte* quantized, const float* int8_scale, const float* fp8_scales) {
    switch (pages.format) {
      case KvFormat::f32: {
        float number;
        std::memcpy(&number, quantized, sizeof number);
        return number;
      }
      case KvFormat::bf16: {
        base::bf16 number;
        std::memcpy(&number, quantized, sizeof number);
        return base::to_float(number);
      }
      case KvFormat::int8:
        return static_cast<float>(static_cast<std::int8_t>(*quantized)) * *int8_scale;
      case KvFormat::fp8_e4m3:
        break;
    }
    return quant::dequantize_fp8(static_cast<std::uint8_t>(*quantized)) * fp8_scales[kv_head];
  };
  for (std::int64_t e = 0; e < shape.head_dim; ++e) {
    key[e] = dequantize(at.key(e), at.key_scale(), pages.key_scales);
    value[e] = dequantize(at.value(e), at.value_scale(), pages.value_scales);
  }
}

void rope_and_store(base::Team& team, const HeadShape& shape, const HeadNorms& norms, const base::View& rope_table,
                    const AttentionRows& where, base::Range rows, const KvPages& pages, float* qkv) {
  check_heads(shape, pages, "rope_and_store");
  QRL_INVARIANT(rope_table.shape.rank() == 2 && rope_table.shape[1] <= shape.head_dim && rope_table.shape[1] % 2 == 0,
                "rope_and_store", "a table of at most " + std::to_string(shape.head_dim) + " columns, an even number",
                rope_table.shape.to_string());
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    QRL_INVARIANT(0 <= where.positions[row] && where.positions[row] < rope_table.shape[0],
                  "rope_and_store, row " + std::to_string(row),
                  "a position below " + std::to_string(rope_table.shape[0]), std::to_string(where.positions[row]));
  }
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  const std::int64_t row_width = shape.num_heads * shape.head_dim + 2 * kv_width;
  const base::Range mine = team.slice(rows.size());
  for (std::int64_t row = rows.begin + mine.begin; row < rows.begin + mine.end; ++row) {
    const std::int64_t position = where.positions[row];
    RopeTask task;
    task.head_dim = shape.head_dim;
    task.eps = norms.eps;
    task.norms_whole = norms.whole;
    task.rotary_dim = rope_table.shape[1];
    task.rope = rope_table.as<float>() + position * task.rotary_dim;
    task.heads = qkv + row * row_width;
    task.num_heads = shape.num_heads;
    task.gain = norms.q;
    kernels().rope(task);
    float* k = task.heads + shape.num_heads * shape.head_dim;
    task.heads = k;
    task.num_heads = shape.num_kv_heads;
    task.gain = norms.k;
    kernels().rope(task);
    store_row(shape, where, row, pages, false, k);
  }
}

void store_kv(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
              const KvPages& pages, bool write_back, float* qkv) {
  check_heads(shape, pages, "store_kv");
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t row_width = q_width + 2 * shape.num_kv_heads * shape.head_dim;
  const base::Range mine = team.slice(rows.size());
  for (std::int64_t row = rows.begin + mine.begin; row < rows.begin + mine.end; ++row) {
    store_row(shape, where, row, pages, write_back, qkv + row * row_width + q_width);
  }
}

void quantize_queries(base::Team& team, const HeadShape& shape, base::Range rows, const float* scales_K, float* qkv) {
  const std::int64_t group = shape.num_heads / shape.num_kv_heads;
  const std::int64_t row_width = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
  auto* bytes = reinterpret_cast<std::uint8_t*>(scratch(shape.head_dim));
  const base::Range mine = team.slice(rows.size());
  for (std::int64_t row = rows.begin + mine.begin; row < rows.begin + mine.end; ++row) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      float* q = qkv + row * row_width + head * shape.head_dim;
      kernels().quantize_fp8(q, shape.head_dim, scales_K[head / group], bytes);
      for (std::int64_t e = 0; e < shape.head_dim; ++e) q[e] = quant::dequantize_fp8(bytes[e]);
    }
  }
}

void paged_attention(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
                     const KvPages& pages, const float* qkv, float* context, float* lse_NH) {
  check_heads(shape, pages, "paged_attention");
  const std::int64_t group = shape.num_heads / shape.num_kv_heads;
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t row_width = q_width + 2 * shape.num_kv_heads * shape.head_dim;

  // Divides positions equally among members. A member computes the (row, kv head) pairs whose first position is in its
  // share.
  std::int64_t all_positions = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) all_positions += where.positions[row] + 1;
  const base::Range mine = team.slice(all_positions * shape.num_kv_heads);

  AttentionTask task;
  task.num_queries = group;
  task.head_dim = shape.head_dim;
  task.page_size = pages.page_size;
  task.head_bytes = head_bytes(shape, pages.format, pages.page_size);
  task.page_bytes = shape.num_kv_heads * task.head_bytes;
  if (pages.format == KvFormat::int8) task.scales = quantized_bytes(shape, pages.format, pages.page_size);
  task.softmax_scale = shape.score_scale > 0 ? shape.score_scale : 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  thread_local std::vector<AttentionTask> tasks;
  tasks.clear();
  std::int64_t before = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    task.num_positions = where.positions[row] + 1;
    task.first_position = shape.window > 0 ? std::max<std::int64_t>(0, task.num_positions - shape.window) : 0;
    const auto heads_beginning_below = [&](std::int64_t limit) {
      return std::clamp<std::int64_t>(round_up_quotient(limit - before, task.num_positions), 0, shape.num_kv_heads);
    };
    const base::Range heads{heads_beginning_below(mine.begin), heads_beginning_below(mine.end)};
    before += task.num_positions * shape.num_kv_heads;
    if (heads.size() == 0) continue;
    task.num_heads = heads.size();
    task.page_table = where.page_tables[row];
    task.keys = pages.keys + heads.begin * task.head_bytes;
    task.values = pages.values + heads.begin * task.head_bytes;
    if (pages.format == KvFormat::fp8_e4m3) {
      task.key_scales = pages.key_scales + heads.begin;
      task.value_scales = pages.value_scales + heads.begin;
    }
    const std::int64_t first_element = heads.begin * group * shape.head_dim;
    task.q = qkv + row * row_width + first_element;
    task.context = context + row * q_width + first_element;
    if (lse_NH != nullptr) task.lse = lse_NH + row * shape.num_heads + heads.begin * group;
    tasks.push_back(task);
  }
  if (tasks.empty()) return;
  const AttentionKernels& table = *kernels().attention;
  const AttentionKernel attention = pages.format == KvFormat::f32    ? table.f32
                                    : pages.format == KvFormat::bf16 ? table.bf16
                                    : pages.format == KvFormat::int8 ? table.int8
                                                                     : table.fp8;
  attention(tasks.data(), static_cast<std::int64_t>(tasks.size()),
            scratch(attention_scratch_floats(shape.num_heads, shape.head_dim)));
}

}  // namespace qrl::ops
