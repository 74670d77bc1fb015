#include "learner/update/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/threads.h"

namespace qrl::learner {

namespace {

torch::Tensor rounded(const torch::Tensor& values) { return values.to(torch::kBFloat16).to(torch::kFloat32); }

/// Multiplies fp32 matrices whose values are exact in bf16. Operands are bf16 on a GPU and fp32 on the CPU. Returns
/// fp32.
torch::Tensor bf16_matmul(const torch::Tensor& x, const torch::Tensor& y) {
  if (x.is_cpu()) return x.matmul(y);
  return at::mm(x.to(torch::kBFloat16), y.to(torch::kBFloat16), torch::kFloat32);
}

double work_of(const MuonMatrix& matrix) {
  const auto rows = static_cast<double>(matrix.weights.size(0)), cols = static_cast<double>(matrix.weights.size(1));
  return rows * cols * std::min(rows, cols);
}

/// Advances the momentum and zeroes the gradient. If `orthogonal` is defined, writes the orthogonalized update to it.
void advance(const MuonMatrix& matrix, const MuonStep& step, torch::Tensor& orthogonal) {
  const auto momentum = static_cast<float>(step.settings.momentum);
  torch::Tensor gradient = matrix.gradients, buffer = matrix.momentum;
  gradient.mul_(static_cast<float>(step.gradient_scale));
  buffer.mul_(momentum).add_(gradient);
  if (orthogonal.defined()) {
    orthogonal.copy_(
        newton_schulz(step.settings.nesterov ? gradient + momentum * buffer : buffer, step.settings.ns_steps));
  }
  gradient.zero_();
}

/// Allocates the updates of this rank's matrices in one bf16 block. The other ranks' updates are undefined tensors.
std::vector<torch::Tensor> room_for_updates(std::span<const MuonMatrix> matrices, const std::vector<int>& owners,
                                            int rank) {
  std::int64_t size = 0, at = 0;
  const auto is_mine = [&](const MuonMatrix& matrix) { return owners[matrix.tensor] == rank; };
  for (const MuonMatrix& matrix : matrices) size += is_mine(matrix) ? matrix.weights.numel() : 0;
  std::vector<torch::Tensor> updates(matrices.size());
  if (size == 0) return updates;
  const torch::Tensor all = torch::empty({size}, matrices.front().weights.options().dtype(torch::kBFloat16));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (!is_mine(matrices[i])) continue;
    const torch::Tensor& weights = matrices[i].weights;
    updates[i] = all.narrow(0, at, weights.numel()).view(weights.sizes());
    at += weights.numel();
  }
  return updates;
}

/// Broadcasts the updates of one tensor's matrices from their owner. `first` is the index of the first of these
/// matrices.
void exchange(std::span<const MuonMatrix> matrices, std::size_t first, int owner, RankTensors& ranks,
              std::vector<torch::Tensor>& orthogonal) {
  std::size_t end = first;
  std::int64_t count = 0;
  for (; end < matrices.size() && matrices[end].tensor == matrices[first].tensor; ++end)
    count += matrices[end].weights.numel();
  const torch::Tensor all = torch::empty({count}, matrices[first].weights.options().dtype(torch::kBFloat16));
  const auto visit = [&](const auto& body) {
    std::int64_t at = 0;
    for (std::size_t i = first; i < end; ++i) {
      const torch::Tensor& weights = matrices[i].weights;
      body(orthogonal[i], all.narrow(0, at, weights.numel()).view(weights.sizes()));
      at += weights.numel();
    }
  };
  if (owner == ranks.rank()) visit([](const torch::Tensor& own, torch::Tensor place) { place.copy_(own); });
  ranks.broadcast(all, owner);
  visit([](torch::Tensor& own, const torch::Tensor& place) { own = place; });
}

}  // namespace

torch::Tensor newton_schulz(const torch::Tensor& matrix, std::int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kEps = 1e-7;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  const torch::Tensor scale = (matrix.to(torch::kFloat64).norm() + kEps).reciprocal();  // avoids a host sync
  torch::Tensor x = rounded((is_tall ? matrix.t() : matrix).contiguous() * scale);
  for (std::int64_t step = 0; step < steps; ++step) {
    const torch::Tensor gram = rounded(bf16_matmul(x, x.t()));
    const torch::Tensor polynomial = rounded(kB * gram + kC * bf16_matmul(gram, gram));
    x = rounded(kA * x + bf16_matmul(polynomial, x));
  }
  return (is_tall ? x.t() : x).contiguous().to(torch::kBFloat16);
}

void muon_step(std::span<const MuonMatrix> matrices, const MuonStep& step, RankTensors& ranks) {
  std::vector<double> work;
  for (const MuonMatrix& matrix : matrices) {
    work.resize(matrix.tensor + 1, 0);
    work[matrix.tensor] += work_of(matrix);
  }
  const std::vector<int> owners = dist::share_out(work, ranks.size());
  std::vector<torch::Tensor> orthogonal = room_for_updates(matrices, owners, ranks.rank());
  const auto advance_range = [&](base::Range range) {
    const torch::NoGradGuard no_grad;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      advance(matrices[at], step, orthogonal[at]);
    }
  };
  const base::Range all{0, static_cast<std::int64_t>(matrices.size())};
  const bool on_cpu = matrices.empty() || matrices.front().weights.is_cpu();
  // Updates one matrix per thread. LibTorch's matmuls start no threads there, so results do not depend on the number of
  // threads.
  if (on_cpu) base::parallel_for(all.end, 1, advance_range);
  else advance_range(all);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const MuonMatrix& matrix = matrices[i];
    if (ranks.size() > 1 && (i == 0 || matrices[i - 1].tensor != matrix.tensor))
      exchange(matrices, i, owners[matrix.tensor], ranks, orthogonal);
    const double longest = static_cast<double>(std::max(matrix.weights.size(0), matrix.weights.size(1)));
    const double scale = step.settings.match_adamw_rms ? 0.2 * std::sqrt(longest) : 1.0;
    torch::Tensor weights = matrix.weights;
    weights.mul_(static_cast<float>(1 - step.lr * step.weight_decay))
        .sub_(orthogonal[i].to(torch::kFloat32) * static_cast<float>(step.lr * scale));
    orthogonal[i].reset();
  }
}

}  // namespace qrl::learner
