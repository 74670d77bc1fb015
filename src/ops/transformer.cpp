#include "ops/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/kernels/kernels.h"

namespace qrl::ops {

namespace {

using base::DType;

/// Per-thread memory that grows and is kept: ops run thousands of times a second.
float* scratch(std::int64_t num_floats) {
  thread_local std::vector<float> memory;
  const auto needed = static_cast<std::size_t>(num_floats);
  if (memory.size() < needed) memory.resize(needed);
  return memory.data();
}

/// ⌈a / b⌉ for b > 0; 0 for negative a.
std::int64_t round_up_quotient(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

/// This member's share of the rows.
base::Range share(const base::Team& team, base::Range rows) {
  const base::Range mine = team.slice(rows.size());
  return {rows.begin + mine.begin, rows.begin + mine.end};
}

// Checks look at the same values on every member, so that all of a team throw or none does.

void check_rows(base::Range rows, const Activations& out, const char* where) {
  QRL_INVARIANT(0 <= rows.begin && rows.begin <= rows.end && rows.end <= out.max_rows(), where,
                "rows within [0, " + std::to_string(out.max_rows()) + ")",
                "[" + std::to_string(rows.begin) + ", " + std::to_string(rows.end) + ")");
}

void check_heads(const HeadShape& shape, const KvPages& pages, const char* where) {
  QRL_INVARIANT(shape.num_kv_heads > 0 && shape.num_heads > 0 && shape.num_heads % shape.num_kv_heads == 0 &&
                    shape.head_dim > 0 && shape.head_dim % 2 == 0,
                where, "query heads a multiple of the kv heads, and an even head_dim",
                std::to_string(shape.num_heads) + " / " + std::to_string(shape.num_kv_heads) + " heads of " +
                    std::to_string(shape.head_dim));
  for (const base::View* side : {&pages.keys, &pages.values}) {
    const bool shaped = side->shape.rank() == 4 && side->shape[1] == pages.page_size &&
                        side->shape[2] == shape.num_kv_heads && side->shape[3] == shape.head_dim;
    QRL_INVARIANT(shaped && side->dtype == pages.keys.dtype && pages.page_size > 0 &&
                      (side->dtype == DType::f32 || side->dtype == DType::bf16) && side->device == base::Device::cpu,
                  where,
                  "fp32 or bf16 pages [*, " + std::to_string(pages.page_size) + ", " +
                      std::to_string(shape.num_kv_heads) + ", " + std::to_string(shape.head_dim) + "]",
                  std::string(name(side->dtype)) + " " + side->shape.to_string());
  }
}

}  // namespace

void embed(base::Team& team, const base::View& table_VD, const std::int32_t* tokens, base::Range rows, float* x_ND) {
  QRL_INVARIANT(table_VD.shape.rank() == 2 && (table_VD.dtype == DType::f32 || table_VD.dtype == DType::bf16), "embed",
                "an fp32 or bf16 table [V, D]", std::string(name(table_VD.dtype)) + " " + table_VD.shape.to_string());
  const std::int64_t width = table_VD.shape[1];
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    QRL_INVARIANT(0 <= tokens[row] && tokens[row] < table_VD.shape[0], "embed, row " + std::to_string(row),
                  "a token below " + std::to_string(table_VD.shape[0]), std::to_string(tokens[row]));
  }
  const base::Range mine = share(team, rows);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const std::int64_t first = tokens[row] * width;
    float* x = x_ND + row * width;
    if (table_VD.dtype == DType::f32) {
      std::memcpy(x, table_VD.as<float>() + first, static_cast<std::size_t>(width) * sizeof(float));
    } else {
      kernels().decode_bf16(static_cast<const std::uint16_t*>(table_VD.data) + first, width, x);
    }
  }
}

void rms_norm(base::Team& team, const float* x_ND, const float* gain_D, float eps, base::Range rows, Activations& out) {
  check_rows(rows, out, "rms_norm");
  const base::Range mine = share(team, rows);
  float* normed = scratch(out.width);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    kernels().rms_norm(x_ND + row * out.width, gain_D, eps, out.width, normed);
    encode_row(normed, row, out);
  }
}

void swiglu(base::Team& team, const float* gate_up_N2F, base::Range rows, Activations& out) {
  check_rows(rows, out, "swiglu");
  const base::Range mine = share(team, rows);
  float* product = scratch(out.width);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const float* gate = gate_up_N2F + row * 2 * out.width;
    kernels().swiglu(gate, gate + out.width, out.width, product);
    encode_row(product, row, out);
  }
}

base::Buffer make_rope_table(std::int64_t max_positions, std::int64_t head_dim, double theta) {
  QRL_INVARIANT(head_dim > 0 && head_dim % 2 == 0, "rope table", "an even head_dim", std::to_string(head_dim));
  base::Buffer table(DType::f32, {max_positions, head_dim});
  const std::int64_t half = head_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (std::int64_t position = 0; position < max_positions; ++position) {
      float* row = table.as<float>() + position * head_dim;
      row[i] = static_cast<float>(std::cos(static_cast<double>(position) * frequency));
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(position) * frequency));
    }
  }
  return table;
}

