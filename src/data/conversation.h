// Owns the text that a chat template makes of a conversation, and which of it its assistant wrote. Knows nothing of
// files and of training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/chat_template.h"
#include "data/marked_text.h"
#include "data/messages.h"

namespace qrl::data {

struct RenderOptions {
  bool opens_answer = false;  ///< the header of an answer to come follows
  bool learns = false;        ///< it is learned from: `training` is true for templates that have such a form
  bool parse_text = false;    ///< added tokens in any text are tokens, not only in the assistant's and the template's
  std::optional<bool> thinking = {};  ///< enable_thinking; nothing: the template's default
};

/// A piece of the rendered text.
struct RenderedPart {
  std::string text;
  bool parse_added_tokens = false;
  std::int64_t learned_message = -1;  ///< with `learns`: the message of the assistant that it is learned from; −1: none
};

struct Rendered {
  std::vector<RenderedPart> parts;
  std::int64_t num_cut_answers = 0;  ///< messages of the assistant of which the template left out words
};

/// Renders the conversation with the template. Words of the template and an assistant's content may hold added tokens,
/// not other text. With `learns`, text inside {% generation %} is learned. Without this mark, an assistant's words are
/// learned from the end of its header up to the token that ends its turn. Throws an input error that names `where` when
/// the template refuses the conversation, or shows no word of a message, of tools or of their calls.
Rendered render_conversation(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options,
                             const std::string& where);

/// The same with its sources, without checks. Throws jinja::Unsupported.
Text run_template(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options);
/// The message that text of that source came from, −1: none.
std::int64_t message_of(Source source, const Conversation& conversation);

/// Token ids of rendered parts read as one text.
std::vector<types::TokenId> encode_parts(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts);
/// The same, and for each the message that it was learned from, −1 for none: a token counts as the assistant's when any
/// byte of it is.
struct LabeledTokens {
  std::vector<types::TokenId> tokens;
  std::vector<std::int64_t> messages;
};
LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where);

}  // namespace qrl::data
