#include "dist/parts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace qrl::dist {

void check_parts(const char* where, std::span<const Part> parts, std::size_t size, int num_ranks) {
  for (const Part& part : parts) {
    QRL_INVARIANT(
        part.begin <= size && part.count <= size - part.begin && part.owner >= 0 && part.owner < num_ranks, where,
        "parts of " + std::to_string(size) + " elements, owned by " + std::to_string(num_ranks) + " ranks",
        std::to_string(part.count) + " from " + std::to_string(part.begin) + " of rank " + std::to_string(part.owner));
  }
}

std::vector<int> share_out(std::span<const double> loads, int num_ranks) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  std::vector<double> given(static_cast<std::size_t>(num_ranks), 0);
  std::vector<int> takers(loads.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(given.begin(), given.end());
    takers[i] = static_cast<int>(least - given.begin());
    *least += loads[i];
  }
  return takers;
}

}  // namespace qrl::dist
