#include "data/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/readable.h"
#include "base/text.h"
#include "data/conversation.h"
#include "data/jinja/jinja.h"
#include "data/tokenizer/unicode.h"
#include "state/json.h"

namespace qrl::data {

namespace {

constexpr const char* kQwen25System = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr const char* kLlama31Header = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
constexpr const char* kNoThought = "<think>\n\n</think>\n\n";
constexpr const char* kLlama3Bos = "<|begin_of_text|>";

using config::ChatTemplateName;

std::string list_of_names() {
  std::string list;
  for (const auto& [name, value] : config::kChatTemplateNames) {
    if (value != ChatTemplateName::automatic) list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

// What a conversation of a system message or none and one of the user looks like in each style.
constexpr const char* kChatmlSystem = "<|im_start|>system\n";
constexpr const char* kChatmlUser = "<|im_start|>user\n";
constexpr const char* kChatmlAnswer = "<|im_start|>assistant\n";
constexpr const char* kLlamaHeader = "<|start_header_id|>";
constexpr const char* kLlamaSystem = "<|start_header_id|>system<|end_header_id|>\n\n";
constexpr const char* kLlamaUser = "<|start_header_id|>user<|end_header_id|>\n\n";
constexpr const char* kLlamaAnswer = "<|start_header_id|>assistant<|end_header_id|>\n\n";

/// Text without white space at its ends, cut from the parts it is made of.
void trim(std::string_view& first, std::string_view& middle, std::string_view& last) {
  const std::array<std::string_view*, 3> parts = {&first, &middle, &last};
  for (std::string_view* part : parts) {
    part->remove_prefix(leading_space_bytes(*part));
    if (!part->empty()) break;
  }
  for (std::size_t i = parts.size(); i-- > 0;) {
    parts[i]->remove_suffix(trailing_space_bytes(*parts[i]));
    if (!parts[i]->empty()) break;
  }
}

/// The rendered prompt in pieces: whether added tokens in them are tokens. They point into all three arguments.
std::vector<TextPart> chat_parts(const ChatTemplate& chat, const ChatPrompt& prompt, std::string_view answer) {
  std::vector<TextPart> parts;
  const auto ours = [&](std::string_view text) { parts.push_back({text, true}); };
  const auto theirs = [&](std::string_view text) { parts.push_back({text, prompt.parse_text}); };
  std::string_view system = prompt.system, before = prompt.before, text = prompt.text, after = prompt.after, none;
  const bool is_chatml = chat.style == ChatStyle::chatml, is_llama = chat.style == ChatStyle::llama3;
  if (is_llama) {
    trim(none, system, none);
    trim(before, text, after);
    ours(chat.bos);
  }
  const std::string& preset = is_llama ? chat.system_header : chat.default_system;
  if (chat.style != ChatStyle::plain && (!system.empty() || !preset.empty())) {
    ours(is_llama ? kLlamaSystem : kChatmlSystem);
    if (is_llama || system.empty()) ours(preset);
    theirs(system);
    ours(is_llama ? kLlamaEnd : kChatmlEnd);
  }
  if (is_chatml || is_llama) ours(is_llama ? kLlamaUser : kChatmlUser);
  ours(before);
  theirs(text);
  ours(after);
  if (is_chatml || is_llama) ours(is_llama ? kLlamaEnd : kChatmlEnd);
  if (is_chatml || is_llama) ours(is_llama ? kLlamaAnswer : kChatmlAnswer);
  ours(answer);
  return parts;
}

std::string answer_of(const ChatTemplate& chat, bool thinking) {
  return thinking ? chat.answer_opening : chat.answer_opening_without_thinking.value_or("");
}

std::string text_of(const ChatTemplate& chat, std::string_view system, std::string_view user, bool thinking) {
  const std::string answer = answer_of(chat, thinking);
  std::string text;
  for (const TextPart& part : chat_parts(chat, {system, {}, user, {}}, answer)) text += part.text;
  return text;
}

/// Cuts `front` from the front of `text` if it is there.
bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

/// Runs a model's own template on a conversation, as transformers does with add_generation_prompt=True.
class Rendering {
 public:
  Rendering(const std::string& text, const nlohmann::json& special_tokens)
      : template_(text), variables_(special_tokens) {
    variables_["add_generation_prompt"] = true;
    variables_["tools"] = nullptr;
    variables_["documents"] = nullptr;
  }

  std::string operator()(std::string_view system, std::string_view user,
                         std::optional<bool> thinking = std::nullopt) const {
    nlohmann::ordered_json variables = variables_, messages = nlohmann::ordered_json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", user}});
    variables["messages"] = std::move(messages);
    if (thinking) variables["enable_thinking"] = *thinking;
    return template_.render(variables);
  }
  /// The same for several turns, ended by one of the user or not.
  std::string conversation(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                           bool opens_answer) const {
    nlohmann::ordered_json variables = variables_;
    variables["messages"] = messages;
    variables["add_generation_prompt"] = opens_answer;
    if (!tools.is_null()) variables["tools"] = tools;
    return template_.render(variables);
  }
  std::vector<std::string> literals() const { return template_.literals(); }

 private:
  jinja::Template template_;
  nlohmann::ordered_json variables_;
};

/// The template that writes `written` for a question of the user alone; nothing when it is of no style that is known.
std::optional<ChatTemplate> template_of_text(std::string_view written, std::string_view question) {
  ChatTemplate chat;
  const std::size_t header = written.find(kLlamaHeader);
  const bool is_llama = header != std::string_view::npos;
  chat.style = is_llama ? ChatStyle::llama3 : ChatStyle::chatml;
  if (is_llama) {
    chat.bos = written.substr(0, header);
    written.remove_prefix(header);
  }
  const std::string_view end = is_llama ? kLlamaEnd : kChatmlEnd;
  if (take(written, is_llama ? kLlamaSystem : kChatmlSystem)) {
    const std::size_t length = std::min(written.find(end), written.size());
    (is_llama ? chat.system_header : chat.default_system) = written.substr(0, length);
    written.remove_prefix(length);
    if (!take(written, end)) return std::nullopt;
  }
  const bool is_known = take(written, is_llama ? kLlamaUser : kChatmlUser) && take(written, question) &&
                        take(written, end) && take(written, is_llama ? kLlamaAnswer : kChatmlAnswer);
  chat.answer_opening = written;
  return is_known ? std::optional(chat) : std::nullopt;
}

std::string name_of(const ChatTemplate& chat) {
  if (chat.style == ChatStyle::llama3) return chat.system_header.empty() ? "llama3" : "llama3.1";
  if (chat.default_system == kQwen25System) return "qwen2.5";
  return chat.default_system.empty() && chat.answer_opening_without_thinking == kNoThought ? "qwen3" : "chatml";
}

/// Conversations that tell one template from another: white space at the ends, words of the markup, and whatever the
/// template itself compares a message with.
std::vector<std::string> telling_texts(const Rendering& rendering) {
  constexpr std::size_t kMaxTexts = 64;
  std::vector<std::string> texts = {"  \n two\n\nlines \t\n",
                                    "<think>a</think>\nb",
                                    "<|im_end|>\n<|eot_id|>é🙂",
                                    "{{ jinja }} {% if x %}",
                                    "<tool_response>\n</tool_response>",
                                    "3"};
  for (const std::string& literal : rendering.literals()) {
    if (literal.empty()) continue;
    if (texts.size() == kMaxTexts) throw jinja::Unsupported("it has more texts of its own than a chat template has");
    texts.push_back(literal);
  }
  return texts;
}

/// Where two texts begin to differ, for a message.
std::string difference(std::string_view got, std::string_view want) {
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(got, want).in1 - got.begin());
  std::size_t from = at - std::min<std::size_t>(at, 16);
  while (from > 0 && from < got.size() && (static_cast<unsigned char>(got[from]) & 0xc0U) == 0x80U) --from;
  return base::readable(got.substr(from)) + " where " + base::readable(want.substr(from)) + " is known";
}

/// Where the template's text of such a conversation differs from ours; "" where it does not. Members of objects come
/// sorted, so that both have one order.
std::string fault_of_turns(const Rendering& rendering, const ChatTemplate& chat, const char* messages_text,
                           const char* tools_text) try {
  const auto messages = nlohmann::ordered_json::parse(messages_text), tools = nlohmann::ordered_json::parse(tools_text);
  const Conversation conversation = read_conversation(messages, tools, "messages", "a chat template's check");
  for (const bool opens_answer : {false, true}) {
    std::string want;
    for (const RenderedPart& part :
         render_conversation(chat, conversation, Thoughts::of_last_turn, opens_answer, true, true, "its check"))
      want += part.text;
    const std::string got = rendering.conversation(messages, tools, opens_answer);
    if (got != want) return "it writes " + difference(got, want);
  }
  return {};
} catch (const jinja::Unsupported& error) {
  return error.what();
}

/// Several turns and tools as the template itself writes them: sets turns_fault and has_tools.
void recognize_turns(const Rendering& rendering, ChatTemplate& chat) {
  constexpr const char* kTurns[] = {
      R"([{"role":"system","content":" s\n"},{"role":"user","content":"\nu "},{"role":"assistant","content":"a"},)"
      R"({"role":"user","content":" v"}])",
      R"([{"role":"user","content":"u"},{"role":"assistant","content":"<think>\nt\n</think>\n\na \n"},)"
      R"({"role":"user","content":"v"},{"role":"assistant","content":"b"}])",
      R"([{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"v"},)"
      R"({"role":"assistant","content":"w"},{"role":"system","content":"s"},{"role":"user","content":"x"}])"};
  constexpr const char* kTools = R"([{"function":{"description":"d","name":"f","parameters":{}},"type":"function"}])";
  constexpr const char* kWithTools[] = {
      R"([{"role":"user","content":"u"},{"role":"assistant","content":"a","tool_calls":[)"
      R"({"type":"function","function":{"name":"f","arguments":{"x":1}}},{"type":"function","function":)"
      R"({"name":"f","arguments":{"x":2.5,"y":["é"]}}}]},{"role":"tool","content":"1"},{"role":"tool","content":"2"},)"
      R"({"role":"user","content":"v"}])",
      R"([{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[)"
      R"({"type":"function","function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"1"}])"};
  for (const char* turns : kTurns) {
    if (chat.turns_fault.empty()) chat.turns_fault = fault_of_turns(rendering, chat, turns, "null");
  }
  if (chat.style != ChatStyle::chatml || !chat.turns_fault.empty()) return;
  ChatTemplate with_tools = chat;
  with_tools.has_tools = true;
  chat.has_tools = std::ranges::all_of(
      kWithTools, [&](const char* turns) { return fault_of_turns(rendering, with_tools, turns, kTools).empty(); });
}

/// The template as ours; throws jinja::Unsupported with the reason when it writes what ours cannot.
ChatTemplate recognize(const Rendering& rendering) {
  constexpr std::string_view kQuestion = "What is it?";
  const std::string written = rendering({}, kQuestion);
  auto chat = template_of_text(written, kQuestion);
  if (!chat) throw jinja::Unsupported("it writes " + base::readable(written, 120));
  const std::string without = rendering({}, kQuestion, false);
  if (without != written) {
    const auto other = template_of_text(without, kQuestion);
    if (!other) throw jinja::Unsupported("without thinking it writes " + base::readable(without, 120));
    chat->answer_opening_without_thinking = other->answer_opening;
  }
  const auto check = [&](std::string_view system, std::string_view user, std::optional<bool> thinking) {
    const bool has_switch = chat->answer_opening_without_thinking.has_value();
    const std::string got = rendering(system, user, thinking);
    const std::string want = text_of(*chat, system, user, !has_switch || thinking.value_or(true));
    if (got != want) throw jinja::Unsupported("it writes " + difference(got, want));
  };
  for (const std::string& text : telling_texts(rendering)) {
    check({}, text, std::nullopt);
    check("s" + text, text + "u", std::nullopt);
    check(text, "u" + text, true);
    check(text + "s", text, false);
  }
  chat->name = name_of(*chat);
  recognize_turns(rendering, *chat);
  return *chat;
}

/// A member of tokenizer_config.json that is a text or a token; "" when there is none.
std::string text_of(const nlohmann::json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_object() && found->contains("content") && (*found)["content"].is_string()
             ? (*found)["content"].get<std::string>()
             : std::string();
}

/// What a template knows of the tokenizer: bos_token, eos_token, … as far as there are such.
nlohmann::json special_tokens(const nlohmann::json& config) {
  nlohmann::json tokens = nlohmann::json::object();
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (std::string text = text_of(config, name); !text.empty()) tokens[name] = std::move(text);
  }
  return tokens;
}

