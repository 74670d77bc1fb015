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

struct ChatTemplate {
  std::string name = "plain";
  std::shared_ptr<const jinja::Template> jinja = {};             ///< null: plain, which renders only a prompt's text
  std::vector<std::pair<std::string, std::string>> tokens = {};  ///< the tokenizer's bos_token, eos_token, …
  std::string opening = {};                                      ///< text that add_generation_prompt appends
  std::string end_of_turn = {};                                  ///< the added token after an answer; "": none
  std::shared_ptr<const ChatTemplate> with_tools = {};           ///< for conversations with tools; null: this one
  /// Tools of the conversation by which opening and end_of_turn were found; not empty if the template needs tools.
  std::vector<nlohmann::ordered_json> sample_tools = {};
  std::string fault = {};  ///< why a template for tools cannot be rendered; an error of rows with tools alone
  bool is_plain() const noexcept { return jinja == nullptr; }
  const ChatTemplate& of(const Conversation& conversation) const noexcept {
    return with_tools == nullptr || conversation.tools.empty() ? *this : *with_tools;
  }
};

struct RenderOptions {
  bool opens_answer = false;          ///< appends the next answer's header (add_generation_prompt)
  bool learns = false;                ///< labels the text to train on, and sets the template's variable `training`
  bool parse_text = false;            ///< parses added tokens in all text, not only the template's and the assistant's
  std::optional<bool> thinking = {};  ///< enable_thinking; nullopt: the template's default
};

struct RenderedPart {
  std::string text;
  bool parse_added_tokens = false;
  std::int64_t learned_message = -1;  ///< index of the assistant's message to train on; −1: text not in the loss
};

struct Rendered {
  std::vector<RenderedPart> parts;
  std::int64_t num_cut_answers = 0;  ///< assistant's messages that the template shortened or omitted
};

/// Renders the conversation with the template, or with its form for tools if the conversation has some. Parses added
/// tokens in the template's text and an assistant's content, and elsewhere only with `parse_text`. With `learns`, the
/// loss covers text inside {% generation %}. Without this tag, it covers an assistant's turn from the end of its header
/// through its end token. Throws an input error with `where` if the template refuses the conversation, or omits the
/// tools, a message's tool calls, or a whole message that is not the assistant's.
Rendered render_conversation(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options,
                             const std::string& where);

/// Renders without checks. Returns the text with its sources. Throws jinja::Unsupported.
Text run_template(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options);
/// Returns the index of the message with this source; −1: none.
std::int64_t message_of(Source source, const Conversation& conversation);

std::vector<types::TokenId> encode_parts(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts);
struct LabeledTokens {
  std::vector<types::TokenId> tokens;
  std::vector<std::int64_t> messages;
};
/// Encodes the parts as one text. Each token gets the learned_message of the first overlapping part in the loss. Throws
/// an input error with `where` if the tokens do not spell the text that they encode.
LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where);

}  // namespace qrl::data
