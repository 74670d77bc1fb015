#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/threads.h"
#include "decoder/kv/kv_cache.h"
#include "decoder/plan.h"
#include "model/block.h"
#include "model/rope.h"
#include "model/snapshot.h"
#include "ops/attention_gate.h"
#include "ops/delta_net.h"
#include "ops/experts.h"
#include "ops/linear.h"
#include "ops/paged_attention.h"
#include "ops/sample.h"
#include "ops/transformer.h"

namespace qrl::decoder {

/// Holds the largest |input| per channel of each matrix that reads a norm's output.
struct ObservedInputs {
  explicit ObservedInputs(const model::ModelConfig& config);
  /// Raises amax_D to the largest |input| per channel of these rows. Only one member per team may call it.
  static void note(const ops::Activations& input, base::Range rows, std::vector<float>& amax_D);
  /// by layer; empty for a matrix whose input is not a norm's output
  std::vector<model::Block<std::monostate, std::vector<float>>> amax_L;
};

/// Holds the queries of all rows of a plan.
struct ObservedQueries {
  ObservedQueries(const model::ModelConfig& config, std::int64_t num_rows);
  /// Copies the queries from `rows` of `qkv`. `first`: the plan's index of row 0 of `qkv`. Only one member per team may
  /// call it.
  void note(std::int64_t attention_idx, std::int64_t first, base::Range rows, const float* qkv);
  base::Buffer q_LNQ;  ///< fp32 [layers with attention, N, H·E]
  std::int64_t row_width = 0;
};

/// Holds a sequence's residual stream after the embedding and each layer.
struct LayerOutputs {
  LayerOutputs(const model::ModelConfig& config, std::int64_t num_tokens);
  /// Stores rows of D values at their positions. `stage`: 0 for the embedding, else the layer's index + 1. Only one
  /// member per team may call it.
  void note(std::int64_t stage, std::span<const std::int32_t> positions, const float* x_ND);
  base::Buffer x_LTD;  ///< fp32 [num_hidden_layers + 1, T, D]
};

ops::GatedHeads gated_heads_of(const model::ModelConfig& config);

/// Computes the decoder-only transformer of model/config.h. Functions are SPMD (ops/linear.h): all members of a team
/// call them with equal arguments and the team's workspace. A row's bits depend on its sequence alone.
class Transformer {
 public:
  /// Holds the input rows of linear layers. Layers in the snapshot's format read `common`. Layers that are exempt from
  /// quantization read `exempt`, in bf16. An adapter reads its layer's input rows if these are unquantized, otherwise
  /// `plain`.
  struct QuantizedActivations {
    QuantizedActivations(const model::Snapshot& snapshot, std::int64_t width);
    ops::Activations& for_layer(const ops::PackedLinear& layer);
    /// Returns `plain` if the adapter cannot read for_layer(layer), otherwise null.
    ops::Activations* beside(const ops::PackedLinear& layer, const model::MatrixAdapter& adapter);
    ops::Activations common, exempt;  ///< `exempt` is empty if the snapshot exempts no layer
    ops::Activations plain;           ///< in the adapters' format; empty without adapters
  };

  /// Holds scratch memory of sparse layers. The router and exempt experts read wide_…, which hold the same rows
  /// unquantized. A wide buffer that nothing reads is empty.
  struct ExpertScratch {
    ExpertScratch(const model::Snapshot& snapshot, std::int64_t num_rows);
    ops::Activations normed, sorted, gated;  ///< [rows, D], [rows·k, D] sorted by expert, [rows·k, F]
    ops::Activations wide_normed, wide_sorted, wide_gated;
    base::Buffer logits, halves, z;  ///< fp32 [rows, M], [rows·k, 2F], [rows·k, D]
    ops::ExpertRows routes;
    std::int64_t num_read = 0;  ///< number of experts with rows, summed over all calls
  };

  /// Holds scratch memory of gated attention and of DeltaNet layers.
  struct DeltaScratch {
    explicit DeltaScratch(const model::Snapshot& snapshot);
    QuantizedActivations mixed;       ///< inputs of a DeltaNet's out_proj
    base::Buffer projections;         ///< fp32, with q and gates, or with qkvz
    base::Buffer gates;               ///< fp32 [kBlockRows, H·E], attention's gates
    base::Buffer gates_in, out;       ///< fp32 [kBlockRows, 2·Hv], [·, Hv·dv]
    std::vector<ops::DeltaRun> runs;  ///< of a block's rows
  };

