// Owns a tick's arrays on the device and their upload: all that launches read and that varies from tick to tick.
#pragma once

#include <compare>

#include "cuda/attention/attention_plan.h"
#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/kernels.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

/// All that a tick's launches take from the host, addresses included. Ticks of the same shape differ only in the
/// contents of memory.
struct TickShape {
  std::int64_t rows = 0, samples = 0;
  std::int64_t small_blocks = 0, large_blocks = 0, split_blocks = 0;  ///< of attention
  bool joins_segments = false;                                        ///< same as in AttentionWork
  friend auto operator<=>(const TickShape&, const TickShape&) = default;
};

struct TickArrays {
  TickShape shape;
  const std::int32_t* tokens;
  RowPlaces where;
  AttentionWork attention;
  const std::int32_t* sample_rows;
  const double* uniforms;
  const SampleSettings* sample_settings;  // one per sample
  const std::int32_t* copies;
};

class TickMemory {
 public:
  explicit TickMemory(const EngineOptions& options);

  /// Return the most rows of a tick, padding included, and attention partials of its plan.
  std::int64_t max_rows() const { return max_rows_; }
  std::int64_t max_partials() const { return max_partials_; }

  /// Copies a checked tick to the device, in the stream's order. The stream must have finished reading the tick before
  /// the previous one.
  ///
  /// A tick that samples for every row is padded to padded_rows, so that few shapes and addresses occur.
  TickArrays send(const Tick& tick, const SampleRows& samples, const Stream& stream);

 private:
  TickCounts counts_of_tick(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan) const;
  void fill(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan, const TickLayout& at,
            std::int64_t num_rows) const;

  AttentionShape attention_;
  std::int64_t max_positions_, page_size_, max_rows_, max_partials_;
  AttentionPlanner planner_;
  Memory host_[2];  // used alternately: the device may still read the previous tick's
  std::size_t turn_ = 0;
  Memory device_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
