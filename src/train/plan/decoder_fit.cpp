#include "train/plan/decoder_fit.h"

#include <unistd.h>

#include "base/error.h"
#include "ops/paged_attention.h"

namespace qrl::train {

void require_positions(const model::ModelConfig& config, std::int64_t max_tokens) {
  QRL_REQUIRE(max_tokens <= config.max_position_embeddings, "data.max_prompt_length + max_response_length",
              "at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(max_tokens), "lower one of them (in bench: --prompt or --new)");
}

decoder::DecoderOptions fitting(const model::ModelConfig& config, const decoder::DecoderOptions& options) {
  require_positions(config, options.max_model_len);
  if (options.device != base::Device::cpu) return options;  // a GPU's engine checks its memory
  const std::int64_t page_bytes = ops::kv_page_bytes(
      {config.num_attention_heads, config.num_key_value_heads, config.head_dim}, options.kv_format, options.page_size);
  const double bytes = 2.0 * static_cast<double>(config.num_hidden_layers) * static_cast<double>(options.kv_pages) *
                       static_cast<double>(page_bytes);
  const double machine_bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto gib = [](double value) { return std::to_string(static_cast<std::int64_t>(value / (1 << 30))) + " GiB"; };
  QRL_REQUIRE(bytes <= machine_bytes, "rollout.kv_pages", "a KV cache within the machine's " + gib(machine_bytes),
              gib(bytes) + " for " + std::to_string(options.kv_pages) + " pages of " +
                  std::to_string(options.page_size) + " tokens",
              "lower rollout.max_num_seqs, rollout.kv_pages or rollout.page_size");
  return options;
}

}  // namespace qrl::train
