#include "learner/forward/logprob.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/threads.h"
#include "ops/matmul.h"
#include "ops/sample.h"
#include "ops/training.h"

namespace qrl::learner {

namespace {

struct Chunk {
  std::int64_t begin = 0, size = 0;
  Tensor rows;  ///< int64 row numbers
  Tensor hidden_MD;
  Tensor logits_MV;  ///< fp32
  ops::TokenDistribution distribution;
};

/// Computes a chunk's logits. With a head of int8, the chunk's hidden states become the dequantized ones.
Tensor logits_of(Tensor& hidden_MD, const ops::PackedLinear& head) {
  const std::int64_t num_rows = hidden_MD.size(0);
  const Tensor x = hidden_MD.to(torch::kFloat32), logits_MV = torch::empty({num_rows, head.out});
  ops::Activations quantized(head.format, num_rows, head.in);
  base::parallel(0, [&](base::Team& team) {
    ops::quantize(team, x.data_ptr<float>(), {0, num_rows}, quantized);
    team.barrier();
    ops::linear(team, quantized, head, {0, num_rows}, false, logits_MV.data_ptr<float>());
  });
  if (head.format != quant::Format::int8) return logits_MV;
  hidden_MD = torch::empty({num_rows, head.in});
  base::parallel_for(num_rows, 1, [&](base::Range rows) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r)
      ops::dequantize_row(quantized, r, hidden_MD.data_ptr<float>() + r * head.in);
  });
  return logits_MV;
}

/// Computes logits in chunks. Calls uncut(chunk) before top-k and top-p exclude tokens, and body(chunk) afterwards.
template <class Uncut, class Body>
void for_each_chunk(const Tensor& hidden_ND, const ops::PackedLinear& head, const TargetRows& targets,
                    const Uncut& uncut, const Body& body) {
  const auto total = static_cast<std::int64_t>(targets.rows.size());
  for (std::int64_t begin = 0; begin < total; begin += targets.chunk_tokens) {
    Chunk chunk;
    chunk.begin = begin;
    chunk.size = std::min(targets.chunk_tokens, total - begin);
    chunk.rows = torch::from_blob(const_cast<std::int64_t*>(targets.rows.data()) + begin, {chunk.size}, torch::kInt64);
    chunk.hidden_MD = hidden_ND.index_select(0, chunk.rows);
    chunk.logits_MV = logits_of(chunk.hidden_MD, head);
    chunk.distribution = {chunk.size, head.out, 1.0F / targets.temperature, targets.targets.data() + begin};
    uncut(chunk);
    if (!targets.kept.empty()) {
      base::parallel_for(chunk.size, 1, [&](base::Range rows) {
        for (std::int64_t r = rows.begin; r < rows.end; ++r)
          ops::keep_only(chunk.logits_MV.data_ptr<float>() + r * head.out, head.out, targets.kept_of(begin + r));
      });
    }
    body(chunk);
  }
}

/// Computes d_logits · lm_head, fp32 [M, D]. Dequantizes lm_head a block of tokens at a time.
Tensor times_head(const Tensor& d_logits_MV, const ops::PackedLinear& head) {
  constexpr std::int64_t kTokens = 2048;
  const std::int64_t num_rows = d_logits_MV.size(0);
  const Tensor sums_MD = torch::zeros({num_rows, head.in});
  const bool is_bf16 = d_logits_MV.scalar_type() == torch::kBFloat16;
  const bool as_stored = is_bf16 && head.format == quant::Format::bf16 && head.in % 2 == 0;
  const Tensor rows_TD =
      torch::empty({std::min(kTokens, head.out), head.in}, as_stored ? torch::kBFloat16 : torch::kFloat32);
  for (std::int64_t first = 0; first < head.out; first += kTokens) {
    const std::int64_t count = std::min(kTokens, head.out - first);
    base::parallel_for(count, 16, [&](base::Range range) {
      const auto unpack = [&](auto* to) {
        ops::unpack_rows(head, first + range.begin, range.size(), to + range.begin * head.in);
      };
      if (as_stored) unpack(static_cast<std::uint16_t*>(rows_TD.data_ptr()));
      else unpack(rows_TD.data_ptr<float>());
    });
    const auto* left = static_cast<const std::byte*>(d_logits_MV.data_ptr()) + first * d_logits_MV.element_size();
    ops::matmul({is_bf16 ? ops::MatmulType::bf16 : ops::MatmulType::f32,
                 num_rows,
                 head.in,
                 count,
                 {{const_cast<std::byte*>(left), is_bf16}, d_logits_MV.stride(0)},
                 {{rows_TD.data_ptr(), as_stored}, head.in},
                 {sums_MD.data_ptr<float>(), false},
                 head.in,
                 true});
  }
  return sums_MD;
}

/// Computes d_logits [M, V] in `type`. `gradients` points to the chunk's first row. d_logits overwrite the logits, with
/// the same row stride in bytes.
Tensor logit_gradient(const Chunk& chunk, torch::ScalarType type, ops::TokenGradients gradients) {
  const bool is_bf16 = type == torch::kBFloat16;
  const std::int64_t vocab_size = chunk.logits_MV.size(1);
  gradients.d_logits = {chunk.logits_MV.data_ptr(), is_bf16};
  gradients.d_logits_stride = is_bf16 ? 2 * vocab_size : vocab_size;
  ops::token_log_probs_backward(chunk.distribution, chunk.logits_MV.data_ptr<float>(), gradients);
  return torch::from_blob(
      gradients.d_logits.data, {chunk.size, vocab_size}, {gradients.d_logits_stride, 1},
      [logits = chunk.logits_MV](void*) {}, torch::TensorOptions().dtype(type));
}

