#include "train/metrics/step_metrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "dist/gather.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"

namespace qrl::train {

namespace {

struct Fact {
  double score, reward, advantage, response_tokens, prompt_tokens, truncated, correct, no_answer, verifier_error, flat;
  double four_grams, repeated_four_grams;
  double credit, dropped;
  double has_outcome;
};

/// Returns the number of a response's 4-grams, and how many of them repeat an earlier 4-gram.
std::pair<double, double> four_grams(const std::vector<types::TokenId>& tokens) {
  constexpr std::size_t kGram = 4;
  std::vector<std::array<types::TokenId, kGram>> grams;
  for (std::size_t t = kGram; t <= tokens.size(); ++t)
    grams.push_back({tokens[t - 4], tokens[t - 3], tokens[t - 2], tokens[t - 1]});
  std::ranges::sort(grams);
  const auto distinct = std::unique(grams.begin(), grams.end()) - grams.begin();
  return {static_cast<double>(grams.size()), static_cast<double>(grams.size()) - static_cast<double>(distinct)};
}

std::vector<types::TokenId> sampled_tokens(const types::Completion& completion) {
  if (completion.sampled.empty()) return completion.tokens;
  std::vector<types::TokenId> tokens;
  for (std::size_t t = 0; t < completion.tokens.size(); ++t) {
    if (completion.sampled[t] != 0) tokens.push_back(completion.tokens[t]);
  }
  return tokens;
}

template <class T>
std::vector<T> in_global_order(const std::vector<std::vector<T>>& by_rank, std::size_t group,
                               std::span<const std::int64_t> places, dist::Collectives& world) {
  struct Group {
    std::int64_t place;
    std::size_t rank, first;
  };
  std::vector<Group> order;
  std::size_t rank = 0;
  for (const auto& theirs : dist::all_gather_values(places, world)) {
    for (std::size_t i = 0; i < theirs.size(); ++i) order.push_back({theirs[i], rank, i * group});
    ++rank;
  }
  std::ranges::sort(order, [](const Group& a, const Group& b) { return a.place < b.place; });
  std::vector<T> all;
  for (const Group& one : order) {
    for (std::size_t i = 0; i < group; ++i) all.push_back(by_rank[one.rank][one.first + i]);
  }
  return all;
}

void add_summary(Metrics& metrics, const std::string& name, const std::vector<double>& values) {
  double sum = 0, squares = 0, high = -std::numeric_limits<double>::infinity(), low = -high;
  for (const double value : values) {
    sum += value;
    high = std::max(high, value);
    low = std::min(low, value);
  }
  const auto count = static_cast<double>(values.size());
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  metrics[name + "/mean"] = sum / count;
  metrics[name + "/std"] = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0.0;
  metrics[name + "/max"] = high;
  metrics[name + "/min"] = low;
}

template <class Get>
void add_summary(Metrics& metrics, const std::string& name, const std::vector<Fact>& facts, Get get) {
  std::vector<double> values;
  for (const Fact& fact : facts) values.push_back(get(fact));
  add_summary(metrics, name, values);
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

void add_outcomes(Metrics& metrics, const std::vector<Fact>& judged, const std::vector<Fact>& facts) {
  metrics["reward/correct_fraction"] = mean_of(judged, [](const Fact& f) { return f.correct; });
  metrics["reward/wrong_fraction"] = mean_of(judged, [](const Fact& f) { return 1.0 - f.correct - f.no_answer; });
  metrics["reward/no_answer_fraction"] = mean_of(judged, [](const Fact& f) { return f.no_answer; });
  metrics["reward/verifier_error_fraction"] = mean_of(facts, [](const Fact& f) { return f.verifier_error; });
}

void add_reward_parts(Metrics& metrics, const std::vector<Fact>& facts, const RewardRecipe& recipe) {
  const auto is_wrong = [](const Fact& f) { return 1.0 - f.correct - f.no_answer; };
  const auto add = [&](const std::string& name, auto part) { add_summary(metrics, "reward/" + name, facts, part); };
  add("accuracy", [&](const Fact& f) { return f.correct == 1 ? recipe.correct : recipe.wrong; });
  add("format", [&](const Fact& f) { return recipe.format * is_wrong(f); });
  add("partial", [&](const Fact& f) { return recipe.partial * f.credit; });
  const double correct = mean_of(facts, [](const Fact& f) { return f.correct; });
  const double no_answer = mean_of(facts, [](const Fact& f) { return f.no_answer; });
  const double wrong = mean_of(facts, is_wrong);
  metrics["reward/accuracy/mean"] = recipe.correct * correct + recipe.wrong * (wrong + no_answer);
  metrics["reward/format/mean"] = recipe.format * wrong;
  metrics["reward/partial/mean"] = recipe.partial * mean_of(facts, [](const Fact& f) { return f.credit; });
}

template <class T>
std::vector<T> gather(const std::vector<T>& mine, std::size_t group, std::span<const std::int64_t> places,
                      dist::Collectives& world) {
  return in_global_order(dist::all_gather_values(std::span<const T>(mine), world), group, places, world);
}

void add_named_scores(Metrics& metrics, std::span<const rollout::Rollout> rollouts, std::size_t n,
                      std::span<const std::int64_t> places, const tasks::Verifier& verifier, dist::Collectives& world) {
  const std::vector<std::string>& names = verifier.score_names();
  std::vector<double> mine;
  for (const rollout::Rollout& r : rollouts) mine.insert(mine.end(), r.verdict.scores.begin(), r.verdict.scores.end());
  const std::vector<double> all = gather(mine, n * names.size(), places, world);
  std::map<std::string, std::vector<double>> of_name;
  for (const std::string& name : names) of_name[name];
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!std::isnan(all[i])) of_name[names[i % names.size()]].push_back(all[i]);
  }
  for (const auto& [name, values] : of_name) {
    add_summary(metrics, "reward/" + name, values);
    if (values.empty()) {
      for (const char* end : {"/max", "/min"}) metrics["reward/" + name + end] = metrics["reward/" + name + "/mean"];
    }
  }
}

Fact fact_of(const rollout::Rollout& r, bool flat) {
  const auto [grams, repeated] = four_grams(sampled_tokens(r.completion));
  return {r.score,
          r.reward,
          r.advantage,
          static_cast<double>(r.completion.num_sampled()),
          static_cast<double>(r.prompt->tokens.size()),
          r.completion.stop == types::StopReason::length ? 1.0 : 0.0,
          r.verdict.outcome == reward::Outcome::correct ? 1.0 : 0.0,
          r.verdict.outcome == reward::Outcome::no_answer ? 1.0 : 0.0,
          r.verdict.verifier_error ? 1.0 : 0.0,
          flat ? 1.0 : 0.0,
          grams,
          repeated,
          r.verdict.outcome == reward::Outcome::wrong ? r.verdict.credit : 0.0,
          r.verdict.dropped ? 1.0 : 0.0,
          r.verdict.has_outcome ? 1.0 : 0.0};
}

bool has_equal_rewards(std::span<const rollout::Rollout> group) {
  const rollout::Rollout* first = nullptr;
  for (const rollout::Rollout& r : group) {
    if (r.verdict.dropped) continue;
    if (first == nullptr) first = &r;
    else if (r.reward != first->reward) return false;
  }
  return true;
}

}  // namespace

