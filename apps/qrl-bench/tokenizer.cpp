#include "data/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "benchmarks.h"
#include "data/chat_template.h"
#include "data/conversation.h"
#include "data/jsonl.h"

namespace qrl::app {

namespace {

struct BenchTokenizerArguments {
  std::string model;
  int rounds = 5;
  data::TemplateOptions keys;
};

/// Holds the strings of standard input's JSON rows. A row with `messages` is a conversation instead.
struct Inputs {
  std::vector<std::string> texts;
  std::vector<data::Conversation> conversations;
};

Inputs read_inputs() {
  Inputs inputs;
  data::JsonLines lines(standard_input(), "standard input");
  while (const auto row = lines.next()) {
    if (row->contains("messages")) {
      const auto ordered = nlohmann::ordered_json::parse(lines.text());
      inputs.conversations.push_back(data::read_conversation(
          ordered["messages"], ordered.value("tools", nlohmann::ordered_json()), "messages", lines.where()));
      continue;
    }
    for (const auto& [name, value] : row->items()) {
      if (value.is_string()) inputs.texts.push_back(value.get<std::string>());
    }
  }
  QRL_REQUIRE(!inputs.texts.empty() || !inputs.conversations.empty(), "standard input",
              "JSON rows with strings or `messages`", "none");
  return inputs;
}

void bench_tokenizer(const BenchTokenizerArguments& arguments) {
  const Inputs inputs = read_inputs();
  const double load_start_s = base::now_s();
  const data::Tokenizer tokenizer = data::Tokenizer::load(arguments.model);
  const data::ChatTemplate chat = data::choose_template(arguments.keys, tokenizer);
  const double load_s = base::now_s() - load_start_s;
  std::size_t num_bytes = 0, num_tokens = 0;
  double best_s = 0;
  for (int round = 0; round < arguments.rounds; ++round) {
    num_bytes = num_tokens = 0;
    const double start_s = base::now_s();
    for (const std::string& text : inputs.texts) {
      num_bytes += text.size();
      num_tokens += tokenizer.encode_trusted(text).size();
    }
    for (const data::Conversation& conversation : inputs.conversations) {
      const bool opens_answer = conversation.messages.back().role != "assistant";
      const auto parts = data::render_conversation(chat, conversation, {opens_answer}, "standard input").parts;
      for (const data::RenderedPart& part : parts) num_bytes += part.text.size();
      num_tokens += data::encode_parts(tokenizer, parts).size();
    }
    const double taken_s = base::now_s() - start_s;
    best_s = round == 0 ? taken_s : std::min(best_s, taken_s);
  }
  nlohmann::json facts = {{"bench", "tokenizer"},   {"load_s", load_s},
                          {"num_bytes", num_bytes}, {"num_tokens", num_tokens},
                          {"best_s", best_s},       {"mb_per_s", static_cast<double>(num_bytes) / best_s * 1e-6}};
  if (!inputs.conversations.empty())
    facts["conversations_per_s"] = static_cast<double>(inputs.conversations.size()) / best_s;
  std::printf("%s\n", facts.dump().c_str());
}

}  // namespace

void add_bench_tokenizer(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<BenchTokenizerArguments>();
  CLI::App* command = program.add_subcommand("tokenizer",
                                             "tokenization speed on one thread, on every string or conversation in "
                                             "`messages` of the JSON rows on standard input; prints one JSON object");
  add_text(*command, "--model", arguments->model, "DIR", "Hugging Face folder with tokenizer.json")->required();
  command
      ->add_option("--chat-template", arguments->keys.chat_template,
                   "chat template for rows with `messages`, as data.chat_template in a recipe")
      ->capture_default_str();
  add_integer(*command, "--rounds", arguments->rounds, 1, 1'000'000, "number of rounds; the best one counts");
  set_work(*command, action, arguments, bench_tokenizer);
}

}  // namespace qrl::app
