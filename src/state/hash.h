// Owns the content hash: XXH3 with 128 bits, as 32 hexadecimal digits. It detects accidental damage, not forgery.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace qrl::state {

class Hash {
 public:
  Hash();
  ~Hash();
  Hash& add(const void* bytes, std::size_t num_bytes);
  Hash& add(std::string_view text) { return add(text.data(), text.size()); }
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrl::state
