// Owns the training kernels of each ISA path. Kernels process rows or elements [begin, end).
#pragma once

#include <cstdint>

#include "ops/training.h"

namespace qrl::ops {

/// Holds the arrays of ops::apply_gates_backward's gradients.
struct GateGradients {
  MixedArray d_out, d_context, d_gates;
};

struct TrainingKernels {
  void (*add_rms_norm)(const AddRmsNorm& args, std::int64_t begin, std::int64_t end);
  void (*add_rms_norm_backward)(const AddRmsNormBackward& args, std::int64_t begin, std::int64_t end);
  void (*qkv_transform)(const QkvTransform& args, float* out, float* inverse_rms, std::int64_t begin, std::int64_t end);
  void (*qkv_transform_backward)(const QkvTransform& args, const float* inverse_rms, const QkvGradients& gradients,
                                 std::int64_t begin, std::int64_t end);
  void (*swiglu)(base::Gate activation, std::int64_t width, MixedArray halves, MixedArray out, std::int64_t begin,
                 std::int64_t end);
  void (*swiglu_backward)(base::Gate activation, std::int64_t width, MixedArray halves, MixedArray d_out,
                          MixedArray d_halves, std::int64_t begin, std::int64_t end);
  void (*apply_gates)(std::int64_t width, MixedArray gates, MixedArray context, MixedArray out, std::int64_t begin,
                      std::int64_t end);
  void (*apply_gates_backward)(std::int64_t width, MixedArray gates, MixedArray context, const GateGradients& gradients,
                               std::int64_t begin, std::int64_t end);
  void (*token_log_probs)(const TokenDistribution& args, const float* logits, float* log_probs, float* entropy,
                          float* lse, std::int64_t begin, std::int64_t end);
  void (*token_log_probs_backward)(const TokenDistribution& args, const float* logits, const TokenGradients& gradients,
                                   std::int64_t begin, std::int64_t end);
  double (*sum_of_squares)(const float* values, std::int64_t count);
  void (*adamw_step)(const AdamW& args, std::int64_t count, float* weights, float* gradients, float* exp_avg,
                     float* exp_avg_sq);
};

}  // namespace qrl::ops
