#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qrl::types {

/// Holds the k distinct experts that each sparse layer chose for each token, ascending. A layer has at most 256
/// experts.
struct Routes {
  std::int32_t num_layers = 0;        ///< S, sparse layers
  std::int32_t per_token = 0;         ///< k
  std::vector<std::uint8_t> experts;  ///< [tokens, S, k]

  bool empty() const { return experts.empty(); }
  std::size_t token_bytes() const { return static_cast<std::size_t>(num_layers) * static_cast<std::size_t>(per_token); }
  std::int64_t num_tokens() const { return empty() ? 0 : static_cast<std::int64_t>(experts.size() / token_bytes()); }
  std::span<const std::uint8_t> of_token(std::size_t token) const {
    return std::span(experts).subspan(token * token_bytes(), token_bytes());
  }
  friend bool operator==(const Routes&, const Routes&) = default;
};

/// Says which routes a forward pass uses: its own choice, the sampler's routes, or the routes of the pass that made
/// old_logprobs.
enum class RouteReplay : std::uint8_t { none, sampler, old };

}  // namespace qrl::types
