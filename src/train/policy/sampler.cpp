#include "train/policy/sampler.h"

#include <unistd.h>

#include "base/error.h"
#include "base/threads.h"
#include "ops/paged_attention.h"
#include "train/metrics/progress.h"
#include "train/plan/formats.h"
#include "train/plan/machine.h"
#include "train/plan/options.h"
#include "train/signals.h"

namespace qrl::train {

namespace {

decoder::DecoderOptions decoder_options(const Recipe& recipe, const dist::Collectives& world,
                                        std::int64_t longest_prompt_tokens,
                                        std::optional<std::int64_t> logit_tile_tokens) {
  decoder::DecoderOptions options = recipe.rollout;
  options.logit_tile_tokens = logit_tile_tokens.value_or(options.logit_tile_tokens);
  options.device = samples_on_gpu(recipe) ? base::Device::cuda : base::Device::cpu;
  options.device_number = world.local_rank();
  require_gpu(recipe, options.device_number);
  options.max_model_len = longest_prompt_tokens + recipe.data.max_response_length;
  options.kv_pages = kv_pages(recipe, longest_prompt_tokens);
  options.state_slots = state_slots(recipe);
  const bool as_fit = options.device == base::Device::cuda && recipe.rollout.kv_pages == 0;
  options.gpu_memory_utilization = as_fit ? gpu_memory_share(recipe) : 0;
  options.row_only_sums = recipe.rollout.bitwise;
  options.kv_format = kv_format(recipe.quant);
  options.before_tick = [] {
    cancel_if_stopping();
    GenerationProgress::tick();
  };
  options.num_threads = base::num_threads();
  return options;
}

/// Gives the decoder the token texts in which it searches stop strings. Special tokens have empty texts.
decoder::DecoderOptions with_texts(const data::Tokenizer* tokenizer, decoder::DecoderOptions options) {
  if (tokenizer != nullptr)
    options.bytes_of = [tokenizer = *tokenizer](types::TokenId token) { return tokenizer.bytes_of(token, false); };
  return options;
}

decoder::DecoderOptions fitting(const model::ModelConfig& config, const decoder::DecoderOptions& options) {
  require_positions(config, options.max_model_len);
  if (options.device != base::Device::cpu) return options;  // the GPU engine checks GPU memory itself
  const std::int64_t page_bytes = ops::kv_page_bytes(
      {config.num_attention_heads, config.num_key_value_heads, config.head_dim}, options.kv_format, options.page_size);
  const double bytes = 2.0 * static_cast<double>(config.num_attention_layers()) *
                       static_cast<double>(options.kv_pages) * static_cast<double>(page_bytes);
  const double machine_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto gib = [](double value) { return std::to_string(static_cast<std::int64_t>(value / (1 << 30))) + " GiB"; };
  QRL_REQUIRE(bytes <= machine_bytes, "rollout.kv_pages", "a KV cache within the machine's " + gib(machine_bytes),
              gib(bytes) + " for " + std::to_string(options.kv_pages) + " pages of " +
                  std::to_string(options.page_size) + " tokens",
              "lower rollout.max_num_seqs, rollout.kv_pages or rollout.page_size");
  return options;
}

}  // namespace

void require_positions(const model::ModelConfig& config, std::int64_t max_tokens) {
  QRL_REQUIRE(max_tokens <= config.max_position_embeddings, "data.max_prompt_length + max_response_length",
              "at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(max_tokens), "lower one of them (in bench: --prompt or --new)");
}

Sampler::Sampler(const model::ModelConfig& config, const Recipe& recipe, const dist::Collectives& world,
                 std::int64_t longest_prompt_tokens, std::optional<std::int64_t> logit_tile_tokens,
                 const data::Tokenizer* tokenizer)
    : snapshot(config, (require_gpu_kernels(recipe, config), sampler_formats(recipe))),
      decoder(config, fitting(config, with_texts(tokenizer, decoder_options(recipe, world, longest_prompt_tokens,
                                                                            logit_tile_tokens)))) {}

}  // namespace qrl::train
