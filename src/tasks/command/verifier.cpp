#include <algorithm>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "tasks/command/pool.h"
#include "tasks/command/process.h"
#include "tasks/command/protocol.h"
#include "tasks/task.h"

namespace qrl::tasks {

namespace {

constexpr std::int64_t kFirstResponses = 16;
constexpr std::size_t kShownGolds = 20;
constexpr int kMostGoldFaults = 8;  ///< number of unanswered ground truths at which the check fails

struct CommandGold final : types::Gold {
  std::string fields;  ///< JSON fields that all rows of the question share
  std::shared_ptr<const types::Gold> after;
};

CrewSettings settings_of(const CommandOptions& options) {
  CrewSettings settings =
      crew_settings(kRewardSection, options.argv, options.folder, options.env, options.memory_mb << 20);
  settings.num_workers = num_workers(options);
  if (settings.num_workers > base::num_threads())
    base::log_once("reward.workers", "reward.workers is " + std::to_string(settings.num_workers) +
                                         ", but this process has " + std::to_string(base::num_threads()) +
                                         " threads: workers take turns, except while they wait for something else");
  settings.start_timeout_s = options.start_timeout_s;
  return settings;
}

const char* reason_of(RowFault fault) {
  switch (fault) {
    case RowFault::timeout:
      return "timeout";
    case RowFault::crashed:
      return "crashed";
    case RowFault::protocol:
      break;
  }
  return "protocol";
}

struct CommandBatch {
  std::span<const Sample> samples;
  const JudgeContext& context;
  std::vector<Verdict> verdicts;
  std::vector<std::size_t> rows;  ///< index of each row's first sample, then samples.size()
  std::int64_t num_errors = 0;
};

/// Judges with the user's program, run by a pool of workers that starts at the first use. A response without a valid
/// answer gets verifier_error.
class CommandVerifier final : public Verifier {
 public:
  /// Throws an input error if the program does not exist. `after`, unless null, judges each response first.
  CommandVerifier(const CommandOptions& options, std::unique_ptr<Verifier> after)
      : options_(options), settings_(settings_of(options)), after_(std::move(after)) {}

  void check_ground_truth(const Question& question, const std::string& where) const override {
    const std::lock_guard guard(lock_);
    if (after_) after_->check_ground_truth(question, where);
    if (start(&question).checks_gold) golds_.emplace_back(question_fields(question, ready_.wants_row), where);
  }
  /// If the program checks ground truths, throws one input error that names the first 20 rejected ones.
  void finish_checks() const override {
    const std::lock_guard guard(lock_);
    if (after_) after_->finish_checks();
    check_golds();
  }
  std::shared_ptr<const types::Gold> prepare(const Question& question) const override {
    const std::lock_guard guard(lock_);
    auto gold = std::make_shared<CommandGold>();
    gold->fields = question_fields(question, start(&question).wants_row);
    if (after_) gold->after = after_->prepare(question);
    return gold;
  }
  /// Verdicts do not depend on the number of workers or their order.
  std::vector<Verdict> judge(std::span<const Sample> samples, const JudgeContext& context) const override;
  const std::vector<std::string>& score_names() const override {
    const std::lock_guard guard(lock_);
    return start(nullptr).scores;
  }
  std::vector<double> score_weights(const RuleWeights& /*rule_weights*/) const override {
    const std::lock_guard guard(lock_);
    start(nullptr);
    return weights_;
  }
  bool wants_rows() const override { return true; }
  bool needs_ground_truths() const override { return after_ != nullptr; }
  bool wants_tokens() const override {
    const std::lock_guard guard(lock_);
    return pool_ && (ready_.wants_tokens || ready_.wants_prompt_tokens);
  }
  const std::vector<Read>& reads() const override {
    const std::lock_guard guard(lock_);
    return ready_.reads;
  }
  std::optional<JudgeReport> take_report() const override {
    const std::lock_guard guard(lock_);
    if (pool_) {
      report_.row_ms = pool_->take_row_ms();
      report_.num_restarts = pool_->take_restarts();
    }
    return std::exchange(report_, {});
  }
  void log_to(const std::filesystem::path& file) const override {
    const std::lock_guard guard(lock_);
    log_file_ = file;
    if (pool_) pool_->log_to(file);
  }
  void show_log() const override {
    const std::lock_guard guard(lock_);
    shows_log_ = true;
    if (pool_) pool_->show_log();
  }
  bool same_answer(std::string_view one, std::string_view other) const noexcept override {
    return after_ ? after_->same_answer(one, other) : one == other;
  }

 private:
  // These functions require lock_.
  const CommandReady& start(const Question* first) const;
  void check_golds() const;
  void put(CommandBatch& batch, std::size_t sample, Verdict verdict) const;
  void check_errors(const CommandBatch& batch) const;
  Verdict without_scores(Verdict verdict) const;

