#include "decoder/checks.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/sample.h"

namespace qrl::decoder {

void check_options(const DecoderOptions& options, const model::ModelConfig& config) {
  const auto at_least_one = [](std::string_view name, std::int64_t value) {
    QRL_REQUIRE(value >= 1, "decoder options: " + std::string(name), "1 or more", std::to_string(value));
  };
  at_least_one("max_num_seqs", options.max_num_seqs);
  at_least_one("max_num_batched_tokens", options.max_num_batched_tokens);
  at_least_one("page_size", options.page_size);
  at_least_one("kv_pages", options.kv_pages);
  at_least_one("max_model_len", options.max_model_len);
  QRL_REQUIRE(options.num_threads >= 0, "decoder options: num_threads", "0 (the caller's) or more",
              std::to_string(options.num_threads));
  QRL_INVARIANT(options.logit_tile_tokens > 0 && options.logit_tile_tokens % ops::kSampleBlock == 0, "decoder options",
                "logit_tile_tokens a multiple of " + std::to_string(ops::kSampleBlock),
                std::to_string(options.logit_tile_tokens));
  QRL_REQUIRE(options.max_model_len <= config.max_position_embeddings, "decoder options: max_model_len",
              "at most the model's max_position_embeddings = " + std::to_string(config.max_position_embeddings),
              std::to_string(options.max_model_len), "shorten prompts or responses");
}

namespace {

void check_params(const types::SamplingParams& params, const DecoderOptions& options) {
  QRL_REQUIRE(params.max_new_tokens >= 1, "sampling: max_new_tokens", "1 or more",
              std::to_string(params.max_new_tokens));
  QRL_REQUIRE(params.temperature >= 0 && std::isfinite(params.temperature), "sampling: temperature", "0 or more",
              std::to_string(params.temperature));
  QRL_REQUIRE(params.top_p > 0 && params.top_p <= 1, "sampling: top_p", "above 0, at most 1",
              std::to_string(params.top_p));
  QRL_REQUIRE(params.top_k == -1 || params.top_k >= 1, "sampling: top_k", "-1 (off), or 1 or more",
              std::to_string(params.top_k));
  QRL_REQUIRE(params.max_kept >= 0, "sampling: max_kept", "0 (off) or more", std::to_string(params.max_kept));
  QRL_REQUIRE(std::ranges::find(params.stop_strings, "") == params.stop_strings.end(), "sampling: stop_strings",
              "strings of one byte or more", "an empty one");
  QRL_INVARIANT(params.stop_strings.empty() || options.bytes_of, "sampling: stop_strings",
                "a decoder that knows its tokens' text (bytes_of)", "one without");
}

}  // namespace

void check_request(const Request& request, const DecoderOptions& options, const model::ModelConfig& config) {
  check_params(request.params, options);
  const std::int32_t max_new_tokens = request.params.max_new_tokens;
  const auto where = [&] { return "prompt " + std::to_string(request.prompt_id); };
  QRL_REQUIRE(request.num_samples >= 1 && request.first_sample >= 0, where(), "one sample or more, counted from 0",
              std::to_string(request.num_samples) + " from " + std::to_string(request.first_sample));
  QRL_REQUIRE(request.first_position >= 0, where(), "a first_position of 0 or more",
              std::to_string(request.first_position));
  QRL_REQUIRE(!request.prompt_tokens.empty(), where(), "one token or more", "none");
  for (const types::TokenId token : request.prompt_tokens) {
    QRL_REQUIRE(token >= 0 && token < config.vocab_size, where(),
                "tokens below the model's vocab_size = " + std::to_string(config.vocab_size), std::to_string(token),
                "check that tokenizer and model belong together");
  }
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt_tokens.size());
  const auto got = [&] {
    return std::to_string(prompt_tokens) + " prompt + " + std::to_string(max_new_tokens) + " new tokens";
  };
  QRL_REQUIRE(prompt_tokens + max_new_tokens <= options.max_model_len, where(),
              "at most max_model_len = " + std::to_string(options.max_model_len) + " tokens", got(),
              "shorten the prompt, or lower max_new_tokens");
  // The last sampled token is never an input.
  QRL_REQUIRE(prompt_tokens + max_new_tokens - 1 <= options.kv_pages * options.page_size, where(),
              "at most the KV pool's " + std::to_string(options.kv_pages) + " pages of " +
                  std::to_string(options.page_size) + " tokens",
              got(), "raise kv_pages, or lower max_new_tokens");
}

}  // namespace qrl::decoder
