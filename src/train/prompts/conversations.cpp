#include "train/prompts/conversations.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/conversation.h"
#include "tasks/command/protocol.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

namespace {

struct RowStart final : types::ConversationStart {
  data::PromptRow row;
};

std::vector<nlohmann::ordered_json> tools_of(const tasks::EnvironmentReady& ready) {
  if (ready.tools.empty()) return {};
  const auto tools = nlohmann::ordered_json::parse(ready.tools);
  return {tools.begin(), tools.end()};
}

data::PromptRow with_text(data::PromptRow row, const std::string& text) {
  row.prompt += text;
  if (!row.conversation) return row;
  data::Conversation conversation = *row.conversation;
  data::append_text(conversation.messages.back(), text);
  row.conversation = std::make_shared<const data::Conversation>(std::move(conversation));
  return row;
}

/// Throws an input error unless either the environment or reward.verifier judges.
void require_one_judge(const Recipe& recipe, tasks::Environment& environment) {
  const std::string& word = recipe.reward.verifier.word();
  const std::string scores = base::joined(environment.start().scores, ", ");
  QRL_REQUIRE(environment.judges() == (word == "environment"), "reward.verifier",
              environment.judges() ? "environment, because the program gives scores (" + scores + ")"
                                   : "a verifier, because the program gives no scores",
              word,
              environment.judges() ? "set reward.verifier: environment"
                                   : "set reward.verifier: math, for example, or let the program announce scores");
}

}  // namespace

std::shared_ptr<const types::ConversationStart> conversation_start(const tasks::Question& question,
                                                                   const data::PromptRow& row) {
  auto start = std::make_shared<RowStart>();
  start->fields = tasks::question_fields(question, true);
  start->row = row;
  start->row.row_json.clear();
  return start;
}

void show_in_prompts(const tasks::EnvironmentReady& ready, PromptEncoder& encoder) {
  QRL_REQUIRE(ready.system.empty() || data::fault_of_system(encoder.chat()).empty(), "environment.command",
              "a chat template that includes a system message, for the system text of the ready line",
              data::fault_of_system(encoder.chat()), "set data.chat_template to a different template");
  encoder.show(tools_of(ready), ready.system);
}

std::shared_ptr<const rollout::ConversationSettings> conversation_settings(const Recipe& recipe,
                                                                           const data::Tokenizer& tokenizer,
                                                                           const tasks::Verifier& verifier) {
  if (verifier.environment() == nullptr) return nullptr;
  const tasks::EnvironmentReady& ready = verifier.environment()->start();
  require_one_judge(recipe, *verifier.environment());
  auto settings = std::make_shared<rollout::ConversationSettings>(
      rollout::ConversationSettings{recipe.environment, verifier.shared_environment(), nullptr, tokenizer});
  const EnvironmentRecipe& environment = recipe.environment;
  data::BridgeOptions bridge;
  bridge.is_chat = environment.style == tasks::EnvironmentStyle::chat;
  bridge.role = environment.role == tasks::ObservationRole::tool ? "tool" : "user";
  bridge.render = {true, false, recipe.data.parse_special_tokens, recipe.data.enable_thinking};
  bridge.tools = tools_of(ready);
  static_cast<data::ObservationLimit&>(bridge) = environment;
  const auto data = std::make_shared<const DataRecipe>(recipe.data);  // the encoder refers to it
  auto encoder = std::make_shared<PromptEncoder>(*data, tokenizer);
  settings->bridge = std::make_shared<const data::Bridge>(encoder->chat(), tokenizer, bridge);
  settings->max_prompt_tokens = recipe.data.max_prompt_length;
  settings->num_scores = verifier.score_names().size();
  show_in_prompts(ready, *encoder);
  settings->prompt_with = [data, encoder](const types::Prompt& prompt, const std::string& text) {
    const auto* start = dynamic_cast<const RowStart*>(prompt.start.get());
    QRL_INVARIANT(start != nullptr, "environment", "a prompt that was read for it", "another prompt");
    return encode_row(*encoder, with_text(start->row, text), "a prompt with the environment's first observation");
  };
  return settings;
}

std::int64_t most_open_conversations(const Recipe& recipe) {
  if (!has_environment(recipe)) return 0;
  const std::int64_t workers =
      recipe.environment.workers > 0 ? recipe.environment.workers : std::max(1, base::num_threads() / 2);
  return workers * recipe.environment.sessions;
}

}  // namespace qrl::train