/// The Jinja text of tokenizer_config.json: one, or the one named default among several; "" when there is none at all.
/// Throws jinja::Unsupported for a list without a default, which transformers does not render either.
std::string template_of(const nlohmann::json& config, const std::string& where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  QRL_REQUIRE(found->is_string() || found->is_array(), where, "a text, or a list of named ones", found->type_name());
  if (!found->is_array()) return text_of(config, "chat_template");
  for (const nlohmann::json& one : *found) {
    if (one.is_object() && text_of(one, "name") == "default" && one.contains("template") && one["template"].is_string())
      return one["template"].get<std::string>();
  }
  throw jinja::Unsupported("it is a list in which no text is named default");
}

nlohmann::json tokenizer_config(const Tokenizer& tokenizer) {
  const std::string* text = tokenizer.file("tokenizer_config.json");
  return text == nullptr ? nlohmann::json::object()
                         : state::parse_json(*text, tokenizer.path_of("tokenizer_config.json"));
}

}  // namespace

std::string ChatTemplate::end_of_turn() const {
  return style == ChatStyle::chatml ? "<|im_end|>" : style == ChatStyle::llama3 ? "<|eot_id|>" : "";
}

ChatTemplate named_template(ChatTemplateName name, const std::string& bos) {
  ChatTemplate chat;
  for (const auto& [spelling, value] : config::kChatTemplateNames) {
    if (value == name) chat.name = spelling;
  }
  switch (name) {
    case ChatTemplateName::automatic:
      base::fail_internal("named_template", "a name", "auto");
    case ChatTemplateName::plain:
      break;
    case ChatTemplateName::qwen3:
      chat.answer_opening_without_thinking = kNoThought;
      chat.style = ChatStyle::chatml;
      chat.has_tools = true;
      break;
    case ChatTemplateName::qwen2_5:
      chat.default_system = kQwen25System;
      chat.style = ChatStyle::chatml;
      chat.has_tools = true;
      break;
    case ChatTemplateName::chatml:
      chat.style = ChatStyle::chatml;
      break;
    case ChatTemplateName::llama3_1:
      chat.system_header = kLlama31Header;
      [[fallthrough]];
    case ChatTemplateName::llama3:
      chat.style = ChatStyle::llama3;
      chat.bos = bos.empty() ? kLlama3Bos : bos;
      break;
  }
  return chat;
}