Metrics rollout_metrics(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                        std::span<const std::int64_t> places, const RewardRecipe& recipe,
                        const tasks::Verifier& verifier, dist::Collectives& world) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<Fact> mine;
  for (std::size_t first = 0; first < rollouts.size(); first += size) {
    const auto group = rollouts.subspan(first, size);
    const bool flat = has_equal_rewards(group);
    for (const rollout::Rollout& r : group) mine.push_back(fact_of(r, flat));
  }
  const std::vector<Fact> facts = gather(mine, size, places, world);
  std::vector<Fact> judged;
  std::ranges::copy_if(facts, std::back_inserter(judged), [](const Fact& f) { return f.dropped == 0; });

  Metrics metrics;
  add_summary(metrics, "critic/score", judged, [](const Fact& f) { return f.score; });
  add_summary(metrics, "critic/rewards", judged, [](const Fact& f) { return f.reward; });
  add_summary(metrics, "critic/advantages", judged, [](const Fact& f) { return f.advantage; });
  add_summary(metrics, "response_length", facts, [](const Fact& f) { return f.response_tokens; });
  metrics["response_length/clip_ratio"] = mean_of(facts, [](const Fact& f) { return f.truncated; });
  metrics["prompt_length/mean"] = mean_of(facts, [](const Fact& f) { return f.prompt_tokens; });
  metrics["data/flat_group_fraction"] = mean_of(facts, [](const Fact& f) { return f.flat; });
  const double grams = sum_of(facts, [](const Fact& f) { return f.four_grams; });
  const double repeated = sum_of(facts, [](const Fact& f) { return f.repeated_four_grams; });
  metrics["response/seq_rep_4"] = repeated / std::max(grams, 1.0);
  add_outcomes(metrics, judged, facts);
  if (verifier.is_rule()) {
    add_reward_parts(metrics, judged, recipe);
  } else {
    add_named_scores(metrics, rollouts, size, places, verifier, world);
    std::vector<Fact> answered;
    std::ranges::copy_if(judged, std::back_inserter(answered), [](const Fact& f) { return f.verifier_error == 0; });
    metrics["reward/outcome_fraction"] = mean_of(answered, [](const Fact& f) { return f.has_outcome; });
  }
  if (recipe.overlong_buffer.enable)
    metrics["reward/overlong/mean"] = mean_of(judged, [](const Fact& f) { return f.reward - f.score; });
  return metrics;
}