void rope_and_store(base::Team& team, const HeadShape& shape, const float* q_norm_E, const float* k_norm_E, float eps,
                    const base::View& rope_table, const AttentionRows& where, base::Range rows, const KvPages& pages,
                    float* qkv) {
  check_heads(shape, pages, "rope_and_store");
  QRL_INVARIANT(rope_table.shape.rank() == 2 && rope_table.shape[1] == shape.head_dim, "rope_and_store",
                "a table [*, " + std::to_string(shape.head_dim) + "]", rope_table.shape.to_string());
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    QRL_INVARIANT(0 <= where.positions[row] && where.positions[row] < rope_table.shape[0],
                  "rope_and_store, row " + std::to_string(row),
                  "a position below " + std::to_string(rope_table.shape[0]), std::to_string(where.positions[row]));
  }
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  const std::int64_t row_width = shape.num_heads * shape.head_dim + 2 * kv_width;
  const base::Range mine = share(team, rows);
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const std::int64_t position = where.positions[row];
    RopeTask task;
    task.head_dim = shape.head_dim;
    task.eps = eps;
    task.rope = rope_table.as<float>() + position * shape.head_dim;
    task.heads = qkv + row * row_width;
    task.num_heads = shape.num_heads;
    task.gain = q_norm_E;
    kernels().rope(task);
    float* k = task.heads + shape.num_heads * shape.head_dim;
    task.heads = k;
    task.num_heads = shape.num_kv_heads;
    task.gain = k_norm_E;
    kernels().rope(task);

    const std::int64_t page = where.page_tables[row][position / pages.page_size];
    const std::int64_t slot = (page * pages.page_size + position % pages.page_size) * kv_width;
    if (pages.keys.dtype == DType::f32) {
      std::memcpy(pages.keys.as<float>() + slot, k, static_cast<std::size_t>(kv_width) * sizeof(float));
      std::memcpy(pages.values.as<float>() + slot, k + kv_width, static_cast<std::size_t>(kv_width) * sizeof(float));
    } else {
      kernels().encode_bf16(k, kv_width, static_cast<std::uint16_t*>(pages.keys.data) + slot);
      kernels().encode_bf16(k + kv_width, kv_width, static_cast<std::uint16_t*>(pages.values.data) + slot);
    }
  }
}

void paged_attention(base::Team& team, const HeadShape& shape, const AttentionRows& where, base::Range rows,
                     const KvPages& pages, const float* qkv, float* context) {
  check_heads(shape, pages, "paged_attention");
  const std::int64_t group = shape.num_heads / shape.num_kv_heads;
  const std::int64_t q_width = shape.num_heads * shape.head_dim;
  const std::int64_t kv_width = shape.num_kv_heads * shape.head_dim;
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(pages.keys.dtype));

  // Rows cost what they see, so members share positions, not rows: a (row, kv head) belongs to the member in whose
  // share of all positions it begins.
  std::int64_t all_positions = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) all_positions += where.positions[row] + 1;
  const base::Range mine = team.slice(all_positions * shape.num_kv_heads);

  AttentionTask task;
  task.num_queries = group;
  task.head_dim = shape.head_dim;
  task.page_size = pages.page_size;
  task.slot_stride = kv_width;
  task.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  std::int64_t before = 0;  // positions × kv heads of the rows before this one
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    task.num_positions = where.positions[row] + 1;
    const auto heads_beginning_below = [&](std::int64_t limit) {
      return std::clamp<std::int64_t>(round_up_quotient(limit - before, task.num_positions), 0, shape.num_kv_heads);
    };
    const base::Range heads{heads_beginning_below(mine.begin), heads_beginning_below(mine.end)};
    before += task.num_positions * shape.num_kv_heads;
    if (heads.size() == 0) continue;
    const std::int64_t head_bytes = heads.begin * shape.head_dim * element_bytes;
    const std::int64_t first_query = heads.begin * group * shape.head_dim;
    task.num_kv_heads = heads.size();
    task.q = qkv + row * (q_width + 2 * kv_width) + first_query;
    task.keys = static_cast<const char*>(pages.keys.data) + head_bytes;
    task.values = static_cast<const char*>(pages.values.data) + head_bytes;
    task.page_table = where.page_tables[row];
    task.scores_stride = round_up_quotient(task.num_positions, 16) * 16 + 16;
    task.scores = scratch(heads.size() * group * task.scores_stride);
    task.context = context + row * q_width + first_query;
    if (pages.keys.dtype == DType::f32) kernels().attention_f32(task);
    else kernels().attention_bf16(task);
  }
}

}  // namespace qrl::ops
