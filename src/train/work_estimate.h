// Owns how much arithmetic and memory traffic a tick of the decoder and an update of the learner take at least: what
// measured times are held against. Knows no clock.
#pragma once

#include <cstdint>
#include <span>

#include "model/snapshot.h"
#include "ops/ceilings.h"
#include "quant/kv_format.h"
#include "types/batch.h"

namespace qrl::train {

/// Weights that matrix products read: of all blocks' linear layers, and of lm_head. An embedding is looked up.
struct MatmulParams {
  double layers = 0, lm_head = 0;
};
MatmulParams matmul_params(const model::ModelConfig& config);

/// A tick of decoding: `batch` sequences, one row each, which see `context` positions (a mean may be no whole number).
struct DecodeTick {
  double batch = 0, context = 0;
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  std::int64_t page_size = 16;
};

/// What its attention takes: two operations a multiply-add of queries with keys and of shares with values, and the
/// bytes of the pages with them (scales and padding included).
struct AttentionWork {
  double operations = 0, kv_bytes = 0;
};
AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick);

/// Operations a second that products with weights of a format can do at most: by the code of the activations.
double ceiling_of(quant::Format format, const ops::Ceilings& ceilings);

/// Seconds that the machine needs at least for the tick: the larger of the sum of operations over their ceilings and of
/// bytes over DRAM's (all weights but the embedding once, and the keys and values).
double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings);

/// Operations of forward and backward of these micro-batches: 6 · parameters · rows, of lm_head the `counted` rows
/// alone, and 12 · visible positions · query width a layer for causal attention. A shared prompt counts once;
/// recomputation does not.
double learner_operations(const model::ModelConfig& config, std::span<const types::MicroBatch> batches,
                          std::int64_t counted_tokens);

/// The same of `sequences` sequences of `length` tokens by themselves, logits of every token: of a learner that
/// computes a group's prompt once for each sample.
double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length);

}  // namespace qrl::train
