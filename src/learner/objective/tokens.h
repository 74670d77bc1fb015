#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learner/tensors/torch.h"
#include "types/batch.h"

namespace qrl::learner {

/// Limit of |log-ratio| before exp. Log-ratios beyond it are clamped, without a gradient.
inline constexpr double kMaxLogRatio = 20;

/// Computes clamp(log_p − log_q, ±20).
torch::Tensor log_ratio(const torch::Tensor& log_p, const torch::Tensor& log_q);

/// Maps tokens to sequences. A sequence's tokens in the loss are all in one micro-batch.
class Sequences {
 public:
  /// of_token, int64 [M]: each token's sequence in this micro-batch. A sequence may have no token.
  explicit Sequences(torch::Tensor of_token);

  std::int64_t num_tokens() const { return of_token_M_.numel(); }
  std::int64_t num_slots() const { return lengths_S_.numel(); }  ///< S: highest sequence index + 1
  const torch::Tensor& lengths() const { return lengths_S_; }    ///< float64 [S]: tokens of each sequence
  /// Compute each sequence's sum or mean: [M] → [S], in the dtype of values_M. Tokens are added in order. A sequence
  /// without tokens gets 0.
  torch::Tensor sum(const torch::Tensor& values_M) const;
  torch::Tensor mean(const torch::Tensor& values_M) const;
  /// Computes each sequence's largest value: [M] → [S]. A sequence without tokens gets 0.
  torch::Tensor largest(const torch::Tensor& values_M) const;
  /// Repeats a sequence's value on its tokens: [S] → [M].
  torch::Tensor on_tokens(const torch::Tensor& values_S) const;

 private:
  torch::Tensor of_token_M_, lengths_S_;
};

/// Holds a micro-batch's M tokens in the loss ("counted" tokens). Values are float64 [M].
struct ObjectiveTokens {
  torch::Tensor log_probs, entropy;   ///< under the current policy π_θ, differentiable
  torch::Tensor old_log_probs;        ///< under π_old, the learner's weights at sampling
  torch::Tensor sampler_log_probs;    ///< under μ, the sampler's policy
  torch::Tensor reference_log_probs;  ///< under π_ref; read only with kl_loss_coef ≠ 0
  torch::Tensor advantages;
  Sequences sequences;
  torch::Tensor old_entropy = {};  ///< under π_old; read if selects_by_mini_batch
  torch::Tensor positions = {};    ///< int64: order in this rank's mini-batch (positions_of); used with old_entropy
};

/// Returns the rows of tokens in the loss.
std::vector<std::int64_t> counted_rows(const types::MicroBatch& batch);
/// Returns a number per row. The numbers order rows by sequence in the caller's order, then by token. Packing does not
/// change them.
std::vector<std::int64_t> positions_of(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows);

/// Returns the entries `rows` of a per-token array as fp64. Throws an internal error with `name` if the array's size
/// is not num_tokens.
std::vector<double> counted(const std::vector<float>& per_token, const std::vector<std::int64_t>& rows,
                            std::size_t num_tokens, const char* name);

/// Returns each row's sequence, int64 [M].
torch::Tensor sequence_of_rows(const types::MicroBatch& batch, const std::vector<std::int64_t>& rows);

}  // namespace qrl::learner
