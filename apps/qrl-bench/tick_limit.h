// Owns how much arithmetic and memory traffic a tick of the decoder and an update of the learner take at least:
// benchmarks compare measured times with it. Knows no clock.
#pragma once

#include <cstdint>

#include "model/snapshot.h"
#include "ops/bench/ceilings.h"
#include "quant/kv_format.h"

namespace qrl::app {

/// A tick of decoding: `batch` sequences, one row each, which see `context` positions (a mean may be no whole number).
struct DecodeTick {
  double batch = 0, context = 0;
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  std::int64_t page_size = 16;
};

/// The tick's attention: two operations a multiply-add of queries with keys and of shares with values, and the bytes
/// of the pages with them (scales and padding included).
struct AttentionWork {
  double operations = 0, kv_bytes = 0;
};
AttentionWork attention_of_tick(const model::ModelConfig& config, const DecodeTick& tick);

/// Counts what a tick on a GPU with a bf16 lm_head must read and compute. Bytes are weights, scales, keys and values,
/// each read once. Operations are those of the layers' matmuls, and those of lm_head and attention, which run at the
/// rate of bf16.
struct TickWork {
  double num_bytes = 0, layer_operations = 0, other_operations = 0;
};
TickWork gpu_tick_work(const model::ModelConfig& config, quant::Format format, const DecodeTick& tick);

/// Operations a second that matmuls with weights of a format reach at most; the format of the activations decides.
double ceiling_of(quant::Format format, const ops::Ceilings& ceilings);

/// Seconds that the machine needs at least for the tick: the larger of the sum of operations over their ceilings and of
/// bytes over DRAM's (all weights but the embedding once, and the keys and values).
double least_tick_s(const model::Snapshot& snapshot, const DecodeTick& tick, const ops::Ceilings& ceilings);

/// train::learner_operations of `sequences` separate sequences of `length` tokens with logits of every token: the work
/// of a learner that computes a group's prompt once for each sample.
double unshared_learner_operations(const model::ModelConfig& config, std::int64_t sequences, std::int64_t length);

}  // namespace qrl::app
