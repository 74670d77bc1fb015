#include "data/chat_template.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "data/jinja/jinja.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::data {

namespace {

std::string list_of_names() { return base::joined(std::span(kChatTemplateNames).subspan(1), ", "); }

std::string text_of(const nlohmann::json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return {};
  const nlohmann::json& text = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  return text.is_string() ? text.get<std::string>() : std::string();
}

/// Templates of a model, with the location of each for errors.
struct OwnTemplates {
  std::string text, where;                        ///< the one for conversations without tools; "": none
  std::string tools_text = {}, tools_where = {};  ///< the one named tool_use; "": none
};

/// Returns the templates of tokenizer_config.json. Throws jinja::Unsupported for a list without the name default.
OwnTemplates templates_of_config(const nlohmann::json& config, const std::string& where) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {{}, where};
  QRL_REQUIRE(found->is_string() || found->is_array(), where, "a string, or a list of named templates",
              found->type_name());
  if (!found->is_array()) return {text_of(config, "chat_template"), where};
  const auto named = [&](const char* name) {
    const auto one = std::ranges::find_if(*found, [&](const nlohmann::json& entry) {
      return entry.is_object() && text_of(entry, "name") == name && entry.contains("template") &&
             entry["template"].is_string();
    });
    return one == found->end() ? std::string() : (*one)["template"].get<std::string>();
  };
  OwnTemplates all{named("default"), where, named("tool_use"), where + " (tool_use)"};
  if (all.text.empty()) jinja::fail("no template in the list is named default");
  return all;
}

nlohmann::json config_of(const Tokenizer& tokenizer) {
  constexpr const char* kFile = "tokenizer_config.json";
  const std::string* text = tokenizer.file(kFile);
  return text == nullptr ? nlohmann::json::object() : state::parse_json(*text, tokenizer.path_of(kFile));
}

/// Returns the model's own templates. Those in files replace all of the config's, as in transformers.
OwnTemplates own_templates(const nlohmann::json& config, const Tokenizer& tokenizer) {
  constexpr const char *kFile = "chat_template.jinja", *kToolsFile = "additional_chat_templates/tool_use.jinja";
  const std::string *file = tokenizer.file(kFile), *tools = tokenizer.file(kToolsFile);
  if (file == nullptr)
    return templates_of_config(config, tokenizer.path_of("tokenizer_config.json") + ": chat_template");
  return {*file, tokenizer.path_of(kFile), tools == nullptr ? "" : *tools, tokenizer.path_of(kToolsFile)};
}

std::string file_text(const std::string& path) {
  constexpr std::uint64_t kMost_bytes = std::uint64_t{16} << 20;
  std::error_code error;
  QRL_REQUIRE(std::filesystem::exists(path, error), "data.chat_template", list_of_names() + ", auto, or a Jinja file",
              "no file " + path);
  return state::read_text(path, kMost_bytes);
}

Conversation sample_of(const ChatTemplate& chat, const std::string& answer, bool has_system = false) {
  Conversation conversation = sample_turns(answer, has_system);
  conversation.tools = chat.sample_tools;
  return conversation;
}

std::string sample_prompt(const ChatTemplate& chat, const RenderOptions& options, bool has_system = false) {
  return run_template(chat, sample_of(chat, "", has_system), options).bytes();
}

std::vector<nlohmann::ordered_json> sample_tools() {
  return {
      nlohmann::ordered_json::parse(R"({"type":"function","function":{"name":"f","description":"d","parameters":)"
                                    R"({"type":"object","properties":{"x":{"type":"integer","description":"e"}}}}})")};
}

/// Returns the added token that ends an answer. Throws jinja::Unsupported if other text follows an answer.
std::string find_end_of_turn(const ChatTemplate& chat, const Tokenizer& tokenizer) {
  const Conversation conversation = sample_of(chat, "ANSWER");
  const Text text = run_template(chat, conversation, {});
  const std::vector<TextRun> runs = text.runs();
  const auto is_answers = [&](const TextRun& run) { return message_of(run.source, conversation) == 1; };
  auto run = std::find_if(runs.rbegin(), runs.rend(), is_answers);
  if (run == runs.rend()) jinja::fail("it omits the assistant's messages");
  std::string behind;
  while (run != runs.rbegin() && writer_of((--run)->source) == 0) behind += text.bytes(*run);
  const std::size_t word = std::min(behind.find_first_not_of(" \t\r\n"), behind.size());
  const auto tokens = tokenizer.encode_trusted(std::string_view(behind).substr(word));
  std::string token(tokens.empty() ? std::string_view() : tokenizer.bytes_of(tokens.front(), true));
  if (token.empty() || tokenizer.added_token_id(token) != tokens.front())
    jinja::fail("an answer ends with " + base::readable(behind) + ", not with an added token of the tokenizer");
  return token;
}

