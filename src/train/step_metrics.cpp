#include "train/step_metrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "train/prompts.h"

namespace qrl::train {

namespace {

/// What of a rollout the metrics need: small enough to bring all of a step's to every rank.
struct Fact {
  double score, reward, advantage, response_tokens, prompt_tokens, truncated, correct, no_answer, verifier_error, flat;
  double four_grams, repeated_four_grams;
  double credit;
};

/// 4-grams of a response, and how many of them are repetitions of others: a broken policy's loops.
std::pair<double, double> four_grams(const std::vector<types::TokenId>& tokens) {
  constexpr std::size_t kGram = 4;
  std::vector<std::array<types::TokenId, kGram>> grams;
  for (std::size_t t = kGram; t <= tokens.size(); ++t)
    grams.push_back({tokens[t - 4], tokens[t - 3], tokens[t - 2], tokens[t - 1]});
  std::sort(grams.begin(), grams.end());
  const auto distinct = std::unique(grams.begin(), grams.end()) - grams.begin();
  return {static_cast<double>(grams.size()), static_cast<double>(grams.size()) - static_cast<double>(distinct)};
}

/// The ranks' groups in the order of one process: by their places.
template <class T>
std::vector<T> in_global_order(const std::vector<std::vector<T>>& by_rank, std::size_t group,
                               std::span<const std::int64_t> places, dist::Collectives& world) {
  struct Group {
    std::int64_t place;
    std::size_t rank, first;
  };
  std::vector<Group> order;
  const std::string mine(reinterpret_cast<const char*>(places.data()), places.size_bytes());
  std::size_t rank = 0;
  for (const std::string& bytes : world.all_gather(mine)) {
    std::vector<std::int64_t> theirs(bytes.size() / sizeof(std::int64_t));
    if (!bytes.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) order.push_back({theirs[i], rank, i * group});
    ++rank;
  }
  std::sort(order.begin(), order.end(), [](const Group& a, const Group& b) { return a.place < b.place; });
  std::vector<T> all;
  for (const Group& one : order) {
    for (std::size_t i = 0; i < group; ++i) all.push_back(by_rank[one.rank][one.first + i]);
  }
  return all;
}

template <class Get>
void add_summary(Metrics& metrics, const std::string& name, const std::vector<Fact>& facts, Get get) {
  double sum = 0, squares = 0, high = -std::numeric_limits<double>::infinity(), low = -high;
  for (const Fact& fact : facts) {
    sum += get(fact);
    high = std::max(high, get(fact));
    low = std::min(low, get(fact));
  }
  const auto count = static_cast<double>(facts.size());
  for (const Fact& fact : facts) squares += (get(fact) - sum / count) * (get(fact) - sum / count);
  metrics[name + "/mean"] = sum / count;
  metrics[name + "/std"] = facts.size() > 1 ? std::sqrt(squares / (count - 1)) : 0.0;
  metrics[name + "/max"] = high;
  metrics[name + "/min"] = low;
}

template <class Get>
double sum_of(const std::vector<Fact>& facts, Get get) {
  double sum = 0;
  for (const Fact& fact : facts) sum += get(fact);
  return sum;
}

template <class Get>
double mean_of(const std::vector<Fact>& facts, Get get) {
  return sum_of(facts, get) / static_cast<double>(facts.size());
}

/// The means of rollout::ScoreParts, which add up to the score's.
void add_reward_parts(Metrics& metrics, const std::vector<Fact>& facts, const config::RewardRecipe& recipe) {
  const double correct = mean_of(facts, [](const Fact& f) { return f.correct; });
  const double no_answer = mean_of(facts, [](const Fact& f) { return f.no_answer; });
  const double wrong = mean_of(facts, [](const Fact& f) { return 1.0 - f.correct - f.no_answer; });
  metrics["reward/correct_fraction"] = correct;
  metrics["reward/wrong_fraction"] = wrong;
  metrics["reward/no_answer_fraction"] = no_answer;
  metrics["reward/accuracy/mean"] = recipe.correct * correct + recipe.wrong * (wrong + no_answer);
  metrics["reward/format/mean"] = recipe.format * wrong;
  metrics["reward/partial/mean"] = recipe.partial * mean_of(facts, [](const Fact& f) { return f.credit; });
  metrics["reward/verifier_error_fraction"] = mean_of(facts, [](const Fact& f) { return f.verifier_error; });
}

}  // namespace

Metrics rollout_metrics(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                        std::span<const std::int64_t> places, const config::RewardRecipe& recipe,
                        dist::Collectives& world) {
  std::vector<Fact> mine;
  for (std::size_t first = 0; first < rollouts.size(); first += static_cast<std::size_t>(n)) {
    const auto group = rollouts.subspan(first, static_cast<std::size_t>(n));
    const bool flat =
        std::all_of(group.begin(), group.end(), [&](const auto& r) { return r.reward == group.front().reward; });
    for (const rollout::Rollout& r : group) {
      const auto [grams, repeated] = four_grams(r.completion.tokens);
      mine.push_back(
          {r.score, r.reward, r.advantage, static_cast<double>(r.completion.tokens.size()),
           static_cast<double>(r.prompt->tokens.size()), r.completion.stop == types::StopReason::length ? 1.0 : 0.0,
           r.verdict.outcome == reward::Outcome::correct ? 1.0 : 0.0,
           r.verdict.outcome == reward::Outcome::no_answer ? 1.0 : 0.0, r.verdict.verifier_error ? 1.0 : 0.0,
           flat ? 1.0 : 0.0, grams, repeated, r.verdict.outcome == reward::Outcome::wrong ? r.verdict.credit : 0.0});
    }
  }
  std::vector<std::vector<Fact>> by_rank;
  for (const std::string& bytes :
       world.all_gather(std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(Fact)))) {
    by_rank.emplace_back(bytes.size() / sizeof(Fact));
    if (!bytes.empty()) std::memcpy(by_rank.back().data(), bytes.data(), bytes.size());
  }
  const std::vector<Fact> facts = in_global_order(by_rank, static_cast<std::size_t>(n), places, world);

