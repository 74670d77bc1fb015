#pragma once

#include <cstdint>
#include <span>

#include "learner/options.h"
#include "learner/tensors/rank_tensors.h"
#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Approximates the nearest semi-orthogonal matrix by `steps` quintic Newton–Schulz steps from G/‖G‖_F (Jordan et al.
/// 2024, "Muon", coefficients 3.4445, −4.7750, 2.0315). Singular values end between about 0.7 and 1.2, except tiny
/// ones. Matmuls sum in fp32, and their results are rounded to bf16. Takes [rows, cols] fp32 and returns bf16 on the
/// same device; a zero matrix stays zero.
torch::Tensor newton_schulz(const torch::Tensor& matrix, std::int64_t steps);

/// Holds a matrix's state: fp32 [rows, cols] tensors, contiguous, on one device.
struct MuonMatrix {
  torch::Tensor weights, gradients, momentum;
  std::size_t tensor = 0;  ///< index of the tensor that contains the matrix, ascending; experts share a tensor
};

struct MuonStep {
  double lr = 0, weight_decay = 0;
  double gradient_scale = 1;
  OptimizerOptions::Muon settings;
};

/// Updates each matrix: m ← momentum·m + g; O = newton_schulz(nesterov ? g + momentum·m : m); w ← w·(1 −
/// lr·weight_decay) − lr·s·O. With match_adamw_rms, s is 0.2·√max(rows, cols), for AdamW's RMS (Liu et al. 2025, "Muon
/// is scalable"); otherwise 1. Zeroes gradients. All ranks must pass equal matrices and gradients. Each rank
/// orthogonalizes its share and sends the results to the others. Results are bitwise those of one process. Collective.
void muon_step(std::span<const MuonMatrix> matrices, const MuonStep& step, RankTensors& ranks);

}  // namespace qrl::learner
