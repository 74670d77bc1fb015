// Owns a tick's arrays on the device and their way there: what a tick's launches read that varies from tick to tick.
// Knows nothing of layers.
#pragma once

#include <compare>

#include "cuda/attention/attention_plan.h"
#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// All that a tick's launches take from the host besides addresses, and those follow from it. Two ticks of the same
/// shape differ in the contents of memory alone.
struct TickShape {
  std::int64_t rows = 0, samples = 0;
  std::int64_t small_blocks = 0, large_blocks = 0, split_blocks = 0;  ///< of attention
  bool joins_segments = false;                                        ///< as AttentionWork's
  friend auto operator<=>(const TickShape&, const TickShape&) = default;
};

/// A tick's arrays on the device.
struct TickArrays {
  TickShape shape;
  const std::int32_t* tokens;
  RowPlaces where;
  AttentionWork attention;
  const std::int32_t* sample_rows;
  const double* uniforms;
  const SampleSettings* sample_settings;  // one a sample
  const std::int32_t* copies;
};

class TickMemory {
 public:
  explicit TickMemory(const EngineOptions& options);

  /// Rows, those that fill up included, that a tick may have, and partials of attention that its plan may name.
  std::int64_t max_rows() const { return max_rows_; }
  std::int64_t max_partials() const { return max_partials_; }

  /// Copies a (checked) tick to the device, in the stream's order; it must have read the one before the last. A tick
  /// that samples for every row is filled up to padded_rows with rows that are nowhere, and its arrays lie at addresses
  /// that depend on that number alone, so that its shape is one of few.
  TickArrays send(const Tick& tick, const SampleRows& samples, const Stream& stream);

 private:
  TickCounts counts_of_tick(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan) const;
  void fill(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan, const TickLayout& at,
            std::int64_t num_rows) const;

  AttentionShape attention_;
  std::int64_t max_positions_, page_size_, max_rows_, max_partials_;
  AttentionPlanner planner_;
  Memory host_[2];  // take turns: the device may still read the last tick's
  std::size_t turn_ = 0;
  Memory device_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
