#include "decoder/kv/delta_states.h"

#include <cstring>

#include "model/snapshot.h"
#include "ops/delta_net.h"

namespace qrl::decoder {

std::int64_t num_state_slots(std::int64_t num_sequences, bool prefix_sharing) {
  constexpr std::int64_t kSequencesPerPrefix = 8;  // groups are seldom smaller
  return num_sequences + (prefix_sharing ? num_sequences / kSequencesPerPrefix + 1 : 0);
}

std::int64_t state_slots_of(const DecoderOptions& options) {
  return options.state_slots > 0 ? options.state_slots : num_state_slots(options.max_num_seqs, options.prefix_sharing);
}

std::int64_t state_slot_bytes(const model::ModelConfig& config) {
  if (config.num_delta_layers() == 0) return 0;
  return config.num_delta_layers() * ops::delta_state_bytes(model::delta_shape(config));
}

DeltaStates::DeltaStates(const model::ModelConfig& config, std::int64_t num_slots)
    : num_slots_(num_slots), num_layers_(config.num_delta_layers()), slot_bytes_(state_slot_bytes(config)) {
  layer_bytes_ = num_layers_ == 0 ? 0 : slot_bytes_ / num_layers_;
}

void DeltaStates::allocate() {
  if (num_layers_ == 0 || !bytes_.empty()) return;
  base::Arena arena;
  bytes_ = base::Buffer(base::DType::u8, {num_slots_, slot_bytes_}, &arena);
}

void DeltaStates::copy(base::Team& team, std::span<const StateCopy> copies) const {
  const base::Range share = team.slice(num_layers_ * static_cast<std::int64_t>(copies.size()));
  for (std::int64_t i = share.begin; i < share.end; ++i) {
    const StateCopy& one = copies[static_cast<std::size_t>(i / num_layers_)];
    std::memcpy(state(one.to, i % num_layers_), state(one.from, i % num_layers_),
                static_cast<std::size_t>(layer_bytes_));
  }
}

}  // namespace qrl::decoder
