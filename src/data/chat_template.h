// Owns how a conversation becomes the text that a model was trained to answer. Knows nothing of data files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "data/tokenizer.h"

namespace qrl::data {

enum class ChatStyle : std::uint8_t { plain, chatml, llama3 };

/// What transformers' apply_chat_template(messages, add_generation_prompt=True) writes for an optional system message
/// and one message of the user. Everything that models of one style differ in is a field.
struct ChatTemplate {
  std::string name;  ///< "qwen3", …
  ChatStyle style = ChatStyle::plain;
  std::string bos;             ///< llama3: spelling of the token before all
  std::string default_system;  ///< chatml: what the system message is when there is none; "": it is left out
  std::string system_header;   ///< llama3: words before the system message, which is then always there
  std::string answer_opening;  ///< words put into the model's mouth ("<think>\n")
  /// The same when thinking is switched off; nothing where the template has no such switch.
  std::optional<std::string> answer_opening_without_thinking;
  bool has_tools = false;   ///< its style has a form for tools, their calls and their answers
  std::string turns_fault;  ///< where the model's own template writes several turns otherwise (conversation.h); "": not

  /// The token that ends a turn, as it is spelled; "" for plain.
  std::string end_of_turn() const;
};

/// plain (the text alone), chatml (no default system message), qwen2_5 (chatml with Qwen2.5's), qwen3 (chatml with the
/// switch for thinking), llama3 (no default system message), llama3_1 (with its header of dates); not automatic. `bos`:
/// the spelling of llama3's first token, or "" for the usual one.
ChatTemplate named_template(config::ChatTemplateName name, const std::string& bos);

/// The template of a model, recognized by what its chat_template.jinja or tokenizer_config.json writes; plain when it
/// has none. It is run (data/jinja) on conversations of system and user, and must write for each what ours does: with
/// any default system message, words that open the answer, and switch for thinking. Else an input error that says where
/// it differs or what it needs, and lists the names. Llama 3.2's template writes the day of the run into every prompt;
/// ours is always the date that it writes where no clock is at hand (26 Jul 2024), so that a run repeats: our choice.
ChatTemplate recognize_template(const Tokenizer& tokenizer);

/// The template of a run: data.chat_template, or with auto the model's own. Input errors when data.system_prompt or
/// data.enable_thinking has no effect with it, or when the tokenizer lacks the token that ends its turns.
ChatTemplate choose_template(const config::DataRecipe& recipe, const Tokenizer& tokenizer);

/// One line for `qrl-train check chat`: the template of the tokenizer's own folder, as choose_template recognizes it,
/// and what it makes of a prompt.
std::string describe_chat(const Tokenizer& tokenizer);

/// A prompt's parts. `before` and `after` are the recipe's own words around the text.
struct ChatPrompt {
  std::string_view system;  ///< "": the template's default
  std::string_view before, text, after;
  bool parse_text = false;  ///< added tokens in `text` and `system` are tokens
};

/// Token ids of the rendered prompt: those of the whole text at once, with control tokens only from the template, from
/// `before` and `after`, and from the rest when parse_text. Plain text has the tokenizer's prefix before it.
std::vector<types::TokenId> encode_chat(const ChatTemplate& chat, const Tokenizer& tokenizer, const ChatPrompt& prompt,
                                        bool thinking);

}  // namespace qrl::data