  const CommandOptions options_;
  const CrewSettings settings_;
  const std::unique_ptr<Verifier> after_;
  mutable std::mutex lock_;
  mutable std::filesystem::path log_file_;
  mutable bool shows_log_ = false;
  mutable std::unique_ptr<Pool> pool_;
  mutable CommandReady ready_;
  mutable std::vector<double> weights_;
  mutable bool is_group_ = false;
  mutable std::vector<std::pair<std::string, std::string>> golds_;  ///< JSON and location of unchecked ground truths
  mutable JudgeReport report_;
  mutable std::int64_t num_first_ = 0, num_first_errors_ = 0;  ///< first responses judged; errors among them
};

const CommandReady& CommandVerifier::start(const Question* first) const {
  if (pool_) return ready_;
  CrewSettings settings = settings_;
  settings.hello = hello_line(options_.seed, options_.run_folder, first);
  auto pool = std::make_unique<Pool>(std::move(settings), PoolLimits{options_.in_flight, options_.timeout_s});
  if (shows_log_) pool->show_log();
  if (!log_file_.empty()) pool->log_to(log_file_);
  ready_ = read_ready(pool->start());
  is_group_ = options_.rows ? *options_.rows == RewardRows::group : ready_.takes_groups;
  QRL_REQUIRE(!is_group_ || options_.in_flight == 1, "reward.in_flight", "1, because the program takes whole groups",
              std::to_string(options_.in_flight), "delete it");
  weights_ = chosen_weights(ready_, options_.weights);
  for (const std::string& note : ready_.notes) pool->log_once(kCommandKey + (": " + note));
  for (const auto& [name, words] : ready_.reads) {
    const std::string line =
        std::string(kCommandKey) + ": it reads " + name + ", and gets nothing for it in the first row";
    if (!words) base::log_once(line, line);
  }
  pool_ = std::move(pool);
  return ready_;
}

void CommandVerifier::check_golds() const {
  if (golds_.empty()) return;  // without data rows, the program was never started
  const auto golds = std::exchange(golds_, {});
  std::vector<std::string> refusals(golds.size());
  PoolJob job;
  job.num_rows = golds.size();
  job.write = [&](std::size_t row, std::uint64_t id, std::string& line) {
    line += R"({"gold":{"id":)" + std::to_string(id) + "," + golds[row].first + "}}\n";
  };
  job.accept = [&](std::size_t row, const nlohmann::json& answer) {
    const auto error = answer.find("error");
    if (error == answer.end()) return answer.value("ok", nlohmann::json()) == true;
    if (error->is_string()) refusals[row] = base::quoted(error->get<std::string>(), 200);
    return error->is_string();
  };
  int num_faults = 0;
  job.fail = [&](std::size_t row, RowFault fault) {
    refusals[row] = reason_of(fault);
    QRL_REQUIRE(++num_faults < kMostGoldFaults, kCommandKey,
                "a program that answers each ground truth within reward.timeout_s",
                std::to_string(num_faults) + " ground truths without an answer, the last at " + golds[row].second +
                    ": " + refusals[row],
                "answer {\"id\": …, \"ok\": true} or an error, or set checks_gold to false in the ready line to skip "
                "these checks");
  };
  pool_->run(job);
  std::string lines;
  std::size_t num_refused = 0;
  for (std::size_t row = 0; row < golds.size(); ++row) {
    if (refusals[row].empty() || ++num_refused > kShownGolds) continue;
    lines += "\n  " + golds[row].second + ": " + refusals[row];
  }
  QRL_REQUIRE(num_refused == 0, kCommandKey, "ground truths that the program accepts",
              std::to_string(num_refused) + " of " + std::to_string(golds.size()) + " refused" +
                  (num_refused > kShownGolds ? ", the first " + std::to_string(kShownGolds) : "") + ":" + lines);
}

Verdict CommandVerifier::without_scores(Verdict verdict) const {
  verdict.verifier_error = true;
  verdict.dropped = options_.on_error == OnVerifierError::drop;
  verdict.scores.assign(ready_.scores.size(), verdict.dropped ? std::numeric_limits<double>::quiet_NaN() : 0.0);
  return verdict;
}

void CommandVerifier::put(CommandBatch& batch, std::size_t sample, Verdict verdict) const {
  if (verdict.verifier_error) {
    verdict = without_scores(std::move(verdict));
    ++batch.num_errors;
    std::int64_t& count = verdict.reason == "timeout"    ? report_.num_timeouts
                          : verdict.reason == "crashed"  ? report_.num_crashes
                          : verdict.reason == "protocol" ? report_.num_protocol
                                                         : report_.num_errors;
    ++count;
  }
  if (num_first_ < kFirstResponses) {
    ++num_first_;
    num_first_errors_ += verdict.verifier_error ? 1 : 0;
  }
  batch.verdicts[sample] = std::move(verdict);
}

void CommandVerifier::check_errors(const CommandBatch& batch) const {
  if (!batch.context.max_errors || batch.num_errors == 0) return;
  const bool none_judged = num_first_ == kFirstResponses && num_first_errors_ == kFirstResponses;
  if (!none_judged && batch.num_errors <= *batch.context.max_errors) return;
  std::map<std::string, std::int64_t> reasons;
  std::string last;
  for (const Verdict& verdict : batch.verdicts) {
    if (!verdict.verifier_error) continue;
    ++reasons[std::string(verdict.reason)];
    if (!verdict.detail.empty()) last = verdict.detail;
  }
  std::string got = std::to_string(batch.num_errors) + " of " + std::to_string(batch.samples.size()) + " so far (";
  for (const auto& [reason, count] : reasons)
    got += (got.ends_with('(') ? "" : ", ") + std::to_string(count) + " " + reason;
  const std::string& errors = pool_->last_errors();
  throw base::Error(
      base::ErrorKind::guard, "reward",
      none_judged
          ? "a command that judges at least one of the first " + std::to_string(kFirstResponses) + " responses"
          : "at most reward.max_error_fraction = " + std::to_string(options_.max_error_fraction) + " verifier errors",
      got + ")" + (last.empty() ? "" : "; the last: " + base::quoted(last, 200)),
      "run qrl-train check reward RECIPE to test the command without training" +
          (errors.empty() ? "" : "; its last lines on standard error:" + errors));
}

std::vector<Verdict> CommandVerifier::judge(std::span<const Sample> samples, const JudgeContext& context) const {
  const std::lock_guard guard(lock_);
  start(nullptr);
  CommandBatch batch{samples, context, std::vector<Verdict>(samples.size()), {}};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i == 0 || !is_group_ || samples[i].group != samples[i - 1].group) batch.rows.push_back(i);
  }
  batch.rows.push_back(samples.size());
  std::vector<Verdict> before;
  if (after_) {
    std::vector<Sample> plain(samples.begin(), samples.end());
    for (Sample& sample : plain) {
      if (sample.gold != nullptr) sample.gold = static_cast<const CommandGold*>(sample.gold)->after.get();
    }
    before = after_->judge(plain);
  }
  const auto append_sample = [&](std::size_t i, std::string& line) {
    append_response(samples[i], ready_, before.empty() ? nullptr : &before[i], line);
  };
  PoolJob job;
  job.num_rows = batch.rows.size() - 1;
  job.pause = context.pause;
  job.write = [&](std::size_t row, std::uint64_t id, std::string& line) {
    const std::size_t first = batch.rows[row], end = batch.rows[row + 1];
    line += "{\"id\":" + std::to_string(id) + ",";
    if (const auto* gold = static_cast<const CommandGold*>(samples[first].gold)) line += gold->fields + ",";
    line += "\"step\":" + std::to_string(context.step) + ",\"eval\":" + (context.is_evaluation ? "true," : "false,");
    if (ready_.wants_prompt_tokens) append_ids(samples[first].prompt_tokens, line += "\"prompt_tokens\":");
    if (ready_.wants_prompt_tokens) line += ",";
    if (is_group_) line += "\"samples\":[{";
    for (std::size_t i = first; i < end; ++i) {
      if (i > first) line += "},{";
      append_sample(i, line);
    }
    line += is_group_ ? "}]}\n" : "}\n";
  };
  job.accept = [&](std::size_t row, const nlohmann::json& answer) {
    const std::size_t first = batch.rows[row], size = batch.rows[row + 1] - first;
    std::vector<Verdict> verdicts;
    if (const auto trace = answer.find("traceback"); trace != answer.end() && trace->is_string())
      pool_->log_once(trace->get<std::string>());
    const auto answers = answer.find("answers");
    const bool is_list = is_group_ && answer.find("error") == answer.end();
    if (is_list && (answers == answer.end() || !answers->is_array() || answers->size() != size)) return false;
    for (std::size_t i = 0; i < size; ++i) {
      auto verdict = read_answer(is_list ? (*answers)[i] : answer, ready_, options_.correct_at);
      if (!verdict) return false;
      verdicts.push_back(*std::move(verdict));
    }
    for (std::size_t i = 0; i < size; ++i) put(batch, first + i, std::move(verdicts[i]));
    check_errors(batch);
    return true;
  };
  job.fail = [&](std::size_t row, RowFault fault) {
    for (std::size_t i = batch.rows[row]; i < batch.rows[row + 1]; ++i)
      put(batch, i, Verdict{Outcome::no_answer, reason_of(fault), true});
    check_errors(batch);
  };
  const double begin_s = base::now_s();
  pool_->run(job);
  report_.seconds += base::now_s() - begin_s;
  report_.num_rows += static_cast<std::int64_t>(job.num_rows);
  report_.num_samples += std::ssize(samples);
  return std::move(batch.verdicts);
}

}  // namespace

/// Has no `params`: config/keys/reward_keys.cpp has the command's keys.
extern const Task command_task;
const Task command_task{{},
                        {{.word = "command", .what = "a program of your own"},
                         [](const VerifierOptions& options) -> std::unique_ptr<Verifier> {
                           const std::string after = options.command.after.word();
                           return std::make_unique<CommandVerifier>(
                               options.command, after.empty() ? nullptr : make_verifier_of(options, after));
                         },
                         "data that your program judges",
                         {}}};

}  // namespace qrl::tasks
