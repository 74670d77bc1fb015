#pragma once

#include <compare>

#include "cuda/attention/attention_plan.h"
#include "cuda/attention/attention_task.h"
#include "cuda/engine/decode_engine.h"
#include "cuda/runtime/layout.h"
#include "cuda/runtime/runtime.h"
#include "cuda/sample/row_cuts.h"
#include "cuda/sample/sample.h"

namespace qrl::cuda {

/// Holds how many elements of each array a tick uploads. A tile has five int32. tile_rows is the size of
/// AttentionPlan::rows.
struct TickCounts {
  std::int64_t rows = 0, samples = 0, tiles = 0, tile_rows = 0, split_rows = 0, page_ids = 0, copies = 0;
};
/// Holds byte offsets of a tick's arrays in one upload. Page ids and copies come last, so that their counts change no
/// other offset.
struct TickLayout {
  std::int64_t uniforms = 0, sample_settings = 0, cuts = 0, attention_counts = 0, tokens = 0, positions = 0,
               first_pages = 0, partials = 0, sample_rows = 0, tiles = 0, tile_rows = 0, split_rows = 0, page_ids = 0,
               copies = 0, num_bytes = 0;
};
inline TickLayout tick_layout(const TickCounts& counts) {
  TickLayout at;
  std::int64_t end = 0;
  const auto place = [&](std::int64_t& offset, std::int64_t num_ints) {
    offset = end;
    end += round_up(num_ints * 4, 16);
  };
  place(at.uniforms, 2 * counts.samples);
  place(at.sample_settings, 2 * counts.samples);
  place(at.cuts, 3 * counts.samples);
  place(at.attention_counts, 3);
  place(at.tokens, counts.rows);
  place(at.positions, counts.rows);
  place(at.first_pages, counts.rows);
  place(at.partials, counts.rows);
  place(at.sample_rows, counts.samples);
  place(at.tiles, 5 * counts.tiles);
  place(at.tile_rows, counts.tile_rows);
  place(at.split_rows, counts.split_rows);
  place(at.page_ids, counts.page_ids);
  place(at.copies, 3 * counts.copies);
  at.num_bytes = end;
  return at;
}

namespace QRL_CUDA_TARGET {

/// Describes a tick's launches. Ticks of one shape differ only in the contents of memory, so one graph serves all.
struct TickShape {
  std::int64_t rows = 0, samples = 0;
  std::int64_t small_blocks = 0, large_blocks = 0, split_blocks = 0;  ///< blocks of attention's launches
  bool joins_segments = false;
  bool cuts = false;  ///< whether a row has top-k or top-p
  friend auto operator<=>(const TickShape&, const TickShape&) = default;
};

struct TickArrays {
  TickShape shape;
  const std::int32_t* tokens;
  RowPlaces where;
  AttentionWork attention;
  const std::int32_t* sample_rows;
  const double* uniforms;
  const SampleSettings* sample_settings;
  const RowCuts* cuts;
  const std::int32_t* copies;
};

class TickMemory {
 public:
  explicit TickMemory(const EngineOptions& options);

  /// max_rows() includes padding rows.
  std::int64_t max_rows() const { return max_rows_; }
  std::int64_t max_partials() const { return max_partials_; }

  /// Copies a checked tick to the device, in stream order. Overwrites the host memory of the last call but one, whose
  /// copy must have ended.
  ///
  /// A tick that samples for every row is padded to padded_rows, so that few shapes occur.
  TickArrays send(const Tick& tick, const SampleRows& samples, const Stream& stream);

 private:
  TickCounts counts_of_tick(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan) const;
  void fill(const Tick& tick, const SampleRows& samples, const AttentionPlan& plan, const TickLayout& at,
            std::int64_t num_rows) const;

  AttentionShape attention_;
  std::int64_t max_positions_, page_size_, max_rows_, max_partials_;
  AttentionPlanner planner_;
  Memory host_[2];  // two: the device may still read the previous tick's memory
  std::size_t turn_ = 0;
  Memory device_;
};

}  // namespace QRL_CUDA_TARGET

}  // namespace qrl::cuda
