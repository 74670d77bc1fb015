#pragma once

#include <memory>

#include "base/buffer.h"
#include "learner/forward/layers.h"
#include "learner/forward/logprob.h"
#include "model/config.h"
#include "ops/sample.h"
#include "types/batch.h"

namespace qrl::learner {

/// Returns routes of this many rows, to be chosen by the forward pass; null for a dense model.
std::shared_ptr<RowRoutes> make_routes(const model::ModelConfig& config, std::int64_t num_rows);

types::Routes used_routes(RowRoutes& routes);

/// Packs micro-batches into rows and targets; keeps rotary tables up to the longest sequence seen.
class MicroBatchPacker {
 public:
  MicroBatchPacker(const model::ModelConfig& config, std::int64_t chunk_tokens)
      : config_(config), chunk_tokens_(chunk_tokens) {}

  /// Returns a micro-batch's rows, valid until the next call, with the routes that the batch replays. Throws input
  /// errors for tokens beyond the vocabulary and sequences beyond max_position_embeddings.
  PackedRows rows(const types::MicroBatch& batch);
  /// Returns the targets with loss_mask 1 and their sampling distribution; points into `batch`. Throws an input error
  /// for temperature 0. With top-k or top-p, throws an internal error if a token's kept set is missing or does not
  /// contain it.
  TargetRows targets(const types::MicroBatch& batch, const ops::SampleParams& sample_params) const;

 private:
  model::ModelConfig config_;
  std::int64_t chunk_tokens_;
  base::Buffer rope_table_;
};

}  // namespace qrl::learner
