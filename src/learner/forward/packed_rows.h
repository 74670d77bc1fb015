#pragma once

#include <memory>

#include "base/buffer.h"
#include "learner/forward/layers.h"
#include "learner/forward/logprob.h"
#include "model/config.h"
#include "model/rope.h"
#include "ops/sample.h"
#include "types/batch.h"

namespace qrl::learner {

/// Makes routes for a forward pass to fill. Returns null for a dense model.
std::shared_ptr<RowRoutes> make_routes(const model::ModelConfig& config, std::int64_t num_rows);

types::Routes used_routes(RowRoutes& routes);

class MicroBatchPacker {
 public:
  MicroBatchPacker(const model::ModelConfig& config, std::int64_t chunk_tokens)
      : config_(config), chunk_tokens_(chunk_tokens) {}

  /// Returns a micro-batch's rows with its replayed routes. The rows are valid until the next call. Throws input errors
  /// for tokens outside the vocabulary, and for sequences longer than max_position_embeddings.
  PackedRows rows(const types::MicroBatch& batch);
  /// Returns the targets with loss_mask 1, their sampling temperature and kept tokens. The result points into `batch`.
  /// Throws an input error for temperature 0. With top-k or top-p, throws an internal error if a target's kept tokens
  /// are missing or lack the target.
  TargetRows targets(const types::MicroBatch& batch, const ops::SampleParams& sample_params) const;

 private:
  model::ModelConfig config_;
  std::int64_t chunk_tokens_;
  model::RopeTables ropes_;
};

}  // namespace qrl::learner
