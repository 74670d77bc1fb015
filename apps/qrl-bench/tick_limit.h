// Owns the least arithmetic and memory traffic of a decoder tick and a learner update.
#pragma once

#include <cstdint>

#include "model/snapshot.h"
#include "ops/bench/ceilings.h"
#include "quant/kv_format.h"

namespace qrl::app {

/// Describes a decoding tick: `batch` sequences, one row each, with `context` positions (a mean, so not always whole).
struct DecodeTick {
  double batch = 0, context = 0;
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  std::int64_t page_size = 16;
};

/// Holds the attention of a tick: operations of queries with keys and of probabilities with values (2 per
/// multiply-add), and the bytes of the KV pages (scales and padding included).
struct AttentionWork {
  double operations = 0, kv_bytes = 0;
};
AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick);

/// Holds the least work of a tick on a GPU. Bytes are weights, scales, keys and values, each read once. Other
/// operations are those of lm_head and attention at the bf16 rate. An int8 lm_head, which has twice that rate, counts
/// half.
struct TickWork {
  double num_bytes = 0, layer_operations = 0, other_operations = 0;
};
TickWork gpu_tick_work(const model::ModelConfig& config, quant::Format format, quant::Format head_format,
                       const DecodeTick& tick);

/// Returns the peak operations per second of matmuls with weights of a format, which its activation format decides.
double ceiling_of(quant::Format format, const ops::Ceilings& ceilings);

/// Returns the least seconds of the tick: the maximum of compute time and DRAM time. DRAM traffic is all weights except
/// the embedding, and the keys and values, each once.
double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings);

/// Returns train::learner_operations of separate sequences of `length` tokens with logits of every token: the work
/// without shared prompts.
double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length);

}  // namespace qrl::app
