#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hub.h"
#include "base/text.h"
#include "commands.h"
#include "data/bridge.h"
#include "data/chat_template.h"
#include "data/conversation.h"
#include "data/jsonl.h"
#include "data/tokenizer.h"

namespace qrl::app {

namespace {

struct TokenizeArguments {
  std::string model;
  bool jsonl = false;
  bool plain = false;
  bool add_special_tokens = false;
  bool decode = false;
  bool learned = false;
  bool parse_special_tokens = false;
  bool turns = false;
  data::TemplateOptions chat;
};

std::vector<types::TokenId> encode(const data::Tokenizer& tokenizer, const TokenizeArguments& arguments,
                                   std::string_view text, const std::string& where) {
  tokenizer.warn_of_unencodable(where, tokenizer.unencodable_bytes(text));
  std::vector<types::TokenId> ids = arguments.plain ? tokenizer.encode(text) : tokenizer.encode_trusted(text);
  if (arguments.add_special_tokens) {
    ids.insert(ids.begin(), tokenizer.prefix().begin(), tokenizer.prefix().end());
    ids.insert(ids.end(), tokenizer.suffix().begin(), tokenizer.suffix().end());
  }
  return ids;
}

void print_ids(const std::vector<types::TokenId>& ids, const char* separator) {
  std::string line;
  for (const types::TokenId id : ids) line += (line.empty() ? "" : separator) + std::to_string(id);
  std::fwrite(line.data(), 1, line.size(), stdout);
}

/// Prints a conversation's token ids. Adds a generation prompt unless the last message is the assistant's. With
/// --learned, adds none, and also prints which tokens a cold start learns.
void tokenize_conversation(const data::Tokenizer& tokenizer, const data::ChatTemplate& chat,
                           const TokenizeArguments& arguments, const nlohmann::ordered_json& row,
                           const std::string& where) {
  const auto tools = row.find("tools");
  const data::Conversation conversation = data::read_conversation(
      row["messages"], tools == row.end() ? nlohmann::ordered_json() : *tools, "messages", where);
  data::RenderOptions options{conversation.messages.back().role != "assistant" && !arguments.learned, arguments.learned,
                              arguments.parse_special_tokens, arguments.chat.enable_thinking};
  if (const auto thinking = row.find("enable_thinking"); thinking != row.end() && thinking->is_boolean())
    options.thinking = thinking->get<bool>();
  const auto parts = data::render_conversation(chat, conversation, options, where).parts;
  const data::LabeledTokens labeled = arguments.learned ? data::encode_labeled(tokenizer, parts, where)
                                                        : data::LabeledTokens{data::encode_parts(tokenizer, parts), {}};
  std::fputs("{\"ids\": [", stdout);
  print_ids(labeled.tokens, ", ");
  std::string learned;
  for (const std::int64_t message : labeled.messages)
    learned += (learned.empty() ? "" : ", ") + std::string(message >= 0 ? "1" : "0");
  std::printf("]%s}\n", arguments.learned ? (", \"learned\": [" + learned + "]").c_str() : "");
}

/// Prints the ids of a conversation, encoded turn by turn as in a run with an environment. First come the prompt's ids,
/// then those of each answer's text and of what follows it.
void tokenize_turns(const data::Tokenizer& tokenizer, const data::ChatTemplate& chat,
                    const TokenizeArguments& arguments, const nlohmann::ordered_json& row, const std::string& where) {
  const auto tools = row.find("tools");
  data::Conversation conversation = data::read_conversation(
      row["messages"], tools == row.end() ? nlohmann::ordered_json() : *tools, "messages", where);
  auto& messages = conversation.messages;
  const auto is_answer = [](const data::Message& message) { return message.role == "assistant"; };
  const std::size_t first = static_cast<std::size_t>(std::ranges::find_if(messages, is_answer) - messages.begin());
  QRL_REQUIRE(first > 0 && first < messages.size() && !is_answer(messages.back()), where,
              "messages with an answer, which begin and end with another message", "other messages");
  const data::RenderOptions options{true, false, arguments.parse_special_tokens, arguments.chat.enable_thinking};
  const data::Bridge bridge(chat, tokenizer,
                            {.role = messages.back().role, .render = options, .tools = conversation.tools});
  const std::vector<data::Message> later(messages.begin() + static_cast<std::ptrdiff_t>(first), messages.end());
  messages.resize(first);
  std::vector<types::TokenId> ids =
      data::encode_parts(tokenizer, data::render_conversation(chat, conversation, options, where).parts);
  for (auto message = later.begin(); message != later.end();) {
    const std::vector<types::TokenId> answer = tokenizer.encode_trusted(message->content);
    ids.insert(ids.end(), answer.begin(), answer.end());
    std::vector<data::Observation> observations;
    for (++message; message != later.end() && !is_answer(*message); ++message)
      observations.push_back({message->content, message->role, message->fields.value("name", std::string()), nullptr});
    const std::vector<types::TokenId> between = bridge.encode(observations, -1);
    ids.insert(ids.end(), between.begin(), between.end());
  }
  std::fputs("{\"ids\": [", stdout);
  print_ids(ids, ", ");
  std::fputs("]}\n", stdout);
}

void tokenize_rows(const data::Tokenizer& tokenizer, const TokenizeArguments& arguments) {
  data::JsonLines lines(standard_input(), "standard input");
  std::optional<data::ChatTemplate> chat;
  while (const auto row = lines.next()) {
    if (row->is_object() && row->contains("messages")) {
      if (!chat) chat = data::choose_template(arguments.chat, tokenizer);
      const auto& convert = arguments.turns ? tokenize_turns : tokenize_conversation;
      convert(tokenizer, *chat, arguments, nlohmann::ordered_json::parse(lines.text()), lines.where());
      continue;
    }
    QRL_REQUIRE(row->is_object() && row->contains("text") && (*row)["text"].is_string(), lines.where(),
                "an object with a string `text` or with `messages`",
                row->is_object() ? "an object without them" : row->type_name());
    std::fputs("{\"ids\": [", stdout);
    print_ids(encode(tokenizer, arguments, (*row)["text"].get_ref<const std::string&>(), lines.where()), ", ");
    std::fputs("]}\n", stdout);
  }
}

void detokenize(const data::Tokenizer& tokenizer) {
  data::StreamDecoder decoder(tokenizer, true);
  std::string word;
  std::istream& words = standard_input();
  while (words >> word) {
    const bool digits = word.size() <= 9 && word.find_first_not_of("0123456789") == std::string::npos;
    QRL_REQUIRE(digits && std::stol(word) < tokenizer.vocab_size(), "standard input",
                "token ids from 0 to " + std::to_string(tokenizer.vocab_size() - 1), word.substr(0, 40));
    const std::string text = decoder.push(static_cast<types::TokenId>(std::stol(word)));
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  std::fputs(decoder.finish().c_str(), stdout);
}

void tokenize(const TokenizeArguments& arguments) {
  const data::Tokenizer tokenizer = data::Tokenizer::load(base::local_model(arguments.model));
  if (arguments.decode) return detokenize(tokenizer);
  if (arguments.jsonl) return tokenize_rows(tokenizer, arguments);
  const std::string text{std::istreambuf_iterator<char>(standard_input()), {}};
  QRL_REQUIRE(base::is_utf8(text), "standard input", "UTF-8 text", "invalid UTF-8",
              "convert it first (iconv -t UTF-8)");
  print_ids(encode(tokenizer, arguments, text, "standard input"), " ");
  std::fputc('\n', stdout);
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand("tokenize", "convert text on standard input to token ids, or back");
  command
      ->add_option("MODEL", arguments->model,
                   "Hugging Face folder or OWNER/NAME in the Hub's cache (only the tokenizer's files are read), or a "
                   "tokenizer.json file")
      ->required()
      ->check(not_empty());
  CLI::Option* jsonl = command->add_flag(
      "--jsonl", arguments->jsonl,
      "read rows {\"text\": …} or {\"messages\": …} and print {\"ids\": […]} for each; blank lines are skipped");
  CLI::Option* plain = command->add_flag(
      "--plain", arguments->plain,
      "keep control tokens as text, as in a user's prompt: \"<|im_end|>\" is ten characters, not a token");
  CLI::Option* add = command->add_flag("--add-special-tokens", arguments->add_special_tokens,
                                       "add the special tokens that the tokenizer puts around a text (Llama 3: BOS)");
  command
      ->add_option("--chat-template", arguments->chat.chat_template,
                   "chat template for rows with `messages`, as data.chat_template in a recipe")
      ->needs(jsonl)
      ->capture_default_str();
  command
      ->add_flag("--learned", arguments->learned,
                 "render rows with `messages` as for a cold start, and add `learned`: 1 for each token in the loss")
      ->needs(jsonl);
  command
      ->add_flag("--turns", arguments->turns,
                 "encode rows with `messages` turn by turn, as a run with an environment does")
      ->needs(jsonl);
  command
      ->add_flag("--parse-special-tokens", arguments->parse_special_tokens,
                 "for rows with `messages`: as data.parse_special_tokens in a recipe")
      ->needs(jsonl);
  command
      ->add_flag("--decode", arguments->decode,
                 "convert ids separated by white space to text; special tokens are spelled out")
      ->excludes(jsonl)
      ->excludes(plain)
      ->excludes(add);
  set_work(*command, action, arguments, tokenize);
}

}  // namespace qrl::app
