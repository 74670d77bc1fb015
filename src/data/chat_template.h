// Owns which chat template a run has: the model's own, one that the program holds, or a file. Knows nothing of data.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/recipe.h"
#include "data/messages.h"
#include "data/tokenizer.h"

namespace qrl::data {

namespace jinja {
class Template;
}

/// Makes a text of a conversation (conversation.h).
struct ChatTemplate {
  std::string name = "plain";                                    ///< as messages call it
  std::shared_ptr<const jinja::Template> jinja = {};             ///< null: plain, a prompt's text alone
  std::vector<std::pair<std::string, std::string>> tokens = {};  ///< the tokenizer's bos_token, eos_token, …
  std::string opening = {};                                      ///< what it writes before an answer to come
  std::string end_of_turn = {};                                  ///< the added token behind an answer; "": none
  bool is_plain() const noexcept { return jinja == nullptr; }
};

/// The template of a run: data.chat_template's file or name, or with auto the model's own, from chat_template.jinja or
/// tokenizer_config.json; plain where it has none. Input errors: a template that cannot be run, or whose turns end with
/// no added token of the tokenizer; data.system_prompt or data.enable_thinking without effect.
ChatTemplate choose_template(const config::DataRecipe& recipe, const Tokenizer& tokenizer);

/// Why a system message has no effect; "" where it has one.
std::string fault_of_system(const ChatTemplate& chat);
/// Whether enable_thinking has an effect.
bool has_thinking(const ChatTemplate& chat);
/// Turns to ask a template with: SYSTEM with `has_system`, PROMPT, and unless it is "" the answer, and NEXT.
Conversation sample_turns(const std::string& answer, bool has_system = false);

}  // namespace qrl::data
