#include "learner/device_logprob.h"

#include <algorithm>
#include <limits>

#include "base/threads.h"
#include "learner/device_forward.h"

namespace qrl::learner {

namespace {

/// A run of consecutive targets on the device.
struct Chunk {
  std::int64_t begin = 0, size = 0;
  Tensor rows, targets;  ///< int64 [M]
  Tensor hidden_MD;
  Tensor logits_MV;  ///< fp32, divided by the temperature; −inf where top-k and top-p cut
};

/// Where the sampler could not have drawn: −inf, by the CPU's rule.
Tensor without_cut_tokens(const Tensor& logits_MV, const TargetRows& targets, std::int64_t begin) {
  const Tensor host_MV = logits_MV.cpu().contiguous();
  const std::int64_t vocab_size = host_MV.size(1);
  base::parallel_for(host_MV.size(0), 1, [&](base::Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      ops::exclude_cut_tokens(host_MV.data_ptr<float>() + r * vocab_size, vocab_size, targets.drawn_from,
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
    chunk.logits_MV = exact_product(chunk.hidden_MD, lm_head.value.t());
    if (targets.drawn_from.cuts()) chunk.logits_MV = without_cut_tokens(chunk.logits_MV, targets, begin);
    if (targets.drawn_from.temperature != 1) chunk.logits_MV.div_(static_cast<double>(targets.drawn_from.temperature));
    body(chunk);
  }
}

/// log-softmax and what follows from it. A token that was `cut` has probability 0 and, as its log, the lowest number,
/// so that it adds 0 to the entropy instead of NaN.
struct Distribution {
  Distribution(const Tensor& logits_MV, bool cut) : log_p_MV(logits_MV.log_softmax(-1)) {
    if (cut) log_p_MV.clamp_min_(std::numeric_limits<float>::lowest());
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
Tensor logit_gradients(const Chunk& chunk, const ops::DrawParams& drawn_from, const Tensor& d_log_prob_M,
                       const Tensor& d_entropy_M) {
  const auto temperature = static_cast<double>(drawn_from.temperature);
  const Tensor d_log_prob_M1 = on_device_or_zeros(d_log_prob_M, chunk) / temperature;
  Tensor d_logits_MV;
  if (d_entropy_M.defined()) {
    const Distribution distribution(chunk.logits_MV, drawn_from.cuts());
    const Tensor d_entropy_M1 = on_device_or_zeros(d_entropy_M, chunk) / -temperature;
    d_logits_MV = distribution.p_MV * d_entropy_M1;  // first, so that a probability of 0 meets the lowest number as 0
    d_logits_MV.mul_(distribution.log_p_MV.add_(distribution.entropy_M1));
    d_logits_MV.addcmul_(distribution.p_MV, d_log_prob_M1, -1);
  } else {
    d_logits_MV = chunk.logits_MV.softmax(-1).mul_(-d_log_prob_M1);
  }
  return d_logits_MV.scatter_add_(1, chunk.targets, d_log_prob_M1);
}

TargetScores compute_scores(const Tensor& hidden, const Weight& lm_head, const TargetRows& targets) {
  const auto total = static_cast<std::int64_t>(targets.rows.size());
  const Tensor log_probs = torch::empty({total}), entropy = torch::empty({total});
  for_each_chunk(hidden, lm_head, targets, [&](const Chunk& chunk) {
    const Distribution distribution(chunk.logits_MV, targets.drawn_from.cuts());
    log_probs.narrow(0, chunk.begin, chunk.size).copy_(distribution.log_p_MV.gather(1, chunk.targets).squeeze(1));
    entropy.narrow(0, chunk.begin, chunk.size).copy_(distribution.entropy_M1.squeeze(1));
  });
  return {log_probs, entropy};
}

}  // namespace

TargetScores device_target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const TargetRows& targets,
                                     const TargetScores* known) {
  const Tensor hidden = hidden_ND.detach();
  const TargetScores scores = known != nullptr ? *known : compute_scores(hidden, lm_head, targets);
  const auto backward = [hidden, lm_head, &targets](const TensorList& d) {
    const Tensor d_hidden_ND = torch::zeros_like(hidden);
    for_each_chunk(hidden, lm_head, targets, [&](const Chunk& chunk) {
      const Tensor rounded_MV = logit_gradients(chunk, targets.drawn_from, d[0], d[1]).to(hidden.scalar_type());
      add_exact_product(rounded_MV.t(), chunk.hidden_MD, lm_head.gradient);
      d_hidden_ND.index_copy_(0, chunk.rows, torch::mm(rounded_MV, lm_head.value));
    });
    return TensorList{d_hidden_ND};
  };
  const TensorList out = differentiable({hidden_ND}, {scores.log_probs_M, scores.entropy_M}, backward);
  return {out[0], out[1]};
}

}  // namespace qrl::learner
