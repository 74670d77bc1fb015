// Owns the arrays that one tick's forward reads, and how its sequences are shared out over threads. Knows nothing of
// weights; changes no sequence.
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

/// Whole sequences that one team computes: ranges into the plan's arrays.
struct PlanPart {
  base::Range rows, samples, copies;
};

/// Weights of which a core's own cache holds the most part.
inline constexpr std::size_t kCachedWeightBytes = std::size_t{4} << 20;

/// One tick: rows of the chosen sequences end to end, N in all. Reused from tick to tick, so that a steady one
/// allocates nothing.
class Plan {
 public:
  explicit Plan(const model::ModelConfig& config);

  /// Fills the arrays for the chosen sequences (which stay put until the tick ends) and cuts them into parts: one per
  /// thread when each has rows enough to use the matrix units alone, so that no thread ever waits for another; else a
  /// single part for all threads together. With weights that stay in a core's cache one thread is always enough for a
  /// part, even for the only one: meeting others some hundred times a tick would cost more than it saves, and a hundred
  /// times more than that on a machine with other work.
  void build(std::span<Sequence* const> chosen, int num_threads, bool weights_stay_cached = false);

  bool each_alone = false;  ///< a part belongs to one thread
  std::vector<types::TokenId> tokens_N;
  std::vector<std::int32_t> positions_N;
  std::vector<const PageId*> page_tables_N;  ///< of the row's sequence
  std::vector<PageCopy> copies;              ///< before any row's forward; a part's copies are of its own sequences
  std::vector<std::int32_t> sample_rows;     ///< rows whose logits are wanted, ascending
  std::vector<Sequence*> sampled_sequences;  ///< whose they are
  std::vector<PlanPart> parts;
  std::int64_t num_decode_rows = 0;  ///< rows of a newest sampled token; the others are prompt or recomputed

  std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens_N.size()); }

  /// What one member of a team of all threads does of the plan: body(team, part, index of the part), with a team of its
  /// own for each of its parts when parts belong to one thread, else with all others for the only part.
  template <class Body>
  void share_out(base::Team& all, const Body& body) const {
    if (!each_alone) return body(all, parts.front(), std::size_t{0});
    base::Team alone = base::Team::solo();
    for (auto i = static_cast<std::size_t>(all.rank()); i < parts.size(); i += static_cast<std::size_t>(all.size()))
      body(alone, parts[i], i);
  }

 private:
  double cost(const Sequence& sequence) const;

  double position_cost_;  // of attending to one more position, in rows of the matmuls
};

}  // namespace qrl::decoder
