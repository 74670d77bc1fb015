#include "train/policy/sampler.h"

#include "base/threads.h"
#include "train/metrics/progress.h"
#include "train/plan/decoder_fit.h"
#include "train/plan/experts.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/signals.h"

namespace qrl::train {

namespace {

decoder::DecoderOptions decoder_options(const config::Recipe& recipe, const dist::Collectives& world,
                                        std::int64_t longest_prompt_tokens,
                                        std::optional<std::int64_t> logit_tile_tokens) {
  decoder::DecoderOptions options;
  options.logit_tile_tokens = logit_tile_tokens.value_or(options.logit_tile_tokens);
  options.device = config::samples_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
  options.device_number = world.local_rank();
  require_gpu(recipe, options.device_number);
  options.max_num_seqs = recipe.rollout.max_num_seqs;
  options.max_num_batched_tokens = recipe.rollout.max_num_batched_tokens;
  options.page_size = recipe.rollout.page_size;
  options.max_model_len = longest_prompt_tokens + recipe.data.max_response_length;
  options.kv_pages = kv_pages(recipe, longest_prompt_tokens);
  if (options.device == base::Device::cuda && !recipe.rollout.kv_pages)
    options.gpu_memory_utilization = gpu_memory_share(recipe);
  options.enforce_eager = recipe.rollout.enforce_eager;
  options.row_only_sums = recipe.rollout.bitwise;
  options.kv_format = kv_format(recipe.quant);
  options.prefix_sharing = recipe.rollout.prefix_sharing;
  options.before_tick = [] {
    cancel_if_stopping();
    GenerationProgress::tick();
  };
  options.num_threads = base::num_threads();
  return options;
}

/// Stop strings are searched in text without special tokens, as verifiers see it.
decoder::DecoderOptions with_texts(const data::Tokenizer* tokenizer, decoder::DecoderOptions options) {
  if (tokenizer != nullptr)
    options.bytes_of = [tokenizer = *tokenizer](types::TokenId token) { return tokenizer.bytes_of(token, false); };
  return options;
}

}  // namespace

Sampler::Sampler(const model::ModelConfig& config, const config::Recipe& recipe, const dist::Collectives& world,
                 std::int64_t longest_prompt_tokens, std::optional<std::int64_t> logit_tile_tokens,
                 const data::Tokenizer* tokenizer)
    : snapshot(config, (require_cpu_for_experts(recipe, config), sampler_formats(recipe))),
      decoder(config, fitting(config, with_texts(tokenizer, decoder_options(recipe, world, longest_prompt_tokens,
                                                                            logit_tile_tokens)))) {}

}  // namespace qrl::train
