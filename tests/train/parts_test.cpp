#include <fstream>
#include <set>

#include "base/error.h"
#include "learner/ranks.h"
#include "state/folder.h"
#include "support/catch.h"
#include "tasks/math/verifier.h"
#include "train/evaluate/evaluate.h"
#include "train/files/checkpoint_folder.h"
#include "train/metrics/progress.h"
#include "train/metrics/step_metrics.h"
#include "train/prompts/encoder.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "train/support.h"

using namespace qrl;

TEST_CASE("pass@k: the chance that k of n samples drawn without replacement include a right one") {
  // Compares with a count over all subsets of k out of n = 6 samples, c of them right.
  for (std::int64_t c = 0; c <= 6; ++c) {
    for (std::int64_t k = 1; k <= 6; ++k) {
      int subsets = 0, hits = 0;
      for (unsigned mask = 0; mask < 64; ++mask) {
        if (__builtin_popcount(mask) != k) continue;
        ++subsets;
        hits += (mask & ((1U << c) - 1)) != 0 ? 1 : 0;
      }
      CHECK(test::close(train::pass_at_k(6, c, k), static_cast<double>(hits) / subsets, 1e-12, 0));
    }
  }
}

TEST_CASE("evaluation table: each column is as wide as its content") {
  const std::vector<train::PromptSet> sets = {{"a", {}, {}}, {"a longer name", {}, {}}};
  const train::Metrics metrics = {{"val/a/maj@16", 0.5},
                                  {"val/a/pass@16", 1.0 / 3},
                                  {"val/a/pass@2", 0.25},
                                  {"val/a longer name/maj@16", 0.0123456},
                                  {"val/a longer name/pass@16", 1},
                                  {"val/a longer name/pass@2", 1},
                                  {"other", 7}};
  CHECK(train::metrics_table(sets, metrics) ==
        "data source    prompts  maj@16   pass@2  pass@16\n"
        "a              0        0.5      0.25    0.3333\n"
        "a longer name  0        0.01235  1       1\n");
}

TEST_CASE("evaluation table: shares of correct samples, or mean scores if correctness is undefined") {
  const std::vector<train::PromptSet> sets = {{"a", {}, {}}, {"b", {}, {}}};
  const train::Metrics metrics = {{"val/a/mean@2", 0},    {"val/a/score/mean@2", 0.5}, {"val/a/outcome_fraction", 0},
                                  {"val/b/mean@2", 0.25}, {"val/b/score/mean@2", 1},   {"val/b/outcome_fraction", 1}};
  CHECK(train::metrics_table(sets, metrics) ==
        "data source  prompts  mean@2  outcome_fraction  score/mean@2\n"
        "a            0        -       0                 0.5\n"
        "b            0        0.25    1                 -\n");
}

TEST_CASE("training prompts: every epoch is a permutation, and the cursor is the only state") {
  train::PromptOrder order(7, true, 3);
  std::vector<std::size_t> drawn = order.next(21);
  for (int epoch = 0; epoch < 3; ++epoch) {
    CHECK(std::set<std::size_t>(drawn.begin() + epoch * 7, drawn.begin() + (epoch + 1) * 7).size() == 7);
  }
  CHECK(std::vector<std::size_t>(drawn.begin(), drawn.begin() + 7) !=
        std::vector<std::size_t>(drawn.begin() + 7, drawn.begin() + 14));
  train::PromptOrder resumed(7, true, 3);
  resumed.restore(10);
  CHECK(resumed.next(11) == std::vector<std::size_t>(drawn.begin() + 10, drawn.end()));
  CHECK(train::PromptOrder(3, false, 0).next(4) == std::vector<std::size_t>{0, 1, 2, 0});
}

TEST_CASE("maj@n: the most frequent answer, the first among equals, ignoring missing ones") {
  using reward::Outcome;
  const auto right = [](const std::vector<std::pair<const char*, Outcome>>& answers) {
    std::vector<rollout::Rollout> samples(answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      samples[i].verdict.extracted = answers[i].first;
      samples[i].verdict.outcome = answers[i].second;
    }
    return train::majority_is_right(samples, tasks::MathVerifier(reward::math::Profile::automatic));
  };
  CHECK(right({{"1", Outcome::wrong}, {"2", Outcome::correct}, {"2", Outcome::correct}}));
  CHECK_FALSE(right({{"2", Outcome::correct}, {"1", Outcome::wrong}, {"1", Outcome::wrong}}));
  CHECK(right({{"2", Outcome::correct}, {"1", Outcome::wrong}}));
  CHECK_FALSE(right({{"1", Outcome::wrong}, {"2", Outcome::correct}}));
  CHECK(right({{"", Outcome::no_answer}, {"", Outcome::no_answer}, {"2", Outcome::correct}}));
  CHECK_FALSE(right({{"", Outcome::no_answer}}));
  // Counts one answer however it is written: right ones by their verdict, wrong ones by the verifier.
  CHECK(right({{"1", Outcome::wrong},
               {"1", Outcome::wrong},
               {"\\frac12", Outcome::correct},
               {"\\dfrac{1}{2}", Outcome::correct},
               {"0.5", Outcome::correct}}));
  CHECK_FALSE(right({{"1", Outcome::correct},
                     {"1", Outcome::correct},
                     {"\\frac12", Outcome::wrong},
                     {"\\dfrac{1}{2}", Outcome::wrong},
                     {"0.5", Outcome::wrong}}));
  // Has more different wrong answers than the verifier may compare.
  std::vector<std::string> texts;
  for (int k = 0; k < 80; ++k) texts.push_back(std::to_string(k));
  std::vector<std::pair<const char*, Outcome>> many;
  for (const std::string& text : texts) many.emplace_back(text.c_str(), Outcome::wrong);
  many.insert(many.end(), {{"100", Outcome::correct}, {"100.0", Outcome::correct}});
  CHECK(right(many));
  many.insert(many.end(), {{"79", Outcome::wrong}, {"79", Outcome::wrong}});
  CHECK_FALSE(right(many));
}

