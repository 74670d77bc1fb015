#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decoder/cpu/transformer.h"
#include "decoder/kv/kv_cache.h"
#include "decoder/kv/kv_scales.h"
#include "decoder/kv/page_pool.h"
#include "model/int8_profile.h"
#include "model/snapshot.h"
#include "quant/kv_format.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Configures a pass over given sequences (teacher forcing). Only kv_format and kv_scales change results.
struct ForcedLayout {
  std::int64_t page_size = 16;
  std::int64_t chunk_tokens = 512;  ///< rows per forward pass
  std::vector<PageId> pages;        ///< page table of the sequence; empty: 0, 1, 2 …
  int num_threads = 0;              ///< 0: all threads of the process
  quant::KvFormat kv_format = quant::KvFormat::f32;
  KvScales kv_scales;  ///< fp8_e4m3 only
};

/// Returns logits at every position of `tokens`: fp32 [T, V], row-major. Throws an input error for no tokens, tokens
/// outside the vocabulary, or more than max_position_embeddings.
std::vector<float> forced_logits(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                 const ForcedLayout& layout = {});

/// Runs the sequence, and raises the maxima in `observed` to its largest |input| per channel. Throws like
/// forced_logits.
void observe_inputs(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens, ObservedInputs& observed);

/// Throws like forced_logits.
LayerOutputs forced_layer_outputs(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                  const ForcedLayout& layout = {});

/// Holds fp32 keys and values of given sequences.
struct ForcedKv {
  KvCache kv;
  std::vector<std::vector<PageId>> pages;
  std::int64_t num_parts = 0;                   ///< number of parts in the plan
  std::optional<ObservedQueries> queries = {};  ///< rows in the plan's order; empty unless with_queries is set
};

/// Runs all sequences in one forward pass on all threads, like a tick. A sequence's results depend on its tokens alone.
/// Throws like forced_logits.
ForcedKv forced_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                   bool with_queries = false);

/// Runs the sequences and returns the largest |input| per channel after each block's two norms. Throws like
/// forced_logits. Also throws an input error if `sequences` is empty.
model::ChannelRanges channel_ranges(const model::Snapshot& snapshot,
                                    std::span<const std::vector<types::TokenId>> sequences);

/// Runs `snapshot` over the sequences with fp32 keys and values. Returns the kv_scale of each layer and kv head. The
/// method is FP8-RL's (algorithms.md); percentile and margin are this project's additions. Results do not depend on
/// threads or ranks. Throws an input error if `sequences` is empty. Throws like model::fail_broken for non-finite
/// values.
KvScales calibrate_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                      const KvCalibration& options);

}  // namespace qrl::decoder
