#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qrl::types {

using TokenId = std::int32_t;

/// Holds, for each entry of another array, the ascending ids of the tokens that top-k and top-p kept. Empty if nothing
/// was excluded.
class KeptTokens {
 public:
  bool empty() const { return ends_.empty(); }
  std::size_t size() const { return ends_.size(); }
  std::int64_t num_ids() const { return static_cast<std::int64_t>(ids_.size()); }

  void add(std::span<const TokenId> set) {
    ids_.insert(ids_.end(), set.begin(), set.end());
    ends_.push_back(static_cast<std::int64_t>(ids_.size()));
  }
  void fill(std::size_t count) { ends_.resize(count, static_cast<std::int64_t>(ids_.size())); }

  std::span<const TokenId> operator[](std::size_t entry) const {
    const std::int64_t begin = entry == 0 ? 0 : ends_[entry - 1];
    return std::span(ids_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(ends_[entry] - begin));
  }

  friend bool operator==(const KeptTokens&, const KeptTokens&) = default;

 private:
  std::vector<TokenId> ids_;
  std::vector<std::int64_t> ends_;
};

}  // namespace qrl::types
