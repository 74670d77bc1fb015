#include "ops/attention_gate.h"

#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/training.h"

namespace qrl::ops {

namespace {

constexpr std::int64_t kRowGrain = 16;

/// Calls copy(column of projections, column of qkv or gates, is a gate, count) for each part of a row.
template <class Copy>
void visit_parts(const GatedHeads& heads, const Copy& copy) {
  const std::int64_t dim = heads.head_dim;
  for (std::int64_t head = 0; head < heads.num_heads; ++head) {
    copy(2 * head * dim, head * dim, false, dim);
    copy((2 * head + 1) * dim, head * dim, true, dim);
  }
  copy(2 * heads.q_width(), heads.q_width(), false, heads.qkv_width() - heads.q_width());
}

struct Rows {
  std::byte *projections, *qkv, *gates;
};

void move_rows(const GatedHeads& heads, base::Range rows, std::size_t item, const Rows& at, bool joins) {
  const auto place = [&](std::byte* array, std::int64_t row, std::int64_t width, std::int64_t column) {
    return array + static_cast<std::size_t>(row * width + column) * item;
  };
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    visit_parts(heads, [&](std::int64_t column, std::int64_t part_column, bool is_gate, std::int64_t count) {
      std::byte* whole = place(at.projections, row, heads.row_width(), column);
      std::byte* part = is_gate ? place(at.gates, row, heads.q_width(), part_column)
                                : place(at.qkv, row, heads.qkv_width(), part_column);
      std::memcpy(joins ? whole : part, joins ? part : whole, static_cast<std::size_t>(count) * item);
    });
  }
}

void move_all(const GatedHeads& heads, std::int64_t rows, MixedArray projections, MixedArray qkv, MixedArray gates,
              bool joins) {
  QRL_INVARIANT(projections.is_bf16 == qkv.is_bf16 && projections.is_bf16 == gates.is_bf16, "attention gates",
                "arrays of one dtype", "two dtypes");
  const auto bytes = [](MixedArray array) { return static_cast<std::byte*>(array.data); };
  base::parallel_for(rows, kRowGrain, [&](base::Range range) {
    move_rows(heads, range, projections.is_bf16 ? 2 : 4, {bytes(projections), bytes(qkv), bytes(gates)}, joins);
  });
}

std::byte* bytes_of(const float* values) {
  return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values));  // split_gates only reads them
}

base::Range share(const base::Team& team, base::Range rows) {
  const base::Range mine = team.slice(rows.size());
  return {rows.begin + mine.begin, rows.begin + mine.end};
}

}  // namespace

void split_gates(base::Team& team, const GatedHeads& heads, base::Range rows, const float* projections, float* qkv,
                 float* gates) {
  move_rows(heads, share(team, rows), sizeof(float), {bytes_of(projections), bytes_of(qkv), bytes_of(gates)}, false);
}

void apply_gates(base::Team& team, const GatedHeads& heads, base::Range rows, const float* gates, float* context) {
  const base::Range mine = share(team, rows);
  const MixedArray values{context, false};
  kernels().training->apply_gates(heads.q_width(), {const_cast<float*>(gates), false}, values, values, mine.begin,
                                  mine.end);
}

void split_gates(const GatedHeads& heads, std::int64_t rows, MixedArray projections, MixedArray qkv, MixedArray gates) {
  move_all(heads, rows, projections, qkv, gates, false);
}

void join_gates(const GatedHeads& heads, std::int64_t rows, MixedArray d_qkv, MixedArray d_gates,
                MixedArray d_projections) {
  move_all(heads, rows, d_projections, d_qkv, d_gates, true);
}

void apply_gates(std::int64_t rows, std::int64_t width, MixedArray gates, MixedArray context, MixedArray out) {
  QRL_INVARIANT(context.is_bf16 == out.is_bf16, "attention gates", "one dtype for context and output", "two dtypes");
  const TrainingKernels& table = *kernels().training;
  base::parallel_for(rows, kRowGrain,
                     [&](base::Range range) { table.apply_gates(width, gates, context, out, range.begin, range.end); });
}

void apply_gates_backward(std::int64_t rows, std::int64_t width, MixedArray gates, MixedArray context, MixedArray d_out,
                          MixedArray d_context, MixedArray d_gates) {
  QRL_INVARIANT(
      context.is_bf16 == d_out.is_bf16 && context.is_bf16 == d_context.is_bf16 && gates.is_bf16 == d_gates.is_bf16,
      "attention gates", "gradients in the dtypes of their values", "other dtypes");
  const TrainingKernels& table = *kernels().training;
  base::parallel_for(rows, kRowGrain, [&](base::Range range) {
    table.apply_gates_backward(width, gates, context, {d_out, d_context, d_gates}, range.begin, range.end);
  });
}

}  // namespace qrl::ops
