#include "rollout/keys.h"

namespace qrl::rollout {

namespace {

using namespace config;
using enum config::OnResume;
using E = TurnOptions;

constexpr std::int64_t kMaxTurnTokens = 1'048'576;

}  // namespace

void add_turn_key(config::Section<TurnOptions> environment) {
  environment.add(allow_change, "max_turn_tokens", &E::max_turn_tokens, integer(1, kMaxTurnTokens),
                  "maximum tokens per sampled turn; a turn cut there ends the conversation",
                  "what data.max_response_length leaves");
}

void add_judge_key(config::Section<TurnOptions> environment) {
  environment.add(allow_change, "judge", &E::judge,
                  "what reward.verifier judges: the last turn, or the whole conversation behind the prompt");
}

}  // namespace qrl::rollout
