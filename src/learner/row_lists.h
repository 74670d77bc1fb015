// Owns which rows a gathered array has, and where each row is in it. Knows nothing of what rows hold.
#pragma once

#include <cstdint>
#include <vector>

#include "learner/torch.h"

namespace qrl::learner {

/// Rows gathered into T places, out of N; int32, on the device of what is gathered.
struct RowLists {
  torch::Tensor rows;    ///< [T]: the row at each place
  torch::Tensor starts;  ///< [N + 1]: where each row's places begin in `places`
  torch::Tensor places;  ///< [T]: the places of row 0, of row 1, …, ascending
};
/// Tokens and, for the gradient of what a table has of them, the rows of each distinct one; int32.
struct TokenLists {
  torch::Tensor tokens_N, distinct;  ///< distinct: [U], ascending
  torch::Tensor starts;              ///< [U + 1]: where each one's rows begin in rows_N
  torch::Tensor rows_N;              ///< ascending for each
};

/// Holds RowLists in host memory.
struct HostRowLists {
  std::vector<std::int32_t> rows, starts, places;
};
/// Lists the places of each of num_rows rows.
HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows);
/// Holds TokenLists' last three in host memory.
struct HostTokenLists {
  std::vector<std::int32_t> distinct, starts, rows;
};
/// Lists the rows of each distinct token.
HostTokenLists token_lists(const std::vector<std::int32_t>& tokens);

}  // namespace qrl::learner