Metrics kept_metrics(std::span<const rollout::Rollout> rollouts, dist::Collectives& world) {
  std::int64_t sums[] = {0, 0, 0};  // counts of tokens, of kept ids, and of tokens limited by max_kept
  double most = 0;
  for (const rollout::Rollout& r : rollouts) {
    const types::KeptTokens& kept = r.completion.kept;
    sums[0] += kept.empty() ? 0 : r.completion.num_sampled();
    sums[1] += kept.num_ids();
    sums[2] += r.completion.num_limited;
    for (std::size_t t = 0; t < kept.size(); ++t) most = std::max(most, static_cast<double>(kept[t].size()));
  }
  world.all_reduce_sum(std::span<std::int64_t>(sums));
  world.all_reduce_max(std::span<double>(&most, 1));
  const auto tokens = static_cast<double>(sums[0]);
  return {{"rollout/kept_tokens/mean", static_cast<double>(sums[1]) / tokens},
          {"rollout/kept_tokens/max", most},
          {"rollout/kept_tokens/limited_fraction", static_cast<double>(sums[2]) / tokens}};
}

Metrics environment_metrics(std::span<const rollout::Rollout> rollouts, dist::Collectives& world) {
  constexpr std::size_t kEnds = 5;
  const char* const ends[kEnds] = {"done", "max_turns", "length", "timeout", "error"};
  std::int64_t sums[5 + kEnds] = {};
  double wait_s = 0;
  for (const rollout::Rollout& r : rollouts) {
    const rollout::Conversation& conversation = *r.conversation;
    ++sums[0];
    sums[1] += std::ssize(conversation.turns);
    sums[2] += static_cast<std::int64_t>(r.completion.tokens.size()) - r.completion.num_sampled();
    sums[3] += conversation.num_calls;
    sums[4] += conversation.num_call_errors;
    const auto* end = std::ranges::find(ends, conversation.end);  // crashed and protocol count as errors
    ++sums[5 + std::min(static_cast<std::size_t>(end - ends), kEnds - 1)];
    wait_s += conversation.wait_s;
  }
  world.all_reduce_sum(std::span<std::int64_t>(sums));
  world.all_reduce_sum(std::span<double>(&wait_s, 1));
  const auto count = static_cast<double>(sums[0]);
  Metrics metrics = {{"env/turns", static_cast<double>(sums[1]) / count},
                     {"env/observation_tokens", static_cast<double>(sums[2]) / count},
                     {"env/calls", static_cast<double>(sums[3]) / count},
                     {"env/call_errors", static_cast<double>(sums[4]) / count},
                     {"timing_s/env_wait", wait_s / count}};
  for (std::size_t k = 0; k < kEnds; ++k)
    metrics[std::string("env/") + ends[k] + "_fraction"] = static_cast<double>(sums[5 + k]) / count;
  return metrics;
}

