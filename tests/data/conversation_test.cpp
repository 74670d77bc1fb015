// Conversations of several turns: the text and the assistant's tokens are those of transformers with TRL's training
// templates, and what no template has a form for is refused.
#include "data/conversation.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "support/refusal.h"

using namespace qrl::data;
using Json = nlohmann::ordered_json;
using qrl::config::ChatTemplateName;
using qrl::test::refusal_of;
using qrl::test::says;

namespace {

/// The small tokenizer of that name with the control tokens of every style, as scripts/golden/conversations.py has it.
Tokenizer tokenizer_of(const std::string& name) {
  std::ifstream in(qrl::test::shipped_data() / "golden" / "tokenizer_bpe" / (name + ".json"));
  REQUIRE(in.is_open());
  Json file = Json::parse(in);
  Json& added = file["added_tokens"];
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
                            "<|end_header_id|>", "<|eot_id|>", "<think>", "</think>", "<tool_call>", "</tool_call>"}) {
    int largest = 0;
    bool known = false;
    for (const Json& entry : added) {
      largest = std::max(largest, entry["id"].get<int>());
      known = known || entry["content"] == token;
    }
    if (known) continue;
    Json entry = added[0];
    entry["content"] = token;
    entry["id"] = largest + 1;
    added.push_back(entry);
  }
  return Tokenizer::parse(file.dump(), "", name);
}

ChatTemplate template_of(const std::string& family) {
  if (family == "qwen2_5") return named_template(ChatTemplateName::qwen2_5, {});
  if (family == "qwen3") return named_template(ChatTemplateName::qwen3, {});
  if (family == "llama3") return named_template(ChatTemplateName::llama3, {});
  ChatTemplate chat = named_template(ChatTemplateName::chatml, {});
  if (family == "qwen2_5_vl") chat.default_system = "You are a helpful assistant.";
  else chat.has_tools = true;
  return chat;
}

std::string text_of(const std::vector<RenderedPart>& parts) {
  std::string text;
  for (const RenderedPart& part : parts) text += part.text;
  return text;
}

std::vector<Json> golden_conversations() {
  std::ifstream in(qrl::test::shipped_data() / "golden" / "conversations.jsonl");
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(Json::parse(line));
  return rows;
}

Conversation parsed(const std::string& messages, const std::string& tools = "null") {
  return read_conversation(Json::parse(messages), Json::parse(tools), "messages", "f:1");
}

}  // namespace

TEST_CASE("tokens and masks of conversations are transformers' with TRL's training templates") {
  std::map<std::string, Tokenizer> tokenizers;
  std::map<std::string, int> num_of_family;
  for (const Json& row : golden_conversations()) {
    const std::string family = row["family"], name = row["tokenizer"];
    const Tokenizer& tokenizer = tokenizers.try_emplace(name, tokenizer_of(name)).first->second;
    INFO(family << " " << row["messages"].dump());
    const Conversation conversation = read_conversation(row["messages"], row["tools"], "messages", "golden");
    const auto parts =
        render_conversation(template_of(family), conversation, Thoughts::of_all_turns, false, true, true, "golden");
    const LabeledTokens labeled = encode_labeled(tokenizer, parts, "golden");
    REQUIRE(labeled.tokens == row["ids"].get<std::vector<qrl::types::TokenId>>());
    std::vector<std::int64_t> runs = {0};
    bool learns = false;
    for (const std::int64_t message : labeled.messages) {
      if ((message >= 0) != learns) {
        runs.push_back(0);
        learns = !learns;
      }
      ++runs.back();
      if (message >= 0) CHECK(conversation.messages.at(static_cast<std::size_t>(message)).role == "assistant");
    }
    REQUIRE(runs == row["mask_runs"].get<std::vector<std::int64_t>>());
    ++num_of_family[family];
  }
  CHECK(num_of_family.size() == 5);
  for (const auto& [family, count] : num_of_family) CHECK(count == 40);
}

TEST_CASE("a prompt of several turns is what the published templates write") {
  for (const Json& row : golden_conversations()) {
    INFO(row["family"] << " " << row["messages"].dump());
    Conversation prompt = read_conversation(row["messages"], row["tools"], "messages", "golden");
    prompt.messages.pop_back();
    REQUIRE(text_of(render_conversation(template_of(row["family"]), prompt, Thoughts::of_last_turn, true, true, true,
                                        "golden")) == row["prompt"].get<std::string>());
  }
}

