#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "base/threads.h"
#include "decoder/kv/page_pool.h"
#include "decoder/options.h"
#include "model/config.h"

namespace qrl::decoder {

/// Names a slot of DeltaStates. A PagePool counts slots, as it counts pages.
using StateSlot = PageId;

struct StateCopy {
  StateSlot from = -1, to = -1;
};

/// Returns how many slots `num_sequences` need. With prefix sharing, additional slots keep the states of prompts whose
/// samples have not all started.
std::int64_t num_state_slots(std::int64_t num_sequences, bool prefix_sharing);
/// Returns options.state_slots, or its default.
std::int64_t state_slots_of(const DecoderOptions& options);
/// Returns the bytes of a slot: the states of one sequence in all DeltaNet layers; 0 for a model without.
std::int64_t state_slot_bytes(const model::ModelConfig& config);

/// Holds sequences' states in DeltaNet layers (ops/delta_net.h). A slot's memory is not touched before its first use.
class DeltaStates {
 public:
  DeltaStates(const model::ModelConfig& config, std::int64_t num_slots);

  void allocate();
  void release() { bytes_ = base::Buffer(); }

  /// Returns a slot's state in a layer, by the layer's index among DeltaNet layers.
  std::byte* state(StateSlot slot, std::int64_t delta_idx) const {
    return static_cast<std::byte*>(bytes_.view().data) + slot * slot_bytes_ + delta_idx * layer_bytes_;
  }
  /// Copies states of all layers. SPMD (ops/linear.h). A slot must not be a source and a target at once.
  void copy(base::Team& team, std::span<const StateCopy> copies) const;

 private:
  std::int64_t num_slots_, num_layers_, layer_bytes_, slot_bytes_;
  base::Buffer bytes_;  // u8 [slots, layers, bytes of a state]
};

}  // namespace qrl::decoder
