#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "decoder/sequence.h"
#include "model/config.h"
#include "types/prompt.h"

namespace qrl::decoder {

/// Describes the sequences that one team computes, as ranges of the plan's arrays.
struct PlanPart {
  base::Range rows, samples, copies, starts, leaves;
};

/// Size below which weights mostly stay in a core's own cache.
inline constexpr std::size_t kCachedWeightBytes = std::size_t{4} << 20;

/// Holds one tick: the N concatenated rows of the chosen sequences. A reused object does not allocate in steady ticks.
class Plan {
 public:
  explicit Plan(const model::ModelConfig& config);

  /// Fills the arrays for the chosen sequences, which must not change until the tick ends. If all threads can have
  /// enough rows, each thread computes a part of its own; otherwise all threads compute one part together.
  ///
  /// With weights_stay_cached, each part runs on one thread, because barriers would cost more than a team saves.
  void build(std::span<Sequence* const> chosen, int num_threads, bool weights_stay_cached = false);

  bool each_alone = false;  ///< if set, one thread computes each part
  std::vector<types::TokenId> tokens_N;
  std::vector<std::int32_t> positions_N;
  std::vector<const PageId*> page_tables_N;
  std::vector<StateSlot> states_N;           ///< slots of the rows' sequences; −1 without DeltaNet layers
  std::vector<PageCopy> copies;              ///< page copies before the forward pass, in order of `parts`
  std::vector<StateCopy> starts, leaves;     ///< state copies before and after it, in order of `parts`
  std::vector<std::int32_t> sample_rows;     ///< rows that need logits, ascending
  std::vector<Sequence*> sampled_sequences;  ///< one per sample row
  std::vector<PlanPart> parts;
  std::int64_t num_decode_rows = 0;  ///< rows of newly sampled tokens, not of prompt or recomputed tokens

  std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens_N.size()); }

  /// Every member of `all` must call this. With each_alone, it calls body(team, part, index of the part) for the
  /// member's own parts, with a team of one. Otherwise it calls body for the only part, with `all`.
  template <class Body>
  void share_out(base::Team& all, const Body& body) const {
    if (!each_alone) return body(all, parts.front(), std::size_t{0});
    base::Team alone = base::Team::solo();
    for (auto i = static_cast<std::size_t>(all.rank()); i < parts.size(); i += static_cast<std::size_t>(all.size()))
      body(alone, parts[i], i);
  }

 private:
  double cost(const Sequence& sequence) const;

  std::int64_t min_rows_per_thread_ = 16;  ///< minimum rows per thread for separate parts
  double position_cost_;                   // cost of attention to one more position, relative to a row's matmuls
};

}  // namespace qrl::decoder
