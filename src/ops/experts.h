// Contract of a mixture-of-experts layer.
//
// Ops with a base::Team are SPMD as in linear.h and contain no barrier. Each expert's product equals `linear` bitwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "ops/linear.h"

namespace qrl::ops {

/// Describes a router that chooses k of M experts for each row. These experts are the row's route.
struct Router {
  std::int64_t num_experts = 0;  ///< M, at most 256
  std::int64_t per_token = 0;    ///< k
  bool normalizes = false;       ///< if set, a route's gates are divided by their sum
};

/// Writes the k experts with the largest logits (ties: lower index) to own_k, ascending. The route is given_k (k
/// distinct experts), or own_k if given_k is null. Writes the route to used_k, ascending, and its gates to gates_k.
///
/// A gate is the expert's softmax probability over all M logits, computed in fp32 after subtracting the largest logit.
/// With Router::normalizes, gates are divided by their sum over the route. The largest logit of the route is then
/// subtracted instead, so that gates of a route far below the row's largest logit stay exact. Sums are in expert order.
/// If a logit is not finite, own_k is 0 … k − 1, gates are NaN, and the result is false.
bool choose_experts(const Router& router, const float* logits_M, const std::uint8_t* given_k, std::uint8_t* own_k,
                    std::uint8_t* used_k, float* gates_k);

/// Computes d_logits in fp32 from a route's gates g and their gradients d; p is the softmax. With Router::normalizes,
/// d_logits is g_i·(d_i − Σ g·d) for experts on the route and 0 for others. Otherwise it is p_j·(d_j − Σ p·d) for all
/// experts, with d_j = 0 outside the route. Sums are in expert order. If a logit is not finite, all gradients are NaN.
void gate_gradients(const Router& router, const float* logits_M, const std::uint8_t* used_k, const float* gates_k,
                    const float* d_gates_k, float* d_logits_M);

/// Holds the routes of N rows, and their N·k (row, expert) pairs sorted by expert, then row.
struct ExpertRows {
  std::int64_t per_token = 0;          ///< k
  std::vector<std::uint8_t> experts;   ///< [N, k], ascending within a row
  std::vector<float> gates;            ///< [N, k]
  std::vector<std::int32_t> row_of;    ///< [N·k], row of each sorted pair
  std::vector<std::int32_t> place_of;  ///< [N, k], index of each pair in sorted order
  std::vector<std::int32_t> starts;    ///< [M + 1], index of each expert's first sorted pair; last: N·k
};

/// Sets per_token, row_of, place_of and starts from `experts`.
void sort_rows(const Router& router, ExpertRows& rows);

/// Copies rows and their scales, to[i] = from[row_of[i]], split over the team. `from` and `to` must have the same
/// format, width and rotation.
void gather_rows(base::Team& team, const Activations& from, std::span<const std::int32_t> row_of, Activations& to);

/// Computes y[i] = x[i] · W_eᵀ for the sorted pairs i of each expert e, split over the team by expert and panel. Does
/// not read experts without rows. `wide`, unless null, holds the rows of x in a second format. Experts whose weights
/// have this second format multiply `wide`, the others x. y is fp32 [N·k, out].
void expert_linear(base::Team& team, const Activations& x, const Activations* wide,
                   std::span<const PackedLinear> weights, std::span<const std::int32_t> starts, float* y);

/// For each row in `which`, sums gate · z over the row's experts, in expert order, and adds the sum to that row of x.
/// Rounds each product to fp32. z is fp32 [N·k, width] in sorted order, x fp32 [N, width].
void add_experts(base::Team& team, const float* z, const ExpertRows& rows, base::Range which, std::int64_t width,
                 float* x_ND);

}  // namespace qrl::ops
