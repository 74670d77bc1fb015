#include "ops/varlen_attention.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "ops/dispatch/families.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/varlen_attention.h"
#include "ops/scratch.h"

namespace qrl::ops {

namespace {

void check(const VarlenAttention& attention) {
  QRL_INVARIANT(attention.num_kv_heads > 0 && attention.num_heads % attention.num_kv_heads == 0 &&
                    attention.head_dim > 0 && attention.num_sequences >= 0,
                "varlen attention", "heads a multiple of key heads, positive sizes",
                std::to_string(attention.num_heads) + " heads, " + std::to_string(attention.num_kv_heads) +
                    " key heads of " + std::to_string(attention.head_dim));
}

/// Runs body(family, kv_head, scratch) for all families and key heads, scheduled dynamically. Calls write disjoint
/// outputs.
template <class Body>
void for_each_head(const VarlenAttention& attention, const VarlenAttentionKernels& table, const Body& body) {
  const Families families =
      families_of(attention.sequence_starts, attention.num_sequences, attention.continues_prefix, "varlen attention");
  const auto num_floats = static_cast<std::int64_t>(table.num_scratch_floats(families.longest, attention.head_dim));
  const std::int64_t num_tasks = static_cast<std::int64_t>(families.all.size()) * attention.num_kv_heads;
  std::atomic<std::int64_t> next_task{0};
  base::parallel(0, [&](base::Team&) {
    float* memory = scratch(num_floats);
    for (std::int64_t task = next_task++; task < num_tasks; task = next_task++) {
      body(families.all[static_cast<std::size_t>(task / attention.num_kv_heads)], task % attention.num_kv_heads,
           memory);
    }
  });
}

}  // namespace

void varlen_attention(const VarlenAttention& attention, MixedArray out_NHE, float* lse_NH) {
  check(attention);
  const VarlenAttentionKernels& table = *kernels().varlen_attention;
  for_each_head(attention, table, [&](const Family& family, std::int64_t kv_head, float* scratch) {
    table.forward(attention, family, kv_head, out_NHE, lse_NH, scratch);
  });
}

void varlen_attention_backward(const VarlenAttention& attention, const float* lse_NH, MixedArray d_out_NHE,
                               float* d_qkv_NC) {
  check(attention);
  const VarlenAttentionKernels& table = *kernels().varlen_attention;
  for_each_head(attention, table, [&](const Family& family, std::int64_t kv_head, float* scratch) {
    table.backward(attention, family, kv_head, lse_NH, d_out_NHE, d_qkv_NC, scratch);
  });
}

}  // namespace qrl::ops
