#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dist/collectives.h"

namespace qrl::dist {

/// Returns all ranks' values in rank order, on every rank. Ranks may pass different numbers of values.
template <class T>
std::vector<std::vector<T>> all_gather_values(std::span<const T> mine, Collectives& world) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::vector<T>> by_rank;
  for (const std::string& bytes :
       world.all_gather(std::string(reinterpret_cast<const char*>(mine.data()), mine.size_bytes()))) {
    std::vector<T>& values = by_rank.emplace_back(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return by_rank;
}

template <class T>
std::vector<T> all_gather_sorted(std::span<const T> mine, Collectives& world) {
  std::vector<T> all;
  for (const std::vector<T>& values : all_gather_values(mine, world))
    all.insert(all.end(), values.begin(), values.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace qrl::dist
