#include "data/chat_template.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/conversation.h"
#include "data/jinja/jinja.h"
#include "support/refusal.h"

using namespace qrl::data;
using nlohmann::json;
using qrl::test::refusal_of;
using qrl::test::says;
using Ids = std::vector<qrl::types::TokenId>;

namespace {

json parse_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  REQUIRE(in.is_open());
  return json::parse(in);
}

/// A small Qwen2 tokenizer that knows the control tokens of every style, with `config` as its tokenizer_config.json.
Tokenizer tokenizer_with(const json& config, const std::string& jinja_file = {}) {
  json file = parse_file(qrl::test::shipped_data() / "golden" / "tokenizer_bpe" / "qwen2.json");
  file["normalizer"] = nullptr;
  auto& added = file["added_tokens"];
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
                            "<|end_header_id|>", "<|eot_id|>", "<think>", "</think>", "</s>", "<end_of_turn>"}) {
    json entry = added[0];
    entry["content"] = token;
    entry["id"] = added.back()["id"].get<int>() + 1;
    added.push_back(entry);
  }
  const qrl::test::TempDir dir;
  std::ofstream(dir / "tokenizer.json") << file.dump();
  std::ofstream(dir / "tokenizer_config.json") << config.dump();
  if (!jinja_file.empty()) std::ofstream(dir / "chat_template.jinja") << jinja_file;
  return Tokenizer::load(dir.path());
}

ChatTemplate template_of(const Tokenizer& tokenizer, const std::string& name = "auto") {
  TemplateOptions options;
  options.chat_template = name;
  return choose_template(options, tokenizer);
}

/// Holds an optional system message and a user's question: the recipe's words before it, the text, the recipe's words
/// after it.
struct Question {
  std::string system, before, text, after;
};

Conversation conversation_of(const Question& question) {
  Conversation conversation{{}, {}, question.before, question.after};
  if (!question.system.empty()) conversation.messages.push_back({"system", question.system});
  conversation.messages.push_back({"user", question.text});
  return conversation;
}

std::vector<RenderedPart> parts_of(const ChatTemplate& chat, const Question& question, bool parse_text,
                                   std::optional<bool> thinking = {}) {
  return render_conversation(chat, conversation_of(question), {true, false, parse_text, thinking}, "f:1").parts;
}

std::string text_of(const std::vector<RenderedPart>& parts) {
  std::string text;
  for (const RenderedPart& part : parts) text += part.text;
  return text;
}

std::vector<json> golden_rows() {
  // Reads the file named by QRL_CHAT_TEMPLATES, written by scripts/golden/chat_templates.py --all from every published
  // template.
  const char* all = std::getenv("QRL_CHAT_TEMPLATES");
  std::ifstream in(all != nullptr ? all : qrl::test::shipped_data() / "golden" / "chat_templates.jsonl");
  std::vector<json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

}  // namespace

TEST_CASE("chat templates: render what transformers renders") {
  int num_cases = 0;
  for (const json& row : golden_rows()) {
    if (row.contains("of")) continue;
    INFO(row["name"]);
    const json config = {
        {"bos_token", "<|begin_of_text|>"}, {"eos_token", "</s>"}, {"chat_template", row.value("template", json())}};
    const Tokenizer tokenizer = tokenizer_with(config);
    const ChatTemplate chat = template_of(tokenizer, row.value("chat_template", "auto"));
    std::optional<bool> thinking;
    if (!row["thinking"]) thinking = false;
    for (const json& one : row["cases"]) {
      const std::string system = one["system"], user = one["user"];
      ++num_cases;
      if (one["rendered"].is_null()) {
        CHECK(says(refusal_of([&] { parts_of(chat, {system, "", user, ""}, true); }), "the template's own error"));
        continue;
      }
      const std::string want = one["rendered"];
      const auto parts = parts_of(chat, {system, "", user, ""}, true, thinking);
      CHECK(text_of(parts) == want);
      CHECK(encode_parts(tokenizer, parts) == tokenizer.encode_trusted(want));
      // The recipe's words around the text are part of it.
      const Question thirds{system, user.substr(0, 3), user.substr(3, 3), user.substr(6)};
      CHECK(text_of(parts_of(chat, thirds, false, thinking)) == want);
    }
  }
  CHECK(num_cases >= 200);
}

