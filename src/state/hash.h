// Owns the hash that names contents: XXH3, 128 bits, as 32 hexadecimal digits. Not against forgery, against accidents.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace qrl::state {

/// Takes bytes in pieces.
class Hash {
 public:
  Hash();
  ~Hash();
  Hash& add(const void* bytes, std::size_t num_bytes);
  Hash& add(std::string_view text) { return add(text.data(), text.size()); }
  /// Of everything added so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::state
