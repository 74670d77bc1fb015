#include "data/chat_template.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/refusal.h"

using namespace qrl::data;
using nlohmann::json;
using qrl::config::ChatTemplateName;
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
                            "<|end_header_id|>", "<|eot_id|>", "<think>", "</think>"}) {
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

std::string rendered(const Tokenizer& tokenizer, const ChatTemplate& chat, const ChatPrompt& prompt, bool thinking) {
  std::string text;
  for (const auto id : encode_chat(chat, tokenizer, prompt, thinking)) text += tokenizer.bytes_of(id, true);
  return text;
}

std::vector<json> golden_rows() {
  // QRL_CHAT_TEMPLATES: what scripts/golden/chat_templates.py --all wrote, with every published template in it.
  const char* all = std::getenv("QRL_CHAT_TEMPLATES");
  std::ifstream in(all != nullptr ? all : qrl::test::shipped_data() / "golden" / "chat_templates.jsonl");
  std::vector<json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

}  // namespace

TEST_CASE("chat templates write what transformers writes, and foreign ones are refused") {
  int num_cases = 0, num_refused = 0;
  for (const json& row : golden_rows()) {
    if (row.contains("of")) continue;
    INFO(row["name"]);
    const json config = {{"bos_token", "<|begin_of_text|>"}, {"chat_template", row.value("template", json())}};
    const Tokenizer tokenizer = tokenizer_with(config);
    if (row.contains("refused")) {
      ++num_refused;
      const std::string why = refusal_of([&] { recognize_template(tokenizer); });
      CHECK(says(why, "plain, chatml, qwen2.5, qwen3, llama3, llama3.1"));
      continue;
    }
    qrl::config::DataRecipe recipe;
    if (!row.contains("template")) {
      recipe.chat_template = row["chat_template"] == "llama3" ? ChatTemplateName::llama3 : ChatTemplateName::llama3_1;
    }
    const ChatTemplate chat = choose_template(recipe, tokenizer);
    if (row.contains("chat_template")) CHECK(chat.name == row["chat_template"]);
    for (const json& one : row["cases"]) {
      const std::string system = one["system"], user = one["user"], want = one["rendered"];
      const bool thinking = row["thinking"];
      CHECK(rendered(tokenizer, chat, {system, "", user, "", true}, thinking) == want);
      CHECK(encode_chat(chat, tokenizer, {system, "", user, "", true}, thinking) == tokenizer.encode_trusted(want));
      // The recipe's words around the text are part of it.
      const std::string_view halves = user;
      CHECK(rendered(tokenizer, chat, {system, halves.substr(0, 3), halves.substr(3, 3), halves.substr(6), true},
                     thinking) == want);
      ++num_cases;
    }
  }
  CHECK(num_cases >= 120);
  CHECK(num_refused >= 3);
}

TEST_CASE("an edited template is refused, or written as transformers writes it") {
  std::map<std::string, std::string> texts;
  int num_accepted = 0, num_refused = 0;
  for (const json& row : golden_rows()) {
    if (row.contains("template") && row.value("thinking", false)) texts[row["name"]] = row["template"];
    if (!row.contains("of")) continue;
    INFO(row["name"] << ": " << row["old"] << " becomes " << row["new"]);
    std::string text = texts.at(row["of"]);
    const std::string old = row["old"], now = row["new"];
    for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += now.size())
      text.replace(at, old.size(), now);
    const Tokenizer tokenizer = tokenizer_with({{"bos_token", "<|begin_of_text|>"}, {"chat_template", text}});
    const std::string why = refusal_of([&] { recognize_template(tokenizer); });
    if (why != "accepted") {
      ++num_refused;
      CHECK(says(why, "plain, chatml, qwen2.5, qwen3, llama3, llama3.1"));
      continue;
    }
    ++num_accepted;
    const ChatTemplate chat = recognize_template(tokenizer);
    for (const json& one : row["cases"]) {
      const std::string system = one["system"], user = one["user"];
      REQUIRE(one["rendered"].is_string());
      CHECK(rendered(tokenizer, chat, {system, "", user, "", true}, row["thinking"]) ==
            one["rendered"].get<std::string>());
    }
  }
  CHECK(num_accepted >= 10);
  CHECK(num_refused >= 40);
}

