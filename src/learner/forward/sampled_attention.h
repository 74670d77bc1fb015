#pragma once

#include <cstdint>
#include <vector>

#include "learner/forward/layers.h"
#include "quant/kv_format.h"

namespace qrl::learner {

/// Holds the page tables of a micro-batch's keys and values for every layer. A continuation reads its prefix's full
/// pages and copies the last page.
struct PageLayout {
  explicit PageLayout(const PackedRows& rows);
  PageLayout(const PageLayout&) = delete;  // rows point into it
  PageLayout& operator=(const PageLayout&) = delete;

  struct Copy {
    std::int32_t from, to;
    std::int64_t num_slots;
  };
  static constexpr std::int64_t kPageSize = 16;
  std::int64_t num_pages = 0;
  std::vector<std::vector<std::int32_t>> tables;    ///< of each sequence
  std::vector<const std::int32_t*> table_of_row_N;  ///< each row's, of its sequence
  std::vector<Copy> copies;                         ///< made after rows are stored, before pages are read
};

/// Computes causal attention as the sampler does (ops/paged_attention.h), fp32 [N, H·E]. qkv_NC: fp32, from
/// qkv_transform. Keys and values are rounded to `format` (not fp8_e4m3). The backward pass is straight through this
/// rounding, with matmul operands rounded to `backward`. `rows` and `layout` must outlive the backward pass.
Tensor sampled_attention(const Tensor& qkv_NC, const PackedRows& rows, const PageLayout& layout, const Heads& heads,
                         quant::KvFormat format, torch::ScalarType backward);

}  // namespace qrl::learner
