// Owns attention as the sampler computes it, over keys and values in its pages' format, with a backward pass. It has
// the bits of the decoder's ops, on packed rows instead of sequences. Knows no model.
#pragma once

#include <cstdint>
#include <vector>

#include "learner/layers.h"
#include "quant/kv_format.h"

namespace qrl::learner {

/// Holds the places of a micro-batch's keys and values in pages; every layer reuses it. A sequence that continues a
/// prefix reads the prefix's full pages and has a copy of its last one, like the decoder's samples.
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
  std::vector<const std::int32_t*> table_of_row_N;  ///< into those
  std::vector<Copy> copies;                         ///< after the rows are stored, before they are read
};

/// Causal attention of ops/paged_attention.h, fp32 [N, H·E]. qkv_NC: fp32, what qkv_transform gave; its keys and values
/// become those that `format` (not fp8_e4m3) keeps, and the backward pass, its matmuls' operands rounded to
/// `backward`, goes straight through that rounding. `rows` and `layout` must outlive the backward pass.
Tensor sampled_attention(const Tensor& qkv_NC, const PackedRows& rows, const PageLayout& layout, const Heads& heads,
                         quant::KvFormat format, torch::ScalarType backward);

}  // namespace qrl::learner
