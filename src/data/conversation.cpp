#include "data/conversation.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "data/jinja/jinja.h"

namespace qrl::data {

using Json = nlohmann::ordered_json;

namespace {

/// Sources of texts: of message i 1 + 2 i, of its calls of tools one more; of tools that is behind the last message's.
Unit source_of_message(std::size_t i) { return static_cast<Unit>(1 + 2 * i); }

bool is_assistants(std::int64_t message, const Conversation& conversation) {
  return message >= 0 && conversation.messages[static_cast<std::size_t>(message)].role == "assistant";
}

jinja::Value value_of_message(const Conversation& conversation, std::size_t i) {
  const Message& message = conversation.messages[i];
  const Unit source = source_of_message(i);
  auto object = std::make_shared<jinja::Object>();
  object->set(units_of("role"), units_of(message.role));
  if (message.fields.empty()) object->set(units_of("content"), units_of(message.content, source));
  for (const auto& [name, field] : message.fields.items()) {
    if (name == "role" || field.is_null()) continue;  // transformers drops nulls
    object->set(units_of(name), jinja::value_of(field, name == "tool_calls" ? source + 1 : source));
  }
  const Text before = units_of(conversation.before), after = units_of(conversation.after);
  const bool is_last = i + 1 == conversation.messages.size();
  if (is_last && before.size() + after.size() > 0)
    object->set(units_of("content"), before + units_of(message.content, source) + after);
  return object;
}

std::size_t count_letters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !base::is_space(c); }));
}

/// Checks that something of all that the conversation has is shown; returns how many answers are shown in part.
std::int64_t check_shown(const ChatTemplate& chat, const Conversation& conversation, const Text& text,
                         const std::string& where) {
  const std::vector<Message>& messages = conversation.messages;
  std::vector<std::size_t> shown(source_of_message(messages.size()) + 1);
  for (const Unit unit : text) shown[source_of(unit)] += base::is_space(byte_of(unit)) ? 0 : 1;
  const auto require = [&](bool holds, const std::string& what) {
    QRL_REQUIRE(holds, where, "a chat template with a form for " + what, chat.name + ", which leaves it out",
                "leave out such rows, or set data.chat_template to one that has it");
  };
  require(conversation.tools.empty() || shown[source_of_message(messages.size())] > 0, "tools");
  std::int64_t num_cut = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto &content = messages[i].content, &role = messages[i].role;
    const Json &fields = messages[i].fields, none;
    const auto field = [&](const char* name) -> const Json& { return fields.contains(name) ? fields[name] : none; };
    require(field("tool_calls").empty() || shown[source_of_message(i) + 1] > 0, "calls of tools");
    const Json& thought = field("reasoning_content");
    const std::size_t num_shown = shown[source_of_message(i)], num_letters = count_letters(content);
    const std::size_t num_thought = thought.is_string() ? count_letters(thought.get_ref<const std::string&>()) : 0;
    constexpr std::size_t kTags = std::string_view("<think></think>").size();  // the template may write them itself
    if (role == "assistant") num_cut += num_shown + kTags < num_letters + num_thought ? 1 : 0;
    else require(num_shown > 0 || num_letters == 0, "message " + std::to_string(i + 1) + " (" + role + ")");
  }
  return num_cut;
}

/// For each unit the message that it is learned from.
class Learned {
 public:
  Learned(const ChatTemplate& chat, const Conversation& conversation, const Text& text)
      : chat_(chat), conversation_(conversation), text_(text), messages_(text.size(), -1) {}

  /// Marks what {% generation %} does: a block is of the message whose words it holds, or of the next one.
  std::vector<std::int64_t> blocks() {
    const auto size = std::ssize(conversation_.messages);
    std::int64_t message = -1;
    for (std::size_t begin = 0, end = 0; begin < text_.size(); begin = end) {
      const Unit is_marked = text_[begin] & kGenerated;
      std::int64_t first = -1;
      for (end = begin; end < text_.size() && (text_[end] & kGenerated) == is_marked; ++end)
        first = first < 0 ? message_of(text_[end], conversation_) : first;
      if (is_marked == 0) continue;
      for (++message; first < 0 && message < size && !is_assistants(message, conversation_);) ++message;
      message = first >= 0 ? first : message;
      mark(begin, end, message);
    }
    return std::move(messages_);
  }

