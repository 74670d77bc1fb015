#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "learner/device/torch_linear.h"
#include "learner/device/torch_ops.h"
#include "learner/tensors/host_copies.h"

namespace qrl::learner {

namespace {

struct PlacedTargets {
  RowLists rows;
  Tensor targets_M;  ///< int64
};
PlacedTargets place_targets(const TargetRows& targets, std::int64_t num_rows, const torch::Device& device) {
  const HostRowLists rows = row_lists({targets.rows.begin(), targets.rows.end()}, num_rows);
  const std::vector<std::int64_t> wide(targets.targets.begin(), targets.targets.end());
  const TensorList sent =
      send({array_of(rows.rows), array_of(rows.starts), array_of(rows.places), array_of(wide)}, device);
  return {{sent[0], sent[1], sent[2]}, sent[3]};
}

struct Chunk {
  std::int64_t begin = 0, size = 0;
  Tensor targets;  ///< int64 [M, 1]
  Tensor hidden_MD;
  Tensor logits_MV;  ///< fp32; −inf for tokens that top-k or top-p excluded
};

void keep_only(const TargetRows& targets, Chunk& chunk) {
  const std::int64_t vocab_size = chunk.logits_MV.size(1);
  std::vector<std::int64_t> places;
  for (std::int64_t r = 0; r < chunk.size; ++r) {
    for (const types::TokenId token : targets.kept_of(chunk.begin + r)) places.push_back(r * vocab_size + token);
  }
  const Tensor kept = send({array_of(places)}, chunk.logits_MV.device())[0];
  const Tensor logits = chunk.logits_MV.view(-1), kept_logits = logits.index_select(0, kept);
  logits.fill_(-std::numeric_limits<float>::infinity()).index_copy_(0, kept, kept_logits);
}

template <class Body>
void for_each_chunk(const Tensor& hidden_MD, const Weight& lm_head, const TargetRows& targets, const Tensor& targets_M,
                    const Body& body) {
  const std::int64_t total = hidden_MD.size(0);
  for (std::int64_t begin = 0; begin < total; begin += targets.chunk_tokens) {
    Chunk chunk;
    chunk.begin = begin;
    chunk.size = std::min(targets.chunk_tokens, total - begin);
    chunk.targets = targets_M.narrow(0, begin, chunk.size).unsqueeze(1);
    chunk.hidden_MD = hidden_MD.narrow(0, begin, chunk.size);
    chunk.logits_MV = exact_matmul(chunk.hidden_MD, lm_head.value.t());
    if (!targets.kept.empty()) keep_only(targets, chunk);
    body(chunk);
  }
}

Tensor divided(const Chunk& chunk, float temperature) {
  Tensor logits_MV = chunk.logits_MV;
  if (temperature != 1) logits_MV.div_(static_cast<double>(temperature));
  return logits_MV;
}

/// Holds a chunk's softmax statistics. The constructor divides the logits by the temperature in place. A token that
/// top-k or top-p excluded gets p = 0 and a finite log p, so it adds 0, not NaN, to the entropy.
struct Distribution {
  Distribution(const Chunk& chunk, const TargetRows& targets)
      : log_p_MV(divided(chunk, targets.temperature).log_softmax(-1)) {
    if (!targets.kept.empty()) log_p_MV.clamp_min_(std::numeric_limits<float>::lowest());
    p_MV = log_p_MV.exp();
    entropy_M1 = -(p_MV * log_p_MV).sum(-1, true);
  }
  Tensor log_p_MV, p_MV, entropy_M1;
};

Tensor part_or_zeros(const Tensor& gradient, const Chunk& chunk) {
  if (!gradient.defined()) return torch::zeros({chunk.size, 1}, chunk.logits_MV.options());
  return gradient.narrow(0, chunk.begin, chunk.size).unsqueeze(1);
}

/// Computes d_logits [M, V] from ∂ log p_t / ∂ z = 1[t] − p and ∂ H / ∂ z = −p (log p + H), both divided by the
/// temperature. An undefined d_entropy_M means zeros.
Tensor logit_gradients(const Chunk& chunk, const TargetRows& targets, const Tensor& d_log_prob_M,
                       const Tensor& d_entropy_M) {
  const auto temperature = static_cast<double>(targets.temperature);
  const Tensor d_log_prob_M1 = part_or_zeros(d_log_prob_M, chunk) / temperature;
  Tensor d_logits_MV;
  if (d_entropy_M.defined()) {
    const Distribution distribution(chunk, targets);
    const Tensor d_entropy_M1 = part_or_zeros(d_entropy_M, chunk) / -temperature;
    // Multiplies by p first: an excluded token's log p · d_entropy could overflow.
    d_logits_MV = distribution.p_MV * d_entropy_M1;
    d_logits_MV.mul_(distribution.log_p_MV.add_(distribution.entropy_M1));
    d_logits_MV.addcmul_(distribution.p_MV, d_log_prob_M1, -1);
  } else {
    d_logits_MV = divided(chunk, targets.temperature).softmax(-1).mul_(-d_log_prob_M1);
  }
  return d_logits_MV.scatter_add_(1, chunk.targets, d_log_prob_M1);
}

TargetScores compute_scores(const Tensor& hidden_MD, const Weight& lm_head, const TargetRows& targets,
                            const Tensor& targets_M) {
  const Tensor log_probs = torch::empty({hidden_MD.size(0)}), entropy = torch::empty({hidden_MD.size(0)});
  for_each_chunk(hidden_MD, lm_head, targets, targets_M, [&](const Chunk& chunk) {
    const Distribution distribution(chunk, targets);
    log_probs.narrow(0, chunk.begin, chunk.size).copy_(distribution.log_p_MV.gather(1, chunk.targets).squeeze(1));
    entropy.narrow(0, chunk.begin, chunk.size).copy_(distribution.entropy_M1.squeeze(1));
  });
  return {log_probs, entropy, nullptr};
}

LogitRows logit_rows(const Chunk& chunk, const TargetRows& targets) {
  return {chunk.logits_MV, chunk.targets.squeeze(1), targets.temperature};
}

ScoredRows find_scores(const cuda::TrainingKernels& kernels, const Tensor& hidden_MD, const Weight& lm_head,
                       const TargetRows& targets, const Tensor& targets_M) {
  const ScoredRows scored(hidden_MD.size(0), hidden_MD.device());
  for_each_chunk(hidden_MD, lm_head, targets, targets_M, [&](const Chunk& chunk) {
    fused_scores(kernels, logit_rows(chunk, targets), scored.narrow(chunk.begin, chunk.size));
  });
  return scored;
}

/// Computes a chunk's d_logits in the hidden states' dtype. If kernels are set but `scored` is not, first computes the
/// chunk's scores.
class LogitGradients {
 public:
  LogitGradients(const cuda::TrainingKernels* kernels, const TargetRows& targets, std::optional<ScoredRows> scored)
      : kernels_(kernels), targets_(targets), scored_(std::move(scored)) {}
  Tensor operator()(const Chunk& chunk, const TensorList& d) const {
    const torch::ScalarType out = chunk.hidden_MD.scalar_type();
    if (kernels_ == nullptr) return logit_gradients(chunk, targets_, d[0], d[1]).to(out);
    const LogitRows rows = logit_rows(chunk, targets_);
    const ScoredRows scored =
        scored_ ? scored_->narrow(chunk.begin, chunk.size) : ScoredRows(chunk.size, chunk.logits_MV.device());
    if (!scored_) fused_scores(*kernels_, rows, scored);
    const Tensor d_log_probs_M = part_or_zeros(d[0], chunk).squeeze(1).contiguous();
    const Tensor d_entropies_M = d[1].defined() ? part_or_zeros(d[1], chunk).squeeze(1).contiguous() : Tensor();
    return fused_score_gradient(*kernels_, rows, scored, d_log_probs_M, d_entropies_M, out);
  }