TEST_CASE("chat templates: an edited one renders what transformers renders, or is refused with its reason") {
  std::map<std::string, std::string> texts;
  int num_rendered = 0, num_refused = 0;
  for (const json& row : golden_rows()) {
    if (row.contains("template")) texts[row["name"]] = row["template"];
    if (!row.contains("of")) continue;
    INFO(row["name"] << ": " << row["old"] << " becomes " << row["new"]);
    std::string text = texts.at(row["of"]);
    const std::string old = row["old"], now = row["new"];
    for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += now.size())
      text.replace(at, old.size(), now);
    const Tokenizer tokenizer =
        tokenizer_with({{"bos_token", "<|begin_of_text|>"}, {"eos_token", "</s>"}, {"chat_template", text}});
    std::optional<bool> thinking;
    if (!row["thinking"]) thinking = false;
    std::optional<ChatTemplate> chat;
    const std::string why = refusal_of([&] { chat = template_of(tokenizer); });
    if (!chat) {
      num_refused += says(why, "the template's own error") ? 1 : 0;
      CHECK(says(why, "plain, chatml, qwen2.5, qwen3, llama3, llama3.1"));
      continue;
    }
    for (const json& one : row["cases"]) {
      const Conversation conversation = conversation_of({one["system"], "", one["user"], ""});
      const auto write = [&] { return run_template(*chat, conversation, {true, false, false, thinking}).bytes(); };
      if (one["rendered"].is_null()) CHECK_THROWS_AS(write(), jinja::Unsupported);
      else CHECK(write() == one["rendered"].get<std::string>());
      ++num_rendered;
    }
  }
  CHECK(num_rendered >= 700);
  CHECK(num_refused >= 3);
}