Tensor hidden_gradient(const Tensor& d_logits_MV, const Weight& lm_head, const ops::PackedLinear& head,
                       torch::ScalarType type) {
  const bool by_value = lm_head.defined() && head.format != quant::Format::int8;
  return by_value ? times(d_logits_MV, lm_head.value, type) : times_head(d_logits_MV, head).to(type);
}

Tensor floats_or_zeros(const Tensor& gradient, std::int64_t count) {
  return gradient.defined() ? gradient.contiguous() : torch::zeros({count});
}

}  // namespace

TargetScores target_log_probs(const Tensor& hidden_ND, const Weight& lm_head, const ops::PackedLinear& head,
                              const TargetRows& targets, torch::ScalarType gradients, bool as_sampled) {
  const auto total = static_cast<std::int64_t>(targets.rows.size());
  const Tensor log_probs = torch::empty({total}), entropy = torch::empty({total}), lse = torch::empty({total});
  const Tensor sampled = as_sampled ? torch::empty({total}) : log_probs;
  const Tensor hidden = hidden_ND.detach();
  const auto score_as_sampled = [&](const Chunk& chunk) {
    if (!as_sampled) return;
    base::parallel_for(chunk.size, 1, [&](base::Range rows) {
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        sampled.data_ptr<float>()[chunk.begin + r] =
            ops::logprob(chunk.logits_MV.data_ptr<float>() + r * head.out, head.out, targets.temperature,
                         targets.targets[static_cast<std::size_t>(chunk.begin + r)], targets.kept_of(chunk.begin + r));
      }
    });
  };
  // Precomputes d log_prob / d hidden while the logits exist. The backward pass multiplies it by d_log_prob.
  const bool has_gradients = torch::GradMode::is_enabled() && hidden_ND.requires_grad() &&
                             !lm_head.gradient.defined() && !targets.entropy_is_trained;
  const Tensor by_hidden_MD = has_gradients ? torch::empty({total, head.in}) : Tensor();
  // The backward pass begins with the logits of an only chunk, so keeping them takes no more memory at its peak.
  const bool keeps =
      torch::GradMode::is_enabled() && hidden_ND.requires_grad() && !has_gradients && total <= targets.chunk_tokens;
  const auto only = std::make_shared<std::optional<Chunk>>();
  for_each_chunk(hidden, head, targets, score_as_sampled, [&](const Chunk& chunk) {
    const auto at = [&](const Tensor& per_target) { return per_target.data_ptr<float>() + chunk.begin; };
    ops::token_log_probs(chunk.distribution, chunk.logits_MV.data_ptr<float>(), at(log_probs), at(entropy), at(lse));
    if (keeps) *only = chunk;
    if (!has_gradients) return;
    const Tensor one = torch::ones({chunk.size}), zero = torch::zeros({chunk.size});
    const Tensor d_logits_MV =
        logit_gradient(chunk, gradients, {at(entropy), at(lse), one.data_ptr<float>(), zero.data_ptr<float>(), {}});
    by_hidden_MD.narrow(0, chunk.begin, chunk.size).copy_(hidden_gradient(d_logits_MV, lm_head, head, torch::kFloat32));
  });
  const auto backward = [hidden, lm_head, &head, &targets, total, lse, by_hidden_MD, only, gradients,
                         kept_entropy = entropy.detach()](const TensorList& d) {
    if (by_hidden_MD.defined()) {
      QRL_INVARIANT(!d[1].defined(), "log-probs", "no gradient of the entropies", "a gradient");
      const Tensor rows = torch::tensor(targets.rows), d_hidden_ND = torch::zeros_like(hidden);
      const Tensor d_hidden_MD = by_hidden_MD * floats_or_zeros(d[0], total).unsqueeze(1);
      return TensorList{d_hidden_ND.index_copy_(0, rows, d_hidden_MD.to(hidden.scalar_type()))};
    }
    const Tensor d_log_probs = floats_or_zeros(d[0], total), d_entropy = floats_or_zeros(d[1], total);
    const Tensor d_hidden_ND = torch::zeros_like(hidden);
    const auto of_chunk = [&](const Chunk& chunk) {
      const auto at = [&](const Tensor& per_target) { return per_target.data_ptr<float>() + chunk.begin; };
      const Tensor d_logits_MV =
          logit_gradient(chunk, gradients, {at(kept_entropy), at(lse), at(d_log_probs), at(d_entropy), {}});
      accumulate_weight_gradient(d_logits_MV, chunk.hidden_MD.to(gradients), lm_head.gradient);
      d_hidden_ND.index_copy_(0, chunk.rows, hidden_gradient(d_logits_MV, lm_head, head, hidden.scalar_type()));
    };
    if (only->has_value()) of_chunk(*std::exchange(*only, std::nullopt));
    else
      for_each_chunk(
          hidden, head, targets, [](const Chunk&) {}, of_chunk);
    return TensorList{d_hidden_ND};
  };
  const TensorList out = differentiable({hidden_ND}, {sampled, entropy}, backward);
  return {out[0], out[1]};
}

}  // namespace qrl::learner
