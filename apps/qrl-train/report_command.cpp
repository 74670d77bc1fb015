#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "commands.h"
#include "report/page.h"
#include "report/page_data.h"
#include "report/sample_text.h"
#include "report/text.h"
#include "state/file.h"
#include "state/folder.h"

namespace qrl::app {

namespace {

constexpr std::size_t kMaxRuns = 8;
constexpr std::size_t kMaxPageBytes = 20 << 20;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out, tensorboard, group;
  report::SampleChoice samples;
  std::int64_t num_samples = 0;
  bool best = false, worst = false;
};

bool is_page_or_new(const std::filesystem::path& file) {
  constexpr std::string_view kBegin = "<!doctype html>";
  std::ifstream in(file, std::ios::binary);
  std::string begin(kBegin.size(), '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return begin.empty() || begin == kBegin;
}

void write_page(const std::vector<report::RunFiles>& runs, const ReportArguments& arguments) {
  const std::filesystem::path file = state::output_file(arguments.out);
  QRL_REQUIRE(is_page_or_new(file), arguments.out, "a new file, or an HTML page to replace",
              "a file that is not an HTML page", "name a file such as report.html");
  report::PageLimits limits;
  std::string page;
  do {  // halves the number of samples until the page fits
    page = report::make_page(report::script_json(report::page_json(runs, arguments.group == "seed", limits)), false);
    limits.max_sample_bytes /= 2;
  } while (page.size() > kMaxPageBytes && limits.max_sample_bytes > (1 << 16));
  QRL_REQUIRE(page.size() <= kMaxPageBytes, arguments.out, "a page of at most 20 MB",
              std::to_string(page.size()) + " bytes", "give fewer runs");
  state::replace_file(file, page);
  std::printf("%s: %zu %s, %.1f MB\n", file.c_str(), runs.size(), runs.size() == 1 ? "run" : "runs",
              static_cast<double>(page.size()) / 1e6);
}

void write_events(const std::vector<report::RunFiles>& runs, const std::string& out) {
  for (const report::RunFiles& run : runs) {
    const std::filesystem::path dir =
        runs.size() == 1 ? std::filesystem::path(out) : std::filesystem::path(out) / run.name;
    report::write_tensorboard(run, dir);
    std::printf("%s: %zu rows\n", dir.c_str(), run.rows.rows.size() + run.sft_rows.rows.size());
  }
}

std::string text_of(const std::vector<report::RunFiles>& runs, const ReportArguments& arguments) {
  if (arguments.num_samples == 0) return report::report_text(runs);
  report::SampleChoice choice = arguments.samples;
  choice.count = static_cast<std::size_t>(arguments.num_samples);
  using Order = report::SampleChoice::Order;
  choice.order = arguments.best ? Order::best : arguments.worst ? Order::worst : Order::spread;
  std::string text;
  for (const report::RunFiles& run : runs) text += (text.empty() ? "" : "\n") + report::samples_text(run, choice);
  return text;
}

void report_runs(const ReportArguments& arguments) {
  QRL_REQUIRE(arguments.runs.size() <= kMaxRuns, "qrl-train report", "at most " + std::to_string(kMaxRuns) + " runs",
              std::to_string(arguments.runs.size()));
  QRL_REQUIRE(arguments.group.empty() || !arguments.out.empty(), "--group", "--out as well", "no --out");
  std::vector<report::RunFiles> runs;
  for (const std::string& dir : arguments.runs) runs.push_back(report::read_run(dir));
  if (!arguments.tensorboard.empty()) write_events(runs, arguments.tensorboard);
  if (!arguments.out.empty()) write_page(runs, arguments);
  if ((arguments.out.empty() && arguments.tensorboard.empty()) || arguments.num_samples > 0)
    std::printf("%s", text_of(runs, arguments).c_str());
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "summarize what runs have learned; prints verdicts and a table, or with --out writes an HTML page");
  command->add_option("RUN", arguments->runs, "run folders, at most 8")->required()->check(not_empty());
  add_text(*command, "--out", arguments->out, "FILE", "write a self-contained HTML file with charts and samples");
  add_text(*command, "--tensorboard", arguments->tensorboard, "DIR", "write TensorBoard event files to this folder");
  command
      ->add_option("--group", arguments->group,
                   "seed: draw runs that differ only in their seed as one curve with mean and range")
      ->check(one_of({"seed"}));
  CLI::Option* samples =
      command
          ->add_option("--samples", arguments->num_samples, "print N responses with scores and reasons, and no table")
          ->type_name("N")
          ->check(between(1, 100000));
  command->add_option("--step", arguments->samples.step, "step of the responses (default: the newest)")
      ->type_name("N")
      ->needs(samples);
  CLI::Option* best = command->add_flag("--best", arguments->best, "responses with the highest scores")->needs(samples);
  command->add_flag("--worst", arguments->worst, "responses with the lowest scores")->needs(samples)->excludes(best);
  command->add_flag("--held-out", arguments->samples.held_out, "answers to held-out prompts, not training's responses")
      ->needs(samples);
  set_work(*command, action, arguments, report_runs);
}

}  // namespace qrl::app
