// Owns what the linear layers behind a norm see on given sequences. Knows nothing of what the figures are for.
#pragma once

#include <span>
#include <vector>

#include "model/int8_profile.h"
#include "model/snapshot.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Runs `snapshot` over each sequence, nothing sampled, and gives the largest |input| of every channel behind each
/// block's two norms. The same on any number of threads. Input errors as forced_logits'.
model::ChannelRanges channel_ranges(const model::Snapshot& snapshot,
                                    std::span<const std::vector<types::TokenId>> sequences);

}  // namespace qrl::decoder