  /// Marks an assistant's words, the template's between them and before them behind the header of an answer, and those
  /// behind them up to the end of the turn.
  std::vector<std::int64_t> turns() {
    const Text opening = units_of(chat_.opening), end_of_turn = units_of(chat_.end_of_turn);
    std::size_t behind = 0;  // the last unit that is data
    std::int64_t open = -1;  // the assistant's message that it is of
    for (std::size_t i = 0; i <= text_.size(); ++i) {
      if (i < text_.size() && source_of(text_[i]) == 0) continue;
      const std::int64_t of = i == text_.size() ? -1 : message_of(text_[i], conversation_);
      const std::int64_t message = is_assistants(of, conversation_) ? of : -1;
      const Text between = text_.substr(behind, i - behind);
      const std::size_t end = between.find(end_of_turn), header = between.rfind(opening);
      if (open >= 0 && message != open && end != Text::npos) mark(behind, behind + end + end_of_turn.size(), open);
      const std::size_t begin = message == open ? behind : header == Text::npos ? i : behind + header + opening.size();
      if (message >= 0) mark(begin, i + 1, message);
      behind = i + 1;
      open = message;
    }
    return std::move(messages_);
  }

 private:
  void mark(std::size_t begin, std::size_t end, std::int64_t message) {
    for (std::size_t i = begin; i < end; ++i) messages_[i] = message;
  }

  const ChatTemplate& chat_;
  const Conversation& conversation_;
  const Text& text_;
  std::vector<std::int64_t> messages_;
};

/// The sum of the bytes that tokens spell.
std::size_t spelled_bytes(const Tokenizer& tokenizer, const std::vector<types::TokenId>& tokens) {
  std::size_t sum = 0;
  for (const types::TokenId token : tokens) sum += tokenizer.bytes_of(token, true).size();
  return sum;
}

}  // namespace

std::int64_t message_of(Unit unit, const Conversation& conversation) {
  const auto source = static_cast<std::int64_t>(source_of(unit));
  return source == 0 || source > 2 * std::ssize(conversation.messages) ? -1 : (source - 1) / 2;
}

Text run_template(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options) {
  jinja::Values messages, tools;
  const Unit of_tools = source_of_message(conversation.messages.size());
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) messages.push_back(value_of_message(conversation, i));
  for (const Json& tool : conversation.tools) tools.push_back(jinja::value_of(tool, of_tools));
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, token] : chat.tokens) variables.emplace_back(name, units_of(token));
  variables.emplace_back("messages", jinja::make_list(std::move(messages)));
  variables.emplace_back("tools", tools.empty() ? jinja::Value(nullptr) : jinja::make_list(std::move(tools)));
  variables.emplace_back("documents", nullptr);
  variables.emplace_back("add_generation_prompt", options.opens_answer);
  if (options.thinking) variables.emplace_back("enable_thinking", *options.thinking);
  if (options.learns) variables.emplace_back("training", true);
  return chat.jinja->render(variables);
}

Rendered render_conversation(const ChatTemplate& chat, const Conversation& conversation, const RenderOptions& options,
                             const std::string& where) {
  QRL_REQUIRE(!chat.is_plain(), where, "a chat template for a conversation of several turns",
              "data.chat_template plain", "set data.chat_template, or use a model that has one");
  Text text;
  try {
    text = run_template(chat, conversation, options);
  } catch (const jinja::Unsupported& error) {
    base::fail_input(where, "a conversation that the chat template writes (" + chat.name + ")", error.what(),
                     "leave out such rows, or set data.chat_template to another");
  }
  Rendered rendered{{}, check_shown(chat, conversation, text, where)};
  std::vector<std::int64_t> learned(text.size(), -1);
  Learned marks(chat, conversation, text);
  if (options.learns) learned = chat.jinja->marks_generation() ? marks.blocks() : marks.turns();
  auto& parts = rendered.parts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Unit source = source_of(text[i]);
    if (i > 0 && source == source_of(text[i - 1]) && learned[i] == learned[i - 1]) {
      parts.back().text += byte_of(text[i]);
      continue;
    }
    const bool is_content = source % 2 == 1 && is_assistants(message_of(text[i], conversation), conversation);
    const bool parse = options.parse_text || source == 0 || is_content;
    if (parts.empty() || parts.back().parse_added_tokens != parse || parts.back().learned_message != learned[i])
      parts.push_back({{}, parse, learned[i]});
    parts.back().text += byte_of(text[i]);
  }
  return rendered;
}

std::vector<types::TokenId> encode_parts(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts) {
  std::vector<TextPart> texts;
  for (const RenderedPart& part : parts) texts.push_back({part.text, part.parse_added_tokens});
  return tokenizer.encode(texts);
}

LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where) {
  LabeledTokens labeled{encode_parts(tokenizer, parts), {}};
  // Where each part ends in what the tokens spell, which is its normal form (NFC), not always its own bytes.
  std::vector<std::size_t> ends;
  for (const RenderedPart& part : parts)
    ends.push_back((ends.empty() ? 0 : ends.back()) + spelled_bytes(tokenizer, encode_parts(tokenizer, {part})));
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
