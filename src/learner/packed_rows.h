// Owns the way from a micro-batch to the packed rows of a forward pass and the targets of its log-probs. Knows no
// weight.
#pragma once

#include "base/buffer.h"
#include "learner/layers.h"
#include "learner/logprob.h"
#include "model/config.h"
#include "ops/sample.h"
#include "types/batch.h"

namespace qrl::learner {

/// Keeps a table of rotary positions, which grows with the longest sequence.
class MicroBatchPacker {
 public:
  /// chunk_tokens: TargetRows::chunk_tokens.
  MicroBatchPacker(const model::ModelConfig& config, std::int64_t chunk_tokens)
      : config_(config), chunk_tokens_(chunk_tokens) {}

  /// Returns the rows of a micro-batch, which point into this until its next call. Throws input errors for a token
  /// beyond the vocabulary and a sequence beyond max_position_embeddings.
  PackedRows rows(const types::MicroBatch& batch);
  /// Returns the masked-in tokens with the distribution that they were sampled from; they point into `batch`. Throws an
  /// input error for temperature 0. Throws an internal error if sample_params cut and a token's kept set is missing or
  /// lacks the token.
  TargetRows targets(const types::MicroBatch& batch, const ops::SampleParams& sample_params) const;

 private:
  model::ModelConfig config_;
  std::int64_t chunk_tokens_;
  base::Buffer rope_table_;
};

}  // namespace qrl::learner
