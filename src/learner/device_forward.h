// Owns the differentiable forward pass out of LibTorch's own operations and, where there are some, a device's kernels
// between them (device_kernels.h): what a GPU runs, where src/ops has no kernels.
// The same weights, precisions and packed rows as policy.h. Knows no loss.
#pragma once

#include <optional>
#include <vector>

#include "learner/parameters.h"
#include "learner/policy.h"

namespace qrl::learner {

/// PackedRows where LibTorch's operations read them, on the device of the weights.
struct DeviceRows {
  Tensor tokens_N;            ///< int64
  Tensor angles_NE;           ///< fp32: cosines of a row's position, then sines
  Tensor key_rows;            ///< int64: rows of the keys of each sequence, end to end; undefined: rows 0 … N−1
  Tensor starts, key_starts;  ///< int32 [S+1], of queries and of keys
  std::vector<std::int64_t> lengths, key_lengths;  ///< S; a sequence's queries are its last keys' rows
};
DeviceRows place_rows(const PackedRows& rows, std::int64_t head_dim, const torch::Device& device);

/// As policy.h's hidden_states, not with `pages`: residual stream, norms, rotation and SwiGLU fp32,
/// matmuls' operands and what lies between them in options.compute, k and v rounded as the decoder's pages hold them.
/// Attention is FlashAttention's (softmax fp32, its weights rounded to bf16) where the device has it, else one sequence
/// at a time with fp32 softmax weights. Weights' gradients are added to in fp32. Kept for the backward pass: what
/// enters each norm, transform and matmul; the rest is recomputed. With fake_quant each matmul's input is fp32,
/// rounded to what the sampler's activations of that layer keep (rounded_activations), and its weights are the
/// snapshot's (Parameters::read_quantized); with low_bit the matmul is the decoder's own (device_quantized.h), of the
/// snapshot's weights as options.device has them. Straight-through gradients in both.
Tensor device_hidden_states(const PolicyWeights& weights, const model::ModelConfig& config, const DeviceRows& rows,
                            const ForwardOptions& options);

/// x · Wᵀ, its gradients in x's dtype for x and in fp32, not rounded before it is added, for W. With a format x is fp32
/// and met by the weight as rounded_activations, in the weight's dtype; the result is fp32, and gradients pass through
/// the rounding.
Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format = {});

/// quant::round_activations of each row, in fp32, except for ties: fp32 [N, in] as quantized values of the format would
/// keep it.
Tensor rounded_activations(const Tensor& x, quant::Format format);

/// x · y, operands of one dtype, the result fp32 and not rounded to that dtype on the way: sums are fp32.
Tensor exact_matmul(const Tensor& x, const Tensor& y);
/// sum += x · y, sum fp32.
void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum);

}  // namespace qrl::learner