  Metrics metrics;
  add_summary(metrics, "critic/score", facts, [](const Fact& f) { return f.score; });
  add_summary(metrics, "critic/rewards", facts, [](const Fact& f) { return f.reward; });
  add_summary(metrics, "critic/advantages", facts, [](const Fact& f) { return f.advantage; });
  add_summary(metrics, "response_length", facts, [](const Fact& f) { return f.response_tokens; });
  metrics["response_length/clip_ratio"] = mean_of(facts, [](const Fact& f) { return f.truncated; });
  metrics["prompt_length/mean"] = mean_of(facts, [](const Fact& f) { return f.prompt_tokens; });
  metrics["data/flat_group_fraction"] = mean_of(facts, [](const Fact& f) { return f.flat; });
  const double grams = sum_of(facts, [](const Fact& f) { return f.four_grams; });
  const double repeated = sum_of(facts, [](const Fact& f) { return f.repeated_four_grams; });
  metrics["response/seq_rep_4"] = repeated / std::max(grams, 1.0);
  add_reward_parts(metrics, facts, recipe);
  if (recipe.overlong_buffer.enable)
    metrics["reward/overlong/mean"] = mean_of(facts, [](const Fact& f) { return f.reward - f.score; });
  return metrics;
}

std::string rollout_rows(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                         std::span<const std::int64_t> places, std::optional<std::int64_t> step,
                         const config::RewardRecipe& recipe, dist::Collectives& world) {
  std::string mine;
  for (const rollout::Rollout& r : rollouts) {
    const rollout::ScoreParts parts = rollout::score_parts(r.verdict, recipe);
    nlohmann::ordered_json row = {
        {"step", step.value_or(0)},
        {"prompt_id", step ? r.prompt->id : held_out_number(*r.prompt)},
        {"sample", r.sample_idx},
        {"data_source", r.prompt->data_source},
        {"prompt", r.prompt->text},
        {"response", r.response},
        {"ground_truth", r.prompt->ground_truth},
        {"score", r.score},
        {"reward", r.reward},
        {"advantage", r.advantage},
        {"score_parts", {{"accuracy", parts.accuracy}, {"format", parts.format}, {"partial", parts.partial}}},
        {"reason", r.verdict.reason},
        {"extracted", r.verdict.extracted},
        {"response_tokens", r.completion.tokens.size()},
        {"stop", r.completion.stop == types::StopReason::eos ? "eos" : "length"},
        {"version", r.completion.versions.empty() ? -1 : r.completion.versions.front()}};
    if (!step) {
      row.erase("step");
      row.erase("advantage");
    }
    // Responses are bytes, not always UTF-8: what is not is shown as U+FFFD.
    mine += row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  std::vector<std::vector<std::string>> by_rank;
  for (const std::string& bytes : world.all_gather(mine)) {
    auto& lines = by_rank.emplace_back();
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t end = bytes.find('\n', at) + 1;
      lines.push_back(bytes.substr(at, end - at));
      at = end;
    }
  }
  std::string all;
  const auto lines = in_global_order(by_rank, static_cast<std::size_t>(n), places, world);
  if (!world.is_first()) return all;
  for (const std::string& line : lines) all += line;
  return all;
}

Metrics combine_updates(std::span<const Metrics> updates) {
  Metrics combined;
  std::map<std::string, int> num_updates;  // that have the name
  for (const Metrics& update : updates) {
    for (const auto& [name, value] : update) {
      ++num_updates[name];
      const auto [entry, first] = combined.try_emplace(name, value);
      if (first) continue;
      if (name.ends_with("max")) entry->second = std::max(entry->second, value);
      else if (name.ends_with("min")) entry->second = std::min(entry->second, value);
      else if (name == "actor/lr") entry->second = value;
      else entry->second += value;
    }
  }
  for (auto& [name, value] : combined) {
    if (!name.ends_with("max") && !name.ends_with("min") && name != "actor/lr") value /= num_updates[name];
  }
  return combined;
}

double peak_memory_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1024.0 * 1024.0);
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace qrl::train
