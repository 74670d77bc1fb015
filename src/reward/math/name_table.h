// Owns tables of names that are looked up in a few comparisons, made when the program is compiled.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace qrl::reward::math {

/// At most `capacity` names with a value each; of equal names the first that was added counts.
template <class Value, std::size_t capacity>
class NameTable {
 public:
  constexpr void add(std::string_view name, const Value& value) {
    const auto at = place_of(name);
    if (at < size_ && entries_[at].name == name) return;
    std::move_backward(entries_.begin() + static_cast<std::ptrdiff_t>(at),
                       entries_.begin() + static_cast<std::ptrdiff_t>(size_),
                       entries_.begin() + static_cast<std::ptrdiff_t>(size_ + 1));
    entries_[at] = {name, value};
    ++size_;
  }

  /// Nothing: no such name.
  constexpr const Value* find(std::string_view name) const noexcept {
    const auto at = place_of(name);
    return at < size_ && entries_[at].name == name ? &entries_[at].value : nullptr;
  }

 private:
  struct Entry {
    std::string_view name;
    Value value{};
  };

  /// By length first: most comparisons are of two numbers.
  static constexpr bool is_before(const Entry& entry, std::string_view name) noexcept {
    return entry.name.size() != name.size() ? entry.name.size() < name.size() : entry.name < name;
  }
  constexpr std::size_t place_of(std::string_view name) const noexcept {
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(size_);
    return static_cast<std::size_t>(std::lower_bound(entries_.begin(), end, name, is_before) - entries_.begin());
  }

  std::array<Entry, capacity> entries_{};
  std::size_t size_ = 0;
};

}  // namespace qrl::reward::math
