// Owns rendering: the text that a chat template makes of a conversation, and which parts of it the assistant wrote.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/marked_text.h"
#include "data/messages.h"
#include "data/tokenizer.h"

namespace qrl::data {

namespace jinja {
class Template;
}

/// A compiled template and its properties.
struct ChatTemplate {
  std::string name = "plain";                                    ///< for messages
  std::shared_ptr<const jinja::Template> jinja = {};             ///< null: plain, which renders only a prompt's text
  std::vector<std::pair<std::string, std::string>> tokens = {};  ///< the tokenizer's bos_token, eos_token, …
  std::string opening = {};                                      ///< that add_generation_prompt appends
  std::string end_of_turn = {};                                  ///< the added token after an answer; "": none
  bool is_plain() const noexcept { return jinja == nullptr; }
};

struct RenderOptions {
  bool opens_answer = false;  ///< appends the next answer's header (add_generation_prompt)
  bool learns = false;        ///< whether to label what is learned; sets the template's variable `training`
  bool parse_text =
      false;  ///< whether added tokens are parsed in every text, not only the assistant's and the template's
  std::optional<bool> thinking = {};  ///< enable_thinking; nullopt: the template's default
};

struct RenderedPart {
  std::string text;
  bool parse_added_tokens = false;
  std::int64_t learned_message =
      -1;  ///< with `learns`, index of the assistant's message that this text teaches; −1: none
};

struct Rendered {
  std::vector<RenderedPart> parts;
  std::int64_t num_cut_answers = 0;  ///< number of assistant's messages that the template shortened
};

/// Renders the conversation with the template. Added tokens are parsed only in the template's text and an assistant's
/// content. With `learns`, text inside {% generation %} is learned; without this tag, an assistant's turn from the end
/// of its header through its end token. Throws an input error with `where` if the template refuses the conversation, or
/// leaves out a whole message, the tools or a message's calls.
Rendered render_conversation(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options,
                             const std::string& where);

/// Renders without checks, and returns the text with its sources. Throws jinja::Unsupported.
Text run_template(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options);
/// Returns the index of this source's message; −1: none.
std::int64_t message_of(Source source, const Conversation& conversation);

std::vector<types::TokenId> encode_parts(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts);
/// Holds tokens, each with the index of the message that it teaches; −1: none.
struct LabeledTokens {
  std::vector<types::TokenId> tokens;
  std::vector<std::int64_t> messages;
};
/// Encodes like encode_parts, and labels each token by the first of its bytes that is learned. Throws an input error
/// with `where` if the tokens do not spell the text that they encode.
LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where);

}  // namespace qrl::data
