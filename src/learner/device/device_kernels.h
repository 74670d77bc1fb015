// Owns calls of cuda/train/training.h on tensors: one kernel forward and one backward for each operation between
// matmuls.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/train/training.h"
#include "learner/forward/layers.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Describes N rows gathered into T places; int32, on the device of the gathered values.
struct RowLists {
  torch::Tensor rows;    ///< [T], the row at each place
  torch::Tensor starts;  ///< [N + 1], where each row's places begin in `places`
  torch::Tensor places;  ///< [T], indices into `rows`, grouped by row, ascending within a row
};
/// Lists a micro-batch's tokens, and each distinct token's rows, for a table's gradient; int32.
struct TokenLists {
  torch::Tensor tokens_N, distinct;  ///< distinct: [U], ascending
  torch::Tensor starts;              ///< [U + 1], where each token's rows begin in rows_N
  torch::Tensor rows_N;              ///< ascending within a token
};

struct HostRowLists {
  std::vector<std::int32_t> rows, starts, places;
};
/// Lists each row's places.
HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows);
struct HostTokenLists {
  std::vector<std::int32_t> distinct, starts, rows;
};
HostTokenLists token_lists(const std::vector<std::int32_t>& tokens);

/// Returns {sum [N, D] fp32, normed [N, D] in `out`}: x plus an optional branch and bias, and RMSNorm of the sum. Keeps
/// sum and one number per row for the backward pass.
struct AddedNorm {
  Tensor sum_ND, normed_ND;
};
AddedNorm fused_add_norm(const cuda::TrainingKernels& kernels, const Tensor& x_ND, const Branch& branch,
                         const Weight& gain, float eps, torch::ScalarType out);

/// Computes silu(gate) · up, [N, F] in `out`, from bf16 or fp32 halves, which it keeps for the backward pass.
Tensor fused_swiglu(const cuda::TrainingKernels& kernels, const Tensor& halves_N2F, torch::ScalarType out);

/// Computes {q [N, H, E], k, v [N, K, E]} in `out`: adds the bias, applies optional norms of q and k, and rotates.
/// angles_NE as in DeviceRows. Keeps angles, and qkv if there are norms.
TensorList fused_qkv(const cuda::TrainingKernels& kernels, const Tensor& qkv_NC, const Tensor& angles_NE,
                     const Heads& heads, const QkvWeights& weights, torch::ScalarType out);

/// Gathers the tokens' rows of a table, rounded to `compute`, as fp32 [N, D]; the gradient goes to `table_VD`. Its
/// result starts the graph.
Tensor fused_embed(const cuda::TrainingKernels& kernels, const TokenLists& tokens, const Weight& table_VD,
                   torch::ScalarType compute);
/// Gathers the rows of k and v that the places name, {k [T, K, E], v}. Gradients are fp32 sums over a row's places,
/// rounded once.
TensorList fused_gather(const cuda::TrainingKernels& kernels, const RowLists& places, const Tensor& k_NKE,
                        const Tensor& v_NKE);
/// Gathers a row of x for each place, [T, D], without autograd.
Tensor gathered_rows(const cuda::TrainingKernels& kernels, const RowLists& lists, const Tensor& x_ND);
/// Sums the rows of x_TD over each row's places, [N, D] in x's dtype, without autograd.
Tensor summed_rows(const cuda::TrainingKernels& kernels, const RowLists& lists, const Tensor& x_TD);

struct ScoredRows {
  Tensor scores_2M;                          ///< fp32: log_probs_M, then entropies_M
  Tensor log_probs_M, entropies_M, sums_M2;  ///< fp32
  explicit ScoredRows(std::int64_t count, const torch::Device& device);
  ScoredRows narrow(std::int64_t begin, std::int64_t count) const;

 private:
  ScoredRows() = default;
};
/// A chunk of logits, fp32 [M, V], and the tokens to score.
struct LogitRows {
  Tensor logits_MV, targets_M;  ///< targets int64
  float temperature = 1;        ///< the logits are not divided by it yet
};
void fused_scores(const cuda::TrainingKernels& kernels, const LogitRows& rows, const ScoredRows& to);
/// Computes ∂ / ∂ logits in `out` from fused_scores' results. An fp32 gradient overwrites the logits. The given
/// gradients are dense fp32 on the device; undefined d_entropies_M means all 0.
Tensor fused_score_gradient(const cuda::TrainingKernels& kernels, const LogitRows& rows, const ScoredRows& scored,
                            const Tensor& d_log_probs_M, const Tensor& d_entropies_M, torch::ScalarType out);

}  // namespace qrl::learner
