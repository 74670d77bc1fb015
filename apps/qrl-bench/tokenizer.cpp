// Implements bench tokenizer: the speed at which one thread converts texts to ids.
#include "data/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "benchmarks.h"
#include "data/jsonl.h"

namespace qrl::app {

namespace {

struct BenchTokenizerArguments {
  std::string model;
  int rounds = 5;
};

/// Returns every string in the rows of standard input.
std::vector<std::string> read_texts() {
  std::vector<std::string> texts;
  data::JsonLines lines(standard_input(), "standard input");
  while (const auto row = lines.next()) {
    for (const auto& [name, value] : row->items()) {
      if (value.is_string()) texts.push_back(value.get<std::string>());
    }
  }
  QRL_REQUIRE(!texts.empty(), "standard input", "rows of JSON with strings in them", "none");
  return texts;
}

void bench_tokenizer(const BenchTokenizerArguments& arguments) {
  const std::vector<std::string> texts = read_texts();
  const double load_start_s = base::now_s();
  const data::Tokenizer tokenizer = data::Tokenizer::load(arguments.model);
  const double load_s = base::now_s() - load_start_s;
  std::size_t num_bytes = 0, num_tokens = 0;
  for (const std::string& text : texts) num_bytes += text.size();
  double best_s = 0;
  for (int round = 0; round < arguments.rounds; ++round) {
    num_tokens = 0;
    const double start_s = base::now_s();
    for (const std::string& text : texts) num_tokens += tokenizer.encode_trusted(text).size();
    const double taken_s = base::now_s() - start_s;
    best_s = round == 0 ? taken_s : std::min(best_s, taken_s);
  }
  const nlohmann::json facts = {{"bench", "tokenizer"},   {"load_s", load_s},
                                {"num_bytes", num_bytes}, {"num_tokens", num_tokens},
                                {"best_s", best_s},       {"mb_per_s", static_cast<double>(num_bytes) / best_s * 1e-6}};
  std::printf("%s\n", facts.dump().c_str());
}

}  // namespace

void add_bench_tokenizer(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<BenchTokenizerArguments>();
  CLI::App* command = program.add_subcommand(
      "tokenizer",
      "text to ids on one thread: every string of the JSON rows on standard input; prints one JSON object");
  command->add_option("--model", arguments->model, "Hugging Face folder with tokenizer.json")
      ->required()
      ->check(not_empty())
      ->type_name("DIR");
  command->add_option("--rounds", arguments->rounds, "rounds; the best counts")
      ->check(between(1, 1'000'000))
      ->type_name("INT");
  command->callback([&action, arguments] {
    action = [arguments](dist::Collectives& world) {
      require_one_process(world, "qrl-bench tokenizer");
      bench_tokenizer(*arguments);
    };
  });
}

}  // namespace qrl::app