TEST_CASE("weighted sources: shares hold at every length, epochs are per source, and it resumes") {
  train::PromptOrder order({3, 40}, {1, 3}, true, 5);
  const auto drawn = order.next(400);
  std::int64_t of_first = 0;
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    of_first += drawn[i] < 3;
    if (drawn[i] < 3) first.push_back(drawn[i]);
    CHECK(std::abs(static_cast<double>(of_first) - 0.25 * static_cast<double>(i + 1)) <= 1);
  }
  REQUIRE(first.size() == 100);
  for (std::size_t epoch = 0; epoch + 3 <= first.size(); epoch += 3)
    CHECK(std::set<std::size_t>(&first[epoch], &first[epoch] + 3).size() == 3);
  train::PromptOrder resumed({3, 40}, {1, 3}, true, 5);
  resumed.restore(77);
  CHECK(resumed.next(323) == std::vector<std::size_t>(drawn.begin() + 77, drawn.end()));
}

TEST_CASE("prompt template: its own words may hold added tokens, user text never becomes one") {
  const auto tokenizer = data::Tokenizer::byte_level();
  train::DataRecipe recipe;
  recipe.prompt_template = "<answer>{prompt}";
  const auto tokens = train::PromptEncoder(recipe, tokenizer).encode("<answer>");
  REQUIRE(tokens.size() == 9);
  CHECK(tokens[0] == 257);
  CHECK(tokens[1] == '<');
  recipe.prompt_template = "no place";
  CHECK_THROWS_AS(train::PromptEncoder(recipe, tokenizer), base::Error);
}

TEST_CASE("chat_template plain: the text with the tokenizer's prefix") {
  const auto tokenizer = data::Tokenizer::load(test::shipped_data() / "golden" / "tokenizer_bpe" / "llama3.json");
  train::DataRecipe recipe;
  recipe.prompt_template = "Q: {prompt}\nA:";
  std::vector<types::TokenId> want = tokenizer.prefix();
  REQUIRE(want.size() == 1);
  for (const auto id : tokenizer.encode("Q: the cat\nA:")) want.push_back(id);
  CHECK(train::PromptEncoder(recipe, tokenizer).encode("the cat") == want);
}

TEST_CASE("held-out files: have their own filter, and the same fields as training files") {
  train::DataRecipe recipe;
  recipe.prompt_key = "q";
  recipe.filter = {"level == 99"};
  recipe.val_filter = {"level == 4"};
  const auto is_kept = [&](tasks::Split split) {
    const data::RowReader reader(train::row_options(recipe, split));
    return reader.read({{"q", "p"}, {"answer", "1"}, {"level", 4}}, "f:1", "f").has_value();
  };
  CHECK_FALSE(is_kept(tasks::Split::train));
  CHECK(is_kept(tasks::Split::held_out));
}

TEST_CASE("metrics of several updates: largest max, smallest min, last lr, otherwise the mean") {
  const train::Metrics updates[] = {{{"a/max", 1}, {"a/min", 4}, {"actor/lr", 0.1}, {"b", 2}},
                                    {{"actor/lr", 0.15}},
                                    {{"a/max", 3}, {"a/min", 5}, {"actor/lr", 0.2}, {"b", 4}}};
  const train::Metrics all = train::combine_updates(updates);
  CHECK(all == train::Metrics{{"a/max", 3}, {"a/min", 4}, {"actor/lr", 0.2}, {"b", 3}});
  CHECK(train::step_facts({{"critic/rewards/mean", 0.5}}) == "reward 0.500  length 0.0  gap -  0 tok/s");
  CHECK(train::step_facts({{"data/flat_group_fraction", 1}}) ==
        "reward 0.000  length 0.0  gap none (all groups flat)  0 tok/s");
}

