#include "ops/experts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "ops/ranges.h"

namespace qrl::ops {

namespace {

/// Number of rows whose product with a panel takes as long as reading the panel's weights.
constexpr std::int64_t kRowsOfReading = 16;

constexpr std::int64_t kMaxRouterExperts = 256;

/// Number of columns summed at once, so that their sums stay in L1.
constexpr std::int64_t kSumColumns = 512;

void copy_row(const Activations& from, std::int64_t from_row, Activations& to, std::int64_t to_row) {
  const std::size_t bytes = from.quantized.num_bytes() / static_cast<std::size_t>(from.max_rows());
  std::memcpy(to.row(to_row), from.row(from_row), bytes);
  const std::int64_t scales = from.num_scales();
  if (scales > 0)
    std::memcpy(to.scales.as<float>() + to_row * scales, from.scales.as<float>() + from_row * scales,
                static_cast<std::size_t>(scales) * sizeof(float));
}

/// Holds softmax terms exp(min(0, logit − reference)) of all experts. With the largest logit as reference, `of` is the
/// softmax. With a smaller one, ratios between experts whose logits are below it are still those of the softmax.
struct Softmax {
  Softmax(const float* logits_M, std::int64_t count, float reference) {
    for (std::int64_t expert = 0; expert < count; ++expert) {
      terms[static_cast<std::size_t>(expert)] = std::exp(std::min(logits_M[expert] - reference, 0.0F));
      total += terms[static_cast<std::size_t>(expert)];
    }
  }
  float of(std::int64_t expert) const { return terms[static_cast<std::size_t>(expert)] / total; }
  std::array<float, kMaxRouterExperts> terms{};
  float total = 0;
};

Softmax softmax_of(const float* logits_M, std::int64_t count) {
  return {logits_M, count, *std::max_element(logits_M, logits_M + count)};
}

/// Returns the softmax for gates that are divided by their sum over the route. The reference is the route's largest
/// logit: in a given route all logits can be so far below the largest that their terms would be 0.
Softmax softmax_of_route(const float* logits_M, std::int64_t count, std::span<const std::uint8_t> route) {
  float largest = logits_M[route[0]];
  for (const std::uint8_t expert : route) largest = std::max(largest, logits_M[expert]);
  return {logits_M, count, largest};
}

}  // namespace

bool choose_experts(const Router& router, const float* logits_M, const std::uint8_t* given_k, std::uint8_t* own_k,
                    std::uint8_t* used_k, float* gates_k) {
  const std::int64_t count = router.num_experts, chosen = router.per_token;
  QRL_INVARIANT(0 < chosen && chosen <= count && count <= kMaxRouterExperts, "router", "1 to 256 experts",
                std::to_string(chosen) + " of " + std::to_string(count));
  const bool is_finite = std::all_of(logits_M, logits_M + count, [](float logit) { return std::isfinite(logit); });
  std::array<std::uint8_t, kMaxRouterExperts> order{};
  for (std::int64_t expert = 0; expert < count; ++expert)
    order[static_cast<std::size_t>(expert)] = static_cast<std::uint8_t>(expert);
  const auto is_before = [&](std::uint8_t a, std::uint8_t b) {
    return logits_M[a] > logits_M[b] || (logits_M[a] == logits_M[b] && a < b);
  };
  if (is_finite) std::partial_sort(order.begin(), order.begin() + chosen, order.begin() + count, is_before);
  std::copy_n(order.begin(), chosen, own_k);
  std::sort(own_k, own_k + chosen);
  std::copy_n(given_k == nullptr ? own_k : given_k, chosen, used_k);
  std::sort(used_k, used_k + chosen);
  QRL_INVARIANT(used_k[chosen - 1] < count && std::adjacent_find(used_k, used_k + chosen) == used_k + chosen, "route",
                std::to_string(chosen) + " different experts of " + std::to_string(count),
                "repeated or out-of-range experts");

  if (!is_finite) {
    std::fill_n(gates_k, chosen, std::nanf(""));
    return false;
  }
  const Softmax softmax = router.normalizes
                              ? softmax_of_route(logits_M, count, {used_k, static_cast<std::size_t>(chosen)})
                              : softmax_of(logits_M, count);
  float of_route = 0;
  for (std::int64_t i = 0; i < chosen; ++i) {
    gates_k[i] = softmax.of(used_k[i]);
    of_route += gates_k[i];
  }
  if (router.normalizes) {
    for (std::int64_t i = 0; i < chosen; ++i) gates_k[i] /= of_route;
  }
  return true;
}

void gate_gradients(const Router& router, const float* logits_M, const std::uint8_t* used_k, const float* gates_k,
                    const float* d_gates_k, float* d_logits_M) {
  const std::int64_t count = router.num_experts, chosen = router.per_token;
  if (!std::all_of(logits_M, logits_M + count, [](float logit) { return std::isfinite(logit); })) {
    std::fill_n(d_logits_M, count, std::nanf(""));
    return;
  }
  std::fill_n(d_logits_M, count, 0.0F);
  if (router.normalizes) {
    float mean = 0;
    for (std::int64_t i = 0; i < chosen; ++i) mean += gates_k[i] * d_gates_k[i];
    for (std::int64_t i = 0; i < chosen; ++i) d_logits_M[used_k[i]] = gates_k[i] * (d_gates_k[i] - mean);
    return;
  }
  const Softmax softmax = softmax_of(logits_M, count);
  float mean = 0;
  for (std::int64_t i = 0; i < chosen; ++i) {
    d_logits_M[used_k[i]] = d_gates_k[i];
    mean += softmax.of(used_k[i]) * d_gates_k[i];
  }
  for (std::int64_t expert = 0; expert < count; ++expert)
    d_logits_M[expert] = softmax.of(expert) * (d_logits_M[expert] - mean);
}

void sort_rows(const Router& router, ExpertRows& rows) {
  const std::size_t pairs = rows.experts.size(), count = static_cast<std::size_t>(router.num_experts);
  rows.per_token = router.per_token;
  rows.row_of.resize(pairs);
  rows.place_of.resize(pairs);
  rows.starts.assign(count + 1, 0);
  for (const std::uint8_t expert : rows.experts) ++rows.starts[std::size_t{expert} + 1];
  for (std::size_t expert = 0; expert < count; ++expert) rows.starts[expert + 1] += rows.starts[expert];
  std::array<std::int32_t, kMaxRouterExperts> next{};
  std::copy_n(rows.starts.begin(), count, next.begin());
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t place = next[rows.experts[pair]]++;
    rows.place_of[pair] = place;
    rows.row_of[static_cast<std::size_t>(place)] =
        static_cast<std::int32_t>(pair / static_cast<std::size_t>(router.per_token));
  }
}

