#include "train/metrics/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/text.h"

namespace qrl::train {

namespace {

bool on_terminal() {
  for (const char* launched : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(launched) != nullptr) return false;
  }
  return isatty(STDOUT_FILENO) == 1;
}

bool has_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != std::string_view::npos || locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

double value_or_zero(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? 0.0 : found->second;
}

std::string gap_text(const Metrics& metrics) {
  if (value_or_zero(metrics, "data/flat_group_fraction") == 1) return "none (all groups flat)";
  const auto gap = metrics.find("mismatch/k3_kl");
  return gap == metrics.end() || !std::isfinite(gap->second) ? "-" : base::format("%.1e", gap->second);
}

constexpr double kMostBetween_s = 60;
double first_line_s = 10;
GenerationProgress* alive = nullptr;

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = std::lround(seconds);
  if (whole < 60) return base::format("%lds", whole);
  if (whole < 3600) return base::format("%ldm%02lds", whole / 60, whole % 60);
  return base::format("%ldh%02ldm", whole / 3600, whole / 60 % 60);
}

std::string step_facts(const Metrics& metrics) {
  return base::format("reward %.3f  length %.1f  gap %s  %.0f tok/s", value_or_zero(metrics, "critic/rewards/mean"),
                      value_or_zero(metrics, "response_length/mean"), gap_text(metrics).c_str(),
                      value_or_zero(metrics, "perf/tokens_per_s"));
}

std::string terminal_facts(const Metrics& metrics, std::span<const double> rewards, double held_out, int columns) {
  constexpr int kOtherColumns = 77, kMostColumns = 20;  // columns of the other text; the sparkline's maximum
  const std::string gap = gap_text(metrics);
  const int width = std::clamp(columns - kOtherColumns - static_cast<int>(gap.size()), 0, kMostColumns);
  const std::string course = report::sparkline(rewards, static_cast<std::size_t>(width));
  return base::format("reward %.3f", value_or_zero(metrics, "critic/rewards/mean")) +
         (course.empty() ? "" : " " + course) +
         (std::isfinite(held_out) ? base::format("  held-out %.3f", held_out) : "") + "  gap " + gap +
         base::format("  %.0f tok/s", value_or_zero(metrics, "perf/tokens_per_s"));
}

Progress::Progress(std::string what, std::int64_t first_step, std::int64_t last_step, bool quiet)
    : what_(std::move(what)),
      first_step_(first_step),
      last_step_(last_step),
      quiet_(quiet),
      terminal_(on_terminal()),
      start_s_(base::now_s()) {
  base::set_making_parts(false);
  if (!terminal_) return;
  base::set_before_log([this] {
    if (!line_open_.exchange(false)) return;
    std::fputs("\n", stdout);
    std::fflush(stdout);
  });
}

Progress::~Progress() {
  if (terminal_) base::set_before_log({});
  if (line_open_) std::fputs("\n", stdout);
  std::fflush(stdout);
}

int Progress::columns() const {
  winsize size{};
  if (!terminal_ || quiet_ || !has_utf8() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col > 0 ? size.ws_col : 80;
}

void Progress::show(std::int64_t step, const std::string& facts) {
  if (quiet_) return;
  const double pace_s = (base::now_s() - start_s_) / static_cast<double>(step - first_step_ + 1);
  const std::string line =
      base::format("%s %ld/%ld  %s  left %s", what_.c_str(), static_cast<long>(step), static_cast<long>(last_step_),
                   facts.c_str(), duration_text(pace_s * static_cast<double>(last_step_ - step)).c_str());
  if (terminal_) std::printf("\r\x1b[K%s", line.c_str());
  else std::printf("%s\n", line.c_str());
  base::log_to_file(line);
  line_open_ = terminal_;
  std::fflush(stdout);
}

void Progress::say(const std::string& line) {
  if (quiet_) return;
  std::printf("%s%s\n", line_open_.exchange(false) ? "\n" : "", line.c_str());
  base::log_to_file(line);
  std::fflush(stdout);
}

GenerationProgress::GenerationProgress(std::string what, std::int64_t num_responses, const decoder::Decoder& decoder)
    : what_(std::move(what)),
      num_responses_(num_responses),
      decoder_(decoder),
      finished_before_(decoder.stats().samples_finished),
      start_s_(base::now_s()),
      next_s_(start_s_ + first_line_s) {
  alive = this;
}

GenerationProgress::~GenerationProgress() { alive = nullptr; }

void GenerationProgress::tick() {
  if (alive != nullptr && base::now_s() >= alive->next_s_) alive->show();
}

void GenerationProgress::set_first_line_s(double seconds) { first_line_s = seconds; }

void GenerationProgress::show() {
  const double elapsed_s = base::now_s() - start_s_;
  const std::int64_t done = decoder_.stats().samples_finished - finished_before_;
  std::string line = what_ + ": " + std::to_string(done) + " of " + std::to_string(num_responses_) + " responses";
  if (done > 0)
    line +=
        ", left " + duration_text(elapsed_s / static_cast<double>(done) * static_cast<double>(num_responses_ - done));
  base::log_info(line);
  next_s_ = start_s_ + elapsed_s + std::min(elapsed_s, kMostBetween_s);
}

}  // namespace qrl::train
