#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/backend.h"
#include "decoder/kv/page_pool.h"
#include "decoder/options.h"
#include "decoder/plan.h"
#include "decoder/scheduler.h"

namespace qrl::decoder {

/// Returns whether `bytes`, the next token's text, complete a stop string. Updates `tail`, the end of the text so far,
/// which must be empty at first. Stop strings must not be empty.
bool completes_stop_string(std::span<const std::string> stop_strings, std::string_view bytes, std::string& tail);

/// Runs a scheduler's ticks; plans each tick while a device computes the previous one.
class TickLoop {
 public:
  /// `config` and `options` must outlive this object.
  TickLoop(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend);
  TickLoop(const TickLoop&) = delete;
  TickLoop& operator=(const TickLoop&) = delete;

  RequestId submit(Request request);
  /// Implements Decoder::tick with `snapshot`, which the backend has loaded.
  bool tick(const model::Snapshot& snapshot);
  std::vector<FinishedRequest> take_finished() { return scheduler_.take_finished(); }

  struct Turn {
    RequestId id = 0;
    std::size_t idx = 0;                        ///< of the sample in its request
    const types::Completion* so_far = nullptr;  ///< valid until the sample goes on or ends
  };
  /// Returns samples whose turn has ended since the last call (Request::by_turns).
  std::vector<Turn> take_turns();
  /// Appends tokens that are not sampled to a parked sample, then samples its next turn.
  void resume(RequestId id, std::size_t idx, std::span<const types::TokenId> tokens, std::int64_t max_tokens) {
    scheduler_.resume(scheduler_.parked_sequence(id, idx), tokens, max_tokens);
  }
  void end(RequestId id, std::size_t idx);
  /// Drops all requests.
  void abandon();
  /// Returns whether a tick would compute something. If not, all samples are parked or finished.
  bool has_work() const { return scheduler_.has_work() || num_under_way_ > 0; }
  /// Returns the number of sequences of the last tick.
  std::size_t num_chosen() const { return num_chosen_; }
  void add_slot_use(double used_s, double allowed_s) {
    stats_.used_slot_s += used_s;
    stats_.allowed_slot_s += allowed_s;
  }

  bool idle() const { return scheduler_.done() && num_under_way_ == 0; }

  Backend& backend() { return *backend_; }
  const Backend& backend() const { return *backend_; }
  const DecoderStats& stats() const { return stats_; }
  void reset_stats() { stats_ = {}; }

 private:
  struct StartedTick {
    explicit StartedTick(const model::ModelConfig& config) : plan(config) {}
    Plan plan;
    std::vector<ops::SampledToken> samples;  // one per sample row of the plan
    std::int64_t num_graphs = 0;             // 1 if launched as a CUDA graph
    std::int64_t num_experts_read = 0;
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
  PagePool pool_{0}, states_{0};  // recreated after idle periods
  std::int64_t num_states_;       // 0: no DeltaNet layers
  Scheduler scheduler_;
  RequestId next_id_ = 0;
  bool has_begun_ = false;    // whether begin ran since the last idle time
  std::int64_t version_ = 0;  // version of the weights at the last begin
  std::array<StartedTick, 2> ticks_;
  std::int64_t num_started_ = 0;
  int num_under_way_ = 0;
  std::vector<Sequence*> finished_;  // sequences that the latest tick finished
  std::vector<Sequence*> turned_;    // sequences whose turn the latest tick ended
  std::size_t num_chosen_ = 0;
  double counted_s_ = 0;         // end of the time that is already attributed to ticks
  double counted_waited_s_ = 0;  // device_stats().waited_s at that time
};

}  // namespace qrl::decoder
