#pragma once

#include <cstdint>

#include "model/snapshot.h"
#include "ops/bench/ceilings.h"
#include "quant/kv_format.h"

namespace qrl::app {

/// Describes a decode tick of `batch` sequences with one row each. Their mean context is `context` positions.
struct DecodeTick {
  double batch = 0, context = 0;
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  std::int64_t page_size = 16;
  double experts_read = 0;  ///< number of distinct experts to which the rows are routed, summed over sparse layers
};

/// Holds a tick's attention. A multiply-add of QKᵀ, PV or a DeltaNet's state is 2 operations. Bytes are those of KV
/// pages with scales and padding, and of states read and written.
struct AttentionWork {
  double operations = 0, kv_bytes = 0;
};
AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick);

/// Holds the least work of a GPU tick. Bytes are those of weights, scales, keys and values, each read once.
/// `other_operations` is the number of bf16 operations of attention and lm_head; an int8 lm_head counts half.
struct TickWork {
  double num_bytes = 0, layer_operations = 0, other_operations = 0;
};
TickWork gpu_tick_work(const model::ModelConfig& config, quant::Format format, quant::Format head_format,
                       const DecodeTick& tick);

/// Returns the peak operations per second of matmuls with the format's activations.
double ceiling_of(quant::Format format, const ops::Ceilings& ceilings);

/// Returns the tick's least time: the larger of compute and DRAM time. DRAM reads are keys, values and weights. Weights
/// exclude the embedding, and include only `experts_read` experts.
double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings);

/// Returns train::learner_operations for sequences of `length` tokens each, if they share no prompts and every position
/// has logits.
double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length);

}  // namespace qrl::app
