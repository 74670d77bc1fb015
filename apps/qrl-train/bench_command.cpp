// bench: what decode, learner and a whole step reach on this machine, beside what the machine can do at most.
#include <memory>

#include "bench_shapes.h"
#include "bench_work.h"
#include "command.h"

namespace qrl::app {

namespace {

constexpr int kMaxTokens = 1'048'576, kMaxSequences = 65'536;

CLI::App* add_one(CLI::App& bench, const char* name, const char* what, BenchArguments& arguments, int fewest_new = 1) {
  CLI::App* command = bench.add_subcommand(name, what);
  CLI::Option* model =
      command->add_option("--model", arguments.model_dir, "Hugging Face folder; default: random weights of --shape")
          ->check(not_empty())
          ->type_name("DIR");
  command->add_option("--shape", arguments.shape, "built-in shape")
      ->check(CLI::IsMember(shape_names()))
      ->excludes(model)
      ->type_name("NAME");
  command->add_option("--prompt", arguments.prompt_tokens, "prompt tokens")
      ->check(between(1, kMaxTokens))
      ->type_name("INT");
  command->add_option("--new", arguments.new_tokens, "new tokens a sequence")
      ->check(between(fewest_new, kMaxTokens))
      ->type_name("INT");
  command->add_option("--rounds", arguments.rounds, "rounds; the best counts")
      ->check(between(1, 1'000'000))
      ->type_name("INT");
  add_overrides(*command, arguments.overrides);
  command->add_flag("--dry-run", arguments.dry_run, "print what it would measure and take, measure nothing");
  command->add_flag("--json", arguments.json, "print one JSON object, on the last line");
  return command;
}

using Measure = void (*)(const BenchArguments&, dist::Collectives&);

void act(CLI::App& command, Action& action, const std::shared_ptr<BenchArguments>& arguments, Measure measure) {
  command.callback([&action, arguments, measure, name = command.get_name()] {
    action = [arguments, measure, name](dist::Collectives& world) {
      if (arguments->dry_run) plan_bench(name, *arguments, world);
      else measure(*arguments, world);
    };
  });
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* bench =
      app.add_subcommand("bench", "measure decode, learner, a whole step, the tokenizer or the GPU's products");
  bench->require_subcommand(1);
  bench->option_defaults()->always_capture_default();
  // The first new token comes out of the prefill: what decoding takes shows from the second on.
  CLI::App* decode = add_one(*bench, "decode", "decode speed: B distinct prompts, prefill excluded", *arguments, 2);
  decode->add_option("--batch", arguments->batch, "sequences")->check(between(1, kMaxSequences))->type_name("INT");
  decode->add_option("--vocab", arguments->vocab_size, "vocabulary of the built-in shape")
      ->check(between(2, kMaxTokens))
      ->excludes(decode->get_option("--model"))
      ->type_name("INT");
  decode
      ->add_option("--logit-tile", arguments->logit_tile_tokens,
                   "tokens of the vocabulary whose logits exist at once, a multiple of 256; changes no draw")
      ->check(between(256, kMaxTokens))
      ->check(CLI::Validator(
          [](const std::string& text) {
            return std::stoll(text) % 256 == 0 ? std::string() : "must be a multiple of 256";
          },
          ""))
      ->type_name("INT");
  act(*decode, action, arguments, bench_decode);
  CLI::App* learner = add_one(*bench, "learner", "forward, backward and update of prompts x n sequences", *arguments);
  act(*learner, action, arguments, bench_learner);
  CLI::App* step = add_one(*bench, "step", "a whole GRPO step: draw, learn, publish, probe the gap", *arguments);
  act(*step, action, arguments, bench_step);
  add_bench_tokenizer(*bench, action);
  add_bench_products(*bench, action);
  add_bench_attention(*bench, action);
  add_bench_ticks(*bench, action);
  for (CLI::App* command : {learner, step}) {
    command->add_option("--prompts", arguments->prompts, "prompts")->check(between(1, kMaxSequences))->type_name("INT");
    command->add_option("--n", arguments->n, "samples a prompt")->check(between(1, kMaxSequences))->type_name("INT");
  }
}

}  // namespace qrl::app