/// Compiles a template. Renders samples to find how answers begin and end: without tools, or with tools if the template
/// cannot be rendered otherwise. `has_tools`: with tools alone. Throws jinja::Unsupported.
ChatTemplate compiled(ChatTemplate chat, const std::string& text, const Tokenizer& tokenizer, bool has_tools) {
  chat.jinja = std::make_shared<const jinja::Template>(text);
  const auto find_marks = [&] {
    const std::string asked = sample_prompt(chat, {.opens_answer = true}), told = sample_prompt(chat, {});
    chat.opening = asked.starts_with(told) ? asked.substr(told.size()) : "";
    chat.end_of_turn = find_end_of_turn(chat, tokenizer);
  };
  if (has_tools) chat.sample_tools = sample_tools();
  try {
    find_marks();
  } catch (const jinja::Unsupported& error) {
    if (has_tools) throw;
    chat.sample_tools = sample_tools();
    try {
      find_marks();
    } catch (const jinja::Unsupported&) {
      jinja::fail(error.what());
    }
  }
  return chat;
}

ChatTemplate compiled_for_tools(ChatTemplate chat, const OwnTemplates& own, const Tokenizer& tokenizer) {
  chat.name += " for tools";
  try {
    return compiled(chat, own.tools_text, tokenizer, true);
  } catch (const jinja::Unsupported& error) {
    chat.fault = own.tools_where + ": " + error.what();
    return chat;
  }
}

ChatTemplate read_template(const std::string& name, const Tokenizer& tokenizer) {
  ChatTemplate chat{name == "auto" ? "the model's own" : name};
  if (name == "plain") return chat;
  const std::string config_path = tokenizer.path_of("tokenizer_config.json");
  const nlohmann::json config = config_of(tokenizer);
  for (const char* token :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (const std::string spelled = text_of(config, token); !spelled.empty()) chat.tokens.emplace_back(token, spelled);
  }
  const auto known = std::ranges::find(embedded_templates(), name, &base::EmbeddedFile::name);
  std::string where = name == "auto" ? config_path + ": chat_template" : "data.chat_template: " + name;
  std::string text;
  try {
    OwnTemplates own{{}, where};
    if (name == "auto") own = own_templates(config, tokenizer);
    else own.text = known != embedded_templates().end() ? std::string(known->text) : file_text(name);
    text = own.text;
    where = own.where;
    if (text.empty() && name == "auto") return {};
    ChatTemplate all = compiled(chat, text, tokenizer, false);
    if (own.tools_text.empty()) return all;
    all.with_tools = std::make_shared<const ChatTemplate>(compiled_for_tools(chat, own, tokenizer));
    return all;
  } catch (const jinja::Unsupported& error) {
    const std::string got = (text.empty() ? "no template text" : base::readable(text, 60)) + ": " + error.what();
    base::fail_input(where, "a chat template that this version supports", got,
                     "set data.chat_template to a different template (" + list_of_names() +
                         ", or a file); or write the turns yourself with data.chat_template: plain and "
                         R"(data.prompt_template, such as "user: {prompt}\nassistant: ")");
  }
}

std::string marked(const Text& text) {
  std::string shown;
  bool is_data = false;
  const auto turn_to = [&](bool data) {
    shown += data == is_data ? "" : data ? "«" : "»";
    is_data = data;
  };
  for (const TextRun& run : text.runs()) {
    turn_to(writer_of(run.source) != 0);
    shown += text.bytes(run);
  }
  turn_to(false);
  return base::readable(shown, 1000);
}