  /// Holds one team's scratch memory. A layer processes rows in blocks, so that intermediate values stay in the cache.
  struct Workspace {
    /// `max_rows`: limit on a part's rows; determines the size of sparse layers' buffers.
    explicit Workspace(const model::Snapshot& snapshot, std::int64_t max_rows = kExpertRows);
    QuantizedActivations normed, attended, gated;
    ops::Activations final_normed;
    base::Buffer qkv, context, halves;       ///< fp32 [kBlockRows, (H+2K)·E], [·, H·E], [·, 2F]
    base::Buffer branch;                     ///< fp32 [kBlockRows, D]; empty if branches are added as they are
    std::unique_ptr<ExpertScratch> experts;  ///< null in dense models
    std::unique_ptr<DeltaScratch> delta;     ///< null unless attention is gated
    model::AdapterProducts products;
    base::Buffer sampled_x;                  ///< fp32 [kLogitRows, D]
    base::Buffer logits;                     ///< fp32, allocated by make_room_for_logits
    std::vector<ops::RowSummary> summaries;  ///< [kLogitRows]
    /// Allocates `logits` for `num_columns` columns. Must not run during a forward pass.
    void make_room_for_logits(std::int64_t num_columns);
    ObservedInputs* observed = nullptr;  ///< receives input ranges for calibration; null: off
    LayerOutputs* outputs = nullptr;     ///< receives layer outputs for `dump`; null: off
    ObservedQueries* queries = nullptr;  ///< receives all teams' queries for calibration; null: off
  };
  static constexpr std::int64_t kBlockRows = 64;
  static constexpr std::int64_t kExpertRows = 512;  ///< limit on rows that a layer's experts process at once
  static constexpr std::int64_t kLogitRows = 64;    ///< limit on rows whose logits need one read of lm_head

  /// `snapshot` must outlive this object. max_rows: limit on a plan's rows. Positions must be below max_positions.
  Transformer(const model::Snapshot& snapshot, std::int64_t max_rows, std::int64_t max_positions);

  const model::Snapshot& snapshot() const { return snapshot_; }

  /// Runs a part's rows through all layers: copies pages, stores keys and values, and keeps hidden states for
  /// choose_rows. Ends with a barrier.
  void forward(base::Team& team, const Plan& plan, const PlanPart& part, const KvCache& kv, Workspace& scratch) const;

  /// Normalizes and quantizes up to kLogitRows rows for lm_head. Begins and ends with a barrier.
  void choose_rows(base::Team& team, std::span<const std::int32_t> rows, Workspace& scratch) const;
  /// Computes logits of the chosen rows for `tokens`, which must begin at a multiple of ops::kPanelColumns. Returns
  /// fp32 [num_rows, tokens.size()] in the workspace, valid until its next use. Begins and ends with a barrier.
  const float* logits(base::Team& team, std::int64_t num_rows, base::Range tokens, Workspace& scratch) const;
  /// Computes one chosen row's logits on the calling thread into `to`.
  void logits_of_row(std::int64_t row_idx, base::Range tokens, Workspace& scratch, float* to) const;

 private:
  /// Describes at most kBlockRows rows of a plan in one layer, or kExpertRows rows in a layer's experts.
  struct LayerRows {
    std::int64_t layer_idx;
    base::Range rows;  ///< rows of the workspace; begins at 0
    ops::AttentionRows where;
    ops::KvPages pages;
    float* x_ND;  ///< residual stream of the first row
    ObservedInputs* observed;
    KvCache::QueryScales query_scales;
    ObservedQueries* queries;
    std::int64_t first_row;    ///< index of the first row in the plan
    const RoutePages& routes;  ///< storage of sparse layers' routes
    const DeltaStates& states;
    const StateSlot* state_slots;  ///< of the rows' sequences
  };
  /// Computes the rows that a layer's attention or MLP reads: the norm's output, or without a norm the residual stream.
  void enter(base::Team& team, const base::Buffer& gain, const LayerRows& in, ops::Activations& to,
             ops::Activations* beside) const;
  /// Adds x · Wᵀ to the residual stream: as it is, or normalized or multiplied as the model's branches are. Ends with a
  /// barrier.
  void leave(base::Team& team, QuantizedActivations& x, const ops::PackedLinear& weight,
             const model::MatrixAdapter& adapter, const base::Buffer& gain, const LayerRows& in,
             Workspace& scratch) const;
  /// Adds attention's output to the residual stream. Ends with a barrier.
  void attention(base::Team& team, const LayerRows& in, Workspace& scratch) const;
  /// Adds a gated DeltaNet's output to the residual stream, and updates the sequences' states. Ends with a barrier.
  void delta_net(base::Team& team, const LayerRows& in, Workspace& scratch) const;
  /// Computes x · Wᵀ plus the adapter's output. Writes the sum to y, or with `accumulate` adds it to y.
  static void linear(base::Team& team, QuantizedActivations& x, const ops::PackedLinear& weight,
                     const model::MatrixAdapter& adapter, base::Range rows, Workspace& scratch, bool accumulate,
                     float* y);
  void mlp(base::Team& team, const LayerRows& in, Workspace& scratch) const;
  /// Computes a sparse layer's feed-forward part for up to kExpertRows rows.
  void mlp_of_experts(base::Team& team, const LayerRows& in, Workspace& scratch) const;
  /// Normalizes rows, chooses their experts and sorts them by expert. Ends with a barrier.
  void route(base::Team& team, const LayerRows& in, ExpertScratch& own) const;
  LayerRows layer_rows(base::Team& team, const Plan& plan, const KvCache& kv, std::int64_t layer_idx, base::Range rows,
                       Workspace& scratch) const;

  const model::Snapshot& snapshot_;
  ops::HeadShape heads_;
  ops::GatedHeads gated_heads_;
  ops::DeltaShape delta_shape_;
  std::vector<bool> has_wide_experts_L_;  ///< by layer: whether some experts are exempt
  model::RopeTables ropes_;
  bool adds_plain_branches_;  ///< whether attention and MLP add their outputs as they are
  base::Buffer x_ND_;         // residual stream, fp32
};

}  // namespace qrl::decoder
