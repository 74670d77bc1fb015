#include "train/metrics/generation_progress.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "train/metrics/progress.h"

namespace qrl::train {

namespace {

constexpr double kMostBetween_s = 60;
double first_line_s = 10;
GenerationProgress* alive = nullptr;

}  // namespace

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
