// Owns what FlashInfer's kernels do with the scales of e4m3 pages. Included by the sources that instantiate them.
#pragma once

#include <cstdint>
#include <flashinfer/attention/variants.cuh>

#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

using PlainHeads = flashinfer::DefaultAttention<false, false, false, false>;

/// Scores and contexts times the scales of their kv head.
struct ScaledHeads : PlainHeads {
  using PlainHeads::PlainHeads;
  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                            { return logits * params.key_head_scales_K[kv_head_idx]; })
  REGISTER_OUTPUT_TRANSFORM(params, output, batch_idx, qo_idx, qo_head_idx, m, d, scale, {
    std::uint32_t kv_head = 0, within = 0;
    params.group_size.divmod(qo_head_idx, kv_head, within);
    const float inverse = m != -flashinfer::math::inf ? flashinfer::math::ptx_rcp(d) : 0.0F;
    return output * inverse * params.value_head_scales_K[kv_head];
  })
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
