#include "learner/device/row_lists.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace qrl::learner {

HostRowLists row_lists(std::vector<std::int32_t> rows, std::int64_t num_rows) {
  HostRowLists lists;
  lists.starts.assign(static_cast<std::size_t>(num_rows) + 1, 0);
  for (const std::int32_t row : rows) ++lists.starts[static_cast<std::size_t>(row) + 1];
  std::partial_sum(lists.starts.begin(), lists.starts.end(), lists.starts.begin());
  lists.places.resize(rows.size());
  std::vector<std::int32_t> next(lists.starts.begin(), lists.starts.end() - 1);
  for (std::size_t place = 0; place < rows.size(); ++place)
    lists.places[static_cast<std::size_t>(next[static_cast<std::size_t>(rows[place])]++)] =
        static_cast<std::int32_t>(place);
  lists.rows = std::move(rows);
  return lists;
}

HostTokenLists token_lists(const std::vector<std::int32_t>& tokens) {
  HostTokenLists lists;
  lists.rows.resize(tokens.size());
  std::iota(lists.rows.begin(), lists.rows.end(), 0);
  const auto token_of = [&](std::int32_t row) { return tokens[static_cast<std::size_t>(row)]; };
  std::ranges::stable_sort(lists.rows, {}, token_of);
  for (std::size_t i = 0; i < lists.rows.size(); ++i) {
    const std::int32_t token = token_of(lists.rows[i]);
    if (!lists.distinct.empty() && lists.distinct.back() == token) continue;
    lists.distinct.push_back(token);
    lists.starts.push_back(static_cast<std::int32_t>(i));
  }
  lists.starts.push_back(static_cast<std::int32_t>(tokens.size()));
  return lists;
}

}  // namespace qrl::learner