void gather_rows(base::Team& team, const Activations& from, std::span<const std::int32_t> row_of, Activations& to) {
  QRL_INVARIANT(from.format == to.format && from.width == to.width && from.rotation == to.rotation, "gather_rows",
                std::string(name(from.format)) + " of width " + std::to_string(from.width),
                std::string(name(to.format)) + " of width " + std::to_string(to.width));
  check_range({0, std::ssize(row_of)}, to.max_rows(), "gather_rows");
  const base::Range mine = team.slice(std::ssize(row_of));
  for (std::int64_t i = mine.begin; i < mine.end; ++i) copy_row(from, row_of[static_cast<std::size_t>(i)], to, i);
}

void expert_linear(base::Team& team, const Activations& x, const Activations* wide,
                   std::span<const PackedLinear> weights, std::span<const std::int32_t> starts, float* y) {
  QRL_INVARIANT(starts.size() == weights.size() + 1, "expert_linear", std::to_string(weights.size() + 1) + " starts",
                std::to_string(starts.size()));
  const std::int64_t out = weights.front().out, panels = ceil_div(out, kPanelColumns);
  const auto cost = [&](std::size_t expert) {
    const std::int64_t rows = starts[expert + 1] - starts[expert];
    return rows == 0 ? 0 : rows + kRowsOfReading;
  };
  std::int64_t total = 0;
  for (std::size_t expert = 0; expert < weights.size(); ++expert) total += panels * cost(expert);
  const base::Range mine = team.slice(total);
  base::Team alone = base::Team::solo();
  // Total cost of the experts before the current one. A member computes the panels that begin in its share of the cost.
  std::int64_t before = 0;
  for (std::size_t expert = 0; expert < weights.size(); ++expert) {
    if (cost(expert) == 0) continue;
    const auto panel_at = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at <= before ? 0 : ceil_div(at - before, cost(expert)), 0, panels);
    };
    const base::Range own{panel_at(mine.begin), panel_at(mine.end)};
    before += panels * cost(expert);
    if (own.size() == 0) continue;
    const PackedLinear& weight = weights[expert];
    const bool is_wide = wide != nullptr && weight.format == wide->format;
    linear_into_columns(alone, is_wide ? *wide : x, weight, {starts[expert], starts[expert + 1]},
                        {own.begin * kPanelColumns, std::min(out, own.end * kPanelColumns)}, false, y, out);
  }
}

void add_experts(base::Team& team, const float* z, const ExpertRows& rows, base::Range which, std::int64_t width,
                 float* x_ND) {
  const std::int64_t chosen = rows.per_token;
  check_range(which, chosen == 0 ? 0 : std::ssize(rows.place_of) / chosen, "add_experts");
  // Splits by columns if rows are fewer than team members. An element's order of summation does not change.
  const bool by_rows = which.size() >= team.size();
  base::Range mine = which, columns{0, width};
  if (by_rows) {
    const base::Range share = team.slice(which.size());
    mine = {which.begin + share.begin, which.begin + share.end};
  } else {
    columns = team.slice(width, 16);
  }
  for (std::int64_t row = mine.begin; row < mine.end; ++row) {
    const std::int32_t* places = rows.place_of.data() + row * chosen;
    const float* gates = rows.gates.data() + row * chosen;
    for (std::int64_t first = columns.begin; first < columns.end; first += kSumColumns) {
      const std::int64_t count = std::min(kSumColumns, columns.end - first);
      std::array<float, kSumColumns> sums;
      for (std::int64_t e = 0; e < chosen; ++e) {
        const float gate = gates[e];
        const float* from = z + places[e] * width + first;
        for (std::int64_t i = 0; i < count; ++i)
          sums[static_cast<std::size_t>(i)] =
              e == 0 ? gate * from[i] : sums[static_cast<std::size_t>(i)] + gate * from[i];
      }
      float* to = x_ND + row * width + first;
      for (std::int64_t i = 0; i < count; ++i) to[i] += sums[static_cast<std::size_t>(i)];
    }
  }
}

}  // namespace qrl::ops
