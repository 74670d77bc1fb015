#include "data/conversation.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "data/jinja/jinja.h"

namespace qrl::data {

using Json = nlohmann::ordered_json;

namespace {

/// Returns message i's source number, 1 + 2 i. Its tool calls have the next number. The tools' definitions have the
/// first number after all messages.
Source source_of_message(std::size_t i) { return static_cast<Source>(1 + 2 * i); }

bool is_assistants(std::int64_t message, const Conversation& conversation) {
  return message >= 0 && conversation.messages[static_cast<std::size_t>(message)].role == "assistant";
}

jinja::Value value_of_message(const Conversation& conversation, std::size_t i) {
  const Message& message = conversation.messages[i];
  const Source source = source_of_message(i);
  auto object = std::make_shared<jinja::Object>();
  object->members.reserve(message.fields.size() + 2);
  object->set(Text("role"), Text(message.role));
  if (message.fields.empty()) object->set(Text("content"), Text(message.content, source));
  const Json::object_t none;
  const auto& fields = message.fields.is_null() ? none : message.fields.get_ref<const Json::object_t&>();
  for (const auto& [name, field] : fields) {
    if (name == "role" || field.is_null()) continue;  // transformers drops nulls
    object->set(Text(name), jinja::value_of(field, name == "tool_calls" ? source + 1 : source));
  }
  const bool is_last = i + 1 == conversation.messages.size();
  if (is_last && conversation.before.size() + conversation.after.size() > 0) {
    Text content(conversation.before);
    content.add(message.content, source);
    content.add(conversation.after, 0);
    object->set(Text("content"), content);
  }
  return object;
}

std::size_t count_letters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !base::is_space(c); }));
}

/// Returns the number of the assistant's messages that the text shortens or omits. Throws an input error if the text
/// omits the tools, a message's tool calls, or a whole message that is not the assistant's.
std::int64_t check_shown(const ChatTemplate& chat, const Conversation& conversation, const Text& text,
                         const std::string& where) {
  const std::vector<Message>& messages = conversation.messages;
  std::vector<std::size_t> shown(source_of_message(messages.size()) + 1);
  for (const TextRun& run : text.runs()) shown[writer_of(run.source)] += count_letters(text.bytes(run));
  const auto refuse = [&](const std::string& what) {
    base::fail_input(where, "a chat template that renders " + what, chat.name + ", which does not",
                     "remove such rows, or set data.chat_template to one that does");
  };
  if (!conversation.tools.empty() && shown[source_of_message(messages.size())] == 0) refuse("tools");
  std::int64_t num_cut = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, content, fields] = messages[i];
    const auto calls = fields.find("tool_calls"), thought = fields.find("reasoning_content");
    if (calls != fields.end() && !calls->empty() && shown[source_of_message(i) + 1] == 0) refuse("tool calls");
    const bool has_thought = thought != fields.end() && thought->is_string();
    const std::size_t num_thought = has_thought ? count_letters(thought->get_ref<const std::string&>()) : 0;
    const std::size_t num_shown = shown[source_of_message(i)], num_letters = count_letters(content);
    constexpr std::size_t kTags = std::string_view("<think></think>").size();  // templates may write these
    if (role == "assistant") num_cut += num_shown + kTags < num_letters + num_thought ? 1 : 0;
    else if (num_shown == 0 && num_letters > 0) refuse("message " + std::to_string(i + 1) + " (" + role + ")");
  }
  return num_cut;
}

/// Returns each byte's learned_message, derived from {% generation %} blocks. A block belongs to the first message with
/// text in the block. A block without such text belongs to the assistant's next message.
std::vector<std::int64_t> learned_of_blocks(const Conversation& conversation, const Text& text) {
  std::vector<std::int64_t> learned(text.size(), -1);
  const std::vector<TextRun> runs = text.runs();
  const auto size = std::ssize(conversation.messages);
  std::int64_t message = -1;
  for (std::size_t i = 0, next = 0; i < runs.size(); i = next) {
    const Source is_marked = runs[i].source & kGenerated;
    std::int64_t first = -1;
    for (next = i; next < runs.size() && (runs[next].source & kGenerated) == is_marked; ++next)
      first = first < 0 ? message_of(runs[next].source, conversation) : first;
    if (is_marked == 0) continue;
    for (++message; first < 0 && message < size && !is_assistants(message, conversation);) ++message;
    message = first >= 0 ? first : message;
    std::fill_n(&learned[runs[i].begin], runs[next - 1].end - runs[i].begin, message);
  }
  return learned;
}

/// Returns each byte's learned_message for a template without {% generation %}.
std::vector<std::int64_t> learned_of_turns(const ChatTemplate& chat, const Conversation& conversation,
                                           const Text& text) {
  std::vector<std::int64_t> learned(text.size(), -1);
  const auto mark = [&](std::size_t begin, std::size_t end, std::int64_t message) {
    if (begin < end) std::fill_n(&learned[begin], end - begin, message);
  };
  std::vector<TextRun> runs = text.runs();
  runs.push_back({text.size(), text.size(), 0});  // sentinel
  std::size_t behind = 0;                         // end of the last run that a message wrote
  std::int64_t open = -1;                         // index of the message if the assistant wrote that run; else −1
  for (const TextRun& run : runs) {
    if (run.source == 0 && run.begin < run.end) continue;
    const std::int64_t of = message_of(run.source, conversation), message = is_assistants(of, conversation) ? of : -1;
    const std::string_view between = std::string_view(text.bytes()).substr(behind, run.begin - behind);
    const std::size_t end = between.find(chat.end_of_turn), header = between.rfind(chat.opening);
    if (open >= 0 && message != open && end != std::string_view::npos)
      mark(behind, behind + end + chat.end_of_turn.size(), open);
    const bool has_header = header != std::string_view::npos;
    const std::size_t begin = message == open ? behind : has_header ? behind + header + chat.opening.size() : run.begin;
    if (message >= 0) mark(begin, run.end, message);
    behind = run.end;
    open = message;
  }
  return learned;
}

