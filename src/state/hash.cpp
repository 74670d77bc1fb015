#include "state/hash.h"

#include <xxhash.h>

#include <new>

namespace qrl::state {

struct Hash::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* xxh;
};

Hash::Hash() : state_(std::make_unique<State>()) {}
Hash::~Hash() = default;

Hash& Hash::add(const void* bytes, std::size_t num_bytes) {
  XXH3_128bits_update(state_->xxh, bytes, num_bytes);
  return *this;
}

std::string Hash::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15U];
  }
  return text;
}

}  // namespace qrl::state