namespace {

/// Returns a conversation's turns as rollout files have them.
nlohmann::ordered_json shown_turns(const rollout::Conversation& conversation) {
  nlohmann::ordered_json turns = nlohmann::ordered_json::array();
  for (const rollout::Turn& turn : conversation.turns) {
    nlohmann::ordered_json& shown = turns.emplace_back(nlohmann::ordered_json{
        {"drawn", turn.sampled}, {"sampled_tokens", turn.end - turn.begin}, {"stop", turn.stop}});
    shown["observation"] = turn.observation ? nlohmann::ordered_json(*turn.observation) : nullptr;
    shown["calls"] = turn.calls.empty() ? nlohmann::ordered_json::array() : nlohmann::ordered_json::parse(turn.calls);
  }
  return turns;
}

nlohmann::ordered_json shown_parts(const reward::Verdict& verdict, const RewardRecipe& recipe,
                                   const tasks::Verifier& verifier) {
  if (verifier.is_rule()) {
    const rollout::ScoreParts parts = rollout::score_parts(verdict, recipe);
    return {{"accuracy", parts.accuracy}, {"format", parts.format}, {"partial", parts.partial}};
  }
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (std::size_t k = 0; k < verdict.scores.size(); ++k) {
    if (!std::isnan(verdict.scores[k])) parts[verifier.score_names()[k]] = verdict.scores[k];
  }
  return parts;
}

}  // namespace

std::string rollout_rows(std::span<const rollout::Rollout> rollouts, std::int32_t n,
                         std::span<const std::int64_t> places, std::optional<std::int64_t> step,
                         const RewardRecipe& recipe, const tasks::Verifier& verifier, dist::Collectives& world) {
  std::string mine;
  for (const rollout::Rollout& r : rollouts) {
    const reward::Verdict& verdict = r.verdict;
    nlohmann::ordered_json row = {{"step", step.value_or(0)},
                                  {"prompt_id", step ? r.prompt->id : held_out_number(*r.prompt)},
                                  {"sample", r.sample_idx},
                                  {"data_source", r.prompt->data_source},
                                  {"prompt", r.prompt->text},
                                  {"response", r.response},
                                  {"ground_truth", r.prompt->ground_truth},
                                  {"score", r.score},
                                  {"reward", r.reward},
                                  {"advantage", r.advantage},
                                  {"score_parts", shown_parts(verdict, recipe, verifier)},
                                  {"reason", verdict.detail.empty() ? std::string(verdict.reason) : verdict.detail},
                                  {"extracted", verdict.extracted},
                                  {"response_tokens", r.completion.tokens.size()},
                                  {"stop", r.completion.stop == types::StopReason::eos ? "eos" : "length"},
                                  {"version", r.completion.versions.empty() ? -1 : r.completion.versions.front()}};
    if (r.conversation) row["end"] = r.conversation->end;
    if (r.conversation) row["turns"] = shown_turns(*r.conversation);
    if (verdict.dropped) row["dropped"] = verdict.reason;
    if (!r.completion.kept.empty()) {
      row["tokens"] = r.completion.tokens;
      for (std::size_t t = 0; t < r.completion.kept.size(); ++t) {
        const auto kept = r.completion.kept[t];
        row["kept_tokens"].push_back(std::vector<types::TokenId>(kept.begin(), kept.end()));
      }
    }
    if (!step) {
      row.erase("step");
      row.erase("advantage");
    }
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

Metrics judging_metrics(const tasks::JudgeReport& report, dist::Collectives& world) {
  const std::vector<double> row_ms = dist::all_gather_sorted(std::span<const double>(report.row_ms), world);
  const auto percentile = [&](double share) {
    return row_ms.empty() ? 0 : row_ms[static_cast<std::size_t>(share * static_cast<double>(row_ms.size() - 1))];
  };
  std::int64_t sums[] = {report.num_rows,     report.num_restarts, report.num_timeouts, report.num_crashes,
                         report.num_protocol, report.num_errors,   report.num_samples};
  world.all_reduce_sum(std::span<std::int64_t>(sums));
  double slowest_s = report.seconds;
  world.all_reduce_max(std::span<double>(&slowest_s, 1));
  const double samples = std::max<double>(static_cast<double>(sums[6]), 1);
  return {{"perf/reward_rows_per_s", static_cast<double>(sums[0]) / std::max(slowest_s, 1e-9)},
          {"perf/reward_row_ms/p50", percentile(0.5)},
          {"perf/reward_row_ms/p99", percentile(0.99)},
          {"perf/reward_worker_restarts", static_cast<double>(sums[1])},
          {"reward/timeout_fraction", static_cast<double>(sums[2]) / samples},
          {"reward/crash_fraction", static_cast<double>(sums[3]) / samples},
          {"reward/protocol_fraction", static_cast<double>(sums[4]) / samples},
          {"reward/error_fraction", static_cast<double>(sums[5]) / samples}};
}

Metrics combine_updates(std::span<const Metrics> updates) {
  Metrics combined;
  std::map<std::string, int> num_updates;
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
