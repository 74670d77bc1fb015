#pragma once

#include <cstdint>
#include <vector>

#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Describes N rows gathered into T places; int32, on the device of the gathered values.
struct RowLists {
  torch::Tensor rows;    ///< [T], the row at each place
  torch::Tensor starts;  ///< [N + 1], where each row's places begin in `places`
  torch::Tensor places;  ///< [T], the places of row 0, then row 1, …, ascending
};
/// Lists a micro-batch's tokens, and each distinct token's rows, for a table's gradient; int32.
struct TokenLists {
  torch::Tensor tokens_N, distinct;  ///< distinct: [U], ascending
  torch::Tensor starts;              ///< [U + 1], where each token's rows begin in rows_N
  torch::Tensor rows_N;              ///< ascending within a token
};

struct HostRowLists {
  std::vector<std::int32_t> rows, starts, places;
};
/// Lists each row's places.
HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows);
struct HostTokenLists {
  std::vector<std::int32_t> distinct, starts, rows;
};
HostTokenLists token_lists(const std::vector<std::int32_t>& tokens);

}  // namespace qrl::learner
