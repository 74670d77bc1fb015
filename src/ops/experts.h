// Contract of a mixture of experts.
//
// The ops are SPMD like those of linear.h, without a barrier inside. Each expert's product equals `linear` bitwise, and
// a row adds its experts by ascending index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "ops/linear.h"

namespace qrl::ops {

/// Describes a router of M experts, k of them per row.
struct Router {
  std::int64_t num_experts = 0;  ///< M, at most 256
  std::int64_t per_token = 0;    ///< k, experts of a route
  bool normalizes = false;       ///< whether gates are divided by their sum
};

/// Chooses the k experts with the largest logits, on a tie the lower index, ascending in own_k. The route is `given_k`,
/// k different experts, or the own choice if null. Writes it ascending to used_k, and its gates to gates_k.
///
/// A gate is the softmax over all M in fp32: the largest logit subtracted, terms added by ascending index. A router
/// that normalizes divides it by the sum of the route's, by ascending index. Unless all logits are finite, the own
/// route is 0 … k − 1, all gates are NaN, and the result is false.
bool choose_experts(const Router& router, const float* logits_M, const std::uint8_t* given_k, std::uint8_t* own_k,
                    std::uint8_t* used_k, float* gates_k);

/// Computes the gradient of the logits from that of a route's gates, in fp32. With g the gates, p the softmax and d the
/// gates' gradient: g_i·(d_i − Σ g·d) on the route of a router that normalizes, else p_j·((d_j on the route) − Σ p·d)
/// on all. Sums are by ascending index. Non-finite logits have NaN.
void gate_gradients(const Router& router, const float* logits_M, const std::uint8_t* used_k, const float* gates_k,
                    const float* d_gates_k, float* d_logits_M);

/// Holds the routes of N rows, and their N·k pairs of row and expert sorted by (expert, row).
struct ExpertRows {
  std::int64_t per_token = 0;          ///< k
  std::vector<std::uint8_t> experts;   ///< [N, k], a row's ascending
  std::vector<float> gates;            ///< [N, k]
  std::vector<std::int32_t> row_of;    ///< [N·k], the row of a sorted place
  std::vector<std::int32_t> place_of;  ///< [N, k], the sorted place of a pair
  std::vector<std::int32_t> starts;    ///< [M + 1], an expert's first place, and the end
};

/// Sets k and the sorted order from `experts`, on the calling thread.
void sort_rows(const Router& router, ExpertRows& rows);

/// Copies rows with their scales, to[i] = from[row_of[i]], split over the team. Both have one format, width and
/// rotation.
void gather_rows(base::Team& team, const Activations& from, std::span<const std::int32_t> row_of, Activations& to);

/// Computes y[i] = x[i] · W_eᵀ for the places i of each expert e, split over the team by expert and panel. Experts
/// without rows are not read. `wide` has the same rows for experts of its format; null: all read x. y is fp32 [N·k,
/// out]; sums are those of `linear`.
void expert_linear(base::Team& team, const Activations& x, const Activations* wide,
                   std::span<const PackedLinear> weights, std::span<const std::int32_t> starts, float* y);

/// Adds to row n of x the sum of gate · z over its experts by ascending index. Products are rounded to fp32, then
/// added; the sum is added to x once. z is fp32 [N·k, width] in sorted order, x fp32 [N, width].
void add_experts(base::Team& team, const float* z, const ExpertRows& rows, base::Range which, std::int64_t width,
                 float* x_ND);

}  // namespace qrl::ops
