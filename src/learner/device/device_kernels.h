#pragma once

#include <cstdint>
#include <vector>

#include "cuda/train/training.h"
#include "learner/forward/layers.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Describes a gather from N source rows to T places. Tensors are int32, on the device of the gathered values.
struct RowLists {
  torch::Tensor rows;    ///< [T], source row of each place
  torch::Tensor starts;  ///< [N + 1], offset of each row's places in `places`
  torch::Tensor places;  ///< [T], places grouped by source row, ascending within a row
};
/// Lists a micro-batch's tokens, and each distinct token's rows. Tensors are int32.
struct TokenLists {
  torch::Tensor tokens_N, distinct;  ///< distinct: [U], each token once, ascending
  torch::Tensor starts;              ///< [U + 1], offset of each distinct token's rows in rows_N
  torch::Tensor rows_N;              ///< row numbers, grouped by token, ascending within a token
};

struct HostRowLists {
  std::vector<std::int32_t> rows, starts, places;
};
HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows);
struct HostTokenLists {
  std::vector<std::int32_t> distinct, starts, rows;
};
HostTokenLists token_lists(const std::vector<std::int32_t>& tokens);

struct AddedNorm {
  Tensor sum_ND, normed_ND;
};
/// Adds an optional residual branch and its bias to x in fp32. Computes RMSNorm of the sum, [N, D], in dtype `out`.
AddedNorm fused_add_norm(const cuda::TrainingKernels& kernels, const Tensor& x_ND, const Branch& branch,
                         const Weight& gain, float eps, torch::ScalarType out);

/// Computes silu(gate) · up, [N, F], in dtype `out`. halves_N2F is bf16 or fp32.
Tensor fused_swiglu(const cuda::TrainingKernels& kernels, const Tensor& halves_N2F, torch::ScalarType out);

/// Adds the bias, normalizes q and k if gains are set, and applies RoPE to q and k. Returns q [N, H, E], k and v [N, K,
/// E] in dtype `out`.
TensorList fused_qkv(const cuda::TrainingKernels& kernels, const Tensor& qkv_NC, const Tensor& angles_NE,
                     const Heads& heads, const QkvWeights& weights, torch::ScalarType out);

/// Implements Ops::embed. Rounds the gathered rows to `compute`.
Tensor fused_embed(const cuda::TrainingKernels& kernels, const TokenLists& tokens, const Weight& table_VD,
                   torch::ScalarType compute);
/// Gathers the rows `places.rows` of k and v, [T, K, E] each. A source row's gradient is the fp32 sum over its places,
/// rounded once.
TensorList fused_gather(const cuda::TrainingKernels& kernels, const RowLists& places, const Tensor& k_NKE,
                        const Tensor& v_NKE);
/// Gathers each place's row of x, [T, D], without autograd.
Tensor gathered_rows(const cuda::TrainingKernels& kernels, const RowLists& lists, const Tensor& x_ND);
/// Sums x_TD over each source row's places in fp32, without autograd. Returns [N, D] in x's dtype.
Tensor summed_rows(const cuda::TrainingKernels& kernels, const RowLists& lists, const Tensor& x_TD);

struct ScoredRows {
  Tensor scores_2M;                          ///< fp32; row 0 is log_probs_M, row 1 entropies_M
  Tensor log_probs_M, entropies_M, sums_M2;  ///< fp32; sums_M2 holds cuda::RowSums
  explicit ScoredRows(std::int64_t count, const torch::Device& device);
  ScoredRows narrow(std::int64_t begin, std::int64_t count) const;

 private:
  ScoredRows() = default;
};
struct LogitRows {
  Tensor logits_MV, targets_M;  ///< fp32 [M, V]; int64 [M]
  float temperature = 1;        ///< divisor of the logits; applied by the kernels
};
void fused_scores(const cuda::TrainingKernels& kernels, const LogitRows& rows, const ScoredRows& to);
/// Computes d_logits [M, V] in dtype `out` from the results of fused_scores. An fp32 d_logits overwrites the logits.
/// d_log_probs_M and d_entropies_M are contiguous fp32 on the device. An undefined d_entropies_M means zeros.
Tensor fused_score_gradient(const cuda::TrainingKernels& kernels, const LogitRows& rows, const ScoredRows& scored,
                            const Tensor& d_log_probs_M, const Tensor& d_entropies_M, torch::ScalarType out);

}  // namespace qrl::learner