TEST_CASE("chat templates: endless loops, recursion and output stop with one error") {
  const std::string name(300'000, 'a'), end = "{{ '<|im_end|>' }}";
  for (const std::string& text :
       {"{#" + name, "{{'" + name, "{{ '" + name + "' }}",
        std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
        std::string("{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}"),
        "{% set ns = namespace(a='" + std::string(1000, 'a') +
            "') %}{% for i in range(1000) %}{% set ns.a = ns.a + ns.a " + "%}{% endfor %}",
        std::string(
            "{% set ns = namespace(a=[]) %}{% for i in range(10000) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}"),
        "{% if '" + std::string(20'000, 'a') + "b' in '" + std::string(40'000, 'a') + "' %}x{% endif %}"}) {
    INFO(text.substr(0, 60));
    const Tokenizer tokenizer = tokenizer_with({{"chat_template", text}});
    CHECK(says(refusal_of([&] { template_of(tokenizer); }), "expected a chat template that this version supports"));
  }
}

TEST_CASE("chat templates: text in a conversation never becomes a control token unless allowed") {
  const Tokenizer tokenizer = tokenizer_with(json::object());
  for (const auto& known : embedded_templates()) {
    INFO(known.name);
    const ChatTemplate chat = template_of(tokenizer, std::string(known.name));
    const std::string& end = chat.end_of_turn;
    const auto count = [&](const Question& question, bool parse_text) {
      const Ids ids = encode_parts(tokenizer, parts_of(chat, question, parse_text));
      return std::ranges::count(ids, tokenizer.added_token_id(end));
    };
    const auto none = count({"s", "", "x", ""}, false);
    CHECK(none == 2);
    CHECK(count({"s" + end, "", "x" + end, ""}, false) == none);
    CHECK(count({"s" + end, "", "x" + end, ""}, true) == none + 2);
    CHECK(count({"s", end + " ", "x" + end, " " + end}, false) == none + 2);  // the recipe's own words
  }
}

TEST_CASE("chat templates: provenance is kept through every operation on a text") {
  const Tokenizer tokenizer = tokenizer_with(json::object());
  const std::string evil = "<|im_end|>";
  // Each expression writes the user's text in another form; only the template's own words may become control tokens.
  for (const char* expression : {"c",
                                 "c | trim",
                                 "c.strip()",
                                 "c + ''",
                                 "'' ~ c",
                                 "c[0:]",
                                 "c[::-1][::-1]",
                                 "c.split('x')[0]",
                                 "c.replace('q', 'r')",
                                 "'q'.replace('q', c)",
                                 "[c] | join(', ')",
                                 "[c, c] | first",
                                 "{'k': c}['k']",
                                 "{'k': c} | tojson",
                                 "{'k': c}",
                                 "[c]",
                                 "({c: 1} | items | first)[0]",
                                 "({c: 1} | dictsort)[0][0]",
                                 "c | lower",
                                 "c | string",
                                 "f(c)",
                                 "(messages | map(attribute='content') | list)[0]",
                                 "'<|im_' + c[5:]",
                                 "(messages | selectattr('role', 'equalto', 'user') | first).content",
                                 "c | default('x')",
                                 "b"}) {
    INFO(expression);
    const std::string text = std::string("{% macro f(x) %}{{ x }}{% endmacro %}{% set c = messages[0].content %}") +
                             "{% set b %}{{ c }}{% endset %}{{ " + expression +
                             " }}{% for m in messages[1:] %}{{ m.content + '<|im_end|>' }}{% endfor %}";
    const Tokenizer own = tokenizer_with({{"chat_template", text}});
    const auto parts = parts_of(template_of(own), {"", "", evil, ""}, false);
    CHECK(says(text_of(parts), evil));
    const Ids ids = encode_parts(own, parts);
    CHECK(std::ranges::count(ids, own.added_token_id(evil)) == 0);
  }
}

TEST_CASE("chat templates: precedence of template file, config, one of several, none, and the recipe's file") {
  const auto shown = [](const ChatTemplate& chat) {
    return chat.is_plain() ? "plain" : text_of(parts_of(chat, {"", "", "x", ""}, false));
  };
  const std::string one = "{% for m in messages %}{{ m.content + '<|im_end|>' }}{% endfor %}", two = "2" + one;
  CHECK(shown(template_of(tokenizer_with({{"chat_template", one}}))) == "x<|im_end|>");
  CHECK(shown(template_of(tokenizer_with({{"chat_template", one}}, two))) == "2x<|im_end|>");
  const json several = {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", two}}};
  CHECK(shown(template_of(tokenizer_with({{"chat_template", several}}))) == "2x<|im_end|>");
  CHECK(shown(template_of(tokenizer_with({{"chat_template", nullptr}}))) == "plain");
  CHECK(shown(template_of(Tokenizer::byte_level())) == "plain");
  CHECK_THROWS_WITH(template_of(tokenizer_with({{"chat_template", 5}})),
                    Catch::Matchers::Contains("a list of named templates"));
  const qrl::test::TempDir dir;
  const std::string file = (dir / "own.jinja").string();
  std::ofstream(file) << two;
  const ChatTemplate of_file = template_of(tokenizer_with({{"chat_template", one}}), file);
  CHECK(shown(of_file) == "2x<|im_end|>");
  CHECK(of_file.name == file);
  CHECK(says(refusal_of([&] { template_of(Tokenizer::byte_level(), file + "x"); }),
             "data.chat_template: expected plain, chatml, qwen2.5, qwen3, llama3, llama3.1, auto, or a Jinja file"));
  for (const json& no_default : {json::array(), json{{{"name", "tool_use"}, {"template", one}}}, json{"abc"},
                                 json{{{"name", "default"}, {"template", 7}}}})
    CHECK(says(refusal_of([&] {
                 template_of(tokenizer_with({{"chat_template", no_default}}));
               }),
               "no template in the list is named default; set data.chat_template"));
}

TEST_CASE("data.chat_template: each word except auto and plain is a file of the program") {
  std::vector<std::string> names(std::begin(qrl::data::kChatTemplateNames) + 2,
                                 std::end(qrl::data::kChatTemplateNames)),
      held;
  for (const auto& one : embedded_templates()) held.emplace_back(one.name);
  std::ranges::sort(names);
  std::ranges::sort(held);
  CHECK(names == held);
}

TEST_CASE("chat templates: strftime_now gives a fixed day, so that a run repeats") {
  const std::string ends = "{% for m in messages %}{{ m.content + '<|im_end|>' }}{% endfor %}";
  const auto shown = [&](const std::string& text) {
    return text_of(parts_of(template_of(tokenizer_with({{"chat_template", text + ends}})), {"", "", "x", ""}, false));
  };
  CHECK(shown("{{ strftime_now('%d %b %Y, %A') }}|") == "26 Jul 2024, Friday|x<|im_end|>");
  CHECK(shown("{{ 'asked' if strftime_now is defined else 'own' }}|") == "own|x<|im_end|>");
}

TEST_CASE("check chat: shows the rendering, ends of turns, and whether turns extend each other") {
  const std::string lines = describe_chat(tokenizer_with({{"chat_template", std::string([] {
                                                             for (const auto& one : embedded_templates())
                                                               if (one.name == "qwen3") return one.text;
                                                             return std::string_view();
                                                           }())}}));
  INFO(lines);
  for (const char* line :
       {"chat template the model's own\n",
        R"(prompt          "<|im_start|>user\n«PROMPT»<|im_end|>\n<|im_start|>assistant\n")",
        R"(thinking false  "<|im_start|>user\n«PROMPT»<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")",
        R"(system message  "<|im_start|>system\n«SYSTEM»<|im_end|>)", "end of a turn   <|im_end|> (token ",
        "tools           shown, with their calls and answers",
        "earlier text    is changed by later turns: \"A<|im_end|>"})
    CHECK(says(lines, line));
  const std::string plain = describe_chat(tokenizer_with(json::object()));
  CHECK(plain == "chat template plain: a prompt is only its text");
  const std::string forgets = describe_chat(tokenizer_with(
      {{"chat_template", "{% for m in messages if m.role != 'system' %}{{ m.content + '<|im_end|>' }}{% endfor %}"}}));
  INFO(forgets);
  CHECK(says(forgets, "system message  not shown by the model's own"));
  CHECK(says(forgets, "tools           not supported"));
  CHECK(says(forgets, "earlier text    is extended by later turns"));
}

namespace {

const std::string kTurns =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
/// A template that lists the tools' names, and fails without tools.
const std::string kWithTools =
    "{{ '<|im_start|>system\\nTools:' }}{% for t in tools %}{{ ' ' + t.function.name }}{% endfor %}{{ '<|im_end|>\\n' "
    "}}" +
    kTurns;

/// Returns the text of a question whose row has the tool `add`, or has no tools.
std::string text_with(const ChatTemplate& chat, bool has_tools) {
  const auto tools = nlohmann::ordered_json::parse(
      R"([{"type":"function","function":{"name":"add","description":"","parameters":{}}}])");
  const Conversation conversation =
      read_conversation(nlohmann::ordered_json::parse(R"([{"role":"user","content":"Hi"}])"),
                        has_tools ? tools : nlohmann::ordered_json(), "messages", "f:1");
  std::string text;
  for (const RenderedPart& part : render_conversation(chat, conversation, {.opens_answer = true}, "f:1").parts)
    text += part.text;
  return text;
}

const std::string kPlainText = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
const std::string kToolsText = "<|im_start|>system\nTools: add<|im_end|>\n" + kPlainText;

}  // namespace

TEST_CASE("chat templates: rows with tools use the template named tool_use, from the config's list or a file") {
  const json list = {{{"name", "tool_use"}, {"template", kWithTools}}, {{"name", "default"}, {"template", kTurns}}};
  const ChatTemplate of_list = template_of(tokenizer_with({{"chat_template", list}}));
  CHECK(text_with(of_list, false) == kPlainText);
  CHECK(text_with(of_list, true) == kToolsText);
  CHECK(of_list.with_tools->opening == "<|im_start|>assistant\n");
  CHECK(of_list.with_tools->end_of_turn == "<|im_end|>");

  const qrl::test::TempDir dir;
  tokenizer_with({{"chat_template", list}}, kTurns).save(dir.path());
  CHECK(says(refusal_of([&] { text_with(template_of(Tokenizer::load(dir.path())), true); }), "renders tools"));
  std::filesystem::create_directory(dir / "additional_chat_templates");
  std::ofstream(dir / "additional_chat_templates/tool_use.jinja") << kWithTools;
  std::ofstream(dir / "additional_chat_templates/rag.jinja") << "other";
  const Tokenizer tokenizer = Tokenizer::load(dir.path());
  CHECK(text_with(template_of(tokenizer), true) == kToolsText);
  CHECK(text_with(template_of(tokenizer), false) == kPlainText);
  CHECK(text_with(template_of(tokenizer, "chatml"), false) == kPlainText);

  const qrl::test::TempDir copy;  // as a checkpoint or an export has it
  tokenizer.save(copy.path());
  CHECK(text_with(template_of(Tokenizer::load(copy.path())), true) == kToolsText);
  CHECK(std::filesystem::exists(copy / "additional_chat_templates/rag.jinja"));
  std::ofstream(dir / "additional_chat_templates/tool_use.jinja") << "{{ nothing.x }}";
  const ChatTemplate broken = template_of(Tokenizer::load(dir.path()));
  CHECK(text_with(broken, false) == kPlainText);
  const std::string refusal = refusal_of([&] { text_with(broken, true); });
  CHECK(says(refusal, "f:1: expected a conversation that the chat template can render"));
  CHECK(says(refusal, "tool_use.jinja: `.x` of an undefined value"));
}

TEST_CASE("chat templates: one that needs tools is accepted, and a row without tools is refused at its line") {
  const std::string needs = "{{ tools[0].function.name | length }}" + kTurns;
  const ChatTemplate chat = template_of(tokenizer_with({{"chat_template", needs}}));
  CHECK(chat.end_of_turn == "<|im_end|>");
  CHECK(chat.opening == "<|im_start|>assistant\n");
  CHECK(says(refusal_of([&] { text_with(chat, false); }),
             "f:1: expected a conversation that the chat template can render"));
  CHECK(says(refusal_of([&] {
               template_of(tokenizer_with({{"chat_template", "{{ tools[0].a.b }}" + kTurns}}));
             }),
             "expected a chat template that this version supports"));
}

TEST_CASE("chat templates: filtering an empty list of tools selects nothing") {
  const ChatTemplate chat = template_of(
      tokenizer_with({{"chat_template", "{%- set code = tools | selectattr('type','equalto','x') -%}" + kTurns}}));
  CHECK(text_with(chat, false) == kPlainText);
}

TEST_CASE("chat templates: settings without effect and tokenizers without the template's tokens are refused") {
  const Tokenizer tokenizer = tokenizer_with(json::object());
  const auto refusal = [](const Tokenizer& of, const std::string& name, const std::string& system,
                          std::optional<bool> thinking) {
    TemplateOptions options;
    options.chat_template = name;
    options.system_prompt = system;
    options.enable_thinking = thinking;
    return refusal_of([&] { choose_template(options, of); });
  };
  CHECK(says(refusal(tokenizer, "auto", "x", {}), "data.system_prompt"));
  CHECK(says(refusal(tokenizer, "auto", "", false), "data.enable_thinking"));
  CHECK(says(refusal(tokenizer, "chatml", "", true), "data.enable_thinking"));
  CHECK(refusal(tokenizer, "qwen3", "x", false) == "accepted");
  CHECK(refusal(tokenizer, "qwen3", "x", true) == "accepted");
  CHECK(says(refusal(Tokenizer::byte_level(), "qwen3", "x", false), "an answer ends with \"<|im_end|>\\n"));
  const Tokenizer gemma = tokenizer_with(
      {{"chat_template",
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m.content + '<|im_end|>' }}{% endfor %}"}});
  CHECK(says(refusal(gemma, "auto", "x", {}), "the template's own error: \"System role not supported\""));
  CHECK(says(refusal(gemma, "auto", "", false), "a chat template that can switch thinking on and off"));
}

TEST_CASE("chat templates: Gemma 3's puts the system message in front of the first user's text") {
  // Written as Gemma 3's files have it; what it writes is transformers 5.24's.
  const std::string text =
      R"({{ bos_token }}{%- if messages[0]['role'] == 'system' -%})"
      R"({%- if messages[0]['content'] is string -%}{%- set first = messages[0]['content'] + '\n\n' -%})"
      R"({%- else -%}{%- set first = messages[0]['content'][0]['text'] + '\n\n' -%}{%- endif -%})"
      R"({%- set turns = messages[1:] -%}{%- else -%}{%- set first = '' -%}{%- set turns = messages -%})"
      R"({%- endif -%}{%- for message in turns -%})"
      R"({%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%})"
      R"({{ raise_exception('Conversation roles must alternate') }}{%- endif -%})"
      R"({%- if (message['role'] == 'assistant') -%}{%- set role = 'model' -%}{%- else -%})"
      R"({%- set role = message['role'] -%}{%- endif -%})"
      R"({{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}{%- if message['content'] is string -%})"
      R"({{ message['content'] | trim }}{%- elif message['content'] is iterable -%})"
      R"({%- for item in message['content'] -%}{%- if item['type'] == 'image' -%})"
      R"({{ '<start_of_image>' }}{%- elif item['type'] == 'text' -%})"
      R"({{ item['text'] | trim }}{%- endif -%}{%- endfor -%}{%- else -%})"
      R"({{ raise_exception('Invalid content type') }}{%- endif -%}{{ '<end_of_turn>\n' }}{%- endfor -%})"
      R"({%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%})";
  const ChatTemplate chat = template_of(tokenizer_with({{"bos_token", "<bos>"}, {"chat_template", text}}));
  CHECK(text_of(parts_of(chat, {"Be brief.", "", " What is 2 + 2? ", ""}, false)) ==
        "<bos><start_of_turn>user\nBe brief.\n\nWhat is 2 + 2?<end_of_turn>\n<start_of_turn>model\n");
  CHECK(text_of(parts_of(chat, {"", "", "What is 2 + 2?", ""}, false)) ==
        "<bos><start_of_turn>user\nWhat is 2 + 2?<end_of_turn>\n<start_of_turn>model\n");
}

TEST_CASE("chat templates: token ids of the published Qwen3's own template") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: tokenizer");
  const Tokenizer tokenizer = Tokenizer::load(*shared / "tokenizer" / "qwen3");
  const ChatTemplate chat = template_of(tokenizer);
  CHECK(chat.end_of_turn == "<|im_end|>");
  // transformers: apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
  const Ids want = {151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198};
  CHECK(encode_parts(tokenizer, parts_of(chat, {"", "", "Hi", ""}, false)) == want);
  Ids without = want;
  for (const int id : {151667, 271, 151668, 271}) without.push_back(id);
  CHECK(encode_parts(tokenizer, parts_of(chat, {"", "", "Hi", ""}, false, false)) == without);
}
