#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/bridge.h"
#include "rollout/rollout.h"
#include "tasks/environment/environment.h"

namespace qrl::rollout {

enum class JudgedText : std::uint8_t { last, transcript };
constexpr std::string_view words_of(JudgedText) { return "last | transcript"; }

/// Holds the keys of turns, which rollout/keys.h declares.
struct TurnOptions {
  std::optional<std::int64_t> max_turn_tokens;  ///< null: what the response's limit leaves
  JudgedText judge = JudgedText::last;
};

/// Holds what all conversations of a run share.
struct ConversationSettings : TurnOptions {
  std::shared_ptr<tasks::Environment> environment;
  std::shared_ptr<const data::Bridge> bridge;
  data::Tokenizer tokenizer;
  std::int64_t max_prompt_tokens = 0;
  std::size_t num_scores = 0;  ///< scores of the run's verifier
  /// Returns a prompt's tokens with a text appended to its last message.
  std::function<std::vector<types::TokenId>(const types::Prompt& prompt, const std::string& text)> prompt_with;
};

/// Samples n conversations of each prompt, in prompt-major order. Sets Rollout::conversation. A failed conversation
/// ends with its last turn, and has a verdict. Throws a guard error as tasks::Verifier::judge does for
/// context.max_errors.
std::vector<Rollout> collect_conversations(types::TextSource& source, std::span<const PromptRequest> prompts,
                                           std::int32_t n, const types::SamplingParams& params, types::SampleKey key,
                                           const ConversationSettings& settings, const tasks::JudgeContext& context);

/// Returns a conversation's seed, below 2^53. It depends on the arguments alone.
std::uint64_t conversation_seed(types::SampleKey key, std::uint64_t prompt_id, std::int32_t sample);

}  // namespace qrl::rollout
