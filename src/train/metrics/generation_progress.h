#pragma once

#include <cstdint>
#include <string>

#include "decoder/decoder.h"

namespace qrl::train {

/// Logs "WHAT: 34 of 200 responses, left 1m05s" during its lifetime: after ten seconds, then at doubling intervals, at
/// least once a minute. Only one may exist, on the decoder's thread.
class GenerationProgress {
 public:
  GenerationProgress(std::string what, std::int64_t num_responses, const decoder::Decoder& decoder);
  ~GenerationProgress();
  GenerationProgress(const GenerationProgress&) = delete;
  GenerationProgress& operator=(const GenerationProgress&) = delete;

  /// Logs if due. Every sampler calls it before a tick.
  static void tick();
  /// Sets the first line's time (10 s), for tests.
  static void set_first_line_s(double seconds);

 private:
  void show();

  std::string what_;
  std::int64_t num_responses_;
  const decoder::Decoder& decoder_;
  std::int64_t finished_before_;
  double start_s_, next_s_;
};

}  // namespace qrl::train
