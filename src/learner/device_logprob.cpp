#include "learner/device_logprob.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/threads.h"
#include "learner/device_kernels.h"
#include "learner/torch_linear.h"

namespace qrl::learner {

namespace {

/// A segment of consecutive targets on the device.
struct Chunk {
  std::int64_t begin = 0, size = 0;
  Tensor rows, targets;  ///< int64 [M]
  Tensor hidden_MD;
  Tensor logits_MV;  ///< fp32; −inf where top-k and top-p cut
};

/// Where the sampler could not have sampled: −inf, by the CPU's rule.
Tensor without_cut_tokens(const Tensor& logits_MV, const TargetRows& targets, std::int64_t begin) {
  const Tensor host_MV = logits_MV.cpu().contiguous();
  const std::int64_t vocab_size = host_MV.size(1);
  base::parallel_for(host_MV.size(0), 1, [&](base::Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      ops::exclude_cut_tokens(host_MV.data_ptr<float>() + r * vocab_size, vocab_size, targets.sample_params,
                              targets.targets[static_cast<std::size_t>(begin + r)]);
    }
  });
  return host_MV.to(logits_MV.device());
}

template <class Body>
void for_each_chunk(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets, const Body& body) {
  const auto total = static_cast<std::int64_t>(targets.rows.size());
  const Tensor all_rows = torch::tensor(targets.rows).to(hidden_ND.device());
  const Tensor all_targets =
      torch::tensor(std::vector<std::int64_t>(targets.targets.begin(), targets.targets.end())).to(hidden_ND.device());
  for (std::int64_t begin = 0; begin < total; begin += targets.chunk_tokens) {
    Chunk chunk;
    chunk.begin = begin;
    chunk.size = std::min(targets.chunk_tokens, total - begin);
    chunk.rows = all_rows.narrow(0, begin, chunk.size);
    chunk.targets = all_targets.narrow(0, begin, chunk.size).unsqueeze(1);
    chunk.hidden_MD = hidden_ND.index_select(0, chunk.rows);
    chunk.logits_MV = exact_matmul(chunk.hidden_MD, lm_head.value.t());
    if (targets.sample_params.cuts()) chunk.logits_MV = without_cut_tokens(chunk.logits_MV, targets, begin);
    body(chunk);
  }
}

/// The chunk's logits, divided by the temperature.
Tensor divided(const Chunk& chunk, const ops::SampleParams& sample_params) {
  Tensor logits_MV = chunk.logits_MV;
  if (sample_params.temperature != 1) logits_MV.div_(static_cast<double>(sample_params.temperature));
  return logits_MV;
}

/// log-softmax and what follows from it, of logits that it divides by the temperature. A token that was `cut` has
/// probability 0 and, as its log, the lowest number, so that it adds 0 to the entropy instead of NaN.
struct Distribution {
  Distribution(const Chunk& chunk, const ops::SampleParams& sample_params)
      : log_p_MV(divided(chunk, sample_params).log_softmax(-1)) {
    if (sample_params.cuts()) log_p_MV.clamp_min_(std::numeric_limits<float>::lowest());
    p_MV = log_p_MV.exp();
    entropy_M1 = -(p_MV * log_p_MV).sum(-1, true);
  }
  Tensor log_p_MV, p_MV, entropy_M1;
};

Tensor on_device_or_zeros(const Tensor& gradient, const Chunk& chunk) {
  const torch::Device device = chunk.logits_MV.device();
  if (!gradient.defined()) return torch::zeros({chunk.size, 1}, torch::TensorOptions().device(device));
  return gradient.narrow(0, chunk.begin, chunk.size).to(device).unsqueeze(1);
}

/// ∂ log p_t / ∂ z = 1[t] − p;  ∂ H / ∂ z = −p (log p + H); both over the temperature. M × V numbers are read and
/// written as seldom as may be: an entropy without a gradient (`d_entropy_M` not defined, as usual) is not looked at.
Tensor logit_gradients(const Chunk& chunk, const ops::SampleParams& sample_params, const Tensor& d_log_prob_M,
                       const Tensor& d_entropy_M) {
  const auto temperature = static_cast<double>(sample_params.temperature);
  const Tensor d_log_prob_M1 = on_device_or_zeros(d_log_prob_M, chunk) / temperature;
  Tensor d_logits_MV;
  if (d_entropy_M.defined()) {
    const Distribution distribution(chunk, sample_params);
    const Tensor d_entropy_M1 = on_device_or_zeros(d_entropy_M, chunk) / -temperature;
    d_logits_MV = distribution.p_MV * d_entropy_M1;  // first, so that a probability of 0 meets the lowest number as 0
    d_logits_MV.mul_(distribution.log_p_MV.add_(distribution.entropy_M1));
    d_logits_MV.addcmul_(distribution.p_MV, d_log_prob_M1, -1);
  } else {
    d_logits_MV = divided(chunk, sample_params).softmax(-1).mul_(-d_log_prob_M1);
  }
  return d_logits_MV.scatter_add_(1, chunk.targets, d_log_prob_M1);
}

TargetScores compute_scores(const Tensor& hidden, const Weight& lm_head, const TargetRows& targets) {
  const auto total = static_cast<std::int64_t>(targets.rows.size());
  const Tensor log_probs = torch::empty({total}), entropy = torch::empty({total});
  for_each_chunk(hidden, lm_head, targets, [&](const Chunk& chunk) {
    const Distribution distribution(chunk, targets.sample_params);
    log_probs.narrow(0, chunk.begin, chunk.size).copy_(distribution.log_p_MV.gather(1, chunk.targets).squeeze(1));
    entropy.narrow(0, chunk.begin, chunk.size).copy_(distribution.entropy_M1.squeeze(1));
  });
  return {log_probs, entropy};
}

/// A chunk as device_kernels.h takes it.
LogitRows logit_rows(const Chunk& chunk, const TargetRows& targets) {
  return {chunk.logits_MV, chunk.targets.squeeze(1), targets.sample_params.temperature};
}

/// By a device's kernels: what each row was found to be stays there for the backward pass.
ScoredRows find_scores(const cuda::TrainingKernels& kernels, const Tensor& hidden, const Weight& lm_head,
                       const TargetRows& targets) {
  const ScoredRows scored(static_cast<std::int64_t>(targets.rows.size()), hidden.device());
  for_each_chunk(hidden, lm_head, targets, [&](const Chunk& chunk) {
    fused_scores(kernels, logit_rows(chunk, targets), scored.narrow(chunk.begin, chunk.size));
  });
  return scored;
}

/// Gradients of a chunk's logits in the dtype of hidden states. Scores that are known from elsewhere came without what
/// the kernels need of each row (`scored`): then that is found first.
class LogitGradients {
 public:
  LogitGradients(const cuda::TrainingKernels* kernels, const TargetRows& targets, std::optional<ScoredRows> scored)
      : kernels_(kernels), targets_(targets), scored_(std::move(scored)) {}
  Tensor operator()(const Chunk& chunk, const TensorList& d) const {
    const torch::ScalarType out = chunk.hidden_MD.scalar_type();
    if (kernels_ == nullptr) return logit_gradients(chunk, targets_.sample_params, d[0], d[1]).to(out);
    const LogitRows rows = logit_rows(chunk, targets_);
    const ScoredRows scored =
        scored_ ? scored_->narrow(chunk.begin, chunk.size) : ScoredRows(chunk.size, chunk.logits_MV.device());
    if (!scored_) fused_scores(*kernels_, rows, scored);
    const Tensor d_log_probs_M = on_device_or_zeros(d[0], chunk).squeeze(1).contiguous();
    const Tensor d_entropies_M = d[1].defined() ? on_device_or_zeros(d[1], chunk).squeeze(1).contiguous() : Tensor();
    return fused_score_gradient(*kernels_, rows, scored, d_log_probs_M, d_entropies_M, out);
  }