std::size_t spelled_bytes(const Tokenizer& tokenizer, const std::vector<types::TokenId>& tokens) {
  std::size_t sum = 0;
  for (const types::TokenId token : tokens) sum += tokenizer.bytes_of(token, true).size();
  return sum;
}

}  // namespace

std::int64_t message_of(Source source, const Conversation& conversation) {
  const auto writer = static_cast<std::int64_t>(writer_of(source));
  return writer == 0 || writer > 2 * std::ssize(conversation.messages) ? -1 : (writer - 1) / 2;
}

Text run_template(const ChatTemplate& any, const Conversation& conversation, const RenderOptions& options) {
  const ChatTemplate& chat = any.of(conversation);
  if (!chat.fault.empty()) jinja::fail(chat.fault);
  jinja::Values messages, tools;
  const Source of_tools = source_of_message(conversation.messages.size());
  for (std::size_t i = 0; i < conversation.messages.size(); ++i) messages.push_back(value_of_message(conversation, i));
  for (const Json& tool : conversation.tools) tools.push_back(jinja::value_of(tool, of_tools));
  std::vector<std::pair<std::string_view, jinja::Value>> variables;
  for (const auto& [name, token] : chat.tokens) variables.emplace_back(name, Text(token));
  variables.emplace_back("messages", jinja::make_list(std::move(messages)));
  variables.emplace_back("tools", tools.empty() ? jinja::Value(nullptr) : jinja::make_list(std::move(tools)));
  variables.emplace_back("documents", nullptr);
  variables.emplace_back("add_generation_prompt", options.opens_answer);
  if (options.thinking) variables.emplace_back("enable_thinking", *options.thinking);
  if (options.learns) variables.emplace_back("training", true);
  return chat.jinja->render(variables);
}

Rendered render_conversation(const ChatTemplate& any, const Conversation& conversation, const RenderOptions& options,
                             const std::string& where) {
  const ChatTemplate& chat = any.of(conversation);
  QRL_REQUIRE(!chat.is_plain() || !chat.fault.empty(), where, "a chat template that renders conversations",
              "data.chat_template plain", "set data.chat_template, or use a model with a chat template");
  Text text;
  try {
    text = run_template(chat, conversation, options);
  } catch (const jinja::Unsupported& error) {
    base::fail_input(where, "a conversation that the chat template can render (" + chat.name + ")", error.what(),
                     "remove such rows, or set data.chat_template to a different template");
  }
  Rendered rendered{{}, check_shown(chat, conversation, text, where)};
  std::vector<std::int64_t> learned;
  if (options.learns && chat.jinja->marks_generation()) learned = learned_of_blocks(conversation, text);
  else if (options.learns) learned = learned_of_turns(chat, conversation, text);
  auto& parts = rendered.parts;
  for (const TextRun& run : text.runs()) {
    const bool is_content = run.source % 2 == 1 && is_assistants(message_of(run.source, conversation), conversation);
    const bool parse = options.parse_text || writer_of(run.source) == 0 || is_content;
    for (std::size_t begin = run.begin, end = run.end; begin < run.end; begin = end) {
      const std::int64_t message = learned.empty() ? -1 : learned[begin];
      for (end = learned.empty() ? run.end : begin + 1; end < run.end && learned[end] == message;) ++end;
      if (parts.empty() || parts.back().parse_added_tokens != parse || parts.back().learned_message != message)
        parts.push_back({{}, parse, message});
      parts.back().text.append(text.bytes(), begin, end - begin);
    }
  }
  return rendered;
}

std::vector<types::TokenId> encode_parts(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts) {
  std::vector<TextPart> texts;
  texts.reserve(parts.size());
  for (const RenderedPart& part : parts) texts.push_back({part.text, part.parse_added_tokens});
  return tokenizer.encode(texts);
}

LabeledTokens encode_labeled(const Tokenizer& tokenizer, const std::vector<RenderedPart>& parts,
                             const std::string& where) {
  LabeledTokens labeled{encode_parts(tokenizer, parts), {}};
  // Measures each part after NFC, which may change the part's length.
  std::vector<std::size_t> ends;
  ends.reserve(parts.size());
  for (const RenderedPart& part : parts)
    ends.push_back((ends.empty() ? 0 : ends.back()) + spelled_bytes(tokenizer, encode_parts(tokenizer, {part})));
  QRL_REQUIRE(ends.empty() || ends.back() == spelled_bytes(tokenizer, labeled.tokens), where,
              "tokens that decode to the text they encode", "tokens that decode to a different text",
              "the tokenizer's added tokens absorb adjacent white space, so the tokens to learn are unknown");
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
