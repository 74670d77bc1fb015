#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "types/kept_tokens.h"
#include "types/routes.h"

namespace qrl::types {

/// A ground truth in its verifier's prepared form (a derived type), made once per prompt.
struct Gold {
  Gold() = default;
  Gold(const Gold&) = delete;
  Gold& operator=(const Gold&) = delete;
  virtual ~Gold() = default;
};

/// One task for the model. `id`, its position in its data source, is part of the sampling key.
struct Prompt {
  std::uint64_t id = 0;
  std::string text;             ///< before the chat template
  std::vector<TokenId> tokens;  ///< after the chat template
  std::string ground_truth;     ///< the verifier's input, in its syntax; checked at load
  std::string data_source;      ///< in metrics ("countdown", a file's stem, …)
  /// `ground_truth` prepared by the run's verifier (tasks::Verifier::prepare), shared by copies; null: cannot be
  /// judged.
  std::shared_ptr<const Gold> gold = nullptr;
  std::int64_t unencodable_bytes = 0;  ///< bytes of its messages for which the vocabulary has no token
};

/// eos: a stop token or a stop string; length: max_new_tokens.
enum class StopReason : std::uint8_t { eos, length };

/// Tokens sampled for one prompt, the end token included.
struct Completion {
  std::vector<TokenId> tokens;
  std::vector<float> sampler_logprobs;  ///< [tokens]: natural log, under the distribution sampled from
  std::vector<std::int64_t> versions;   ///< [tokens]: policy version that sampled it
  StopReason stop = StopReason::eos;
  KeptTokens kept = {};          ///< the tokens that each was sampled from; none without max_kept or exclusions
  std::int32_t num_limited = 0;  ///< tokens whose set max_kept reduced further
  /// Routes of the prompt's tokens, then of all tokens but the last. No entries without wants_routes, and from a dense
  /// model.
  Routes routes = {};
};

/// Training rejects temperature 0 (greedy: the arg max, with log-prob 0 by convention).
struct SamplingParams {
  float temperature = 1.0F;
  float top_p = 1.0F;                ///< (0, 1]; 1 is off
  std::int32_t top_k = -1;           ///< −1 is off
  std::int32_t max_new_tokens = 0;   ///< 1 or more
  std::vector<TokenId> stop_tokens;  ///< the completion ends after one of these
  /// A token that completes one of these strings, whatever the prompt's text, ends the completion.
  std::vector<std::string> stop_strings;
  /// Limits top-k and top-p to the likeliest max_kept tokens, which completions then name; 0: no limit.
  std::int32_t max_kept = 0;
  bool wants_routes = false;  ///< completions of a mixture have routes
};

struct SampleRequest {
  std::uint64_t prompt_id = 0;
  std::span<const TokenId> prompt_tokens;
  std::int32_t first_sample = 0;
  std::int32_t num_samples = 1;
};

/// Keys the sampling, together with prompt id, sample index and position. Nothing else influences the random numbers.
struct SampleKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};

/// Generates completions: the decoder, or tests' fakes and recorders.
class TextSource {
 public:
  virtual ~TextSource() = default;
  /// Returns all requests' completions in order; blocks until all have stopped.
  virtual std::vector<Completion> complete(std::span<const SampleRequest> requests, const SamplingParams& params,
                                           SampleKey key) = 0;
};

}  // namespace qrl::types