 private:
  const cuda::TrainingKernels* kernels_;
  const TargetRows& targets_;
  std::optional<ScoredRows> scored_;
};

}  // namespace

TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const cuda::TrainingKernels* kernels, const TargetScores* known) {
  const Tensor hidden = hidden_ND.detach();
  std::optional<ScoredRows> scored;
  if (known == nullptr && kernels != nullptr) scored = find_scores(*kernels, hidden, lm_head, targets);
  const auto on_host = [](const Tensor& x) { return torch::empty(x.sizes()).copy_(x); };  // not x: the graph has these
  const TargetScores scores = known != nullptr ? *known
                              : scored ? TargetScores{on_host(scored->log_probs_M), on_host(scored->entropies_M)}
                                       : compute_scores(hidden, lm_head, targets);
  const LogitGradients d_logits(kernels, targets, std::move(scored));
  const auto backward = [hidden, lm_head, &targets, d_logits](const TensorList& d) {
    const Tensor d_hidden_ND = torch::zeros_like(hidden);
    for_each_chunk(hidden, lm_head, targets, [&](const Chunk& chunk) {
      const Tensor rounded_MV = d_logits(chunk, d);
      if (lm_head.gradient.defined()) add_exact_matmul(rounded_MV.t(), chunk.hidden_MD, lm_head.gradient);
      d_hidden_ND.index_copy_(0, chunk.rows, torch::mm(rounded_MV, lm_head.value));
    });
    return TensorList{d_hidden_ND};
  };
  const TensorList out = differentiable({hidden_ND}, {scores.log_probs_M, scores.entropy_M}, backward);
  return {out[0], out[1]};
}

}  // namespace qrl::learner
