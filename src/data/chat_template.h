#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/embedded_file.h"
#include "data/conversation.h"
#include "data/tokenizer.h"

namespace qrl::data {

/// Returns the built-in chat templates (data/templates) with their names in data.chat_template.
std::span<const base::EmbeddedFile> embedded_templates();

/// Lists data.chat_template's words: auto, plain, then the embedded files of data/templates.
inline constexpr std::array<const char*, 7> kChatTemplateNames = {"auto",  "plain",  "chatml",  "qwen2.5",
                                                                  "qwen3", "llama3", "llama3.1"};

/// Holds the keys of the chat template, which data/keys.h declares.
struct TemplateOptions {
  std::string chat_template = kChatTemplateNames[0];  ///< one of kChatTemplateNames, or a file
  std::string system_prompt = {};                     ///< "": the template's own, if any
  std::optional<bool> enable_thinking = {};           ///< unset: the template's own choice
};

/// Returns the template that `options` names: a file or an embedded template. With `auto`, returns the model's
/// template: chat_template.jinja, else tokenizer_config.json's, else plain. Throws an input error for a template that
/// cannot be rendered, or whose turns do not end with an added token of the tokenizer. Throws it also if
/// data.system_prompt or data.enable_thinking has no effect.
ChatTemplate choose_template(const TemplateOptions& options, const Tokenizer& tokenizer);

/// Returns the text of the model's own template for conversations without tools, or "". Throws an input error for a
/// malformed tokenizer_config.json.
std::string own_template(const Tokenizer& tokenizer);

/// Returns "" if the template shows a system message. Otherwise returns the template's name, with the error if
/// rendering fails.
std::string fault_of_system(const ChatTemplate& chat);
bool has_thinking(const ChatTemplate& chat);
/// Returns messages to probe a template with: SYSTEM if `has_system`, then PROMPT. Unless `answer` is "", `answer` and
/// NEXT follow.
Conversation sample_turns(const std::string& answer, bool has_system = false);

/// Describes the chat template in the tokenizer's folder, one property per line. In sample prompts, « and » enclose the
/// messages' text.
std::string describe_chat(const Tokenizer& tokenizer);

}  // namespace qrl::data
