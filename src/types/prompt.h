// Owns the data that flows between rollout, reward, data and learner on the text side: prompts and completions, and
// the one interface between the callers that request text and its generators. Knows nothing of models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace qrl::types {

using TokenId = std::int32_t;

/// What a verifier makes of a ground truth, once a prompt. Each kind of verifier derives its own.
struct Gold {
  Gold() = default;
  Gold(const Gold&) = delete;
  Gold& operator=(const Gold&) = delete;
  virtual ~Gold() = default;
};

/// One task given to the model. `id` is its position in its data source's fixed order: it keys the sampling, so the
/// same prompt samples the same tokens whatever the shuffle, batch or rank.
struct Prompt {
  std::uint64_t id = 0;
  std::string text;             ///< as in the data source, before the template
  std::vector<TokenId> tokens;  ///< after the template
  std::string ground_truth;     ///< what the verifier reads (its own syntax; checked at load)
  std::string data_source;      ///< name in metrics ("countdown", a file's stem, …)
  /// `ground_truth` as the run's verifier prepared it (tasks::Verifier::prepare); shared by copies. Null: none can be
  /// judged by.
  std::shared_ptr<const Gold> gold = nullptr;
  std::int64_t unencodable_bytes = 0;  ///< of its text: those that the tokenizer has no token for
};

/// eos: a stop token or a stop string; length: max_new_tokens.
enum class StopReason : std::uint8_t { eos, length };

/// The tokens sampled for one prompt. The end token, when sampled, is the last of `tokens`.
struct Completion {
  std::vector<TokenId> tokens;
  std::vector<float> sampler_logprobs;  ///< per token, natural log, of the distribution really sampled from
  std::vector<std::int64_t> versions;   ///< per token, policy version of the weights that sampled it
  StopReason stop = StopReason::eos;
};

/// How to sample. Training refuses temperature 0 (greedy: the arg max, log-prob 0 by convention).
struct SamplingParams {
  float temperature = 1.0F;
  float top_p = 1.0F;                ///< (0, 1]; 1 is off
  std::int32_t top_k = -1;           ///< −1 is off
  std::int32_t max_new_tokens = 0;   ///< 1 or more
  std::vector<TokenId> stop_tokens;  ///< the completion ends after one of these
  /// The completion ends after the token whose text completes one of these; prompts do not count.
  std::vector<std::string> stop_strings;
};

/// Samples of one prompt: sample indices first_sample … first_sample + num_samples − 1.
struct SampleRequest {
  std::uint64_t prompt_id = 0;
  std::span<const TokenId> prompt_tokens;
  std::int32_t first_sample = 0;
  std::int32_t num_samples = 1;
};

/// With prompt id, sample index and position this keys every sample: nothing else decides a token.
struct SampleKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
};

/// Prompts in, completions out. Implementations: the decoder; fakes and recorders in tests.
class TextSource {
 public:
  virtual ~TextSource() = default;
  /// Completions of all requests, in order: request 0's samples, then request 1's, … Blocks until all have stopped.
  virtual std::vector<Completion> complete(std::span<const SampleRequest> requests, const SamplingParams& params,
                                           SampleKey key) = 0;
};

}  // namespace qrl::types