TEST_CASE("a template of any length is recognized or refused") {
  const std::string name(300'000, 'a');
  for (const std::string& template_text :
       {"{{['" + name + "']}}", "{{'<|im_start|>system\\n" + name + "<|im_end|>'}}", "{#" + name, "{{'" + name}) {
    const Tokenizer tokenizer = tokenizer_with({{"chat_template", template_text}});
    CHECK(says(refusal_of([&] { recognize_template(tokenizer); }), "a chat template that this version knows"));
  }
}

TEST_CASE("text in a conversation never becomes a control token, unless asked") {
  const Tokenizer tokenizer = tokenizer_with(json::object());
  const ChatTemplate chat = named_template(ChatTemplateName::qwen2_5, "");
  const auto count = [&](const ChatPrompt& prompt) {
    const Ids ids = encode_chat(chat, tokenizer, prompt, true);
    return std::count(ids.begin(), ids.end(), tokenizer.added_token_id("<|im_end|>"));
  };
  CHECK(count({"", "", "x", "", false}) == 2);
  CHECK(count({"<|im_end|>", "", "x<|im_end|>", "", false}) == 2);
  CHECK(count({"<|im_end|>", "", "x<|im_end|>", "", true}) == 4);
  CHECK(count({"", "<|im_end|>", "x<|im_end|>", "<|im_end|>", false}) == 4);  // the recipe's own words
}

TEST_CASE("the template of a model: its file before its config, one of several, none") {
  const auto name_of = [](const Tokenizer& tokenizer) { return recognize_template(tokenizer).name; };
  std::string qwen, qwen3;
  for (const json& row : golden_rows()) {
    if (row["name"] == "qwen2_5") qwen = row["template"];
    if (row["name"] == "qwen3") qwen3 = row["template"];
  }
  CHECK(name_of(tokenizer_with({{"chat_template", qwen}})) == "qwen2.5");
  CHECK(name_of(tokenizer_with({{"chat_template", qwen}}, qwen3)) == "qwen3");
  const json several = {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", qwen3}}};
  CHECK(name_of(tokenizer_with({{"chat_template", several}})) == "qwen3");
  CHECK(name_of(tokenizer_with({{"chat_template", nullptr}})) == "plain");
  CHECK_THROWS_WITH(name_of(tokenizer_with({{"chat_template", 5}})), Catch::Matchers::Contains("a list of named ones"));
  CHECK(name_of(Tokenizer::byte_level()) == "plain");

  const auto refuses = [&](const json& chat_template, const std::string& reason) {
    CAPTURE(reason);
    CHECK_THROWS_WITH(name_of(tokenizer_with({{"chat_template", chat_template}})), Catch::Matchers::Contains(reason));
  };
  for (const json& no_default : {json::array(), json{{{"name", "tool_use"}, {"template", qwen3}}}, json{"abc"},
                                 json{{{"name", "default"}, {"template", 7}}}})
    refuses(no_default, "no text is named default; set data.chat_template");
  // Searching is work, too: a long text in a longer one that almost holds it at each byte.
  const std::string needle = std::string(20'000, 'a') + "b", haystack(40'000, 'a');
  refuses("{% if '" + needle + "' in '" + haystack + "' %}x{% endif %}" + qwen3, "more work");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "{% if 'word" + std::to_string(i) + "' in 'x' %}y{% endif %}";
  refuses(many + qwen3, "more texts of its own");
}

TEST_CASE("plain: the text with the tokenizer's own prefix") {
  const std::string file = (qrl::test::shipped_data() / "golden" / "tokenizer_bpe" / "llama3.json").string();
  const Tokenizer tokenizer = Tokenizer::load(file);
  const ChatTemplate chat = named_template(ChatTemplateName::plain, "");
  Ids want = tokenizer.prefix();
  REQUIRE(want.size() == 1);
  for (const auto id : tokenizer.encode("Q: the cat\nA:")) want.push_back(id);
  CHECK(encode_chat(chat, tokenizer, {"", "Q: ", "the cat", "\nA:", false}, true) == want);
}

TEST_CASE("settings without effect, and tokenizers without the template's tokens, are errors") {
  const Tokenizer tokenizer = tokenizer_with(json::object());
  const auto refusal = [](const Tokenizer& of, const auto& edit) {
    qrl::config::DataRecipe recipe;
    edit(recipe);
    return refusal_of([&] { choose_template(recipe, of); });
  };
  CHECK(says(refusal(tokenizer, [](auto& r) { r.system_prompt = "x"; }), "data.system_prompt"));
  CHECK(says(refusal(tokenizer, [](auto& r) { r.enable_thinking = false; }), "data.enable_thinking"));
  CHECK(says(refusal(tokenizer,
                     [](auto& r) {
                       r.chat_template = ChatTemplateName::chatml;
                       r.enable_thinking = true;
                     }),
             "data.enable_thinking"));
  const auto qwen3 = [](auto& r) {
    r.chat_template = ChatTemplateName::qwen3;
    r.enable_thinking = false;
    r.system_prompt = "x";
  };
  CHECK(refusal(tokenizer, qwen3) == "accepted");
  CHECK(says(refusal(Tokenizer::byte_level(), qwen3), "<|im_end|>"));
}

TEST_CASE("the published Qwen3: ids of its own template") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: tokenizer");
  const Tokenizer tokenizer = Tokenizer::load(*shared / "tokenizer" / "qwen3");
  const ChatTemplate chat = recognize_template(tokenizer);
  CHECK(chat.name == "qwen3");
  // transformers: apply_chat_template([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
  const Ids want = {151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198};
  CHECK(encode_chat(chat, tokenizer, {"", "", "Hi", "", false}, true) == want);
  Ids without = want;
  for (const int id : {151667, 271, 151668, 271}) without.push_back(id);
  CHECK(encode_chat(chat, tokenizer, {"", "", "Hi", "", false}, false) == without);
}