TEST_CASE("a model's own template is asked how it writes several turns and tools") {
  std::ifstream in(qrl::test::shipped_data() / "golden" / "chat_templates.jsonl");
  std::map<std::string, std::string> templates;
  for (std::string line; std::getline(in, line);) {
    const Json row = Json::parse(line);
    if (row.contains("template")) templates.emplace(row["name"], row["template"]);
  }
  const auto recognized = [&](const std::string& text) {
    const qrl::test::TempDir dir;
    tokenizer_of("qwen2").save(dir.path());
    std::ofstream(dir / "chat_template.jinja") << text;
    return recognize_template(Tokenizer::load(dir.path()));
  };
  for (const char* name : {"qwen2_5", "qwen3", "qwen3_instruct_2507"}) {
    INFO(name);
    const ChatTemplate chat = recognized(templates.at(name));
    CHECK(chat.turns_fault.empty());
    CHECK(chat.has_tools);
  }
  CHECK(recognized(templates.at("plain_chatml")).turns_fault.empty());
  CHECK_FALSE(recognized(templates.at("plain_chatml")).has_tools);
  CHECK(recognized(templates.at("llama_like")).turns_fault.empty());
  // One that leaves out what the assistant said is known for one question, and refused for more.
  std::string forgets = templates.at("plain_chatml");
  const std::string content = "message['content'] + '<|im_end|>'";
  REQUIRE(forgets.find(content) != std::string::npos);
  forgets.replace(forgets.find(content), content.size(),
                  "('' if message['role'] == 'assistant' else message['content']) + '<|im_end|>'");
  const ChatTemplate chat = recognized(forgets);
  CHECK_FALSE(chat.turns_fault.empty());
  const Conversation turns =
      parsed(R"([{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"v"}])");
  CHECK(says(refusal_of([&] { render_conversation(chat, turns, Thoughts::of_last_turn, true, true, false, "f:1"); }),
             "f:1: expected a chat template that this version knows for several turns"));
}

TEST_CASE("users cannot write control tokens, and an assistant's words can be tokens") {
  const Tokenizer tokenizer = tokenizer_of("qwen2");
  const Conversation conversation =
      parsed(R"([{"role":"user","content":"<|im_end|>"},{"role":"assistant","content":"<think>"}])");
  const auto parts = render_conversation(template_of("qwen3_instruct_2507"), conversation, Thoughts::of_all_turns,
                                         false, true, false, "f:1");
  const auto tokens = encode_labeled(tokenizer, parts, "f:1").tokens;
  CHECK(std::ranges::count(tokens, tokenizer.added_token_id("<|im_end|>")) == 2);
  CHECK(std::ranges::count(tokens, tokenizer.added_token_id("<think>")) == 1);
}

TEST_CASE("rows that are no conversation have one clear error") {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "f:1: expected `messages` to be a list of messages, got an empty list"},
      {"3", "a list of messages, got number"},
      {R"([{"content":"u"}])", "f:1: messages[0]: expected messages with a `role`"},
      {R"([{"role":"developer","content":"u"}])", "system, user, assistant or tool, got \"developer\""},
      {R"([{"role":"user","content":" "}])", "a message of user to hold text, got none"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "`content` to be a text, got array"},
      {R"([{"role":"user","content":"u","tool_calls":[]}])", "`tool_calls` in a list of an assistant"},
      {R"([{"role":"assistant","tool_calls":[{"name":"f"}]}])", "{\"name\", \"arguments\"} each"},
  };
  for (const auto& [messages, message] : cases) {
    INFO(messages);
    CHECK(says(refusal_of([&] { parsed(messages); }), message));
  }
  CHECK(says(refusal_of([] { parsed(R"([{"role":"user","content":"u"}])", "3"); }), "`tools` to be a list"));
  CHECK(says(refusal_of([] { parsed(R"([{"role":"user","content":"u"}])", R"("{")"); }), "f:1: `tools`"));
  const Conversation tools = parsed(R"([{"role":"user","content":"u"}])", R"([{"name":"f"}])");
  CHECK(parsed(R"([{"role":"user","content":"u"}])", R"("[{\"name\":\"f\"}]")").tools == tools.tools);
  CHECK(says(refusal_of([&] {
               render_conversation(template_of("llama3"), tools, Thoughts::of_last_turn, true, true, false, "f:1");
             }),
             "a chat template with a form for tools"));
  CHECK(says(refusal_of([&] {
               render_conversation(named_template(ChatTemplateName::plain, {}), tools, Thoughts::of_last_turn, true,
                                   true, false, "f:1");
             }),
             "data.chat_template plain"));
}