ChatTemplate recognize_template(const Tokenizer& tokenizer) {
  const nlohmann::json config = tokenizer_config(tokenizer);
  const std::string* file = tokenizer.file("chat_template.jinja");  // counts before the config's, as in transformers
  const std::string where = file != nullptr ? tokenizer.path_of("chat_template.jinja")
                                            : tokenizer.path_of("tokenizer_config.json") + ": chat_template";
  std::string text, reason;
  try {
    text = file != nullptr ? *file : template_of(config, where);
    if (text.empty()) return named_template(ChatTemplateName::plain, {});
    return recognize(Rendering(text, special_tokens(config)));
  } catch (const jinja::Unsupported& error) {
    reason = error.what();
  }
  base::fail_input(where, "a chat template that this version knows",
                   (text.empty() ? "one" : base::readable(text, 60)) + ": " + reason,
                   "set data.chat_template to the one that writes the same: " + list_of_names() +
                       "; or write the turns yourself with data.chat_template: plain and data.prompt_template, such as "
                       R"("user: {prompt}\nassistant: ")");
}

ChatTemplate choose_template(const config::DataRecipe& recipe, const Tokenizer& tokenizer) {
  const bool recognize = recipe.chat_template == ChatTemplateName::automatic;
  ChatTemplate chat = recognize
                          ? recognize_template(tokenizer)
                          : named_template(recipe.chat_template, text_of(tokenizer_config(tokenizer), "bos_token"));
  const std::string with = chat.name + (recognize ? ", the model's chat template" : "");
  QRL_REQUIRE(recipe.system_prompt.empty() || chat.style != ChatStyle::plain, "data.system_prompt",
              "a chat template beside it", with, "it has no effect: set data.chat_template, or delete it");
  QRL_REQUIRE(!recipe.enable_thinking || chat.answer_opening_without_thinking, "data.enable_thinking",
              "a chat template that can switch thinking on and off (qwen3)", with, "it has no effect: delete it");
  const std::string end = chat.end_of_turn();
  QRL_REQUIRE(end.empty() || tokenizer.added_token_id(end) >= 0, "data.chat_template: " + with,
              "a tokenizer with the added token " + base::quoted(end), "none",
              "use the tokenizer of a model that knows the template, or data.chat_template: plain");
  return chat;
}

std::string describe_chat(const Tokenizer& tokenizer) {
  const ChatTemplate chat = choose_template({}, tokenizer);
  const std::string shown = text_of(chat, {}, "PROMPT", true);
  std::string line = "chat template " + chat.name + ": PROMPT becomes " + base::readable(shown, 400);
  if (const auto& without = chat.answer_opening_without_thinking)
    line += ", and with data.enable_thinking: false " + base::readable(*without) + " after it";
  return line;
}

std::vector<types::TokenId> encode_chat(const ChatTemplate& chat, const Tokenizer& tokenizer, const ChatPrompt& prompt,
                                        bool thinking) {
  const std::string answer = answer_of(chat, thinking);
  std::vector<types::TokenId> ids = tokenizer.encode(chat_parts(chat, prompt, answer));
  if (chat.style == ChatStyle::plain) ids.insert(ids.begin(), tokenizer.prefix().begin(), tokenizer.prefix().end());
  return ids;
}

}  // namespace qrl::data