TEST_CASE("metric files: rows are kept to the checkpoint's size, non-finite values become null") {
  const test::TempDir dir;
  train::MetricsFile file(dir / "m.jsonl", 0);
  file.append(1, {{"x", 0.5}});
  const std::int64_t kept = file.sync();
  file.append(2, {{"x", std::nan("")}});
  CHECK(train::read_score(dir / "m.jsonl", "x") == std::vector<std::pair<std::int64_t, double>>{{1, 0.5}});
  train::MetricsFile resumed(dir / "m.jsonl", kept);
  resumed.append(2, {{"x", 0.7}});
  CHECK(train::read_score(dir / "m.jsonl", "x") == std::vector<std::pair<std::int64_t, double>>{{1, 0.5}, {2, 0.7}});
  CHECK_THROWS_AS(train::MetricsFile(dir / "m.jsonl", 10'000), base::Error);
}

TEST_CASE("pruning: keeps the newest of each kind and the finished cold start, or all if the newest is damaged") {
  const test::TempDir dir;
  const auto add = [&](const std::string& name) {
    state::commit_folder(
        dir / name, [](const auto& tmp) { std::ofstream(tmp / "data") << "x"; }, "{}");
  };
  for (const char* name : {"sft_5", "sft_10", "sft_12", "step_1", "step_2", "step_9", "step_10"}) add(name);
  train::prune_checkpoints(dir.path(), 2, 12);
  CHECK(test::names_in(dir.path()) == std::vector<std::string>{"sft_10", "sft_12", "sft_5", "step_10", "step_9"});
  train::prune_checkpoints(dir.path(), 1, 12);
  CHECK(test::names_in(dir.path()) == std::vector<std::string>{"sft_10", "sft_12", "step_10"});
  add("step_11");
  test::flip_bit(dir / "step_11/data", 0);
  train::prune_checkpoints(dir.path(), 1, 12);
  CHECK(test::names_in(dir.path()) == std::vector<std::string>{"sft_10", "sft_12", "step_10", "step_11"});
}

TEST_CASE("metrics of kept tokens: mean and maximum per sampled token, and the share cut by the limit") {
  rollout::Rollout rollouts[3];
  const std::vector<types::TokenId> two{4, 9}, five{1, 2, 3, 4, 5};
  rollouts[0].completion.kept.add(two);
  rollouts[0].completion.kept.add(five);
  rollouts[0].completion.num_limited = 1;
  for (const int sampled : {0, 2}) rollouts[sampled].completion.tokens = two;
  rollouts[2].completion.kept.add(two);
  rollouts[2].completion.kept.add(two);
  const auto world = dist::make_solo();
  const train::Metrics metrics = train::kept_metrics(rollouts, *world);
  CHECK(metrics.at("rollout/kept_tokens/mean") == 11.0 / 4);
  CHECK(metrics.at("rollout/kept_tokens/max") == 5);
  CHECK(metrics.at("rollout/kept_tokens/limited_fraction") == 0.25);
  // Two ranks that share the samples get the same metrics.
  train::Metrics of_rank[2];
  test::Ranks(2).run([&](dist::Collectives& rank) {
    const auto mine = rank.is_first() ? std::span(rollouts).first(1) : std::span(rollouts).last(2);
    of_rank[rank.rank()] = train::kept_metrics(mine, rank);
  });
  CHECK(of_rank[0] == metrics);
  CHECK(of_rank[1] == metrics);
}

TEST_CASE("metrics of rollouts: score parts sum to the score, repeated 4-grams are a share of all") {
  types::Prompt prompt;
  prompt.tokens = {1, 2};
  train::RewardRecipe recipe;
  recipe.correct = 2;
  recipe.wrong = -1;
  recipe.format = 0.5;
  const auto rollout = [&](reward::Outcome outcome, double score, std::vector<types::TokenId> tokens) {
    rollout::Rollout r;
    r.prompt = &prompt;
    r.verdict.outcome = outcome;
    r.score = r.reward = score;
    r.completion.tokens = std::move(tokens);
    return r;
  };
  // Five 4-grams of one token: four repetitions; two different ones; none in three tokens.
  const rollout::Rollout rollouts[] = {rollout(reward::Outcome::correct, 2, std::vector<types::TokenId>(8, 7)),
                                       rollout(reward::Outcome::wrong, -0.5, {1, 2, 3, 4, 5}),
                                       rollout(reward::Outcome::wrong, -0.5, {1, 1, 1}),
                                       rollout(reward::Outcome::no_answer, -1, {})};
  const auto world = dist::make_solo();
  const std::int64_t places[] = {0, 1};
  const train::Metrics metrics = train::rollout_metrics(rollouts, 2, places, recipe,
                                                        tasks::MathVerifier(reward::math::Profile::automatic), *world);
  CHECK(metrics.at("response/seq_rep_4") == 4.0 / 7);
  CHECK(metrics.at("reward/correct_fraction") == 0.25);
  CHECK(metrics.at("reward/wrong_fraction") == 0.5);
  CHECK(metrics.at("reward/no_answer_fraction") == 0.25);
  CHECK(metrics.at("reward/accuracy/mean") == (2.0 - 3.0) / 4);
  CHECK(metrics.at("reward/format/mean") == 0.25);
  CHECK(metrics.at("reward/accuracy/mean") + metrics.at("reward/format/mean") == metrics.at("critic/score/mean"));
  CHECK(metrics.at("data/flat_group_fraction") == 0);
}
