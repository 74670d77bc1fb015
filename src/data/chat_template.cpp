#include "data/chat_template.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "base/text.h"
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

// By hand, not by std::regex: that recurses once a character, and a long name in a template would end the stack.

/// `text` with every `from`, left to right, as `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size())) {
    out += text.substr(0, at);
    out += to;
  }
  return out += text;
}

/// x['name'] as x.name.
std::string with_dots(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i + 2;
    const std::size_t end = text.substr(i).starts_with("['")
                                ? text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin)
                                : std::string_view::npos;
    if (end != std::string_view::npos && end > begin && text.substr(end).starts_with("']")) {
      out += '.';
      out += text.substr(begin, end - begin);
      i = end + 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

/// A Jinja text in one spelling: no white space outside of quotes, single quotes, m.x for m['x'], no comments and signs
/// of white space control. What lies outside of tags counts like anything else, so words there are seen.
std::string in_one_spelling(std::string_view jinja) {
  std::string out;
  char quote = 0;
  for (std::size_t i = 0; i < jinja.size(); ++i) {
    const char c = jinja[i];
    if (quote == 0 && jinja.substr(i, 2) == "{#") {  // a comment, which may hold an apostrophe
      i = std::min(jinja.find("#}", i), jinja.size() - 2) + 1;
    } else if (quote != 0 && c == '\\' && i + 1 < jinja.size()) {
      out += {c, jinja[++i]};
    } else if (c == '\'' || c == '"') {
      if (quote == 0) quote = c;
      else if (quote == c) quote = 0;
      out += quote == 0 || quote == c ? '\'' : c;
    } else if (quote != 0 && c == '\n') {
      out += "\\n";
    } else if (quote != 0 || (c != ' ' && c != '\n' && c != '\t' && c != '\r')) {
      out += c;
    }
  }
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{{-", "{{"}, {"{%-", "{%"}, {"-}}", "}}"}, {"-%}", "%}"}}) {
    out = replaced(out, from, to);
  }
  out = with_dots(out);
  out = replaced(out, "'+'", "");      // two literals in a row are one
  return replaced(out, "'}}{{'", "");  // and so are two that are written in a row
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// What a chatml template writes as system message when there is none: the one literal in it that is a whole system
/// message; nothing when it has more than one.
std::optional<std::string> default_system_of(const std::string& jinja) {
  constexpr std::string_view kOpening = "<|im_start|>system\\n";
  std::string found;
  for (std::size_t at = 0; (at = jinja.find(kOpening, at)) != std::string::npos;) {
    at += kOpening.size();
    const std::size_t end = std::min(jinja.find_first_of("'<|", at), jinja.size());
    if (end == at || jinja.compare(end, 10, "<|im_end|>") != 0) continue;
    std::string text = jinja.substr(at, end - at);
    if (!found.empty() && text != found) return std::nullopt;
    found = std::move(text);
  }
  for (std::size_t at = 0; (at = found.find('\\', at)) != std::string::npos; ++at) {
    const std::string escape = found.substr(at, 2);
    if (escape != "\\n" && escape != "\\\\") return std::nullopt;
    found.replace(at, 2, escape == "\\n" ? "\n" : "\\");
  }
  return found;
}

bool ends_with(std::string_view text, std::string_view end) { return text.ends_with(end); }

std::optional<ChatTemplate> recognise_chatml(const std::string& jinja) {
  // How a message of the user is written: at once, or by way of a variable that holds its content.
  const bool writes_user = has(jinja, R"('<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>\n')") ||
                           has(jinja, R"('<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>'+'\n')") ||
                           (has(jinja, R"('<|im_start|>'+message.role+'\n'+content+'<|im_end|>\n')") &&
                            has(jinja, "{%setcontent=message.content%}"));
  if (!writes_user) return std::nullopt;
  ChatTemplate chat{"chatml", ChatStyle::chatml, {}, {}, {}, {}, std::nullopt};
  const auto system = default_system_of(jinja);
  if (!system) return std::nullopt;
  chat.default_system = *system;
  if (chat.default_system == kQwen25System) chat.name = "qwen2.5";
  const std::string condition = "{%ifadd_generation_prompt%}", opening = R"({{'<|im_start|>assistant\n)";
  if (ends_with(jinja, condition + opening + "'}}{%endif%}")) return chat;
  if (ends_with(jinja, condition + opening + R"(<think>\n'}}{%endif%})")) {
    chat.answer_opening = "<think>\n";
    return chat;
  }
  const std::string without_thought =
      R"('}}{%ifenable_thinkingisdefinedandenable_thinkingisfalse%}{{'<think>\n\n</think>\n\n'}}{%endif%}{%endif%})";
  if (ends_with(jinja, condition + opening + without_thought)) {
    chat.name = "qwen3";
    chat.answer_opening_without_thinking = kNoThought;
    return chat;
  }
  return std::nullopt;
}

std::optional<ChatTemplate> recognise_llama3(const std::string& jinja, const std::string& bos) {
  const std::string header =
      R"('<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'+message.content|trim+'<|eot_id|>')";
  const std::string opening = R"({{'<|start_header_id|>assistant<|end_header_id|>\n\n'}}{%endif%})";
  if (!has(jinja, header) || !ends_with(jinja, opening) || !has(jinja, "bos_token")) return std::nullopt;
  if (!has(jinja, "Cutting Knowledge Date")) {
    const bool is_plain = has(jinja, "{%setcontent=bos_token+content%}") && !has(jinja, "system");
    return is_plain ? std::optional(named_template(ChatTemplateName::llama3, bos)) : std::nullopt;
  }
  const bool known = has(jinja, R"(Cutting Knowledge Date: December 2023\n)") &&
                     has(jinja, R"(Today Date: '+date_string+'\n\n')") && has(jinja, "'26 Jul 2024'");
  return known ? std::optional(named_template(ChatTemplateName::llama3_1, bos)) : std::nullopt;
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

/// The Jinja text of tokenizer_config.json: one, or the one named default among several.
std::string template_of(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  QRL_REQUIRE(found->is_string() || found->is_array(), "tokenizer_config.json: chat_template",
              "a text, or a list of named ones", found->type_name());
  if (!found->is_array()) return text_of(config, "chat_template");
  for (const nlohmann::json& one : *found) {
    if (one.is_object() && text_of(one, "name") == "default") return text_of(one, "template");
  }
  return {};
}

nlohmann::json tokenizer_config(const Tokenizer& tokenizer) {
  const std::string* text = tokenizer.file("tokenizer_config.json");
  return text == nullptr ? nlohmann::json::object() : state::parse_json(*text, "tokenizer_config.json");
}

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
      break;
    case ChatTemplateName::qwen2_5:
      chat.default_system = kQwen25System;
      chat.style = ChatStyle::chatml;
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

ChatTemplate recognise_template(const Tokenizer& tokenizer) {
  const nlohmann::json config = tokenizer_config(tokenizer);
  const std::string* file = tokenizer.file("chat_template.jinja");  // counts before the config's, as in transformers
  const std::string text = file != nullptr ? *file : template_of(config);
  if (text.empty()) return named_template(ChatTemplateName::plain, {});
  const std::string jinja = in_one_spelling(text);
  auto chat = recognise_chatml(jinja);
  if (!chat) chat = recognise_llama3(jinja, text_of(config, "bos_token"));
  QRL_REQUIRE(chat.has_value(), file != nullptr ? "chat_template.jinja" : "tokenizer_config.json: chat_template",
              "a chat template that this version knows", base::quoted(text, 60),
              "set data.chat_template to the one that writes the same: " + list_of_names());
  return *chat;
}

ChatTemplate choose_template(const config::DataRecipe& recipe, const Tokenizer& tokenizer) {
  const bool recognise = recipe.chat_template == ChatTemplateName::automatic;
  ChatTemplate chat = recognise
                          ? recognise_template(tokenizer)
                          : named_template(recipe.chat_template, text_of(tokenizer_config(tokenizer), "bos_token"));
  const std::string with = chat.name + (recognise ? ", the model's chat template" : "");
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

std::vector<types::TokenId> encode_chat(const ChatTemplate& chat, const Tokenizer& tokenizer, const ChatPrompt& prompt,
                                        bool thinking) {
  std::vector<TextPart> parts;
  const auto ours = [&](std::string_view text) { parts.push_back({text, true}); };
  const auto theirs = [&](std::string_view text) { parts.push_back({text, prompt.parse_text}); };
  const std::string answer = thinking ? chat.answer_opening : chat.answer_opening_without_thinking.value_or("");
  if (chat.style == ChatStyle::plain) {
    ours(prompt.before);
    theirs(prompt.text);
    ours(prompt.after);
    std::vector<types::TokenId> ids = tokenizer.encode(parts);
    ids.insert(ids.begin(), tokenizer.prefix().begin(), tokenizer.prefix().end());
    return ids;
  }
  if (chat.style == ChatStyle::chatml) {
    if (!prompt.system.empty() || !chat.default_system.empty()) {
      ours("<|im_start|>system\n");
      prompt.system.empty() ? ours(chat.default_system) : theirs(prompt.system);
      ours("<|im_end|>\n");
    }
    ours("<|im_start|>user\n");
    ours(prompt.before);
    theirs(prompt.text);
    ours(prompt.after);
    ours("<|im_end|>\n<|im_start|>assistant\n");
    ours(answer);
    return tokenizer.encode(parts);
  }
  std::string_view system = prompt.system, before = prompt.before, text = prompt.text, after = prompt.after, none;
  trim(none, system, none);
  trim(before, text, after);
  ours(chat.bos);
  if (!system.empty() || !chat.system_header.empty()) {
    ours("<|start_header_id|>system<|end_header_id|>\n\n");
    ours(chat.system_header);
    theirs(system);
    ours("<|eot_id|>");
  }
  ours("<|start_header_id|>user<|end_header_id|>\n\n");
  ours(before);
  theirs(text);
  ours(after);
  ours("<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  return tokenizer.encode(parts);
}

}  // namespace qrl::data
