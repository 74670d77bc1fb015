// What the decoder's tests share: tiny models with odd shapes, teacher forcing through the transformer, and every way
// to spread a sequence over pages and chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoder/decoder.h"
#include "decoder/transformer.h"
#include "model/snapshot.h"
#include "ops/isa.h"

namespace qrl::decoder::test {

/// Qwen3 (qk-norm), Qwen2 (bias) or Llama; no size a multiple of a vector.
model::ModelConfig tiny_config(model::Family family = model::Family::qwen3);

/// init_weights, with linears and embeddings ten times as large, so that logits are far from uniform.
model::Weights tiny_weights(const model::ModelConfig& config, std::uint64_t seed = 1);

std::unique_ptr<model::Snapshot> publish(const model::ModelConfig& config, const model::Weights& weights,
                                         quant::Format format, std::int64_t version = 0);

/// How teacher forcing lays a sequence out.
struct Layout {
  std::int64_t page_size = 16;
  std::int64_t chunk_tokens = 1 << 20;  ///< rows of one forward
  bool scatter_pages = false;           ///< a random page for each place instead of 0, 1, 2 …
  int num_threads = 1;
  base::DType kv_dtype = base::DType::f32;
};

/// Logits [T, V] at every position of `tokens`.
std::vector<float> teacher_forced_logits(const model::Snapshot& snapshot, const std::vector<types::TokenId>& tokens,
                                         const Layout& layout);

/// Runs `body` once for every instruction set of this processor, then restores the one that was in use.
template <class Body>
void on_every_isa(Body body) {
  const ops::Isa before = ops::isa();
  for (const ops::Isa isa : {ops::Isa::avx512, ops::Isa::avx2, ops::Isa::portable}) {
    if (!ops::supported(isa)) continue;
    ops::force_isa(isa);
    body(isa);
  }
  ops::force_isa(before);
}

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
