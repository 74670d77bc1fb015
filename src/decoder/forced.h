// Owns the decoder's forward over a sequence given in full, nothing sampled: what checks of the forward pass compare.
// Knows nothing of scheduling.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decoder/kv_cache.h"
#include "decoder/kv_calibration.h"
#include "decoder/page_pool.h"
#include "decoder/transformer.h"
#include "model/snapshot.h"
#include "quant/kv_format.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// How the sequence is laid out. No choice but kv_format changes a bit of the result: that is what tests show by it.
struct ForcedLayout {
  std::int64_t page_size = 16;
  std::int64_t chunk_tokens = 512;  ///< rows of one forward
  std::vector<PageId> pages;        ///< which page holds each run of page_size tokens; empty: 0, 1, 2 …
  int num_threads = 0;              ///< 0: all of the process's
  quant::KvFormat kv_format = quant::KvFormat::f32;
  KvScales kv_scales;  ///< of fp8_e4m3 alone
};

/// Logits at every position of `tokens` under the snapshot's weights: fp32 [T, V], row-major. Throws an input error for
/// tokens outside the vocabulary, none at all, or more than max_position_embeddings.
std::vector<float> forced_logits(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                 const ForcedLayout& layout = {});

/// Runs the same forward for its side effect on `observed` (decoder/transformer.h). Errors as above.
void observe_inputs(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens, ObservedInputs& observed);

/// Runs the same forward with `layout` and keeps what each layer leaves. Errors as above.
LayerOutputs forced_layer_outputs(const model::Snapshot& snapshot, std::span<const types::TokenId> tokens,
                                  const ForcedLayout& layout = {});

/// fp32 keys and values of sequences given in full.
struct ForcedKv {
  KvCache kv;
  std::vector<std::vector<PageId>> pages;  ///< of each sequence, in order
  std::int64_t num_parts = 0;  ///< that the plan was cut into, each computed by one thread or the only one by all
  std::optional<ObservedQueries> queries = {};  ///< where asked for, rows in any order
};

/// Runs the same forward over all sequences at once, split over all threads as a tick is. A sequence's bits depend on
/// its tokens alone. Errors as above, for each sequence.
ForcedKv forced_kv(const model::Snapshot& snapshot, std::span<const std::vector<types::TokenId>> sequences,
                   bool with_queries = false);

}  // namespace qrl::decoder
