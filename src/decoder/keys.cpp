#include "decoder/keys.h"

namespace qrl::decoder {

namespace {

using namespace config;
using enum config::OnResume;
using O = DecoderOptions;

// These limits far exceed real runs. They turn a mistyped digit into an error instead of a failed allocation.
constexpr std::int64_t kMaxSamples = 65'536;    // sequences decoded at once
constexpr std::int64_t kMaxTokens = 1'048'576;  // tokens per tick
constexpr std::int64_t kMaxPageTokens = 4096;
constexpr std::int64_t kMaxPages = 16'777'216;

}  // namespace

void add_keys(config::Section<DecoderOptions> rollout) {
  rollout.add(
      free, "max_num_seqs", &O::max_num_seqs, word_or("auto", O{}.max_num_seqs, integer(1, kMaxSamples)),
      "maximum sequences decoded at once; auto: 256, or more if the learner shares the GPU and the KV cache has room");
  rollout.add(free, "max_num_batched_tokens", &O::max_num_batched_tokens, integer(1, kMaxTokens),
              "maximum tokens per decoder tick");
  rollout.add(fixed, "page_size", &O::page_size, integer(1, kMaxPageTokens), "tokens per KV page");
  rollout.add(free, "kv_pages", &O::kv_pages, integer(1, kMaxPages), "KV cache size in pages",
              "room for max_num_seqs sequences of maximum length; on a GPU, as many as fit");
  rollout
      .add(free, "gpu_memory_utilization", &O::gpu_memory_utilization, real(kAbove0To1),
           "share of GPU memory to use in total; KV pages get what weights and activations leave",
           "on a GPU without kv_pages 0.9, or 0.5 if the learner shares it")
      .only_with("rollout.device", "cuda")
      .excludes("rollout.kv_pages", "set only one");
  rollout.add(fixed, "prefix_sharing", &O::prefix_sharing, "share the prompt's KV pages among its samples");
  rollout.add(free, "enforce_eager", &O::enforce_eager, "launch CUDA kernels one by one, without CUDA graphs")
      .only_with("rollout.device", "cuda");
}

}  // namespace qrl::decoder
