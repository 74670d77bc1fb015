// Owns the forward pass of a published snapshot over a plan's rows, and the scratch memory it needs. Knows nothing of
// scheduling or sampling.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "decoder/kv_cache.h"
#include "decoder/plan.h"
#include "model/block.h"
#include "model/snapshot.h"
#include "ops/linear.h"
#include "ops/paged_attention.h"
#include "ops/sample.h"
#include "ops/transformer.h"

namespace qrl::decoder {

/// Largest |input| of each channel behind a block's norms, filled by forward when a workspace asks for it.
struct ObservedInputs {
  explicit ObservedInputs(const model::ModelConfig& config);
  /// Takes rows of what enters a layer's matrix; one member at a time.
  static void note(const ops::Activations& input, base::Range rows, std::vector<float>& amax_D);
  /// A layer's matrices; empty for one that reads no norm's output.
  std::vector<model::Block<std::monostate, std::vector<float>>> amax_L;
};

/// Queries as they meet keys, of all rows of a plan, filled by forward when a workspace asks for it.
struct ObservedQueries {
  ObservedQueries(const model::ModelConfig& config, std::int64_t num_rows);
  /// Keeps rows of a block of `qkv`; `first` is the plan's index of its first row. One member of a team at a time.
  void note(std::int64_t layer_idx, std::int64_t first, base::Range rows, const float* qkv);
  base::Buffer q_LNQ;          ///< fp32 [num_hidden_layers, N, H·E]
  std::int64_t row_width = 0;  ///< of qkv
};

/// The residual stream of one sequence after the embedding and after each layer, filled by forward when a workspace
/// asks for it.
struct LayerOutputs {
  LayerOutputs(const model::ModelConfig& config, std::int64_t num_tokens);
  /// Keeps rows of D values at their positions; `stage` is 0 for the embedding, else the layer's index + 1. One member
  /// at a time.
  void note(std::int64_t stage, std::span<const std::int32_t> positions, const float* x_ND);
  base::Buffer x_LTD;  ///< fp32 [num_hidden_layers + 1, T, D]
};

/// The decoder-only transformer of model/config.h, written as a flat list of ops. Every function is SPMD (see
/// ops/linear.h): all members of a team call it with the same arguments and their team's workspace. The numbers of a
/// row depend on its sequence's tokens alone: not on the team, the plan's other rows, pages or chunks.
class Transformer {
 public:
  /// What enters a linear layer, in the layer's format: the snapshot's, or bf16 where a layer is exempt. Its adapter
  /// reads the same where those are its own values, else `plain`.
  struct Encoded {
    Encoded(const model::Snapshot& snapshot, std::int64_t width);
    ops::Activations& for_layer(const ops::PackedLinear& layer);
    /// What is to be written beside for_layer(layer), or null.
    ops::Activations* beside(const ops::PackedLinear& layer, const model::MatrixAdapter& adapter);
    ops::Activations common, exempt;  ///< exempt: empty when no layer is
    ops::Activations plain;           ///< in adapters' format; empty without adapters
  };

  /// Scratch of one team. Rows go through a layer in blocks, so that all between a layer's input and output stays in
  /// the cache however long the plan is.
  struct Workspace {
    Workspace(const model::Snapshot& snapshot);
    Encoded normed, attended, gated;
    ops::Activations final_normed;
    base::Buffer qkv, context, halves;       ///< fp32 [kBlockRows, (H+2K)·E], [·, H·E], [·, 2F]
    model::AdapterProducts products;         ///< of adapters
    base::Buffer sampled_x;                  ///< fp32 [kLogitRows, D]
    base::Buffer logits;                     ///< fp32, what make_room_for_logits made
    std::vector<ops::RowSummary> summaries;  ///< kLogitRows
    /// Before `logits` gives `num_columns` at once. No member of a team may be in a forward.
    void make_room_for_logits(std::int64_t num_columns);
    ObservedInputs* observed = nullptr;  ///< who calibrates looks on
    LayerOutputs* outputs = nullptr;     ///< kept for `dump`
    ObservedQueries* queries = nullptr;  ///< for their scales; several teams may share one
  };
  static constexpr std::int64_t kBlockRows = 64;
  static constexpr std::int64_t kLogitRows = 32;

  /// Reads `snapshot` in place: it must outlive this. `max_rows` of one plan; positions below max_positions.
  Transformer(const model::Snapshot& snapshot, std::int64_t max_rows, std::int64_t max_positions);

  const model::Snapshot& snapshot() const { return snapshot_; }

  /// Runs one part of the plan through all layers: its page copies are done, its rows' keys and values stored, its
  /// hidden states left for `logits`. Ends with a barrier.
  void forward(base::Team& team, const Plan& plan, const PlanPart& part, const KvCache& kv, Workspace& scratch) const;

  /// Makes up to kLogitRows of the last forward's rows ready for lm_head. Begins and ends with a barrier.
  void choose_rows(base::Team& team, std::span<const std::int32_t> rows, Workspace& scratch) const;
  /// Logits of the chosen rows for a range of tokens that begins at a multiple of ops::kPanelColumns: fp32
  /// [num_rows, tokens.size()], in the workspace until its next use. Begins and ends with a barrier.
  const float* logits(base::Team& team, std::int64_t num_rows, base::Range tokens, Workspace& scratch) const;
  /// The same for one chosen row, by the calling thread alone, into `to`.
  void logits_of_row(std::int64_t row_idx, base::Range tokens, Workspace& scratch, float* to) const;

 private:
  /// Up to kBlockRows of a plan in one layer.
  struct LayerRows {
    std::int64_t layer_idx;
    base::Range rows;  ///< of the workspace, from 0
    ops::AttentionRows where;
    ops::KvPages pages;
    float* x_ND;  ///< the residual stream of the first of these rows
    ObservedInputs* observed;
    KvCache::QueryScales query_scales;
    ObservedQueries* queries;
    std::int64_t first_row;  ///< of the plan
  };
  /// Each adds its branch to the residual stream. Ends with a barrier.
  void attention(base::Team& team, const LayerRows& in, Workspace& scratch) const;
  /// y = x · Wᵀ and its adapter's part, or y += both: base and adapter first, the order in which the learner has them.
  static void linear(base::Team& team, Encoded& x, const ops::PackedLinear& weight, const model::MatrixAdapter& adapter,
                     base::Range rows, Workspace& scratch, bool accumulate, float* y);
  void mlp(base::Team& team, const LayerRows& in, Workspace& scratch) const;

  const model::Snapshot& snapshot_;
  ops::HeadShape heads_;
  base::Buffer rope_table_;
  base::Buffer x_ND_;  // the residual stream, fp32
};

}  // namespace qrl::decoder
