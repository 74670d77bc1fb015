// Owns the loop of ticks: which is chosen, started and finished when, what its samples are to their sequences, and the
// counts. Knows nothing of what computes a tick.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "decoder/backend.h"
#include "decoder/decoder.h"
#include "decoder/page_pool.h"
#include "decoder/plan.h"
#include "decoder/scheduler.h"

namespace qrl::decoder {

/// Ticks over the requests of one scheduler. A tick is chosen, planned and given to a device while that has the one
/// before.
class TickLoop {
 public:
  /// `config` and `options` must outlive it.
  TickLoop(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend);
  TickLoop(const TickLoop&) = delete;
  TickLoop& operator=(const TickLoop&) = delete;

  /// Queues a (checked) request.
  RequestId submit(Request request);
  /// As Decoder::tick, with the weights of `snapshot`, which the backend has loaded.
  bool tick(const model::Snapshot& snapshot);
  std::vector<FinishedRequest> take_finished() { return scheduler_.take_finished(); }

  /// No request is unfinished and no tick under way.
  bool idle() const { return scheduler_.done() && num_under_way_ == 0; }

  Backend& backend() { return *backend_; }
  const Backend& backend() const { return *backend_; }
  const DecoderStats& stats() const { return stats_; }
  void reset_stats() { stats_ = {}; }

 private:
  /// A tick that the backend was given.
  struct StartedTick {
    explicit StartedTick(const model::ModelConfig& config) : plan(config) {}
    Plan plan;
    std::vector<ops::SampledToken> samples;  // of the plan's sample_rows
    std::int64_t num_graphs = 0;             // 1: launched as a CUDA graph
  };

  void begin(const model::Snapshot& snapshot);
  void run_tick(const model::Snapshot& snapshot);
  void start(std::span<Sequence* const> chosen, const model::Snapshot& snapshot);
  void finish_oldest(const model::Snapshot& snapshot);
  std::int64_t give_to_sequences(const StartedTick& tick);
  bool ends(Sequence& sequence, types::TokenId token) const;
  void count_tick(const StartedTick& tick, std::int64_t num_dropped);

  const DecoderOptions& options_;
  std::unique_ptr<Backend> backend_;
  DecoderStats stats_;
  PagePool pool_{0};  // made anew after each idle time
  Scheduler scheduler_;
  RequestId next_id_ = 0;
  bool has_begun_ = false;            // since the last idle time
  std::int64_t version_ = 0;          // of the weights since then
  std::array<StartedTick, 2> ticks_;  // take turns
  std::int64_t num_started_ = 0;      // in all
  int num_under_way_ = 0;             // of those, not finished
  std::vector<Sequence*> finished_;   // by the tick finished last
  double counted_s_ = 0;              // until when time was counted to a tick,
  double counted_waited_s_ = 0;       // and how much of it had been waited for a device
};

}  // namespace qrl::decoder