 private:
  const cuda::TrainingKernels* kernels_;
  const TargetRows& targets_;
  std::optional<ScoredRows> scored_;
};

TargetScores begin_arrival(const ScoredRows& scored) {
  auto arrival = std::make_shared<const Arrival>(scored.scores_2M);
  const auto row = [&](std::int64_t i) { return arrival->values().select(0, i).variable_data(); };
  return {row(0), row(1), arrival};
}

TensorList sent_gradients(const TensorList& d, const torch::Device& device) {
  TensorList dense, sent(d.size());
  std::vector<HostArray> arrays;
  for (const Tensor& one : d) {
    if (!one.defined()) continue;
    dense.push_back(one.contiguous());
    arrays.push_back({dense.back().data_ptr(), torch::kFloat32, {one.size(0)}});
  }
  const TensorList there = send(arrays, device);
  std::size_t next = 0;
  for (std::size_t i = 0; i < d.size(); ++i)
    if (d[i].defined()) sent[i] = there[next++];
  return sent;
}

}  // namespace

TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known) {
  const std::int64_t num_rows = hidden_ND.size(0);
  const PlacedTargets placed = place_targets(targets, num_rows, hidden_ND.device());
  const Tensor hidden_MD = kernels != nullptr ? gathered_rows(*kernels, placed.rows, hidden_ND.detach())
                                              : hidden_ND.detach().index_select(0, placed.rows.rows);
  std::optional<ScoredRows> scored;
  if (known == nullptr && kernels != nullptr)
    scored = find_scores(*kernels, hidden_MD, lm_head, targets, placed.targets_M);
  const TargetScores scores = known != nullptr ? *known
                              : scored         ? begin_arrival(*scored)
                                               : compute_scores(hidden_MD, lm_head, targets, placed.targets_M);
  const LogitGradients d_logits(kernels, targets, std::move(scored));
  const auto backward = [hidden_MD, lm_head, &targets, kernels, placed, num_rows, d_logits](const TensorList& d) {
    const TensorList there = sent_gradients(d, hidden_MD.device());
    const Tensor d_hidden_MD = torch::empty_like(hidden_MD);
    for_each_chunk(hidden_MD, lm_head, targets, placed.targets_M, [&](const Chunk& chunk) {
      const Tensor rounded_MV = d_logits(chunk, there);
      if (lm_head.gradient.defined()) add_exact_matmul(rounded_MV.t(), chunk.hidden_MD, lm_head.gradient);
      Tensor d_rows = d_hidden_MD.narrow(0, chunk.begin, chunk.size);
      torch::mm_out(d_rows, rounded_MV, lm_head.value);
    });
    if (kernels != nullptr) return TensorList{summed_rows(*kernels, placed.rows, d_hidden_MD)};
    const Tensor d_hidden_ND = torch::zeros({num_rows, hidden_MD.size(1)}, hidden_MD.options());
    return TensorList{d_hidden_ND.index_copy_(0, placed.rows.rows.to(torch::kInt64), d_hidden_MD)};
  };
  const TensorList out = differentiable({hidden_ND}, {scores.log_probs_M, scores.entropy_M}, backward);
  return {out[0], out[1], scores.arrival};
}

}  // namespace qrl::learner
