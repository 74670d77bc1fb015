#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "compare/verdict.h"
#include "compare_arms.h"
#include "compare_runs.h"
#include "state/file.h"
#include "state/folder.h"
#include "train/signals.h"

namespace qrl::app {

namespace {

namespace fs = std::filesystem;

struct CompareArguments {
  std::string file, out, part = "1/1";
  compare::PlanWords words;
  std::vector<std::string> from;
  std::int64_t jobs = 1;
};

compare::Plan plan_of(const CompareArguments& arguments) {
  QRL_REQUIRE(!arguments.file.empty(), "qrl-train compare", "a plan, or a recipe with --arm", "neither",
              "see qrl-train compare --help");
  if (arguments.words.arms.empty()) return compare::read_plan(arguments.file);
  QRL_REQUIRE(!arguments.words.endpoint.empty(), "qrl-train compare", "--endpoint METRIC with --arm", "none");
  compare::PlanWords words = arguments.words;
  words.base = arguments.file;
  return compare::plan_of_words(words);
}

void conclude(const compare::Plan& plan, const compare::ArmRuns& runs, const fs::path& out) {
  const std::vector<compare::Verdict> verdicts = compare::judge(plan, runs);
  std::fputs(compare::verdicts_text(plan, runs, verdicts).c_str(), stdout);
  if (out.empty()) return;
  state::replace_file(out / "verdict.json", compare::verdicts_json(plan, runs, verdicts));
  state::replace_file(out / "report.html", compare::verdicts_page(plan, runs, verdicts));
  base::print("%s: rows.csv.gz, verdict.json and report.html\n", state::shown(out).c_str());
}

void make_folder(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  QRL_REQUIRE(!error, state::shown(dir), "a folder that can be created", error.message(), "choose another --out");
}

void conclude_from_rows(const CompareArguments& arguments) {
  std::vector<fs::path> files(arguments.from.begin(), arguments.from.end());
  const fs::path out = arguments.out, own = out / "rows.csv.gz";
  std::optional<state::FolderLock> lock;
  if (!out.empty()) {
    make_folder(out);
    lock.emplace(out);
    if (fs::exists(own)) files.push_back(own);  // joins them, and refuses another plan's
  }
  const compare::PlanRows rows = compare::read_plan_rows(files);
  std::fputs(compare::runs_title(rows.plan).c_str(), stdout);
  for (const auto& [key, run] : rows.runs)
    std::fputs(compare::run_line(rows.plan, key.first, key.second, run).c_str(), stdout);
  if (!out.empty()) compare::write_plan_rows(own, rows.plan, rows.runs);
  conclude(rows.plan, rows.runs, out);
}

void run_comparison(const CompareArguments& arguments, dist::Collectives& world) {
  compare::Plan plan = plan_of(arguments);
  check_arms(plan, world);
  RunsOptions options{.out = arguments.out.empty()
                                 ? fs::path("runs") / ("compare-" + fs::path(arguments.file).stem().string())
                                 : fs::path(arguments.out),
                      .jobs = arguments.jobs};
  const std::size_t slash = arguments.part.find('/');
  options.part = base::number_in<std::int64_t>(arguments.part.substr(0, slash)).value_or(0);
  options.num_parts =
      slash == std::string::npos ? 0 : base::number_in<std::int64_t>(arguments.part.substr(slash + 1)).value_or(0);
  QRL_REQUIRE(options.part >= 1 && options.part <= options.num_parts, "--part", "K/N with K from 1 to N",
              base::quoted(arguments.part));
  make_folder(options.out);
  const state::FolderLock lock(options.out);
  const fs::path file = options.out / "rows.csv.gz";
  compare::ArmRuns runs;
  if (fs::exists(file)) {
    const compare::PlanRows known = compare::read_plan_rows({&file, 1});
    QRL_REQUIRE(known.plan.hash() == plan.hash(), state::shown(file), "rows of plan " + plan.hash(),
                "rows of plan " + known.plan.hash(), "a changed plan is another comparison: choose another --out");
    runs = known.runs;
  }
  std::size_t num_runs = 0;
  for (const compare::Arm& arm : plan.arms) num_runs += arm.seeds.size();
  base::print("plan %s: %zu runs of %zu arms, %zu done, in %s\n", plan.hash().c_str(), num_runs, plan.arms.size(),
              runs.size(), state::shown(options.out).c_str());
  std::fputs(compare::runs_title(plan).c_str(), stdout);
  options.on_end = [&](const std::string& arm, std::int64_t seed) {
    std::fputs(compare::run_line(plan, arm, seed, runs.at({arm, seed})).c_str(), stdout);
    std::fflush(stdout);
  };
  for (const auto& [key, run] : runs) options.on_end(key.first, key.second);
  std::fflush(stdout);
  train_arms(plan, options, runs);
  if (runs.size() == num_runs) return conclude(plan, runs, options.out);
  base::print(
      "%zu of %zu runs are done; verdicts need all of them: run the other parts, then qrl-train compare --from with "
      "each rows.csv.gz\n",
      runs.size(), num_runs);
}

void compare_arms(const CompareArguments& arguments, dist::Collectives& world) {
  if (arguments.from.empty()) run_comparison(arguments, world);
  else conclude_from_rows(arguments);
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "train arms with the same seeds, prompts and draws; prints paired differences and verdicts");
  CLI::Option* plan =
      command->add_option("PLAN", arguments->file, "plan file (YAML); with --arm, the recipe that all arms share")
          ->check(not_empty());
  CLI::Option* arm =
      command
          ->add_option(
              "--arm", arguments->words.arms,
              "NAME= (the recipe as it is) or NAME=KEY=VALUE[,KEY=VALUE]; the first is what others are compared with")
          ->type_name("NAME=KEY=VALUE")
          ->expected(1)
          ->take_all()
          ->allow_extra_args(false)
          ->needs(plan);
  add_text(*command, "--seeds", arguments->words.seeds, "N",
           "with --arm: number of seeds, or 0,1,2 or 4-11; 8 by default")
      ->check(not_empty())
      ->needs(arm);
  add_text(*command, "--endpoint", arguments->words.endpoint, "METRIC",
           "with --arm: the metric that decides, such as \"val/sums/mean@2@steps 40,50,60\"; without steps, its value "
           "at the last step")
      ->needs(arm);
  add_word(*command, "--better", arguments->words.better, {"higher", "lower"}, "WORD",
           "with --arm: which values of the metric are better; higher by default")
      ->needs(arm);
  command
      ->add_option("--margin", arguments->words.margin,
                   "with --arm: also test whether arms are equal within this margin")
      ->check(positive())
      ->type_name("FLOAT")
      ->needs(arm);
  CLI::Option* jobs =
      add_integer(*command, "--jobs", arguments->jobs, 1, 64, "runs at the same time, which share the processors");
  CLI::Option* part = add_text(*command, "--part", arguments->part, "K/N",
                               "run every N-th seed, beginning with the K-th, to divide a comparison over machines");
  add_text(*command, "--out", arguments->out, "DIR",
           "folder of runs, rows.csv.gz, verdict.json and report.html; default: runs/compare-PLAN")
      ->check(not_empty());
  command
      ->add_option("--from", arguments->from,
                   "conclude from these rows.csv.gz files alone, which hold their plan, and train nothing")
      ->type_name("ROWS")
      ->check(not_empty())
      ->excludes(plan)
      ->excludes(jobs)
      ->excludes(part);
  set_work(*command, action, arguments, compare_arms, train::install_signal_handlers);
}

}  // namespace qrl::app
