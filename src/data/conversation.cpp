#include "data/conversation.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/python_json.h"
#include "data/tokenizer/unicode.h"
#include "state/json.h"

namespace qrl::data {

using Json = nlohmann::ordered_json;

namespace {

bool holds_no_text(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

/// A member that is a text or null; "" where it is not there.
std::string text_member(const Json& message, const char* name, const std::string& where) {
  const auto found = message.find(name);
  if (found == message.end() || found->is_null()) return {};
  QRL_REQUIRE(found->is_string(), where, "`" + std::string(name) + "` to be a text", found->type_name(),
              "messages of several parts (images) are not read");
  return found->get<std::string>();
}

/// The call itself: OpenAI's {"type": "function", "function": {…}} holds it.
Json read_tool_call(const Json& call, const std::string& where) {
  const bool is_wrapped = call.is_object() && call.contains("function");
  const Json& function = is_wrapped ? call["function"] : call;
  const bool is_call = function.is_object() && function.contains("name") && function["name"].is_string() &&
                       function.contains("arguments");
  QRL_REQUIRE(is_call, where, "`tool_calls` of {\"name\", \"arguments\"} each", "another form");
  return {{"name", function["name"]}, {"arguments", function["arguments"]}};
}

Message read_message(const Json& value, const std::string& where) {
  const bool has_role = value.is_object() && value.contains("role") && value["role"].is_string();
  QRL_REQUIRE(has_role, where, "messages with a `role`", "one without");
  Message message;
  message.role = value["role"].get<std::string>();
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
  QRL_REQUIRE(std::ranges::find(kRoles, message.role) != std::end(kRoles), where,
              "a `role` of system, user, assistant or tool", base::quoted(message.role));
  message.content = text_member(value, "content", where);
  message.has_reasoning = value.contains("reasoning_content") && value["reasoning_content"].is_string();
  message.reasoning = text_member(value, "reasoning_content", where);
  if (const auto calls = value.find("tool_calls"); calls != value.end() && !calls->is_null()) {
    QRL_REQUIRE(calls->is_array() && message.role == "assistant", where, "`tool_calls` in a list of an assistant",
                calls->is_array() ? "a list of " + message.role : std::string(calls->type_name()));
    for (const Json& call : *calls) message.tool_calls.push_back(read_tool_call(call, where));
  }
  const bool may_be_empty = message.role == "tool" || !message.tool_calls.empty() || !message.reasoning.empty();
  QRL_REQUIRE(may_be_empty || !holds_no_text(message.content), where, "a message of " + message.role + " to hold text",
              "none");
  return message;
}

std::vector<Json> read_tools(const Json& value, const std::string& where) {
  if (value.is_null()) return {};
  if (value.is_string()) {  // what columns of one type (parquet, CSV) hold
    const auto& text = value.get_ref<const std::string&>();
    if (holds_no_text(text)) return {};
    (void)state::parse_json(text, where + ": `tools`");
    return read_tools(Json::parse(text), where);
  }
  QRL_REQUIRE(value.is_array(), where, "`tools` to be a list, or the JSON text of one", value.type_name());
  return {value.begin(), value.end()};
}

// The words of the styles beside those of chat_template.cpp.
constexpr std::string_view kChatmlOpen = "<|im_start|>";
constexpr std::string_view kLlamaOpen = "<|start_header_id|>";
constexpr std::string_view kLlamaOpened = "<|end_header_id|>\n\n";
constexpr std::string_view kToolsBefore =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
    "signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view kToolsAfter =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call>";

std::string_view stripped_of_newlines(std::string_view text, bool left, bool right) {
  while (left && text.starts_with('\n')) text.remove_prefix(1);
  while (right && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::string trim_filter(std::string_view text) {
  text.remove_prefix(leading_space_bytes(text));
  text.remove_suffix(trailing_space_bytes(text));
  return std::string(text);
}

/// Writes one conversation. What each style does is what the published templates do (scripts/golden/conversations.py).
class Renderer {
 public:
  Renderer(const ChatTemplate& chat, const Conversation& conversation, Thoughts thoughts, bool parse_text)
      : chat_(chat),
        messages_(conversation.messages),
        tools_(conversation.tools),
        thoughts_(thoughts),
        parse_text_(parse_text),
        is_qwen3_(chat.name == "qwen3") {}

  void chatml() {
    const bool has_system = messages_.front().role == "system";
    const std::string& system = has_system ? messages_.front().content : chat_.default_system;
    if (!tools_.empty() || !system.empty()) {
      ours(std::string(kChatmlOpen) + "system\n");
      has_system ? theirs(system) : ours(system);
      if (!tools_.empty()) {
        if (!system.empty()) ours("\n\n");
        ours(kToolsBefore);
        for (const Json& tool : tools_) theirs("\n" + python_json(tool));
        ours(kToolsAfter);
      }
      ours(kChatmlEnd);
    }
    for (std::size_t i = has_system ? 1 : 0; i < messages_.size(); ++i) chatml_turn(i);
  }

  void llama3() {
    ours(chat_.bos);
    const bool has_system = messages_.front().role == "system";
    if (has_system || !chat_.system_header.empty()) {
      ours(std::string(kLlamaOpen) + "system" + std::string(kLlamaOpened) + chat_.system_header);
      if (has_system) theirs(trim_filter(messages_.front().content));
      ours(kLlamaEnd);
    }
    for (std::size_t i = has_system ? 1 : 0; i < messages_.size(); ++i) {
      const Message& message = messages_[i];
      ours(std::string(kLlamaOpen) + message.role + std::string(kLlamaOpened));
      if (message.role == "assistant") assistants(i, trim_filter(message.content) + std::string(kLlamaEnd));
      else theirs(trim_filter(message.content)), ours(kLlamaEnd);
    }
  }

  void open_answer(bool thinking) {
    if (chat_.style == ChatStyle::chatml) ours(std::string(kChatmlOpen) + "assistant\n");
    else ours(std::string(kLlamaOpen) + "assistant" + std::string(kLlamaOpened));
    ours(thinking ? chat_.answer_opening : chat_.answer_opening_without_thinking.value_or(""));
  }

  std::vector<RenderedPart> take() { return std::move(parts_); }

 private:
  void add(std::string_view text, bool parse, std::int64_t message) {
    if (text.empty()) return;
    const bool goes_on =
        !parts_.empty() && parts_.back().parse_added_tokens == parse && parts_.back().learned_message == message;
    if (goes_on) parts_.back().text += text;
    else parts_.push_back({std::string(text), parse, message});
  }
  void ours(std::string_view text) { add(text, true, -1); }
  void theirs(std::string_view text) { add(text, parse_text_, -1); }
  void assistants(std::size_t message, std::string_view text) { add(text, true, static_cast<std::int64_t>(message)); }

  void chatml_turn(std::size_t i) {
    const Message& message = messages_[i];
    if (message.role == "assistant") {
      ours(std::string(kChatmlOpen) + "assistant");
      // TRL's template for Qwen2.5 counts the end of the header's line among the assistant's words.
      if (chat_.name == "qwen2.5") assistants(i, "\n");
      else ours("\n");
      return assistants(i, answer_of(i) + std::string(kChatmlEnd));
    }
    if (message.role == "tool") {
      const bool is_first = i == 0 || messages_[i - 1].role != "tool";
      const bool is_last = i + 1 == messages_.size() || messages_[i + 1].role != "tool";
      ours((is_first ? std::string(kChatmlOpen) + "user" : "") + "\n<tool_response>\n");
      theirs(message.content);
      return ours("\n</tool_response>" + (is_last ? std::string(kChatmlEnd) : ""));
    }
    ours(std::string(kChatmlOpen) + message.role + "\n");
    theirs(message.content);
    ours(kChatmlEnd);
  }

  /// What an assistant wrote, calls of tools behind it, without the end of its turn.
  std::string answer_of(std::size_t i) const {
    const Message& message = messages_[i];
    std::string text = is_qwen3_ ? with_thought(i) : message.content;
    const bool has_content = !content_of(message).empty();
    for (std::size_t k = 0; k < message.tool_calls.size(); ++k) {
      const Json& call = message.tool_calls[k];
      if (k > 0 || has_content) text += "\n";
      const bool as_text = chat_.name != "qwen2.5" && call["arguments"].is_string();
      text += "<tool_call>\n{\"name\": \"" + call["name"].get<std::string>() + "\", \"arguments\": " +
              (as_text ? call["arguments"].get<std::string>() : python_json(call["arguments"])) + "}\n</tool_call>";
    }
    return text;
  }

  /// Content without a thought that stands in it.
  std::string_view content_of(const Message& message) const {
    const std::size_t at = message.content.rfind("</think>");
    if (!is_qwen3_ || message.has_reasoning || at == std::string::npos) return message.content;
    return stripped_of_newlines(std::string_view(message.content).substr(at + 8), true, false);
  }

  static std::string_view thought_of(const Message& message) {
    if (message.has_reasoning) return message.reasoning;
    const std::size_t end = message.content.find("</think>");
    if (end == std::string::npos) return {};
    std::string_view thought = stripped_of_newlines(std::string_view(message.content).substr(0, end), false, true);
    if (const std::size_t begin = thought.rfind("<think>"); begin != std::string_view::npos)
      thought.remove_prefix(begin + 7);
    return stripped_of_newlines(thought, true, false);
  }

  std::string with_thought(std::size_t i) const {
    const Message& message = messages_[i];
    const std::string_view thought = thought_of(message), content = content_of(message);
    const bool shows =
        thoughts_ == Thoughts::of_all_turns || (i > last_question() && (i + 1 == messages_.size() || !thought.empty()));
    if (!shows) return std::string(content);
    return "<think>\n" + std::string(stripped_of_newlines(thought, true, true)) + "\n</think>\n\n" +
           std::string(stripped_of_newlines(content, true, false));
  }

  /// The last message of the user that is not itself the answer of a tool, as Qwen3's template looks for it.
  std::size_t last_question() const {
    for (std::size_t i = messages_.size(); i-- > 0;) {
      const std::string& content = messages_[i].content;
      const bool is_tool = content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
      if (messages_[i].role == "user" && !is_tool) return i;
    }
    return messages_.size() - 1;
  }

  const ChatTemplate& chat_;
  const std::vector<Message>& messages_;
  const std::vector<Json>& tools_;
  Thoughts thoughts_;
  bool parse_text_;
  bool is_qwen3_;
  std::vector<RenderedPart> parts_;
};

/// The sum of the bytes that tokens spell.
std::size_t spelled_bytes(const Tokenizer& tokenizer, const std::vector<types::TokenId>& tokens) {
  std::size_t sum = 0;
  for (const types::TokenId token : tokens) sum += tokenizer.bytes_of(token, true).size();
  return sum;
}

}  // namespace

Conversation read_conversation(const Json& messages, const Json& tools, const std::string& name,
                               const std::string& where) {
  QRL_REQUIRE(messages.is_array() && !messages.empty(), where, "`" + name + "` to be a list of messages",
              messages.is_array() ? "an empty list" : messages.type_name());
  Conversation conversation;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string place = where + ": " + name + "[" + std::to_string(i) + "]";
    conversation.messages.push_back(read_message(messages[i], place));
  }
  conversation.tools = read_tools(tools, where);
  return conversation;
}

std::vector<RenderedPart> render_conversation(const ChatTemplate& chat, const Conversation& conversation,
                                              Thoughts thoughts, bool opens_answer, bool thinking, bool parse_text,
                                              const std::string& where) {
  QRL_REQUIRE(chat.style != ChatStyle::plain, where, "a chat template for a conversation of several turns",
              "data.chat_template plain", "set data.chat_template, or use a model that has one");
  QRL_REQUIRE(chat.turns_fault.empty(), where, "a chat template that this version knows for several turns",
              "the model's own: " + chat.turns_fault,
              "set data.chat_template to the one that writes the same, or keep to one question and its answer");
  const bool needs_tools =
      !conversation.tools.empty() || std::ranges::any_of(conversation.messages, [](const Message& m) {
        return m.role == "tool" || !m.tool_calls.empty();
      });
  QRL_REQUIRE(!needs_tools || chat.has_tools, where, "a chat template with a form for tools (qwen2.5, qwen3)",
              chat.name, "leave out such rows, or use a model that has one");
  Renderer renderer(chat, conversation, thoughts, parse_text);
  if (chat.style == ChatStyle::chatml) renderer.chatml();
  else renderer.llama3();
  if (opens_answer) renderer.open_answer(thinking);
  return renderer.take();
}

LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where) {
  std::vector<TextPart> texts;
  for (const RenderedPart& part : parts) texts.push_back({part.text, part.parse_added_tokens});
  LabeledTokens labeled;
  labeled.tokens = tokenizer.encode(texts);
  // Where each part ends in what the tokens spell, which is its normal form (NFC), not always its own bytes.
  std::vector<std::size_t> ends;
  for (const TextPart& text : texts)
    ends.push_back((ends.empty() ? 0 : ends.back()) + spelled_bytes(tokenizer, tokenizer.encode({&text, 1})));
  QRL_REQUIRE(ends.empty() || ends.back() == spelled_bytes(tokenizer, labeled.tokens), where,
              "tokens that spell the text they are made of", "others",
              "the tokenizer's added tokens take white space beside them: what is learned cannot be told");
  std::size_t begin = 0, part = 0;
  for (const types::TokenId token : labeled.tokens) {
    const std::size_t end = begin + tokenizer.bytes_of(token, true).size();
    while (part < ends.size() && ends[part] <= begin) ++part;
    std::int64_t message = -1;
    for (std::size_t k = part; message < 0 && k < ends.size() && (k == part || ends[k - 1] < end); ++k)
      message = parts[k].learned_message;
    labeled.messages.push_back(message);
    begin = end;
  }
  return labeled;
}

}  // namespace qrl::data
