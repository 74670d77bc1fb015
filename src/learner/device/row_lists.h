// Owns which rows a gathered array has, and their places in it.
#pragma once

#include <cstdint>
#include <vector>

#include "learner/tensors/torch.h"

namespace qrl::learner {

/// Holds N rows gathered into T places; int32, on the gathered values' device.
struct RowLists {
  torch::Tensor rows;    ///< [T]: the row at each place
  torch::Tensor starts;  ///< [N + 1]: where each row's places begin in `places`
  torch::Tensor places;  ///< [T]: the places of row 0, of row 1, …, ascending
};
/// Holds tokens and the rows of each distinct one, for a table's gradient; int32.
struct TokenLists {
  torch::Tensor tokens_N, distinct;  ///< distinct: [U], ascending
  torch::Tensor starts;              ///< [U + 1]: where each one's rows begin in rows_N
  torch::Tensor rows_N;              ///< ascending for each
};

struct HostRowLists {
  std::vector<std::int32_t> rows, starts, places;
};
/// Lists the places of each of num_rows rows.
HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows);
/// Holds TokenLists' last three in host memory.
struct HostTokenLists {
  std::vector<std::int32_t> distinct, starts, rows;
};
HostTokenLists token_lists(const std::vector<std::int32_t>& tokens);

}  // namespace qrl::learner
