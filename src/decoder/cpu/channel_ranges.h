#pragma once

#include <span>
#include <vector>

#include "model/int8_profile.h"
#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Runs the sequences and returns the largest |input| per channel after each block's two norms. Throws like
/// forced_logits, and for no sequences.
model::ChannelRanges channel_ranges(const model::Snapshot& snapshot,
                                    std::span<const std::vector<types::TokenId>> sequences);

}  // namespace qrl::decoder
