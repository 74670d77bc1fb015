#include "train/prompts/encoder.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "train/prompts/text_options.h"

namespace qrl::train {

namespace {

constexpr std::string_view kPlaceholder = "{prompt}";

}  // namespace

PromptEncoder::PromptEncoder(const DataRecipe& recipe, const data::Tokenizer& tokenizer)
    : recipe_(recipe), tokenizer_(tokenizer), chat_(data::choose_template(recipe, tokenizer)) {
  const std::size_t at = recipe.prompt_template.find(kPlaceholder);
  QRL_REQUIRE(at != std::string::npos, "data.prompt_template", "a template with {prompt}",
              base::readable(recipe.prompt_template));
  before_ = recipe.prompt_template.substr(0, at);
  after_ = recipe.prompt_template.substr(at + kPlaceholder.size());
}

void PromptEncoder::require_system_fits(std::string_view system, const std::string& where) const {
  QRL_REQUIRE(system.empty() || !chat_.is_plain(), where, "a chat template for a prompt with a system message",
              "data.chat_template plain", "set data.chat_template, or use a model that has one");
}

std::vector<types::TokenId> PromptEncoder::encode(std::string_view text, std::string_view system,
                                                  const std::string& where) const {
  if (chat_.is_plain()) {
    const std::array<data::TextPart, 3> parts = {
        {{before_, true}, {text, recipe_.parse_special_tokens}, {after_, true}}};
    std::vector<types::TokenId> ids = tokenizer_.encode(parts);
    ids.insert(ids.begin(), tokenizer_.prefix().begin(), tokenizer_.prefix().end());
    return ids;
  }
  data::Conversation conversation{{}, tools_, before_, after_};
  const std::string first = with_added_system(system.empty() ? std::string_view(recipe_.system_prompt) : system);
  if (!first.empty()) conversation.messages.push_back({"system", first});
  conversation.messages.push_back({"user", std::string(text)});
  return rendered(conversation, where);
}

std::vector<types::TokenId> PromptEncoder::encode(data::Conversation conversation, const std::string& where) const {
  auto& messages = conversation.messages;
  const bool has_system = messages.front().role == "system";
  const bool is_question = messages.size() == (has_system ? 2 : 1) && messages.back().role == "user";
  const bool has_parts = std::ranges::any_of(messages, &data::Message::has_parts);
  if (is_question && !has_parts && conversation.tools.empty()) {
    if (has_system) require_system_fits(messages.front().content, where);
    return encode(messages.back().content, has_system ? messages.front().content : std::string_view(), where);
  }
  QRL_REQUIRE(messages.back().role == "user" || messages.back().role == "tool", where,
              "a prompt that ends with a user or tool message", messages.back().role);
  QRL_REQUIRE(before_.empty() && after_.empty(), where, "prompts of one question with data.prompt_template",
              std::to_string(messages.size()) + " messages", "set data.prompt_template: \"{prompt}\"");
  if (conversation.tools.empty()) conversation.tools = tools_;
  if (!has_system && !(recipe_.system_prompt + added_system_).empty())
    messages.insert(messages.begin(), {"system", with_added_system(recipe_.system_prompt)});
  if (has_system && !added_system_.empty()) data::append_text(messages.front(), "\n\n" + added_system_);
  return rendered(conversation, where);
}

void PromptEncoder::show(std::vector<nlohmann::ordered_json> tools, std::string system) {
  tools_ = std::move(tools);
  added_system_ = std::move(system);
}

std::string PromptEncoder::with_added_system(std::string_view system) const {
  if (added_system_.empty()) return std::string(system);
  return system.empty() ? added_system_ : std::string(system) + "\n\n" + added_system_;
}

std::vector<types::TokenId> encode_row(const PromptEncoder& encoder, const data::PromptRow& row,
                                       const std::string& where) {
  return row.conversation ? encoder.encode(*row.conversation, where) : encoder.encode(row.prompt, row.system, where);
}

std::vector<types::TokenId> PromptEncoder::rendered(const data::Conversation& conversation,
                                                    const std::string& where) const {
  const data::RenderOptions options{true, false, recipe_.parse_special_tokens, recipe_.enable_thinking};
  return data::encode_parts(tokenizer_, data::render_conversation(chat_, conversation, options, where).parts);
}

}  // namespace qrl::train
