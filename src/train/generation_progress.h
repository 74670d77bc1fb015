// Owns the progress lines of a long generation: how many responses are done, and how long the rest takes. Knows nothing
// of their use.
#pragma once

#include <cstdint>
#include <string>

#include "decoder/decoder.h"

namespace qrl::train {

/// Logs "WHAT: 34 of 200 responses, left 1m05s" while it is alive: after ten seconds, then at twice that time and so
/// on, at least once a minute. One at a time, on the thread that calls the decoder.
class GenerationProgress {
 public:
  GenerationProgress(std::string what, std::int64_t num_responses, const decoder::Decoder& decoder);
  ~GenerationProgress();
  GenerationProgress(const GenerationProgress&) = delete;
  GenerationProgress& operator=(const GenerationProgress&) = delete;

  /// Says so when it is time; every sampler calls it before a tick.
  static void tick();
  /// Sets when the first line comes, for tests; 10 s.
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
