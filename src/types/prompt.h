#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "types/kept_tokens.h"
#include "types/routes.h"

namespace qrl::types {

/// Base class of parsed ground truths; each verifier derives its own type.
struct Gold {
  Gold() = default;
  Gold(const Gold&) = delete;
  Gold& operator=(const Gold&) = delete;
  virtual ~Gold() = default;
};

/// Base class of what an environment needs of a prompt.
struct ConversationStart {
  ConversationStart() = default;
  ConversationStart(const ConversationStart&) = delete;
  ConversationStart& operator=(const ConversationStart&) = delete;
  virtual ~ConversationStart() = default;
  std::string fields;  ///< the row's JSON fields on the wire, without braces
};

/// One task for the model. `id` is the prompt's position in its data source and part of the sampling key.
struct Prompt {
  std::uint64_t id = 0;
  std::string text;             ///< text before the chat template
  std::vector<TokenId> tokens;  ///< tokens after the chat template
  std::string ground_truth;     ///< answer in the verifier's syntax; checked at load
  std::string data_source;      ///< name in metrics ("countdown", a file's stem, …)
  /// `ground_truth`, parsed by the run's verifier and shared by copies of the prompt. Null: the prompt cannot be
  /// judged.
  std::shared_ptr<const Gold> gold = nullptr;
  std::int64_t unencodable_bytes = 0;  ///< bytes of the messages for which the vocabulary has no token
  std::shared_ptr<const ConversationStart> start = nullptr;  ///< null without an environment
};

/// eos: ended by a stop token or a stop string; length: ended by max_new_tokens.
enum class StopReason : std::uint8_t { eos, length };

/// Tokens behind one prompt: those sampled, end tokens included, and those of an environment between turns.
struct Completion {
  std::vector<TokenId> tokens;
  /// [tokens]: natural logs under the sampled distribution; 0 for tokens of an environment.
  std::vector<float> sampler_logprobs;
  std::vector<std::int64_t> versions;  ///< [tokens]: version of the policy that sampled the token
  StopReason stop = StopReason::eos;
  /// Tokens from which each token was sampled. Empty unless max_kept is set and top-k or top-p is used.
  KeptTokens kept = {};
  std::int32_t num_limited = 0;  ///< number of sampled tokens for which max_kept excluded candidates
  /// Routes of the prompt's tokens, then of all sampled tokens but the last. Empty unless wants_routes is set and the
  /// model has experts.
  Routes routes = {};
  /// [tokens]: 1 for a sampled token, 0 for a token of an environment. Empty: all tokens are sampled.
  std::vector<std::uint8_t> sampled = {};

  std::int64_t num_sampled() const {
    return sampled.empty() ? static_cast<std::int64_t>(tokens.size()) : std::count(sampled.begin(), sampled.end(), 1);
  }
};

/// Temperature 0 is greedy: argmax, with log-prob 0 by convention. Training rejects it.
struct SamplingParams {
  float temperature = 1.0F;
  float top_p = 1.0F;                ///< (0, 1]; 1 is off
  std::int32_t top_k = -1;           ///< −1 is off
  std::int32_t max_new_tokens = 0;   ///< 1 or more
  std::vector<TokenId> stop_tokens;  ///< the completion ends after one of these
  /// The completion ends after the token that completes one of these strings in its text.
  std::vector<std::string> stop_strings;
  /// If above 0, sampling keeps at most the max_kept likeliest tokens after top-k and top-p. Completion::kept lists
  /// them.
  std::int32_t max_kept = 0;
  bool wants_routes = false;  ///< if set and the model has experts, Completion::routes is filled
};

struct SampleRequest {
  std::uint64_t prompt_id = 0;
  std::span<const TokenId> prompt_tokens;
  std::int32_t first_sample = 0;
  std::int32_t num_samples = 1;
};

/// Random numbers depend only on this key, prompt id, sample index and token position.
struct SampleKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};

class TurnPartner;

class TextSource {
 public:
  virtual ~TextSource() = default;
  /// Returns all requests' completions in order; blocks until all have stopped.
  virtual std::vector<Completion> complete(std::span<const SampleRequest> requests, const SamplingParams& params,
                                           SampleKey key) = 0;
  /// Samples turn by turn: after each turn, `partner` says what follows it. params.max_new_tokens limits all tokens
  /// behind the prompt. Random numbers depend on a token's position behind the prompt, as in `complete`.
  virtual std::vector<Completion> converse(std::span<const SampleRequest> requests, const SamplingParams& params,
                                           SampleKey key, TurnPartner& partner) = 0;
};

}  // namespace qrl::types
