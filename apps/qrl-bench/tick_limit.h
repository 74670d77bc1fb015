#pragma once

#include <cstdint>

#include "model/snapshot.h"
#include "ops/bench/ceilings.h"
#include "quant/kv_format.h"

namespace qrl::app {

/// A decoding tick: `batch` sequences, one row each, at a mean of `context` positions.
struct DecodeTick {
  double batch = 0, context = 0;
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  std::int64_t page_size = 16;
  double experts_read = 0;  ///< distinct experts that the rows' routes hit, summed over sparse layers
};

/// A tick's attention: operations of queries with keys and probabilities with values (2 per multiply-add), and bytes of
/// KV pages, scales and padding included.
struct AttentionWork {
  double operations = 0, kv_bytes = 0;
};
AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick);

/// The least work of a GPU tick. Bytes are weights, scales, keys and values, each read once. Other operations are
/// attention's, at the bf16 rate, and lm_head's; an int8 one counts half, at twice the rate.
struct TickWork {
  double num_bytes = 0, layer_operations = 0, other_operations = 0;
};
TickWork gpu_tick_work(const model::ModelConfig& config, quant::Format format, quant::Format head_format,
                       const DecodeTick& tick);

/// Returns the peak operations per second of a format's matmuls, by its activation format.
double ceiling_of(quant::Format format, const ops::Ceilings& ceilings);

/// Returns the tick's least seconds: compute or DRAM time. Weights except the embedding, keys and values are read once.
/// `experts_read` replaces the number of a mixture's experts.
double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings);

/// Returns train::learner_operations of separate sequences of `length` tokens with all logits.
double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length);

}  // namespace qrl::app
