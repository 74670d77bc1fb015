// Owns what a conversation of several turns is: how a row holds it, and the text that a chat template makes of it, with
// the parts that its assistant wrote. Knows nothing of files and of training.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat_template.h"

namespace qrl::data {

/// What ends a message in the styles of ChatML and Llama 3.
inline constexpr std::string_view kChatmlEnd = "<|im_end|>\n", kLlamaEnd = "<|eot_id|>";

/// A message as OpenAI's API has it. The order of an object's members is kept: models are shown them as text.
struct Message {
  std::string role;                                     ///< system, user, assistant or tool
  std::string content;                                  ///< "": none, of an assistant that calls tools
  std::string reasoning;                                ///< `reasoning_content`; with has_reasoning
  std::vector<nlohmann::ordered_json> tool_calls = {};  ///< of an assistant: {"name", "arguments"} each
  bool has_reasoning = false;
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<nlohmann::ordered_json> tools = {};  ///< definitions, as the row has them
};

/// Reads `messages` (a list of {"role", "content"}, of an assistant also "reasoning_content" and "tool_calls") and
/// `tools` (null, a list, or the JSON text of one). Input errors name `where`: another role, a message that holds
/// nothing, what is no text.
Conversation read_conversation(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                               const std::string& name, const std::string& where);

/// How a template shows what an assistant thought before it answered.
enum class Thoughts : std::uint8_t {
  of_last_turn,  ///< as the model's own template does: of turns before the last question they are left out
  of_all_turns,  ///< as TRL's training templates do: every turn opens with its thought, though it be empty
};

/// A piece of the rendered text.
struct RenderedPart {
  std::string text;
  bool parse_added_tokens = false;
  std::int64_t learned_message = -1;  ///< the message of the assistant whose own words it holds; −1: none
};

/// The text of a conversation in the style of `chat`, with its default system message where the conversation has none.
/// Words of the template and of the assistant may hold added tokens; others with `parse_text`. An assistant's own
/// words reach to the end of its turn: the bounds are those of TRL's *_training templates. `opens_answer`: the header
/// of an answer to come follows, with the template's words that open it (`thinking` as encode_chat has it). Input
/// errors name `where`: what the style has no form for.
std::vector<RenderedPart> render_conversation(const ChatTemplate& chat, const Conversation& conversation,
                                              Thoughts thoughts, bool opens_answer, bool thinking, bool parse_text,
                                              const std::string& where);

/// Token ids of rendered parts read as one text, and for each the message that it was learned from, −1 for none: a
/// token counts as the assistant's when any byte of it is.
struct LabeledTokens {
  std::vector<types::TokenId> tokens;
  std::vector<std::int64_t> messages;
};
LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where);

}  // namespace qrl::data