std::string describe_tools(const ChatTemplate& chat) {
  const auto json = [](const char* text) { return nlohmann::ordered_json::parse(text); };
  const Conversation conversation = read_conversation(
      json(R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[{"name":"f","arguments":)"
           R"({"x":1}}]},{"role":"tool","name":"f","content":"a"},{"role":"assistant","content":"b"}])"),
      nlohmann::ordered_json(sample_tools()), "messages", "check chat");
  try {
    (void)render_conversation(chat, conversation, {}, "check chat");
    const char* by = chat.with_tools == nullptr ? "" : ", by the template named tool_use";
    return std::string("shown, with their calls and answers") + by;
  } catch (const base::Error&) {
    return "not supported";
  }
}

std::string describe_extension(const ChatTemplate& chat) {
  const auto prompt = [&](const char* answer) {
    return run_template(chat, sample_of(chat, answer), {.opens_answer = true}).bytes();
  };
  const std::string answer = "<think>\nT\n</think>\n\nA", opening = "<think>\n", before = prompt("");
  const std::string want = before + answer.substr(before.ends_with(opening) ? opening.size() : 0);
  const std::string after = prompt(answer.c_str());
  if (after.starts_with(want)) return "is extended by later turns";
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(after, want).in1 - after.begin());
  const auto rest = [at](const std::string& text) { return base::readable(std::string_view(text).substr(at), 40); };
  return "is changed by later turns: " + rest(after) + " where " + rest(want) + " was";
}

}  // namespace

Conversation sample_turns(const std::string& answer, bool has_system) {
  Conversation conversation;
  if (has_system) conversation.messages.push_back({"system", "SYSTEM"});
  conversation.messages.push_back({"user", "PROMPT"});
  if (answer.empty()) return conversation;
  conversation.messages.push_back({"assistant", answer});
  conversation.messages.push_back({"user", "NEXT"});
  return conversation;
}

std::string fault_of_system(const ChatTemplate& chat) {
  if (chat.is_plain()) return chat.name;
  try {
    return sample_prompt(chat, {}, true) != sample_prompt(chat, {}) ? "" : chat.name;
  } catch (const jinja::Unsupported& error) {
    return chat.name + ": " + error.what();
  }
}

bool has_thinking(const ChatTemplate& chat) {
  return !chat.is_plain() && sample_prompt(chat, {.opens_answer = true, .thinking = true}) !=
                                 sample_prompt(chat, {.opens_answer = true, .thinking = false});
}

ChatTemplate choose_template(const TemplateOptions& options, const Tokenizer& tokenizer) {
  ChatTemplate chat = read_template(options.chat_template, tokenizer);
  const std::string fault = options.system_prompt.empty() ? "" : fault_of_system(chat);
  QRL_REQUIRE(fault.empty(), "data.system_prompt", "a chat template that includes it", fault,
              "set data.chat_template, or delete this key: it has no effect");
  QRL_REQUIRE(!options.enable_thinking || has_thinking(chat), "data.enable_thinking",
              "a chat template that can switch thinking on and off (qwen3)", chat.name,
              "delete this key: it has no effect");
  return chat;
}

std::string own_template(const Tokenizer& tokenizer) {
  try {
    return own_templates(config_of(tokenizer), tokenizer).text;
  } catch (const jinja::Unsupported&) {  // a list without a default: none for conversations without tools
    return {};
  }
}

std::string describe_chat(const Tokenizer& tokenizer) {
  const ChatTemplate chat = choose_template({}, tokenizer);
  if (chat.is_plain()) return "chat template plain: a prompt is only its text";
  const auto prompt = [&](bool has_system, std::optional<bool> thinking) {
    return marked(run_template(chat, sample_of(chat, "", has_system), {.opens_answer = true, .thinking = thinking}));
  };
  std::string lines = "chat template " + chat.name + "\n  prompt          " + prompt(false, {});
  if (has_thinking(chat))
    lines += "\n  thinking true   " + prompt(false, true) + "\n  thinking false  " + prompt(false, false);
  const std::string fault = fault_of_system(chat);
  lines += "\n  system message  " + (fault.empty() ? prompt(true, {}) : "not shown by " + fault);
  lines += "\n  end of a turn   " + chat.end_of_turn + " (token " +
           std::to_string(tokenizer.added_token_id(chat.end_of_turn)) + ")";
  lines += "\n  tools           " + describe_tools(chat);
  return lines + "\n  earlier text    " + describe_extension(chat);
}

}  // namespace qrl::data
