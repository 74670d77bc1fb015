// Shares helpers of the decoder tests: tiny models with odd shapes, scattered pages, every kernel path.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoder/cpu/teacher_forcing.h"
#include "decoder/cpu/transformer.h"
#include "decoder/decoder.h"
#include "model/snapshot.h"
#include "ops/emulation/kernel_paths.h"

namespace qrl::decoder::test {

/// Returns Qwen3 (qk-norm), Qwen2 (bias), Llama (bias on o as well), Qwen3 with experts (2 of 5, except in layer 1 of
/// 3), or Qwen3.5 with a DeltaNet in layer 0 of 2; no size of attention or MLP is a multiple of a vector.
model::ModelConfig tiny_config(model::Family family = model::Family::qwen3);

using qrl::test::on_every_path;

using Sequences = std::vector<std::vector<types::TokenId>>;
/// Prompts within the vocabulary of `tiny_config`.
inline const Sequences kPrompts = {{5, 4, 3, 2, 1, 60, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, {66, 1, 30}};

/// Returns init_weights with linears and embeddings ten times as large, so that logits are far from uniform.
model::Weights tiny_weights(const model::ModelConfig& config, std::uint64_t seed = 1);

std::unique_ptr<model::Snapshot> publish(const model::ModelConfig& config, const model::Weights& weights,
                                         const model::SnapshotFormats& formats, std::int64_t version = 0);

/// Returns a random page for each run of page_size tokens, instead of 0, 1, 2 …
std::vector<PageId> scattered_pages(std::int64_t num_tokens, std::int64_t page_size);

/// Sets the number of threads for a scope.
class ThreadsForScope {
 public:
  explicit ThreadsForScope(int count) : before_(base::num_threads()) { base::set_num_threads(count); }
  ~ThreadsForScope() { base::set_num_threads(before_); }
  ThreadsForScope(const ThreadsForScope&) = delete;
  ThreadsForScope& operator=(const ThreadsForScope&) = delete;

 private:
  int before_;
};

}  // namespace qrl::decoder::test
