#include "report/rules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace qrl::report {

namespace {

constexpr const char* kReward = "critic/rewards/mean";

using Values = std::vector<double>;

Values finite(std::span<const double> values) {
  Values kept;
  std::ranges::copy_if(values, std::back_inserter(kept), [](double x) { return std::isfinite(x); });
  return kept;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNan : sum / static_cast<double>(values.size());
}

double median(Values values) {
  if (values.empty()) return kNan;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the values of a run's last quarter, at least ten steps.
std::span<const double> recent(std::span<const double> values) {
  const std::size_t count = std::min(values.size(), std::max<std::size_t>(10, values.size() / 4));
  return values.last(count);
}

/// Returns the values of a run's first tenth, at least five steps.
std::span<const double> start(std::span<const double> values) {
  return values.first(std::min(values.size(), std::max<std::size_t>(5, values.size() / 10)));
}

double recent_mean(const Course& course, std::string_view metric) {
  return mean(finite(recent(course.column(metric))));
}

double best_mean(std::span<const double> values) {
  constexpr std::size_t kSteps = 5;
  double best = kNan;
  for (std::size_t end = kSteps; end <= values.size(); ++end)
    best = std::fmax(best, mean(values.subspan(end - kSteps, kSteps)));
  return best;
}

double gap_growth(const Course& course) {
  constexpr double kNoGap = 0.01;  // a smaller gap counts as no growth
  const auto gap = course.column("mismatch/k3_kl");
  const double now = median(finite(recent(gap)));
  return now > kNoGap ? now / median(finite(start(gap))) : std::isfinite(now) ? 0 : kNan;
}

double entropy_left(const Course& course) {
  const auto entropy = course.column("actor/entropy");
  return mean(finite(recent(entropy))) / mean(finite(start(entropy)));
}

double highest_gradient(const Course& course) {
  const Values norms = finite(course.column("actor/grad_norm"));
  Values taught;  // norms above 0: steps whose groups are all flat have gradient 0
  std::ranges::copy_if(norms, std::back_inserter(taught), [](double norm) { return norm > 0; });
  return taught.empty() ? kNan : *std::ranges::max_element(taught) / median(taught);
}

double reward_left(const Course& course) {
  constexpr double kAnyReward = 0.05;  // if the best reward is smaller, the rule gives no verdict
  constexpr double kBroken = 0.1;
  const Values rewards = finite(course.column(kReward));
  const double now = mean(recent(rewards));
  double best = best_mean(rewards);
  // Also compares with the first reward: a policy that broke at once never had five good steps.
  if (!rewards.empty() && now < kBroken * rewards.front()) best = std::fmax(best, rewards.front());
  return best > kAnyReward ? now / best : kNan;
}

/// Divides the rise of each held-out set's score by the rise of the training reward, and returns the largest quotient.
/// A set's rise ends at the higher of its last two scores.
double held_out_share(const Course& course) {
  constexpr double kRise = 0.15;
  const Values rewards = finite(course.column(kReward));
  const double rise = mean(recent(rewards)) - mean(start(rewards));
  if (!(rise > kRise)) return kNan;
  double most = kNan;
  for (const auto& [name, scores] : course.held_out()) {
    if (scores.size() < 2) continue;
    const auto late = scores.end() - std::min<std::ptrdiff_t>(2, std::ssize(scores) - 1);
    most = std::fmax(most, (*std::max_element(late, scores.end()) - scores.front()) / rise);
  }
  return most;
}

/// Returns the recent mean of quant/changed_fraction while the reward is flat: its recent mean is within two standard
/// errors of the start's. NaN otherwise, since weights that move the reward do reach the sampler.
double changed_while_flat(const Course& course) {
  const Values first = finite(start(course.column(kReward))), last = finite(recent(course.column(kReward)));
  if (first.size() < 2 || last.size() < 2) return kNan;
  const auto error_squared = [](const Values& values) {
    const double center = mean(values), count = static_cast<double>(values.size());
    double squares = 0;
    for (const double value : values) squares += (value - center) * (value - center);
    return squares / (count - 1) / count;
  };
  const double errors = 2 * std::sqrt(error_squared(first) + error_squared(last));
  return std::fabs(mean(last) - mean(first)) <= errors ? recent_mean(course, "quant/changed_fraction") : kNan;
}

double skipped_steps(const Course& course) {
  const auto norms = course.column("actor/grad_norm"), flat = course.column("data/flat_group_fraction");
  if (finite(flat).empty()) return kNan;
  double skipped = 0;
  for (std::size_t i = 0; i < norms.size(); ++i) skipped += !std::isfinite(norms[i]) && flat[i] != 1 ? 1 : 0;
  return skipped;
}

// Bounds chosen by this project. In the 202 runs of docs/science, 14 exceed the bound of "sampler and learner are far
// apart", all with W4A8 samplers. Runs that learn have a k3 KL of 1e-6 to 3e-2.
constexpr std::array<Rule, 14> kRules = {{
    {"most groups are flat", "data/flat_group_fraction", "mean of the recent steps", true, 0.7, 5,
     [](const Course& course) { return recent_mean(course, "data/flat_group_fraction"); },
     "choose prompts that are neither always nor never solved, raise rollout.n, or set algorithm.filter_groups", 1},
    {"most responses have no answer", "reward/no_answer_fraction", "mean of the recent steps", true, 0.7, 5,
     [](const Course& course) { return recent_mean(course, "reward/no_answer_fraction"); },
     "look at the samples, then at data.prompt_template, reward.profile and data.max_response_length"},
    {"many responses are cut", "response_length/clip_ratio", "mean of the recent steps", true, 0.4, 5,
     [](const Course& course) { return recent_mean(course, "response_length/clip_ratio"); },
     "raise data.max_response_length"},
    {"the reward has fallen", kReward, "recent mean as a share of the best mean of five steps in a row", false, 0.5, 10,
     reward_left, "lower optim.lr and resume from an earlier checkpoint"},
    {"training rises, held-out does not", "val/*/mean@N or val/*/score/mean@N",
     "its rise as a share of the training reward's rise", false, 0.2, 10, held_out_share,
     "use more prompts: these are memorized"},
    {"entropy has collapsed", "actor/entropy", "recent mean as a share of the start's mean", false, 1.0 / 3, 10,
     entropy_left, "raise algorithm.clip_ratio_high or algorithm.entropy_coef, lower optim.lr"},
    {"the gradient has spikes", "actor/grad_norm", "highest as a multiple of the median", true, 10, 10,
     highest_gradient, "set optim.grad_clip, or lower optim.lr"},
    {"updates were skipped", "actor/grad_norm", "steps without a finite value", true, 0, 1, skipped_steps,
     "lower optim.lr, set optim.grad_clip, and resume from an earlier checkpoint"},
    {"the verifier makes errors", "reward/verifier_error_fraction", "mean of all steps", true, 0.01, 5,
     [](const Course& course) { return mean(finite(course.column("reward/verifier_error_fraction"))); },
     "look at the reasons in rollouts/step_N.jsonl"},
    {"sampler and learner are far apart", "mismatch/k3_kl", "median of the recent steps", true, 0.03, 5,
     [](const Course& course) { return median(finite(recent(course.column("mismatch/k3_kl")))); },
     "set rollout.bitwise, which makes the gap 0, or quant.rollout.rotation: hadamard, or use quant.rollout.weights "
     "with more bits",
     0.1},
    {"tokens are masked before any update", "mismatch/masked_at_start_fraction", "mean of the recent steps", true, 0.01,
     5, [](const Course& course) { return recent_mean(course, "mismatch/masked_at_start_fraction"); },
     "the bound then pulls the policy to the sampler's rounding, whatever the reward: set quant.learner.forward: "
     "low_bit "
     "or rollout.bitwise, or with one update per step algorithm.bound_moved_only",
     0.01},
    {"updates do not reach the sampler", "quant/changed_fraction", "mean of the recent steps, while the reward is flat",
     false, 1e-3, 20, changed_while_flat, "raise optim.lr: hardly any of the sampler's quantized values change"},
    {"the gap grows", "mismatch/k3_kl", "recent median as a multiple of the start's median", true, 3, 10, gap_growth,
     "lower optim.lr, or publish more often: fewer updates per step"},
    {"the correction drops most tokens", "mismatch/dropped_fraction", "mean of the recent steps", true, 0.5, 5,
     [](const Course& course) { return recent_mean(course, "mismatch/dropped_fraction"); },
     "widen rollout_correction.threshold, or use a method that caps weights", 0.5},
}};

}  // namespace

void Course::add(const Row& row) {
  measures_.add(row.metrics);
  for (const auto& [name, value] : row.metrics) {
    if (measures_.is_held_out_score(name) && std::isfinite(value)) held_out_[name].push_back(value);
  }
  if (row.metrics.count(kReward) == 0) return;
  const auto before = static_cast<std::size_t>(num_steps());
  steps_.push_back(row.step);
  for (const Rule& one : rules()) {
    auto& column = columns_.try_emplace(std::string(one.metric), before, kNan).first->second;
    if (column.size() == before) column.push_back(value_of(row.metrics, std::string(one.metric)));
  }
}

std::span<const double> Course::column(std::string_view metric) const {
  const auto found = columns_.find(metric);
  return found == columns_.end() ? std::span<const double>() : std::span<const double>(found->second);
}

std::span<const Rule> rules() { return kRules; }

const Rule& rule(std::string_view name) {
  const auto all = rules();
  const auto found = std::ranges::find_if(all, [&](const Rule& one) { return one.name == name; });
  QRL_INVARIANT(found != all.end(), "report", "a rule of that name", std::string(name));
  return *found;
}

std::vector<Verdict> judge(const Course& course) {
  std::vector<Verdict> verdicts;
  for (const Rule& one : rules()) {
    const bool needs_steps = course.num_steps() < one.min_steps;
    const double number = needs_steps ? kNan : one.measure(course);
    verdicts.push_back({&one, number, one.above ? number > one.bound : number < one.bound, needs_steps});
  }
  return verdicts;
}

std::vector<Verdict> judge(const Rows& rows) {
  Course course;
  for (const Row& row : rows.rows) course.add(row);
  return judge(course);
}

std::string describe(const Verdict& verdict) {
  const Rule& one = *verdict.rule;
  return base::format("%.*s: %.3g %c %.3g (%.*s, %.*s); %.*s", static_cast<int>(one.name.size()), one.name.data(),
                      verdict.number, one.above ? '>' : '<', one.bound, static_cast<int>(one.metric.size()),
                      one.metric.data(), static_cast<int>(one.number.size()), one.number.data(),
                      static_cast<int>(one.advice.size()), one.advice.data());
}

std::string summary(std::span<const Verdict> verdicts) {
  const auto judged = std::ranges::count_if(verdicts, [](const Verdict& one) { return std::isfinite(one.number); });
  const auto bad = std::ranges::count_if(verdicts, &Verdict::bad);
  const auto waiting = std::ranges::count_if(verdicts, &Verdict::needs_steps);
  if (judged == 0) return "too few steps for a verdict";
  return std::to_string(judged) + " of " + std::to_string(verdicts.size()) + " rules judged, " +
         (bad == 0 ? "none" : std::to_string(bad)) + " broken" +
         (waiting == 0 ? "" : "; " + std::to_string(waiting) + " need more steps");
}

std::vector<Verdict> Watcher::observe(const Row& row) {
  course_.add(row);
  said_.resize(rules().size());
  std::vector<Verdict> fresh;
  const std::vector<Verdict> verdicts = judge(course_);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (!verdicts[i].bad || said_[i]) continue;
    said_[i] = true;
    fresh.push_back(verdicts[i]);
  }
  return fresh;
}

}  // namespace qrl::report
